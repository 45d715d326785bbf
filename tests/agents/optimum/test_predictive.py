import numpy as np
import pytest
from scipy import integrate

from agents.optimum.predictive import expected_best_mean, predictive_means
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, TruncatedNormal
from bandit_gym.priors.mixtures import Mixture
from bandit_gym.problem import BanditProblem

T = 200
REACHABLE = np.tril(np.ones((T, T), dtype=bool))


class Unnamed:
    """A law with what quadrature needs and nothing that says it is conjugate."""

    support = (0.0, 1.0)

    def __init__(self, law):
        self.law = law
        self.sample, self.arm_log_density = law.sample, law.arm_log_density
        self.log_density = law.log_density


def bernoulli(prior, num_arms=2):
    return BanditProblem(Bernoulli(), prior, num_arms)


@pytest.mark.parametrize("law", [Beta(1.0, 1.0), Beta(0.5, 0.5), Beta(3.0, 40.0)])
def test_quadrature_agrees_with_the_closed_form_in_every_state(law):
    found = predictive_means(bernoulli(Unnamed(law)), T)
    expected = predictive_means(bernoulli(law), T)
    assert np.abs(found / expected - 1)[0][REACHABLE].max() < 1e-8


def test_a_rare_star_is_seen():
    laws, weights = (Beta(20.0, 20.0), Beta(970.0, 30.0)), np.array([0.998, 0.002])
    found = predictive_means(bernoulli(Mixture(laws, weights)), T)[0]
    parts = [predictive_means(bernoulli(law), T)[0] for law in laws]
    # Each law's chance of s successes in a given order, from its predictive means.
    logs = [_log_chances(part) for part in parts]
    shares = [w * np.exp(log - np.maximum(*logs)) for w, log in zip(weights, logs, strict=True)]
    expected = (shares[0] * parts[0] + shares[1] * parts[1]) / (shares[0] + shares[1])
    assert np.abs(found / expected - 1)[REACHABLE].max() < 1e-8


def _log_chances(means):
    """Log chances of s successes and then n - s failures, (T, T)."""
    logs = np.zeros(means.shape)
    paid = np.concatenate([[0.0], np.cumsum(np.log(np.diagonal(means)))[:-1]])
    for s in range(len(means)):
        failed = np.cumsum(np.log1p(-means[s:, s]))[:-1]
        logs[s:, s] = paid[s] + np.concatenate([[0.0], failed])
    return logs


def test_arms_of_one_prior_share_a_table_and_others_do_not():
    assert predictive_means(bernoulli(TruncatedNormal(0.5, 0.1)), 5).shape == (1, 5, 5)
    found = predictive_means(bernoulli(TruncatedNormal([0.3, 0.6, 0.3], 0.1), 3), 5)
    assert found.shape == (3, 5, 5)
    np.testing.assert_array_equal(found[0], found[2])


def test_best_mean_is_that_of_independent_arms():
    assert expected_best_mean(bernoulli(Beta(1.0, 1.0), 10)) == pytest.approx(10 / 11, rel=1e-13)
    # E max(x, y) of y ~ Beta(2, 1) beside a uniform x: 1 less the integral of x^3.
    assert expected_best_mean(bernoulli(Beta([1.0, 2.0], 1.0))) == pytest.approx(0.75, rel=1e-13)
    law = TruncatedNormal(0.4, 0.2)
    grid = np.linspace(0, 1, 20_001)
    chances = integrate.cumulative_simpson(np.exp(law.arm_log_density(grid)), x=grid, initial=0)
    expected = 1 - integrate.simpson(chances**3, x=grid)
    assert expected_best_mean(bernoulli(law, 3)) == pytest.approx(expected, rel=1e-10)
