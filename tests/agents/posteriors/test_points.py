"""Where the points of a table are put, by hand."""

import numpy as np
import pytest

from agents.posteriors.points import MASS, fill_guide, spread, sum_roots


def test_roots_are_those_of_masses_by_the_trapezoidal_rule():
    weights = np.empty(3)
    sum_roots(np.array([0.0, 1.0, 3.0]), 5.0 + np.log([1.0, 2.0, 4.0]), weights)
    first, second = np.sqrt(1.0 * (0.25 + 0.5)), np.sqrt(2.0 * (0.5 + 1.0))
    assert weights == pytest.approx([0.0, first, first + second])


def test_points_have_shares_of_smoothed_weights_and_of_steps():
    """Three steps of one weight each: 4, 8 and 11 1/3 of 12 points are before their ends.

    Of a step's weight a quarter goes to either side, and at the last end there is no other side.
    """
    new = np.empty(13)
    spread(np.array([0.0, 1.0, 2.0, 4.0]), np.arange(4.0), new)
    quarters = np.arange(8) / 4
    assert new == pytest.approx([*quarters, 2.0, 2.6, 3.2, 3.8, 4.0])


def test_guide_has_the_last_point_with_no_more_mass_before_it(rng):
    for num in rng.integers(2, 90, size=50):
        weights = rng.random(num) ** 8 * (rng.random(num) > 0.3)  # steep, and flat in places
        points, guide = np.zeros((num + 1, 3)), np.empty(num, dtype=np.int64)
        weights[-1] += 1.0
        points[1:, MASS] = weights.cumsum() / weights.sum()
        fill_guide(points, guide)
        last = np.searchsorted(points[:-1, MASS] * num, np.arange(num), side="right") - 1
        np.testing.assert_array_equal(guide, last)
