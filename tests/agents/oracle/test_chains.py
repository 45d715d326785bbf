"""The oracle of dependent priors, against truths that share no code with it."""

import numpy as np
import pytest
from geometric import Geometric
from scipy import stats

from agents.oracle import action_probabilities, action_probabilities_with_error, chains
from agents.oracle.panels import ToleranceError
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.problem import BanditProblem

COUNTS, SUMS = np.array([0, 4, 30]), np.array([0.0, 2.0, 14.0])
LIKELIHOODS = [Bernoulli(), Exponential(), Gaussian(), Poisson(), Geometric()]
CORRELATED = [[1.0, 0.8], [0.8, 1.0]]

SAFE = 2.0
"""The error is two standard errors. Four are missed once in 15,000 comparisons."""


def _dependent(likelihood, covariance, **box):
    prior = TruncatedMultivariateNormal(0.5, np.asarray(covariance).tolist(), **box)
    return BanditProblem(likelihood, prior, len(covariance))


def _assert_near(problem, counts, sums, expected, tolerance=5e-3):
    found, error = action_probabilities_with_error(problem, counts, sums, tolerance=tolerance)
    assert (error <= tolerance).all()
    assert (np.abs(found - expected).max(axis=-1) <= SAFE * error).all()


def _triangle_integral(problem, counts, sums):
    """Return P(the first of two arms is best) by quadrature over mu_1 and mu_2 = mu_1 * t."""
    nodes, weights = np.polynomial.legendre.leggauss(80)
    x, t = np.meshgrid((nodes + 1) / 2, (nodes + 1) / 2, indexing="ij")
    area = np.outer(weights, weights) * x

    def mass(means, n, s):
        log_likelihood = problem.likelihood.log_likelihood(means, n, s).sum(axis=-1)
        return (area * np.exp(problem.prior.log_density(means) + log_likelihood)).sum()

    below = np.stack([x, x * t], axis=-1)
    first, second = mass(below, counts, sums), mass(below[..., ::-1], counts, sums)
    return np.array([first, second]) / (first + second)


@pytest.mark.parametrize("likelihood", [Bernoulli(), Geometric()], ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("counts", "sums"), [([0, 0], [0, 0]), ([5, 0], [4, 0]), ([50, 40], [20, 19])]
)
def test_two_correlated_arms_have_the_law_of_a_double_integral(likelihood, counts, sums):
    problem = _dependent(likelihood, CORRELATED)
    expected = _triangle_integral(problem, np.array(counts), np.array(sums))
    _assert_near(problem, counts, sums, expected)


def test_gaussian_arms_in_a_wide_box_have_the_law_of_a_normal_difference(rng):
    problem = _dependent(Gaussian(2.0), CORRELATED, low=-50.0, high=50.0)
    counts = rng.integers(0, 1000, (6, 2))
    sums = counts * rng.normal(0.5, 0.1, (6, 2))
    precision = np.linalg.inv(CORRELATED) + counts[:, :, None] * np.eye(2) / 4.0
    covariance = np.linalg.inv(precision)
    pull = np.linalg.inv(CORRELATED) @ [0.5, 0.5] + sums / 4.0
    mean = np.einsum("rij,rj->ri", covariance, pull)
    contrast = np.array([1.0, -1.0])
    std = np.sqrt(np.einsum("i,rij,j->r", contrast, covariance, contrast))
    first = stats.norm.cdf(mean @ contrast / std)
    _assert_near(problem, counts, sums, np.stack([first, 1 - first], axis=1), tolerance=0.02)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: each.name)
def test_a_diagonal_covariance_gives_the_law_of_independent_arms(likelihood):
    dependent = _dependent(likelihood, np.diag([0.04, 0.09, 0.01]))
    independent = BanditProblem(likelihood, TruncatedNormal(0.5, (0.2, 0.3, 0.1), 0.0, 1.0), 3)
    _assert_near(dependent, COUNTS, SUMS, action_probabilities(independent, COUNTS, SUMS))


@pytest.mark.parametrize("mean", [-0.3, 1.2])
def test_a_prior_mean_that_is_no_possible_mean_does_no_harm(mean):
    prior = TruncatedMultivariateNormal(mean, np.diag([0.04, 0.09, 0.04]).tolist())
    independent = BanditProblem(Bernoulli(), TruncatedNormal(mean, (0.2, 0.3, 0.2)), 3)
    counts, sums = np.array([0, 4, 30]), np.array([0.0, 0.0, 30.0 * (mean > 1)])
    expected = action_probabilities(independent, counts, sums)
    _assert_near(BanditProblem(Bernoulli(), prior, 3), counts, sums, expected)


def test_probabilities_are_the_same_when_computed_again():
    problem = _dependent(Bernoulli(), CORRELATED)
    first, second = (action_probabilities(problem, [3, 1], [1, 1], tolerance=0.02) for _ in "ab")
    np.testing.assert_array_equal(first, second)


def test_a_tolerance_out_of_reach_raises_with_the_achieved_error(monkeypatch):
    monkeypatch.setattr(chains, "MAX_BATCH", 4)
    problem = _dependent(Bernoulli(), CORRELATED)
    with pytest.raises(ToleranceError, match="standard errors.* variance ratio [01]") as caught:
        action_probabilities(problem, [0, 0], [0, 0], tolerance=1e-5)
    assert 1e-5 < caught.value.error < 0.1


def test_chains_that_never_leave_their_camps_are_noticed(monkeypatch):
    def near_one_or_minus_one(likelihood, means, counts, sums):
        return -0.5 * counts * np.square((np.abs(means) - 1) / 1e-4)

    monkeypatch.setattr(chains, "MAX_BATCH", 1)
    monkeypatch.setattr(Gaussian, "log_likelihood", near_one_or_minus_one)
    problem = _dependent(Gaussian(), [[1.0, -0.8], [-0.8, 1.0]], low=-3.0, high=3.0)
    with pytest.raises(ToleranceError, match="variance ratio [1-9]"):
        action_probabilities(problem, [1, 1], [0.0, 0.0], tolerance=0.5)


def test_data_for_which_numbers_lack_digits_raise():
    problem = _dependent(Gaussian(), CORRELATED, low=-3.0, high=3.0)
    for counts, sums in ([10, 10], [1e18, 1e13]), ([2**53, 2**53], [5e15, 5.01e15]):
        with pytest.raises(ToleranceError, match="too many, or too far from the prior"):
            action_probabilities(problem, counts, sums)


def test_a_likelihood_that_is_no_number_raises_and_names_the_arm(monkeypatch):
    problem = _dependent(Gaussian(), CORRELATED)
    monkeypatch.setattr(Gaussian, "log_likelihood", lambda _, means, *data: means * np.nan)
    with pytest.raises(ValueError, match="the log-likelihood must be a number or -inf, got nan"):
        action_probabilities(problem, [1, 1], [0.5, 0.5])
