import numpy as np
import pytest

from agents.oracle import action_probabilities
from agents.posteriors.choosing import exact_posterior
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


FAMILIES = [
    (Bernoulli(), Beta(1.0, 1.0)),
    (Bernoulli(), Beta(0.3, 0.2)),
    (Exponential(), InverseGamma(3.0, 2.0)),
    (Poisson(), Gamma(0.5, 0.1)),
    (Gaussian(0.5), Normal(0.0, 1.0)),
]


@pytest.mark.parametrize(("likelihood", "prior"), FAMILIES, ids=lambda each: each.name)
@pytest.mark.parametrize("num_arms", [2, 10, 100])
def test_probabilities_of_conjugate_laws_are_those_of_quadrature(likelihood, prior, num_arms):
    problem, rng = BanditProblem(likelihood, prior, num_arms), np.random.default_rng(num_arms)
    counts = rng.geometric(1 / 20, num_arms) - 1
    means = prior.sample(rng, (num_arms,))
    rewards = [
        likelihood.sample(np.full(n, x), rng.random(n)) for n, x in zip(counts, means, strict=True)
    ]
    sums = np.array([each.sum() for each in rewards])
    _, posterior = exact_posterior(problem)
    posterior.follow(rng, counts[None], sums[None])
    expected = action_probabilities(problem, counts, sums)
    np.testing.assert_allclose(posterior.best_arm_probabilities()[0], expected, atol=1e-6)


def test_laws_too_narrow_for_numbers_are_refused():
    _, posterior = exact_posterior(BanditProblem(Poisson(), Gamma(1e200, 1.0), 2))
    posterior.follow(np.random.default_rng(0), np.zeros((1, 2)), np.zeros((1, 2)))
    with pytest.raises(ArithmeticError, match="must sum to 1 within 0.01, got"):
        posterior.best_arm_probabilities()
