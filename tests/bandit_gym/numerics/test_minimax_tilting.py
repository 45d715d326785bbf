"""The bound that acceptance needs, by derivatives and by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from bandit_gym.numerics import minimax_tilting as module
from bandit_gym.numerics.minimax_tilting import most_restricted_first, tilt_box

COVARIANCE = np.array([[1.0, 0.6, -0.2], [0.6, 2.0, 0.3], [-0.2, 0.3, 0.5]])
MEAN, LOW, HIGH = np.array([0.2, -0.5, 0.1]), np.array([0.5, -1.0, -0.2]), np.array([2.0, 0.3, 3.0])


@pytest.fixture
def tilted():
    return tilt_box(MEAN, COVARIANCE, LOW, HIGH)


def psi(tilted, x, tilts):
    return module._psi(x, tilts, tilted.factor, tilted.low, tilted.high)


def test_box_is_told_in_the_order_and_units_of_proposal(tilted):
    cholesky = np.linalg.cholesky(COVARIANCE[np.ix_(tilted.order, tilted.order)])
    assert tilted.scales == pytest.approx(np.diag(cholesky))
    assert tilted.scales[:, None] * (tilted.factor + np.eye(3)) == pytest.approx(cholesky)
    assert tilted.offset == pytest.approx(MEAN[tilted.order])
    for found, corner in ((tilted.low, LOW), (tilted.high, HIGH)):
        assert found * tilted.scales + tilted.offset == pytest.approx(corner[tilted.order])


def test_gradient_and_jacobian_are_derivatives_of_psi(tilted, rng):
    free, box = 0.3 * rng.normal(size=4), (tilted.factor, tilted.low, tilted.high)

    def value(free):
        return psi(tilted, np.append(free[:2], 0.0), np.append(free[2:], 0.0))

    gradient, jacobian = module._gradient(free, *box)
    steps = 1e-5 * np.eye(4)
    expected = [(value(free + h) - value(free - h)) / 2e-5 for h in steps]
    assert gradient == pytest.approx(expected, abs=1e-8)
    rows = [
        (module._gradient(free + h, *box)[0] - module._gradient(free - h, *box)[0]) / 2e-5
        for h in steps
    ]
    assert jacobian == pytest.approx(np.array(rows), abs=1e-8)


def test_bound_is_the_largest_value_over_all_x(tilted, rng):
    """At the saddle point psi has no slope, and no other x comes above it."""
    values = [psi(tilted, np.append(2 * rng.normal(size=2), 0.0), tilted.tilts) for _ in range(300)]
    assert max(values) <= tilted.log_bound + 1e-12
    assert max(values) > tilted.log_bound - 0.5
    assert tilted.tilts[-1] == 0.0


def test_box_that_is_all_but_around_the_mean_needs_no_tilt():
    """Each arm in turn is then proposed from its interval, given that those before are at 0."""
    covariance, corner = np.full((8, 8), 0.6) + 0.4 * np.eye(8), np.ones(8)
    masses = 1 - 2 * stats.norm.sf(1 / np.diag(np.linalg.cholesky(covariance)))
    for off in 10.0 ** -np.arange(9, 17):
        tilted = tilt_box(np.full(8, off), covariance, -corner, corner)
        assert tilted.tilts == pytest.approx(np.zeros(8), abs=1e-8)
        assert tilted.log_bound == pytest.approx(np.log(masses).sum(), rel=1e-8)


def test_chance_to_be_accepted_is_mass_over_bound(tilted, rng):
    """20,000 proposals; the mass of the box is SciPy's, right to 1e-5."""
    num = 20_000
    _, is_accepted = tilted._propose(rng.random((4, num)))
    law = stats.multivariate_normal(MEAN, COVARIANCE)
    expected = law.cdf(HIGH, lower_limit=LOW) / math.exp(tilted.log_bound)
    error = 4 * math.sqrt(expected * (1 - expected) / num) + 1e-4
    assert abs(is_accepted.mean() - expected) < error


@pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (0.5, 0.6), (-6.0, -4.0), (3.0, 9.0)])
def test_slope_and_curvature_are_mean_and_variance_less_one(low, high):
    law = stats.truncnorm(low, high)
    slope, curvature = module._slope_and_curvature(np.float64(low), np.float64(high))
    assert slope == pytest.approx(law.mean(), rel=1e-6)
    assert curvature == pytest.approx(law.var() - 1, abs=1e-6)


def test_the_arm_least_likely_in_its_interval_comes_first():
    """Independent arms of masses 0.38, 0.04 and 0.68; order does not mix them up."""
    low, high = np.array([-0.5, 1.75, -1.0]), np.array([0.5, 9.0, 1.0])
    assert most_restricted_first(np.eye(3), low, high).tolist() == [1, 0, 2]


def test_an_arm_is_looked_at_given_those_before_it():
    """Arm 2 is nearly arm 0: once that one is above 1.75, it hardly is restricted any more."""
    covariance = np.array([[1.0, 0.0, 0.99], [0.0, 1.0, 0.0], [0.99, 0.0, 1.0]])
    low, high = np.array([1.75, -1.0, 1.2]), np.array([9.0, 1.0, 9.0])
    assert most_restricted_first(covariance, low, high).tolist() == [0, 1, 2]
    assert most_restricted_first(np.eye(3), low, high).tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("num_draws", "num_proposed", "size"),
    [(1, 0, 4), (7, 0, 7), (1, 32, 32), (100, 64, 100), (1, 50_000, 20_000), (10**6, 0, 20_000)],
)
def test_blocks_double_within_bounds(num_draws, num_proposed, size):
    assert module._block_size(num_draws, num_proposed) == size


def test_uniforms_are_never_zero():
    class Zero:
        def random(self, shape):
            return np.zeros(shape)

    assert (module._uniforms(Zero(), 2, 5) == 2.0**-54).all()
    assert module._uniforms(np.random.default_rng(0), 2, 5).shape == (3, 5)
