"""How a bad call ended, judged by a rule that can be read, and fail.

A call is *clear* if what it raised

- is one line, of at most `LONGEST` characters, that reads
  "SUBJECT must RULE, got VALUE[; REMEDY].";
- names the argument in its subject: by its name, in singular or plural, or a word of the table of
  callables;
- names the value after "got": as its repr (of a long one, the beginning), or that of one of its
  parts, as the number that it was read as, or as its shape or length; of typed text, by a part;
- was raised by us: by a `raise` in `bandit_gym/checks` or elsewhere in our two packages. Python,
  NumPy and other libraries may have found out, as long as it is we who say so.

*Unclear* is what we raised in other words; *from the depths* what anybody else did, or we without
meaning to; *hang* what took longer than the limit, or took its process down.
"""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import agents
import bandit_gym
from calls.edges import Call

OURS = tuple(Path(package.__file__).resolve().parent for package in (agents, bandit_gym))
CLEAR, UNCLEAR, DEPTHS, HANG, ACCEPTED = "clear", "unclear", "depths", "hang", "accepted"
LONGEST = 600
FORM = re.compile(r"(?P<subject>[^\n]*?) must (?P<rule>[^\n]+?), got (?P<value>[^\n]+)\.")
WRAPPED = re.compile(r"^agent [^\n]* must be able to play [^\n]*?, got \w+: ")
"""What is said before the sentence of an agent or environment that cannot be built."""

QUOTED = re.compile(r"'([^']+)'")
GYMNASIUM = " was raised from the environment creator for "
"""What `gymnasium.make` adds when it raises an error again; what is before it is judged."""


def judge(call: Call, error: BaseException) -> tuple[str, str]:
    """Return the verdict on a call that raised, and why it is not clear; "" if it is."""
    text, origin = str(error), error
    if GYMNASIUM in text and error.__context__ is not None:
        text, origin = text.partition(GYMNASIUM)[0], error.__context__
    if not is_ours(origin):
        return DEPTHS, _place(origin)
    found = FORM.fullmatch(WRAPPED.sub("", text))
    if found is None or len(text) > LONGEST:
        return UNCLEAR, "form"
    if not _names_argument(found["subject"], call):
        return UNCLEAR, "argument"
    return (CLEAR, "") if _names_value(found["value"], call.value) else (UNCLEAR, "value")


def is_ours(error: BaseException) -> bool:
    """Say whether a `raise` in our packages has raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].lineno is None:
        return False
    file = Path(frames[-1].filename)
    return any(file.is_relative_to(home) for home in OURS) and frames[-1].lineno in _raises(file)


@cache
def _raises(file: Path) -> frozenset[int]:
    """Return the lines of a file that belong to a `raise`."""
    nodes = ast.walk(ast.parse(file.read_text()))
    spans = (range(n.lineno, (n.end_lineno or n.lineno) + 1) for n in nodes if type(n) is ast.Raise)
    return frozenset(line for span in spans for line in span)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "nowhere"


def _names_argument(subject: str, call: Call) -> bool:
    argument = call.argument
    words = {argument, f"{argument}s", argument.removesuffix("s")}
    words |= {*call.edge.words.get(argument, ())}
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", subject) for word in words)


def _names_value(told: str, value: Any) -> bool:
    if isinstance(value, str):  # of text that holds several values, the one that is told of
        parts = [re.split(r"(?:\.\.\.)?(?:;|$)", told)[0].strip("'\""), *QUOTED.findall(told)]
        if any(part and (part in value or part in repr(value)) for part in parts):
            return True
    return any(text in told for text in _shown(value))


def _shown(value: Any) -> Iterator[str]:
    """Yield the texts by which a message may name a value."""
    for part in _parts(value):
        text = " ".join(repr(part).split())
        yield text if len(text) <= 60 else text[:60]
        if isinstance(part, str) and part.strip():
            yield part[:60]
        if isinstance(part, int | float) and abs(part) < 1e300:
            yield repr(float(part))
    with suppress(TypeError, ValueError):  # rows of several lengths
        yield repr(np.shape(value))
    with suppress(TypeError):  # no length at all
        yield repr(len(value))


def _parts(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict):
        for item in value.items():
            yield from _parts(list(item))
    elif isinstance(value, list | tuple | set):
        for part in value:
            yield from _parts(part)
