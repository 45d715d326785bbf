"""The oracle of shared mixtures and of priors that offer draws and a density alone."""

import numpy as np
import pytest
from families import DensityOnly, JointNormal, OnlyArmDensities
from scipy import stats

from agents.oracle import ToleranceError, action_probabilities, action_probabilities_with_error
from agents.oracle import importance as module
from agents.oracle.arms import Arms
from bandit_gym.likelihoods import Bernoulli, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, HierarchicalBeta, Normal, SharedMixture, TruncatedNormal
from bandit_gym.problem import BanditProblem

SAFE = 2.0
"""The error is two standard errors. Four are missed once in 15,000 comparisons."""


def assert_near(problem, counts, sums, expected):
    probabilities, error = action_probabilities_with_error(problem, counts, sums)
    assert error <= 2e-3
    assert np.abs(probabilities - expected).max() <= SAFE * error


def first_wins(mean, covariance, counts, sums):
    """Return P(arm 0 is the better of two) under a normal prior and Gaussian rewards of std 1."""
    precision = np.linalg.inv(covariance)
    posterior = np.linalg.inv(precision + np.diag(counts))
    centre = posterior @ (precision @ mean + sums)
    contrast = np.array([1.0, -1.0])
    return stats.norm.cdf(contrast @ centre / np.sqrt(contrast @ posterior @ contrast))


# -- Shared mixtures -------------------------------------------------------------------------------


def test_components_have_the_weight_of_their_evidence():
    means, stds = np.array([-1.0, 0.5, 3.0]), np.array([0.5, 1.0, 0.2])
    weights = np.array([0.2, 0.5, 0.3])
    prior = SharedMixture([Normal(m, s) for m, s in zip(means, stds, strict=True)], weights)
    counts, sums = np.array([4.0, 2.0]), np.array([2.0, 3.5])
    parts = list(zip(means, stds, strict=True))
    evidence = [
        w * stats.norm.pdf(sums / counts, m, np.sqrt(s**2 + 1 / counts)).prod()
        for w, (m, s) in zip(weights, parts, strict=True)
    ]
    first = [first_wins([m, m], np.eye(2) * s**2, counts, sums) for m, s in parts]
    expected = np.dot(evidence, first) / np.sum(evidence)
    problem = BanditProblem(Gaussian(), prior, 2)
    found, error = action_probabilities_with_error(problem, counts, sums)
    assert abs(found[0] - expected) <= error + 1e-12 and error <= 1e-6


def test_a_hierarchy_is_the_mixture_of_its_beta_distributions():
    alphas, betas = [1.0, 8.0, 30.0], [9.0, 8.0, 3.0]
    hierarchy = HierarchicalBeta(alphas, betas, [0.5, 0.3, 0.2])
    components = [Beta(a, b) for a, b in zip(alphas, betas, strict=True)]
    mixture = SharedMixture(components, [0.5, 0.3, 0.2])
    counts, sums = np.array([[30, 4, 0], [0, 0, 0]]), np.array([[22, 1, 0], [0, 0, 0]])
    found, other = (
        action_probabilities(BanditProblem(Bernoulli(), prior, 3), counts, sums)
        for prior in (hierarchy, mixture)
    )
    np.testing.assert_allclose(found, other, atol=1e-12)
    np.testing.assert_allclose(found[1], 1 / 3, atol=1e-12)
    # Weighted draws share nothing with quadrature but the density.
    hidden = BanditProblem(Bernoulli(), DensityOnly(hierarchy), 3)
    assert_near(hidden, counts[0], sums[0], found[0])


class Shared(DensityOnly):
    """A shared mixture of which components are normal densities without their constants."""

    def shared_components(self):
        components = []
        for component, constant in zip(self.prior.components, (3.0, -40.0), strict=True):
            part = OnlyArmDensities(stats.norm(component.mean, component.std), (-np.inf, np.inf))
            plain = part.arm_log_density
            part.arm_log_density = lambda means, f=plain, c=constant: f(means) + c
            components.append(part)
        return components, self.prior.weights


def test_densities_of_components_need_no_constants():
    prior = SharedMixture([Normal(0.0, 1.0), Normal(2.0, 0.3)], [0.6, 0.4])
    counts, sums = [3, 1], [3.0, 1.5]
    found, expected = (
        action_probabilities(BanditProblem(Gaussian(), each, 2), counts, sums)
        for each in (Shared(prior), prior)
    )
    np.testing.assert_allclose(found, expected, atol=1e-9)


# -- Any prior -------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [(0, 0), (3, 1), (400, 90), (10**6, 2)])
def test_dependent_normal_arms_have_the_law_of_a_normal_difference(counts):
    counts, mean, covariance = np.array(counts), [0.2, 0.0], [[1.0, 0.7], [0.7, 1.5]]
    sums = counts * [0.3, 0.35]
    first = first_wins(mean, covariance, counts, sums)
    problem = BanditProblem(Gaussian(), JointNormal(mean, covariance), 2)
    assert_near(problem, counts, sums, [first, 1 - first])


