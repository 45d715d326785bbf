import numpy as np
import pytest
from scipy import stats

from agents.posteriors.quadrature import (
    Coordinate,
    ToleranceError,
    best_arm_probabilities,
    halve,
    resolve,
)

INTERVALS = [(0.0, 1.0), (-2.0, 0.0), (0.0, np.inf), (-np.inf, 3.0), (-np.inf, np.inf)]
LAWS = {
    "uniform": (stats.uniform(), (0.0, 1.0)),
    "unbounded at both ends": (stats.beta(0.5, 0.5), (0.0, 1.0)),
    "unbounded at one end": (stats.gamma(0.2), (0.0, np.inf)),
    "heavy tail": (stats.invgamma(0.5), (0.0, np.inf)),
    "heavy tails": (stats.cauchy(3.0, 2.0), (-np.inf, np.inf)),
    "narrow": (stats.norm(0.31, 1e-6), (0.0, 1.0)),
    "far out": (stats.norm(1e5, 1e-2), (-np.inf, np.inf)),
}


def _resolve(law, interval, tolerance=1e-9):
    coordinate = Coordinate(*interval)

    def log_density(u):
        return (law.logpdf(coordinate.means(u)) + coordinate.log_slope(u))[:, None]

    edges = np.unique(np.concatenate([coordinate.limits, np.linspace(-32, 32, 17)]))
    return coordinate, resolve(log_density, edges, tolerance), log_density


@pytest.mark.parametrize("interval", INTERVALS)
def test_coordinate_is_inverted_by_positions(interval):
    coordinate = Coordinate(*interval, centre=0.5, scale=2.0)
    u = np.linspace(-8, 8, 50)
    np.testing.assert_allclose(coordinate.positions(coordinate.means(u)), u, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("interval", INTERVALS)
def test_coordinate_slope_is_its_derivative(interval):
    coordinate = Coordinate(*interval, centre=0.5, scale=2.0)
    u, step = np.linspace(-6, 6, 50), 1e-5
    difference = coordinate.means(u + step) - coordinate.means(u - step)
    np.testing.assert_allclose(np.exp(coordinate.log_slope(u)), difference / (2 * step), rtol=1e-5)


@pytest.mark.parametrize("interval", INTERVALS)
def test_coordinate_stays_inside_the_interval_up_to_its_limits(interval):
    low, high = Coordinate(*interval).means(Coordinate(*interval).limits)
    assert interval[0] < low < high < interval[1]


def test_positions_of_means_outside_are_the_limits():
    coordinate = Coordinate(0.0, 1.0)
    np.testing.assert_array_equal(coordinate.positions(np.array([-1.0, 3.0])), coordinate.limits)


@pytest.mark.parametrize("name", LAWS)
def test_distributions_match_the_law(name):
    law, interval = LAWS[name]
    coordinate, panels, _ = _resolve(law, interval)
    ends = coordinate.means(panels.edges[1:])
    np.testing.assert_allclose(panels.distributions()[:, -1, 0], law.cdf(ends), atol=1e-7)


@pytest.mark.parametrize("name", LAWS)
def test_tails_beyond_the_panels_are_small(name):
    assert _resolve(*LAWS[name])[1].tails()[0] < 1e-7


def test_tails_are_infinite_when_the_density_does_not_decay():
    coordinate = Coordinate(-np.inf, np.inf)
    edges = np.linspace(*coordinate.limits, 9)
    panels = resolve(lambda u: coordinate.log_slope(u)[:, None], edges, 1e-6)
    assert panels.tails()[0] == np.inf


def test_halving_keeps_the_density_when_it_is_resolved():
    _, panels, log_density = _resolve(*LAWS["heavy tail"])
    finer = halve(log_density, panels)
    assert len(finer.lengths) == 2 * len(panels.lengths)
    np.testing.assert_allclose(finer.density[::2, 0], panels.density[:, 0], rtol=1e-7)


def test_resolve_raises_when_the_density_is_noise():
    def log_density(u):
        return np.random.default_rng(0).normal(size=(len(u), 1)) - np.abs(u)[:, None]

    with pytest.raises(ToleranceError, match="panels leave a mass of .* in doubt") as caught:
        resolve(log_density, np.linspace(-32, 32, 17), 1e-9)
    assert caught.value.error > 1e-9


def test_resolve_raises_when_an_arm_has_no_mass():
    def log_density(u):
        return np.stack([-np.abs(u), np.full_like(u, -np.inf)], axis=1)

    with pytest.raises(ValueError, match="the posterior of arm 1 must have some mass"):
        resolve(log_density, np.linspace(-32, 32, 17), 1e-9)


def test_best_arm_probabilities_are_equal_when_arms_are():
    panels = resolve(lambda u: np.tile(-np.square(u)[:, None], 4), np.linspace(-32, 32, 17), 1e-9)
    np.testing.assert_allclose(best_arm_probabilities(panels), 0.25, atol=1e-9)
