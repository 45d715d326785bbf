import numpy as np
import pytest

from agents.oracle import action_probabilities
from agents.posteriors.choosing import exact_posterior
from agents.posteriors.winning import best_arm_probabilities, exclusive_products
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal
from bandit_gym.problem import BanditProblem

EXTREMES = [
    (Bernoulli(), Beta(0.5, 0.5)),
    (Exponential(), InverseGamma(1.0, 1.0)),
    (Poisson(), Gamma(0.5, 0.1)),
    (Gaussian(1e-3), Normal(0.0, 10.0)),
]
"""Densities without bound or with heavy tails, beside one that 10^6 pulls have made narrow."""


@pytest.mark.parametrize(("likelihood", "prior"), EXTREMES, ids=lambda each: each.name)
def test_arms_of_very_different_widths_are_compared_as_the_oracle_does(likelihood, prior):
    problem, rng = BanditProblem(likelihood, prior, 3), np.random.default_rng(0)
    counts, sums = np.array([[10**6, 5, 0]]), np.array([[3e5, 2.0, 0.0]])
    _, posterior = exact_posterior(problem)
    posterior.follow(rng, counts, sums)
    expected = action_probabilities(problem, counts, sums)
    # the oracle's own tolerance
    np.testing.assert_allclose(posterior.best_arm_probabilities(), expected, atol=1e-6)


def test_probabilities_that_do_not_sum_to_one_are_refused():
    def half(x):
        return np.full((len(x), 2), 0.5)

    with pytest.raises(ArithmeticError, match="must sum to 1 within 0.01, got 0.5"):
        best_arm_probabilities(np.array([0.0, 1.0]), half, half)


def test_exclusive_products_leave_out_one_factor_zeros_included():
    factors = np.array([[2.0, 3.0, 5.0], [0.0, 3.0, 5.0]])
    expected = [[15.0, 10.0, 6.0], [15.0, 0.0, 0.0]]
    np.testing.assert_array_equal(exclusive_products(factors), expected)