@pytest.mark.parametrize(
    ("likelihood", "prior", "counts", "sums"),
    [
        (Bernoulli(), Beta(0.5, 0.5), [0, 3, 0], [0, 3, 0]),
        (Bernoulli(), Beta(2.0, 5.0), [900, 700, 20], [700, 560, 17]),
        (Poisson(), Gamma(2.0, 1.0), [300, 200, 1], [900, 640, 2]),
    ],
)
def test_density_and_draws_give_what_quadrature_gives(likelihood, prior, counts, sums):
    expected = action_probabilities(BanditProblem(likelihood, prior, 3), counts, sums)
    assert_near(BanditProblem(likelihood, DensityOnly(prior), 3), counts, sums, expected)


def test_two_modes_of_all_arms_are_weighed_by_the_data():
    counts, sums = np.array([2, 0]), np.array([0.1, 0.0])
    mixture = SharedMixture([Normal(-1.0, 0.3), Normal(1.0, 0.3)], [0.5, 0.5])
    expected = action_probabilities(BanditProblem(Gaussian(), mixture, 2), counts, sums)
    assert_near(BanditProblem(Gaussian(), DensityOnly(mixture), 2), counts, sums, expected)


class OneWide:
    """The first mean is standard normal, each other one within 1e-7 of -1 or of 1."""

    def sample(self, rng, shape):
        means = rng.choice([-1.0, 1.0], shape) + 1e-7 * rng.standard_normal(shape)
        means[..., 0] = rng.standard_normal(shape[:-1])
        return means

    def log_density(self, means):
        parts = [-0.5 * np.square((means[..., 1:] - mode) / 1e-7) for mode in (-1.0, 1.0)]
        return np.logaddexp(*parts).sum(axis=-1) - 0.5 * np.square(means[..., 0])


def test_modes_that_draws_do_not_meet_are_an_error_and_no_number(monkeypatch):
    monkeypatch.setattr(module, "BATCH_SIZE", 4096)  # the error is 1.2, whatever the batches
    problem = BanditProblem(Gaussian(), OneWide(), 3)
    with pytest.raises(ToleranceError, match="within reach, got 0.002") as caught:
        action_probabilities(problem, [10**6, 0, 0], [3e5, 0.0, 0.0])  # so that the prior is wide
    assert caught.value.error > 2e-3


def test_arms_that_tie_are_an_error_and_no_number():
    class Coarse(JointNormal):
        def sample(self, rng, shape):
            return np.round(super().sample(rng, shape))

    problem = BanditProblem(Gaussian(), Coarse([0.0, 0.0], np.eye(2)), 2)
    with pytest.raises(ToleranceError, match="within reach"):
        action_probabilities(problem, [0, 0], [0.0, 0.0])


def test_mass_beyond_the_last_digit_of_a_mean_is_an_error_and_no_number():
    problem = BanditProblem(Bernoulli(), DensityOnly(Beta(0.01, 0.01)), 2)
    with pytest.raises(ToleranceError, match="within reach"):
        action_probabilities(problem, [0, 2], [0, 1])


@pytest.mark.parametrize(
    ("prior", "counts", "sums"),
    [
        (Normal(0.0, 1.0), [10, 10], [1e18, 1e13]),
        (Normal(0.0, 1.0), [10, 10], [1e170, 1e13]),
        (TruncatedNormal(0.0, 1.0, -1.0, 1.0), [5, 5], [5e13, 1e14]),
    ],
)
def test_data_for_which_log_likelihoods_lack_digits_raise(prior, counts, sums):
    problem = BanditProblem(Gaussian(), DensityOnly(prior), 2)
    with pytest.raises(ToleranceError, match="digits left.* too far from the prior"):
        action_probabilities(problem, counts, sums)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_density_that_is_no_number_is_refused_with_the_means(value):
    class Broken(JointNormal):
        def log_density(self, means):
            return np.where(means[..., 0] > 30, value, super().log_density(means))

    problem = BanditProblem(Gaussian(), Broken([0.0, 0.0], np.eye(2)), 2)
    with pytest.raises(ValueError, match=f"log_density must be a number or -inf, got {value} at"):
        action_probabilities(problem, [10**4, 10**4], [40e4, 40e4])


def test_a_batch_of_draws_of_the_prior_has_no_bias_of_a_ratio(monkeypatch):
    """In batches of 40 the ratio of averages alone is off by 0.0054, nine standard errors."""
    monkeypatch.setattr(module, "BATCH_SIZE", 40)
    problem, rng = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), np.random.default_rng(0)
    counts, sums, arms = np.array([3.0, 3.0]), np.array([3.0, 1.0]), Arms(problem)
    data = np.eye(2), counts, sums
    target = module.MeansTarget(problem, *data, line=arms.line, support=arms.support)
    batches = [module.estimate_from_prior(rng, target, data[0]) for _ in range(4000)]
    estimates = np.array(batches)[:, 0]
    bias = estimates.mean() - action_probabilities(problem, counts, sums)[0]
    assert abs(bias) < 4 * estimates.std() / np.sqrt(len(estimates))
