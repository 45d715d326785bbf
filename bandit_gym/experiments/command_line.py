"""The command line: what is typed as entries of an experiment, and what is printed.

Terminals may have few letters, and readers of pipes may have seen enough.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import sys
import textwrap
from typing import Any, NoReturn

from bandit_gym.checks import message
from bandit_gym.registration import ENV_IDS

DEFAULT_ENVIRONMENT = "BernoulliBandit-v0"

WIDTH, ENDLESS = 100, 10**6
"""Characters of a line where there is no terminal, and of one that is not to be broken."""


def take_world(parser: argparse.ArgumentParser) -> None:
    """Declare a world, how long an agent plays in it, and the seed."""
    text = f"{', '.join(ENV_IDS)}; default: %(default)s"
    parser.add_argument("--env", default=DEFAULT_ENVIRONMENT, help=text)
    text = "its arguments; default: none"
    parser.add_argument("--env-options", default="{}", metavar="JSON", help=text)
    for option, default, text in (("--horizon", 1000, "steps"), ("--seed", 0, "of all draws")):
        text += "; default: %(default)s"
        parser.add_argument(option, type=parse_integer, default=default, help=text)


def parse_environment(name: str, options: str) -> dict[str, Any]:
    """Read an environment's name, and its options in JSON."""
    return _named("env", name, _parse_json(options))


def parse_agent(text: str) -> dict[str, Any]:
    """Read `name:option=value,...`; values are JSON, or else strings."""
    head, equals, values = text.partition("=")
    name, _, first = head.rpartition(":") if equals else (text, "", "")
    listed = first + equals + values
    pairs = re.split(r",(?=\w+=)", listed) if listed else []
    return _named("agent", name, dict(map(_parse_pair, pairs)))


def parse_integer(text: str) -> int | str:
    """Read an integer; what is none is handed on, for the check that knows what it is for."""
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,400}", text) else text


def parse_number(text: str) -> float | str:
    """Read a number; what is none is handed on, for the check that knows what it is for."""
    try:
        return float(text)
    except ValueError:
        return text


def _named(kind: str, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of an experiment."""
    if not name:
        raise ValueError(message(kind, "have a name", name))
    if kind in options:
        raise ValueError(message(f"options of {name}", f"not have the key {kind!r}", options))
    return {kind: name, **options}


def _parse_pair(pair: str) -> tuple[str, Any]:
    option, equals, value = pair.partition("=")
    if not equals:
        raise ValueError(message("agent options", "read option=value", pair))
    try:
        return option, json.loads(value)
    except json.JSONDecodeError:
        return option, value


def _parse_json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(message("--env-options", "be JSON", text, str(error))) from error
    if not isinstance(found, dict):
        raise ValueError(message("--env-options", 'be like {"num_arms": 5}', text))
    return found


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, as everything else here does, and ends with exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Print the line and end."""
        self.exit(2, f"bandit-gym: error: {message}; see {self.prog} --help.\n")


def terminal_width() -> int:
    """Return the characters of a line of this terminal, `WIDTH` where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH


def wrap(text: str, width: int, indent: str = "") -> str:
    """Break lines between words, so that none has more characters than `width`."""
    room = width - len(indent)
    return "\n".join(
        f"{indent}{part}"
        for line in text.splitlines()
        for part in (textwrap.wrap(line, room) if len(line) > room else [line])
    )


def shorten(text: str, most: int) -> str:
    """Cut a text that has more than so many characters, and end it with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def fit_terminal() -> None:
    """Let everything be printed: what the terminal has no letters for, as escapes."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # somebody's own stream
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
