"""What is printed, on terminals of few letters and into pipes whose readers have seen enough."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import os
import select
import sys
from collections.abc import Iterator, Mapping
from typing import NoReturn

PLAIN = {"±": "+/-", "µ": "u", "−": "-", "…": "..."}
"""What stands for signs of ours where there are none."""


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, as everything else here does, and ends with exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Print the line and end."""
        self.exit(2, f"bandit-gym: error: {message}; see {self.prog} --help.\n")


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
        if not _is_unread(sys.stdout.fileno()):
            raise
        # what is still to be flushed at the end of the process goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise NobodyReadsError from None


def ask(question: str, answers: Mapping[str, str]) -> str | None:
    """Return what a person's key stands for; None for another key, or where nobody is."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    print(question, end="", file=sys.stderr, flush=True)
    return answers.get(sys.stdin.readline().strip().lower()[:1])


def _is_unread(handle: int) -> bool:
    """Say whether a pipe has no reader left."""
    poll = select.poll()
    poll.register(handle, 0)  # errors are told of in any case
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _in_plain_letters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter, ascii(letter)[1:-1]) for letter in letters), error.end
