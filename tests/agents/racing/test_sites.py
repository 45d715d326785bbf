"""The normal factors that stand in for likelihoods."""

import numpy as np
import pytest
from scipy import stats

from agents.posteriors.conjugate import likelihood_coefficients
from agents.racing.sites import SITE_POWER, Marginal, compute_moments, make_sites, update_sites
from bandit_gym.likelihoods import Gaussian, Poisson

COUNTS, SUMS = np.array([[0, 4, 30, 1]]), np.array([[0.0, 2.0, 14.0, 1.0]])


def _follow(sites, likelihood, counts, sums):
    update_sites(sites, counts, sums, likelihood_coefficients(likelihood, counts, sums))


def test_sites_follow_the_data_as_if_made_anew():
    marginals = np.tile([0.5, 1.0, 0.0, 1.5], (4, 1))
    followed, anew = (make_sites(1, marginals) for _ in range(2))
    _follow(followed, Poisson(), np.zeros((1, 4), dtype=int), np.zeros((1, 4)))
    _follow(followed, Poisson(), COUNTS // 2, SUMS // 2)
    for sites in (followed, anew):
        _follow(sites, Poisson(), COUNTS, SUMS)
    np.testing.assert_array_equal(followed.values, anew.values)
    assert (followed.values[0, 1:] != 0).all()


def test_the_site_of_a_gaussian_arm_is_its_likelihood_to_a_power():
    sites = make_sites(1, np.tile([0.5, 1.0, -11.5, 12.5], (4, 1)))
    _follow(sites, Gaussian(0.5), COUNTS, SUMS)
    h, tau = sites.values[0].T
    np.testing.assert_allclose(h, SITE_POWER * SUMS[0] / 0.25, atol=1e-3)
    np.testing.assert_allclose(tau, SITE_POWER * COUNTS[0] / 0.25, rtol=1e-4, atol=1e-3)


def test_sites_follow_rewards_where_pulls_are_as_they_were():
    marginals = np.tile([0.5, 1.0, 0.0, 1.5], (4, 1))
    sites, anew = (make_sites(1, marginals) for _ in range(2))
    _follow(sites, Poisson(), COUNTS, SUMS)
    _follow(sites, Poisson(), COUNTS, SUMS / 2)
    _follow(anew, Poisson(), COUNTS, SUMS / 2)
    np.testing.assert_array_equal(sites.values, anew.values)


@pytest.mark.parametrize("count", [0, 3, 1000, 10**8])
def test_moments_are_those_of_the_posterior(count):
    marginal = Marginal(0.5, 1e6, 0.0, 1.0)  # as good as uniform
    coefficients = np.array([0.75 * count, 0.25 * count, 0.0, 0.0, 0.0])
    law = stats.beta(0.75 * count + 1, 0.25 * count + 1)
    mean, variance = compute_moments(coefficients, marginal)
    assert mean == pytest.approx(law.mean(), abs=0.01 * law.std())
    assert variance == pytest.approx(law.var(), rel=0.01)


def test_moments_of_a_narrow_posterior_in_a_wide_interval_are_found():
    """A normal law of mean 0.3 and deviation 1e-3 in an interval 1e4 of these wide."""
    coefficients = np.array([0.0, 0.0, 0.3 * 1e6, -0.5 * 1e6, 0.0])
    mean, variance = compute_moments(coefficients, Marginal(0.0, 1e6, -5.0, 5.0))
    assert mean == pytest.approx(0.3, abs=1e-6)
    assert variance == pytest.approx(1e-6, rel=1e-3)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 0.5), (0.2, 3.0)])
def test_moments_without_data_are_those_of_the_cut_normal_law(low, high):
    law = stats.truncnorm((low - 0.4) / 0.5, (high - 0.4) / 0.5, 0.4, 0.5)
    mean, variance = compute_moments(np.zeros(5), Marginal(0.4, 0.25, low, high))
    assert mean == pytest.approx(law.mean(), rel=1e-3)
    assert variance == pytest.approx(law.var(), rel=2e-3)


def test_moments_at_an_end_of_the_interval_are_found():
    """Nearly exponential, of rate 1000, from 0 on."""
    mean, variance = compute_moments(
        np.array([0.0, 0.0, -1000.0, 0.0, 0.0]), Marginal(0.5, 1e6, 0.0, 1.0)
    )
    assert mean == pytest.approx(1e-3, rel=0.02)
    assert variance == pytest.approx(1e-6, rel=0.05)


def test_a_site_that_would_widen_moves_the_mean_alone():
    """Two far rewards of an exponential arm: the marginal with them is wider than without."""
    marginals = np.array([[1.0, 0.01, 0.0, 20.0]])
    sites = make_sites(1, marginals)
    coefficients = np.array([[[0.0, 0.0, 1.0, 40.0, 0.0]]])  # curved upwards
    update_sites(sites, np.array([[2]]), np.array([[9.0]]), coefficients)
    mean, variance = compute_moments(coefficients[0, 0], Marginal(*marginals[0]))
    before, variance_before = sites.moments[0]
    assert variance > variance_before
    assert sites.values[0, 0, 1] == 0.0
    assert sites.values[0, 0, 0] == pytest.approx(SITE_POWER * (mean - before) / variance_before)


@pytest.mark.parametrize("change", [([[1]], [[1.0]]), ([[2]], [[0.0]])], ids=["sum", "count"])
def test_a_site_is_renewed_when_a_count_or_a_sum_has_changed(change):
    sites = make_sites(1, np.array([[0.5, 1.0, 0.0, 1.5]]))
    _follow(sites, Poisson(), np.array([[1]]), np.array([[0.0]]))
    before = sites.values.copy()
    _follow(sites, Poisson(), *map(np.array, change))
    assert (sites.values != before).all()
