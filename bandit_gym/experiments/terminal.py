"""What is printed, on terminals of few letters and into pipes whose readers have seen enough."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
from collections.abc import Iterator

PLAIN = {"±": "+/-", "µ": "u", "−": "-", "…": "..."}
"""What stands for signs of ours where there are none."""


class NobodyReadsError(Exception):
    """The reader of the standard output has gone, as `head` does; there is nobody to be told."""


def fit_terminal() -> None:
    """Let everything be printed: in letters that the terminal has, or else as escapes."""
    codecs.register_error("bandit_gym.plain", _in_plain_letters)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # somebody's own stream
            stream.reconfigure(errors="bandit_gym.plain")  # type: ignore[union-attr]


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """Raise NobodyReadsError instead of BrokenPipeError, if it is the standard output's."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            # what is still to be flushed at the end of the process goes nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise NobodyReadsError from None
        raise


def _in_plain_letters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter, ascii(letter)[1:-1]) for letter in letters), error.end
