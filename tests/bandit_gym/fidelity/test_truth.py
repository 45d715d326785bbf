import numpy as np
import pytest
from scipy import stats

from bandit_gym.fidelity.adversarial import CASES
from bandit_gym.fidelity.priors import Camps, DensityOnly, OneFactor
from bandit_gym.fidelity.truth import exact_law, log_law, log_odds_law
from bandit_gym.likelihoods import Bernoulli, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, Normal
from bandit_gym.priors.mixtures import HierarchicalBeta

DATA = np.array([5.0, 2.0, 0.0]), np.array([3.0, 2.0, 0.0])


def test_a_law_that_hides_its_independence_has_the_same_truth():
    expected = exact_law(Bernoulli(), Beta(2.0, 3.0), DATA)
    np.testing.assert_array_equal(
        exact_law(Bernoulli(), DensityOnly(Beta(2.0, 3.0)), DATA), expected
    )


def test_camps_are_weighed_by_how_well_they_foresee_the_data():
    camps = Camps([Beta(2.0, 2.0), Beta(20.0, 2.0)], [0.7, 0.3])
    counts, sums = DATA
    evidence = [
        weight * stats.betabinom.pmf(sums, counts, law.alpha, law.beta).prod()
        for law, weight in zip(camps.laws, camps.weights, strict=True)
    ]
    laws = [exact_law(Bernoulli(), law, DATA) for law in camps.laws]
    expected = np.average(laws, axis=0, weights=evidence)
    np.testing.assert_allclose(exact_law(Bernoulli(), camps, DATA), expected, atol=1e-9)


def test_a_hierarchy_is_its_camps():
    camps = Camps([Beta(2.0, 8.0), Beta(30.0, 3.0)], [0.9, 0.1])
    hierarchy = HierarchicalBeta([2.0, 30.0], [8.0, 3.0], [0.9, 0.1])
    expected = exact_law(Bernoulli(), camps, DATA)
    np.testing.assert_allclose(exact_law(Bernoulli(), hierarchy, DATA), expected, atol=1e-12)


def test_one_factor_in_a_wide_box_has_the_law_of_a_normal_posterior():
    factor = OneFactor(0.0, (1.0, 0.5), 0.2, -30.0, 30.0)
    counts, sums = np.array([4.0, 1.0]), np.array([2.0, 0.8])
    precision = np.linalg.inv(np.asarray(factor.prior().covariance)) + np.diag(counts)
    covariance = np.linalg.inv(precision)
    mean = covariance @ sums
    contrast = np.array([1.0, -1.0])
    z = contrast @ mean / np.sqrt(contrast @ covariance @ contrast)
    law = exact_law(Gaussian(), factor, (counts, sums))
    np.testing.assert_allclose(law, [stats.norm.cdf(z), stats.norm.sf(z)], atol=1e-6)


def test_one_factor_of_opposed_arms_has_the_law_of_a_sum_over_a_fine_grid():
    case = next(each for each in CASES if each.name == "Bernoulli, near-singular, opposed")
    centre = 0.5 + np.linspace(-0.013, 0.013, 61)[:, None]  # 6 deviations of the arms' average
    half = np.linspace(-0.5, 0.5, 40_001)  # of their difference
    means = np.stack([centre + half, centre - half], axis=-1)
    with np.errstate(all="ignore"):
        log_density = case.problem.prior.log_density(means)
        data = case.likelihood.log_likelihood(means, case.counts, case.sums).sum(axis=-1)
    log_density = np.where(log_density == -np.inf, -np.inf, log_density + data)
    weights = np.exp(log_density - log_density.max())
    first = (weights * np.where(half == 0, 0.5, half > 0)).sum() / weights.sum()
    np.testing.assert_allclose(case.law, [first, 1 - first], atol=1e-4)


def test_log_odds_give_the_law_that_means_give():
    expected = exact_law(Bernoulli(), Beta(2.0, 3.0), DATA)
    np.testing.assert_allclose(log_odds_law(Beta(2.0, 3.0), DATA), expected, atol=1e-8)


def test_logarithms_give_the_law_that_means_give():
    expected = exact_law(Poisson(), Gamma(2.0, 3.0), DATA)
    np.testing.assert_allclose(log_law(Gamma(2.0, 3.0), DATA), expected, atol=1e-8)


def test_a_law_without_known_bulk_is_refused():
    with pytest.raises(TypeError, match="law must be one whose bulk is known"):
        exact_law(Gaussian(), Unknown(), DATA)


class Unknown:
    def arm_support(self, num_arms):
        return np.tile([-np.inf, np.inf], (num_arms, 1))

    def arm_log_density(self, means):
        return Normal(0.0, 1.0).arm_log_density(means)
