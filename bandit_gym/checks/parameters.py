"""Checks of a distribution's parameters: one number for all arms, or one per arm."""

from typing import Any

import numpy as np

from bandit_gym.checks.arrays import as_numbers
from bandit_gym.checks.messages import message
from bandit_gym.typing import Parameter

MOST_DEPENDENT_ARMS = 500
"""How to draw under a covariance is found in 7 s there, and in time that grows like K^3."""

_LARGEST_ASYMMETRY = 1e-10
_SMALLEST_EIGENVALUE = 1e-12


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


def check_same_length(**parameters: Any) -> None:
    """Refuse parameters that are given per arm for different numbers of arms."""
    lengths = {key: len(value) for key, value in parameters.items() if isinstance(value, tuple)}
    for first, num_arms in lengths.items():
        for key, length in lengths.items():
            if length != num_arms:
                condition = f"have as many values as {first} ({num_arms})"
                raise ValueError(message(key, condition, length))


def check_covariance(name: str, value: Any) -> tuple[tuple[float, ...], ...]:
    """Return a covariance as rows of floats: symmetric and positive definite beyond rounding."""
    matrix = as_numbers(value)
    if matrix is None or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise TypeError(message(name, "be a square matrix of numbers", value))
    if len(matrix) > MOST_DEPENDENT_ARMS:
        raise ValueError(message(name, f"have at most {MOST_DEPENDENT_ARMS} rows", len(matrix)))
    variances = np.diag(matrix)
    if not (np.isfinite(matrix).all() and matrix.size and (variances > 0).all()):
        raise ValueError(message(name, "be finite, with a diagonal above 0", value))
    correlations = matrix / np.sqrt(variances) / np.sqrt(variances)[:, None]
    if not np.allclose(correlations, correlations.T, rtol=0.0, atol=_LARGEST_ASYMMETRY):
        raise ValueError(message(name, "be symmetric", value))
    eigenvalues = np.linalg.eigvalsh(correlations)
    if not eigenvalues[0] > _SMALLEST_EIGENVALUE * eigenvalues[-1]:
        raise ValueError(
            f"{name} must be positive definite, got eigenvalues of its correlations from "
            f"{eigenvalues[0]:.2g} to {eigenvalues[-1]:.2g}; no arm may be a combination of others."
        )
    return tuple(tuple(row) for row in (0.5 * (matrix + matrix.T)).tolist())
