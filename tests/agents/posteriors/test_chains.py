"""Slices, lines and what tells how slowly a chain moves."""

import numpy as np
import pytest
from numba import njit

from agents.posteriors import chains


def test_autocorrelation_is_that_of_the_slowest_column(rng):
    steps = rng.standard_normal((4000, 2))
    path = steps.copy()
    for s in range(1, len(path)):
        path[s, 1] = 0.9 * path[s - 1, 1] + steps[s, 1]
    # the standard error of an autocorrelation r of n places is sqrt((1 - r^2) / n)
    assert abs(_autocorrelation(path) - 0.9) < 4 * np.sqrt((1 - 0.81) / len(path))


@njit(error_model="numpy")
def _autocorrelation(path):
    return chains.autocorrelation(path)


def test_autocorrelation_has_no_unit(rng):
    path = rng.standard_normal((50, 2)).cumsum(axis=0)
    assert _autocorrelation(1e-6 * path) == pytest.approx(_autocorrelation(path))


@njit(error_model="numpy")
def _successors(rng, c, width, num):
    return np.array([chains.draw_from_slice(rng, 0.0, c, -9.0, 9.0, width) for _ in range(num)])


def test_a_slice_reaches_far_beyond_its_width_on_both_sides(rng):
    """Of a standard normal law from 0: h = sqrt(2 e) wide on each side, e exponential.

    Beyond 0.2 is a share of at least E[(h - 0.2) / 2 h] = 1 / 2 - 0.1 sqrt(pi / 2) on each side.
    """
    draws = _successors(rng, np.array([0.0, 0.0, 0.0, -0.5, 0.0]), 0.05, 400)
    share = 0.5 - 0.1 * np.sqrt(np.pi / 2)
    error = 4 * np.sqrt(share * (1 - share) / len(draws))
    assert min(np.mean(draws > 0.2), np.mean(draws < -0.2)) > share - error


@njit(error_model="numpy")
def _steps(rng, line, num):
    return np.array([chains.draw_along(rng, line, -np.inf, np.inf) for _ in range(num)])


def test_a_line_without_ends_is_searched_as_far_as_its_slice_reaches(rng):
    """Of a standard normal law from its middle: steps have mean 0 and variance E[2 e] / 3."""
    line = chains.Line(np.array([0.0]), np.array([1.0]), np.zeros((1, 5)), 0.0, 1.0)
    steps = _steps(rng, line, 2000)
    variance = 2 / 3
    assert abs(steps.mean()) < 4 * np.sqrt(variance / len(steps))
    kurtosis = (8 / 5) / variance**2  # E[h^4] / 5 with h^2 = 2 e, E[h^4] = 8
    error = np.sqrt((kurtosis - 1) / len(steps))
    assert abs(np.square(steps).mean() / variance - 1) < 4 * error
