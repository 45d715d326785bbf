"""Checks of a distribution's parameters: one number for all arms, or one per arm."""

from typing import Any

import numpy as np

from bandit_gym.checks.arrays import as_numbers
from bandit_gym.checks.messages import message
from bandit_gym.typing import FloatArray, Parameter

_SMALLEST_EIGENVALUE_SHARE = 1e-12


def check_parameter(name: str, value: Any, *, positive: bool = False) -> Parameter:
    """Return a finite parameter as a float, or as a tuple of floats when there is one per arm."""
    rule = "finite and above 0" if positive else "finite"
    numbers = as_numbers(value)
    if numbers is None or numbers.ndim > 1:
        condition = f"be a number or a list of one number per arm, {rule}"
        raise TypeError(message(name, condition, value))
    is_valid = np.isfinite(numbers).all() and (not positive or (numbers > 0).all())
    if not (numbers.size and is_valid):
        raise ValueError(message(name, f"be {rule}", value))
    return float(numbers) if numbers.ndim == 0 else tuple(numbers.tolist())


def check_same_length(**parameters: Any) -> int | None:
    """Return the length of the parameters given per arm, None if there are none."""
    lengths = {key: len(value) for key, value in parameters.items() if isinstance(value, tuple)}
    if not lengths:
        return None
    first, num_arms = next(iter(lengths.items()))
    for key, length in lengths.items():
        if length != num_arms:
            raise ValueError(message(key, f"have as many values as {first} ({num_arms})", length))
    return num_arms


def check_interval(low: Parameter, high: Parameter) -> None:
    """Refuse an interval, or one per arm, whose lower end is not below its upper end."""
    if not np.less(low, high).all():
        raise ValueError(message("low", f"be below high ({high!r})", low))


def check_covariance(name: str, value: Any) -> tuple[tuple[float, ...], ...]:
    """Return a covariance as rows of floats: symmetric and positive definite beyond rounding."""
    matrix = as_numbers(value)
    if matrix is None or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise TypeError(message(name, "be a square matrix of numbers", value))
    if not np.isfinite(matrix).all():
        raise ValueError(message(name, "be finite", value))
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0.0):
        raise ValueError(message(name, "be symmetric", value))
    smallest_share = _smallest_eigenvalue_share(matrix)
    if not smallest_share > _SMALLEST_EIGENVALUE_SHARE:
        condition = (
            "be positive definite (eigenvalues of its correlations above "
            f"{_SMALLEST_EIGENVALUE_SHARE:g} of the largest)"
        )
        remedy = "with vectors u_i, take their dimension at least the number of arms"
        raise ValueError(message(name, condition, smallest_share, remedy))
    return tuple(tuple(row) for row in ((matrix + matrix.T) / 2).tolist())


def _smallest_eigenvalue_share(matrix: FloatArray) -> float:
    """Return the smallest over the largest eigenvalue of the correlations, or nan."""
    variances = np.diag(matrix)
    if not (variances > 0).all():
        return float("nan")
    stds = np.sqrt(variances)
    eigenvalues = np.linalg.eigvalsh(matrix / stds[:, None] / stds)
    return float(eigenvalues[0] / eigenvalues[-1])
