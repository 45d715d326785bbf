from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from agents.oracle.arms import Line
from agents.oracle.panels import Panels, ToleranceError, bisect_panels, resolve_panels


def posteriors(log_density, line=None):
    """Return what panels ask of posteriors; without a line, places are exact."""
    exact = SimpleNamespace(find_rounding=lambda left, right: np.zeros_like(left))
    return SimpleNamespace(shared_log_density=log_density, line=line or exact)


def test_halving_keeps_the_density_when_it_is_resolved():
    law, line = stats.invgamma(0.5), Line(0.0, np.inf)

    def log_density(u):
        return (law.logpdf(line.means(u)) + line.log_slope(u))[:, None]

    edges = np.unique(np.concatenate([line.limits, np.linspace(-32, 32, 17)]))
    panels = resolve_panels(posteriors(log_density), edges, 1e-9)
    finer = bisect_panels(posteriors(log_density, line), panels)
    assert len(finer.lengths) == 2 * len(panels.lengths)
    np.testing.assert_allclose(finer.density[::2, 0], panels.density[:, 0], rtol=1e-7)


def test_resolve_raises_when_the_density_is_noise():
    def log_density(u):
        return np.random.default_rng(0).normal(size=(len(u), 1)) - np.abs(u)[:, None]

    with pytest.raises(ToleranceError, match="panels leave a mass of .* in doubt") as caught:
        resolve_panels(posteriors(log_density), np.linspace(-32, 32, 17), 1e-9)
    assert caught.value.error > 1e-9


def test_resolve_raises_when_an_arm_has_no_mass():
    def log_density(u):
        return np.stack([-np.abs(u), np.full_like(u, -np.inf)], axis=1)

    with pytest.raises(ValueError, match="the posterior of arm 1 must have some mass"):
        resolve_panels(posteriors(log_density), np.linspace(-32, 32, 17), 1e-9)


def _flat_panels(heights):
    """Return four equal panels of [0, 1] on which two arms have these (4, 2) log-densities."""
    values = np.repeat(np.asarray(heights, dtype=float)[:, None], 16, axis=1)
    return Panels(np.linspace(0.0, 1.0, 5), values, np.zeros(4))


def test_masses_beyond_count_panels_outside_only():
    panels = _flat_panels(np.log([[1, 4], [2, 3], [3, 2], [4, 1]]))
    np.testing.assert_allclose(panels.masses_beyond(0.25, 0.5), [[0.1, 0.4], [0.7, 0.3]])


def test_noise_is_that_of_rounding_the_log_density_and_the_places():
    heights = np.full((4, 2), -1e6)
    panels = _flat_panels(heights)
    # an even share of the mass, times a unit in the last place of the log-density
    np.testing.assert_allclose(panels.noise, 0.25 * 1e6 * np.finfo(float).eps, rtol=1e-9)
    steep = np.repeat(np.linspace(0.0, -2.0, 16)[None, :, None], 2, axis=2)
    moved = Panels(np.array([0.0, 1.0]), steep, np.array([0.1]))
    assert (moved.noise >= 0.2).all()  # a tenth of a panel along which the log-density falls by 2


def test_panels_stop_where_only_rounding_is_left():
    rng = np.random.default_rng(0)

    def log_density(u):
        return (1e10 - 0.5 * u**2 + 1e-6 * rng.standard_normal(len(u)))[:, None]

    panels = resolve_panels(posteriors(log_density), np.linspace(-32, 32, 17), 1e-12)
    assert len(panels.lengths) < 200
    assert panels.noise.sum() > 1e-6
