"""Calling a method that a user wrote, and checking the shape of what it returns."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bandit_gym.typing import FloatArray


def call(name: str, shape: tuple[int, ...], method: Callable[..., Any], *args: Any) -> FloatArray:
    """Return what the method returns, as an array of the given shape.

    Args:
        name: the call as messages tell it, e.g. "prior.sample(rng, (3,))".
        shape: of the numbers to be returned.
        method: a user's own.
        *args: its arguments.

    Raises:
        ValueError: if it returns something else, or raises.
    """
    condition = f"{name} must return numbers of shape {shape}"
    try:
        values = np.asarray(method(*args), dtype=np.float64)
    except Exception as error:
        raise ValueError(f"{condition}, got {error!r}.") from error
    if values.shape != shape:
        raise ValueError(f"{condition}, got shape {values.shape}.")
    return values
