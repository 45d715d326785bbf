"""A prior fitted to earlier arms is the maximum of the marginal likelihood."""

import numpy as np
import pytest
from scipy import stats

from bandit_gym import fit_prior
from bandit_gym.likelihoods import Bernoulli, Gaussian

RNG = np.random.default_rng(3)
COUNTS = RNG.integers(50, 200, 40)
SUMS = RNG.binomial(COUNTS, RNG.beta(3, 12, 40)).astype(float)


def test_beta_is_the_best_of_a_grid_about_it():
    prior = fit_prior(Bernoulli(), COUNTS, SUMS).prior
    a, b = (np.ravel(each).item() for each in (prior.alpha, prior.beta))
    grid = np.array([[a * x, b * y] for x in (0.99, 1, 1.01) for y in (0.99, 1, 1.01)])
    found = [stats.betabinom.logpmf(SUMS, COUNTS, *each).sum() for each in grid]
    assert np.argmax(found) == 4


@pytest.mark.parametrize("family", ["beta", "logit_normal"])
def test_equal_arms_have_no_finite_maximum(family):
    with pytest.raises(ValueError, match="differ by more than chance"):
        fit_prior(Bernoulli(), [100] * 5, [30.0] * 5, family)


def test_equal_arms_of_gaussian_rewards_have_none_either():
    with pytest.raises(ValueError, match="differ by more than chance"):
        fit_prior(Gaussian(1.0), [100] * 5, [30.0, 31, 30, 29, 30], "normal")


def test_a_family_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="family must be one of"):
        fit_prior(Bernoulli(), COUNTS, SUMS, "gamma")
