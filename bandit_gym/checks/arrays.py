"""Reading a caller's value as an array, or finding that it is none."""

from typing import Any

import numpy as np

from bandit_gym.checks.messages import message
from bandit_gym.typing import FloatArray


def as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """Return the value as an array; None if it is a list of lists of different lengths."""
    try:
        return np.asarray(value)
    except ValueError:  # rows of different lengths
        return None


def as_numbers(value: Any, kinds: str = "iuf") -> FloatArray | None:
    """Return the value as a float array of its own; None if it is not made of real numbers."""
    values = as_array(value)
    if values is None or values.dtype.kind not in kinds:
        return None
    return values.astype(np.float64)


def check_kind(name: str, value: Any, kinds: str) -> np.ndarray[Any, Any]:
    """Return the value as an array of one of NumPy's `kinds`, all of them numbers."""
    values = as_array(value)
    if values is None or values.dtype.kind not in kinds:
        rule = "numbers" if "f" in kinds else "integers"
        raise TypeError(message(name, f"be {rule}, alone or in an array", value))
    return values


def check_numbers(name: str, value: Any) -> FloatArray:
    """Return real numbers, alone or in an array of any shape; infinite ones are numbers."""
    values = check_kind(name, value, "iuf").astype(np.float64)
    if np.isnan(values).any():
        raise ValueError(message(name, "have no NaN", value))
    return values
