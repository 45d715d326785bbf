"""The one form of an error message: "<argument> must <condition>, got <value>[; <remedy>]."."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any

import numpy as np

_LONGEST_REPR = 100


def message(name: str, condition: str, value: Any, remedy: str = "") -> str:
    """Return the whole message; without a remedy, it ends after the value."""
    return f"{name} must {condition}, got {shown(value)}{remedy and '; '}{remedy}."


def shown(value: Any) -> str:
    """Return the value's repr on one line, cut when long, NumPy scalars as plain numbers."""
    plain = value.item() if isinstance(value, np.generic) else value
    try:
        text = " ".join(repr(plain).split())
    except Exception:  # an integer of thousands of digits, or an object of anybody's
        text = f"<{type(plain).__name__}>"
    return text if len(text) <= _LONGEST_REPR else f"{text[:_LONGEST_REPR]}..."


def listed(words: Iterable[str]) -> str:
    """Return the words in quotes, between commas."""
    return ", ".join(repr(word) for word in words)


def nearest(word: str, known: Collection[str]) -> str:
    """Return the remedy that names the known word closest to `word`; empty if none is close."""
    matches = get_close_matches(word, known, n=1)
    return f"the nearest known one is {matches[0]!r}" if matches else ""
