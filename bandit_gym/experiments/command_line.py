"""The command line: what is typed as entries of an experiment, and what is printed."""

from __future__ import annotations

import argparse
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
        parser.add_argument(option, type=int, default=default, help=text)


def parse_environment(name: str, options: str) -> dict[str, Any]:
    """Read an environment's name, and its options in JSON."""
    try:
        found = json.loads(options)
    except json.JSONDecodeError as error:
        raise ValueError(message("--env-options", "be JSON", options, str(error))) from error
    if not isinstance(found, dict):
        raise ValueError(message("--env-options", 'be like {"num_arms": 5}', options))
    return {**found, "env": name}


def parse_agent(text: str) -> dict[str, Any]:
    """Read `name:option=value,...`; values are JSON, or else strings."""
    head, equals, values = text.partition("=")
    name, _, first = head.rpartition(":") if equals else (text, "", "")
    listed = first + equals + values
    pairs = re.split(r",(?=\w+=)", listed) if listed else []
    return {**dict(map(_parse_pair, pairs)), "agent": name}


def _parse_pair(pair: str) -> tuple[str, Any]:
    option, equals, value = pair.partition("=")
    if not equals:
        raise ValueError(message("agent options", "read option=value", pair))
    try:
        return option, json.loads(value)
    except json.JSONDecodeError:
        return option, value


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
