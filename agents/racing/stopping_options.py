"""The ways to end a race as users name them: what each reads, its default and its checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from bandit_gym.checks import check_choice, check_integer, check_real, message

THRESHOLDS = ("printed", "shortened")
SCALES = ("value", "weight", "supremum")

CAP = 100_000
STOPPING: Mapping[str, Mapping[str, Any]] = {
    "self-normalised": {"delta": 0.1, "effective_samples": 12.0, "max_samples": CAP},
    "paper": {
        **{"delta": 0.1, "sigma": 0.1, "threshold": "printed", "scale": "value"},
        "max_samples": CAP,
    },
}
"""The named stops, and what each of them reads, with its default; a fixed number reads nothing."""

MOST_SAMPLES = 10**7
"""In a race; a threshold for each of them is kept."""


def check_stopping(stopping: str | int) -> str | int:
    """Return the name of a stop, or a number of samples.

    Raises:
        ValueError: if it is another name, or out of range.
    """
    if isinstance(stopping, str):
        return check_choice("stopping", stopping, STOPPING)
    return _check_samples("stopping", stopping)


def read_option(stopping: str | int, name: str, value: Any) -> Any:
    """Return an option of a stop, by default the stop's own; None if it reads no such one.

    Raises:
        ValueError: if it is out of range, or given although the stop does not read it.
    """
    known = STOPPING[stopping] if isinstance(stopping, str) else {}
    if value is None:
        return known.get(name)
    if name not in known:
        condition = f"be left out with stopping={stopping!r}, which never reads it"
        raise ValueError(message(name, condition, value))
    return _CHECKS[name](name, value)


def _check_samples(name: str, number: int) -> int:
    return check_integer(name, number, minimum=1, maximum=MOST_SAMPLES)


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "delta": partial(check_real, above=0.0, below=1.0),
    "effective_samples": partial(check_real, above=0.0),
    "sigma": partial(check_real, above=0.0),
    "threshold": partial(check_choice, choices=THRESHOLDS),
    "scale": partial(check_choice, choices=SCALES),
    "max_samples": _check_samples,
}
