import numpy as np
import pytest

from agents.oracle.arms import Line


def test_line_is_inverted_by_positions_and_has_the_slope_of_its_derivative():
    u, step = np.linspace(-6, 6, 50), 1e-5
    for ends in [(0.0, 1.0), (-2.0, 0.0), (0.0, np.inf), (-np.inf, np.inf)]:
        line = Line(*ends, centre=0.5, scale=2.0)
        np.testing.assert_allclose(line.positions(line.means(u)), u, rtol=1e-9, atol=1e-9)
        slope = (line.means(u + step) - line.means(u - step)) / (2 * step)
        np.testing.assert_allclose(np.exp(line.log_slope(u)), slope, rtol=1e-5)


def test_positions_of_means_outside_are_the_limits():
    line = Line(0.0, 1.0)
    np.testing.assert_array_equal(line.positions(np.array([-1.0, 3.0])), line.limits)


def test_grain_is_the_share_of_a_panel_that_a_mean_is_rounded_by():
    line = Line(0.0, 1.0)
    left, right = line.positions(np.array([0.5, 1 - 1e-9])), line.positions(np.array([0.75, 1.0]))
    coarse, fine = line.find_rounding(left, right)
    assert coarse == pytest.approx(np.spacing(0.75) / 0.25, rel=1e-6)
    assert fine == pytest.approx(np.spacing(1 - 1e-9) / 1e-9, rel=1e-3)


def test_grain_is_zero_beyond_the_limits():
    line = Line(0.0, 1.0)
    last = line.limits[1]
    assert line.find_rounding(np.array([last + 1]), np.array([last + 2]))[0] == 0.0
