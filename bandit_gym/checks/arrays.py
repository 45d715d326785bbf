"""Reading a caller's value as an array, or finding that it is none."""

from typing import Any

import numpy as np

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
