from math import inf

import numpy as np
import pytest
from geometric import Geometric
from numba import njit

from agents import ExactThompson
from agents.oracle import action_probabilities
from agents.posteriors import features as module
from agents.posteriors.features import Data, features_at, make_features
from agents.posteriors.quadrature import Coordinate
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Gamma, TruncatedNormal
from bandit_gym.problem import BanditProblem

add_log_likelihood, set_features = njit(module.add_log_likelihood), njit(module.set_features)
set_means, set_logs = njit(module.set_means), njit(module.set_logs)
add_multiple = njit(module.add_multiple)
LIKELIHOODS = [Bernoulli(), Exponential(), Gaussian(0.5), Poisson(), Geometric()]
NUM_LANES = 20_000


class Underflowing(Geometric):
    """Says -inf where floating point could not hold its log-likelihood, as many formulas do."""

    def log_likelihood(self, means, counts, sums):
        return np.where(
            np.asarray(means) < 1e-100, -inf, super().log_likelihood(means, counts, sums)
        )


class Torn(Geometric):
    """Is NaN far below all means that a trial looks at."""

    def log_likelihood(self, means, counts, sums):
        value = super().log_likelihood(means, counts, sums)
        return np.where((np.asarray(means) < 1e-100) & (np.asarray(means) > 0), np.nan, value)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: each.name)
def test_features_make_the_log_likelihood_up_to_a_constant(likelihood):
    problem = BanditProblem(likelihood, TruncatedNormal(0.5, 0.3, 0.01, 0.99), 2)
    coordinate = Coordinate(0.01, 0.99)
    features = make_features(problem, coordinate)
    u = np.linspace(-6.0, 6.0, 101)
    first, second, out = np.empty(101), np.empty(101), np.zeros(101)
    set_features(features, u, first, second, np.empty(101))
    add_log_likelihood(features, Data(1e6, 3e5), first, second, out)
    gaps = out - likelihood.log_likelihood(coordinate.means(u), 1e6, 3e5)
    np.testing.assert_allclose(gaps - gaps[50], 0.0, atol=1e-11 * np.abs(out).max())
    np.testing.assert_allclose(features_at(problem, coordinate, u)[0], first, rtol=1e-11)


def test_log_likelihood_that_underflows_near_an_end_is_impossible_there():
    problem = BanditProblem(Underflowing(), Gamma(3.0, 2.0), 3)
    counts, sums = np.array([1, 3, 2]), np.array([1.0, 3.0, 2.0])
    agent = ExactThompson(problem)
    agent.reset(NUM_LANES, seed=0)
    agent.warm_start(counts, sums)
    shares = np.bincount(agent.act(), minlength=3) / NUM_LANES
    expected = action_probabilities(problem, counts, sums)
    # tables are right to 1e-3
    error = 4 * np.sqrt(expected * (1 - expected) / NUM_LANES) + 2e-3
    assert (np.abs(shares - expected) <= error).all()


def test_log_likelihood_that_is_nan_somewhere_is_refused_by_name():
    problem = BanditProblem(Torn(), Gamma(3.0, 2.0), 2)
    with pytest.raises(ValueError, match="likelihood.log_likelihood must be a number or -inf"):
        ExactThompson(problem)


ENDS = [(0.0, 1.0), (0.0, inf), (-inf, 2.0), (-1.0, 3.0), (-inf, inf)]


@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_kernels_know_the_means_of_a_coordinate(ends):
    coordinate = Coordinate(*ends)
    row = np.array([*ends, coordinate.centre, coordinate.scale])
    u, x = np.linspace(-5.0, 5.0, 11), np.empty(11)
    set_means(row, u, x, np.empty(11))
    np.testing.assert_allclose(x, coordinate.means(u), rtol=1e-12)


@pytest.mark.parametrize("ends", [(0.0, 1.0), (0.2, 0.7)], ids=str)
def test_kernels_know_both_logarithms_of_a_share(ends):
    coordinate = Coordinate(*ends)
    u, log_x, log_rest = np.linspace(-5.0, 5.0, 11), np.empty(11), np.empty(11)
    set_logs(np.array([*ends, 0.5, 1.0]), u, log_x, log_rest, np.empty(11))
    x = coordinate.means(u)
    np.testing.assert_allclose([log_x, log_rest], [np.log(x), np.log1p(-x)], rtol=1e-12)


def test_a_multiple_of_nothing_is_nothing_even_of_infinity():
    out = np.ones(2)
    add_multiple(0.0, np.array([inf, -inf]), out)
    assert out.tolist() == [1.0, 1.0]
    add_multiple(-2.0, np.array([3.0, 4.0]), out)
    assert out.tolist() == [-5.0, -7.0]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: each.name)
def test_features_in_numpy_make_the_log_likelihood_too(likelihood):
    """Where rewards are Gaussian the feature is the mean itself."""
    problem = BanditProblem(likelihood, TruncatedNormal(0.5, 0.3, 0.01, 0.99), 2)
    coordinate, u = Coordinate(0.01, 0.99), np.linspace(-3.0, 3.0, 7)
    first, second = features_at(problem, coordinate, u)
    x, n, s = coordinate.means(u), 5.0, 2.0
    value = {
        "bernoulli": s * first + (n - s) * second,
        "exponential": -n * first - s * second,
        "gaussian": -0.5 * n / 0.5**2 * (first - s / n) ** 2,
        "poisson": s * first - n * second,
        "geometric": s * first + n * second,
    }[likelihood.name]
    gaps = value - likelihood.log_likelihood(x, n, s)
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-10)


def test_polynomials_are_each_steps_own_and_those_at_the_ends_go_on(rng):
    coordinate = Coordinate(0.01, 0.99)
    own = make_features(
        BanditProblem(Geometric(), TruncatedNormal(0.5, 0.3, 0.01, 0.99), 2), coordinate
    )
    rows = rng.normal(size=(3, 2, module.DEGREE + 1))
    features = own._replace(start=-1.0, polynomials=rows)
    steps, t = np.array([0, 0, 0, 1, 2, 2]), np.array([-0.5, 0.0, 0.5, 0.25, 0.75, 1.5])
    first, second = np.empty(6), np.empty(6)
    u = -1.0 + module.STEP * (steps + t)
    set_features(features, u, first, second, np.empty(6))
    expected = np.einsum("jfp,jp->fj", rows[steps], t[:, None] ** np.arange(module.DEGREE + 1))
    np.testing.assert_allclose([first, second], expected)
