"""The standard normal on an interval: exact identities, in the middle and far out."""

import numpy as np
import pytest
from scipy import integrate, special

from bandit_gym.numerics.truncated_normal import log_mass, quantile, rounding_error

INTERVALS = [(-1.0, 2.0), (-0.1, 0.1), (-40.0, 1.0), (2.0, 3.0), (-38.0, -37.0), (50.0, 60.0)]
UNIFORMS = np.concatenate([[2.0**-54, 1e-9], np.linspace(0.001, 0.999, 999), [1 - 1e-9]])


@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_log_mass_is_the_integral_of_the_density(low, high):
    nearest = min(max(low, 0.0), high)  # where the density is largest; factored out
    mass, _ = integrate.quad(lambda z: np.exp(0.5 * (nearest**2 - z**2)), low, high, epsabs=0)
    expected = np.log(mass) - 0.5 * nearest**2 - 0.5 * np.log(2 * np.pi)
    assert log_mass(np.float64(low), np.float64(high)) == pytest.approx(expected, rel=1e-9)


def test_log_mass_of_a_far_interval_follows_the_tail_expansion():
    expected = -0.5 * 1e8 - np.log(1e4 * np.sqrt(2 * np.pi)) + np.log1p(-1e-8)
    assert log_mass(np.float64(1e4), np.float64(2e4)) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_quantile_divides_the_mass(low, high):
    values, whole = quantile(np.float64(low), np.float64(high), UNIFORMS)
    is_inside = (values > low) & (values < high)
    below = log_mass(np.full(is_inside.sum(), low), values[is_inside]) - whole
    atol = rounding_error(low, high) * 10
    np.testing.assert_allclose(np.exp(below), UNIFORMS[is_inside], rtol=1e-6, atol=atol)
    assert is_inside.mean() > 0.99


@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_quantile_rises_inside_the_interval(low, high):
    values, _ = quantile(np.float64(low), np.float64(high), UNIFORMS)
    assert (np.diff(values) >= 0).all()
    assert values.min() >= low
    assert values.max() <= high


@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_quantile_of_the_mirror_image_is_mirrored(low, high):
    uniforms = np.arange(1, 64) / 64  # exact under 1 - u
    values, _ = quantile(np.float64(low), np.float64(high), uniforms)
    mirrored, _ = quantile(np.float64(-high), np.float64(-low), 1 - uniforms)
    np.testing.assert_allclose(values, -mirrored, rtol=1e-12)


def test_quantile_is_the_normal_one_on_a_wide_interval():
    values, _ = quantile(np.float64(-100.0), np.float64(100.0), UNIFORMS)
    np.testing.assert_allclose(values, special.ndtri(UNIFORMS), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("low", "high", "is_lost"),
    [(0.0, 1.0, False), (1e4, 2e4, False), (1e6, 2e6, True), (0.0, 1e-8, False), (0, 1e-12, True)],
)
def test_rounding_error_tells_hopeless_intervals(low, high, is_lost):
    assert (rounding_error(np.float64(low), np.float64(high)) > 1e-6) == is_lost
