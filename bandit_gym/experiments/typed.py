"""Entries of an experiment as they are typed on a command line."""

from __future__ import annotations

import json
import re
from typing import Any

from bandit_gym.files import from_json, without_repeats


def parse_environment(name: str, options: str) -> dict[str, Any]:
    """Read an environment's name, and its options in JSON."""
    return _named("env", name, _parse_json(options))


def parse_agent(text: str) -> dict[str, Any]:
    """Read `name:option=value,...`; values are JSON, or else strings."""
    head, equals, values = text.partition("=")
    name, _, first = head.rpartition(":") if equals else (text, "", "")
    listed = first + equals + values
    pairs = re.split(r",(?=\w+=)", listed) if listed else []
    return _named("agent", name, without_repeats([_parse_pair(pair) for pair in pairs]))


def _named(kind: str, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of an experiment."""
    if kind in options:
        raise ValueError(f"options of {name} must not have the key {kind!r}, got {options!r}.")
    return {kind: name, **options}


def _parse_pair(pair: str) -> tuple[str, Any]:
    option, equals, value = pair.partition("=")
    if not equals:
        raise ValueError(f"agent options must read option=value, got {pair!r}.")
    try:
        return option, from_json(value)
    except json.JSONDecodeError:
        return option, value


def _parse_json(text: str) -> dict[str, Any]:
    try:
        found = from_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"--env-options must be JSON, got {text!r}: {error}.") from error
    if not isinstance(found, dict):
        raise ValueError(f'--env-options must be like {{"num_arms": 5}}, got {text!r}.')
    return found
