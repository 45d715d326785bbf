"""The truncated multivariate normal: exact draws, compared with plain rejection and quadrature."""

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats

from bandit_gym.priors import TruncatedMultivariateNormal, TruncatedNormal

NUM_DRAWS = 3000


def _unit_vector_covariance(num_arms: int, dimension: int, seed: int) -> np.ndarray:
    """Return u_i . u_j of random unit vectors, the covariance of the paper's dependent prior."""
    vectors = np.random.default_rng(seed).standard_normal((num_arms, dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T


def _equal_correlations(num_arms: int, correlation: float) -> np.ndarray:
    return np.full((num_arms, num_arms), correlation) + (1 - correlation) * np.eye(num_arms)


def _rejection(prior: TruncatedMultivariateNormal, num_draws: int) -> np.ndarray:
    """Draw by plain rejection; each coordinate is made only where the earlier ones are inside."""
    rng, cholesky = np.random.default_rng(1), np.linalg.cholesky(np.array(prior.covariance))
    mean = np.broadcast_to(prior.mean, prior.num_arms)
    low, high = prior.arm_support(prior.num_arms).T
    found = np.empty((0, prior.num_arms))
    while len(found) < num_draws:
        noise = np.empty((2**20, 0))
        for arm in range(prior.num_arms):
            noise = np.column_stack([noise, rng.standard_normal(len(noise))])
            values = mean[arm] + noise @ cholesky[arm, : arm + 1]
            noise = noise[(values >= low[arm]) & (values <= high[arm])]
        found = np.concatenate([found, mean + noise @ cholesky.T])
    return found[:num_draws]


PRIORS_TO_REJECT = {
    "3 arms": TruncatedMultivariateNormal([0.5, 0.0, 1.5], _equal_correlations(3, 0.5)),
    "3 arms, nearly equal": TruncatedMultivariateNormal(0.7, _equal_correlations(3, 0.99)),
    "4 arms, opposed": TruncatedMultivariateNormal(
        [-0.5, 0.5, 0.2, 1.5],
        (-0.9) ** np.abs(np.subtract.outer(range(4), range(4))),  # of neighbours
        [0, -1, 0, 1],
        [1, 1, 2, 3],
    ),
    "8 arms, dimension 8": TruncatedMultivariateNormal(0.5, _unit_vector_covariance(8, 8, 0)),
    "8 arms, dimension 40": TruncatedMultivariateNormal(0.5, _unit_vector_covariance(8, 40, 0)),
}


def _assert_equal_averages(first: np.ndarray, second: np.ndarray) -> None:
    difference = first.mean(axis=0) - second.mean(axis=0)
    standard_error = np.sqrt((first.var(axis=0) + second.var(axis=0)) / NUM_DRAWS)
    assert (np.abs(difference) <= 4 * standard_error).all()


@pytest.mark.parametrize("prior", PRIORS_TO_REJECT.values(), ids=PRIORS_TO_REJECT)
def test_sample_has_the_moments_marginals_differences_and_maximum_of_rejection(prior):
    draws = prior.sample(np.random.default_rng(2), (NUM_DRAWS, prior.num_arms))
    both = draws, _rejection(prior, NUM_DRAWS)
    _assert_equal_averages(*both)
    centre = both[1].mean(axis=0)
    upper = np.triu_indices(len(centre))
    _assert_equal_averages(*((d - centre)[:, upper[0]] * (d - centre)[:, upper[1]] for d in both))
    p_values = stats.ks_2samp(*both, axis=0).pvalue
    assert p_values.min() > 1e-3 / len(p_values)
    for statistic in (lambda d: d.max(axis=1), lambda d: d[:, 0] - d[:, -1]):
        assert stats.ks_2samp(*map(statistic, both)).pvalue > 1e-3


def test_sample_is_that_of_independent_arms_or_of_one_where_the_covariance_says_so(rng):
    means, stds = [-3.0, 0.5, 2.0, 0.9], [0.5, 0.3, 0.1, 5.0]
    prior = TruncatedMultivariateNormal(means, np.diag(np.square(stds)))
    draws = prior.sample(rng, (NUM_DRAWS, 4))
    other = TruncatedNormal(means, stds).sample(rng, (NUM_DRAWS, 4))
    assert stats.ks_2samp(draws, other, axis=0).pvalue.min() > 1e-3 / 4
    # The arms differ by 0.5 * sqrt(1e-6), against a spread of 0.5^2 / 3 beyond the edge: under 1 %.
    prior = TruncatedMultivariateNormal(-3.0, 0.25 * _equal_correlations(10, 1 - 1e-6))
    draws = prior.sample(rng, (1000, 10))[:, 3]
    other = TruncatedNormal(-3.0, 0.5).sample(rng, (1000, 1))[:, 0]
    assert stats.ks_2samp(draws, other).pvalue > 1e-3


HARD_PRIORS = {
    "2 arms, opposite": TruncatedMultivariateNormal(0.5, _equal_correlations(2, -0.999)),
    "50 arms, dimension 50": TruncatedMultivariateNormal(0.5, _unit_vector_covariance(50, 50, 1)),
    "50 arms in the tail": TruncatedMultivariateNormal(-3.0, _equal_correlations(50, 0.9)),
    "30 arms, nearly equal, in the tail": TruncatedMultivariateNormal(
        -3.0, 0.01 * _equal_correlations(30, 1 - 1e-6)
    ),
    "10 arms on both sides": TruncatedMultivariateNormal(
        np.linspace(-3, 3, 10), 0.01 * _unit_vector_covariance(10, 10, 0)
    ),
    "units apart": TruncatedMultivariateNormal(
        [500.0, 0.5], [[1e6, 900.0], [900.0, 1.0]], [0, 0], [1000, 1]
    ),
}


def test_sample_stays_in_the_box_in_hard_cases(rng):
    for name, prior in HARD_PRIORS.items():
        draws = prior.sample(rng, (50, prior.num_arms))
        assert np.isfinite(prior.log_density(draws)).all(), name


def test_a_box_that_is_all_but_around_the_mean_is_drawn_from(rng):
    """Where the best tilt is none: to within rounding, each arm is even around its mean."""
    for off in 10.0 ** -np.arange(9, 17):
        prior = TruncatedMultivariateNormal(off, _equal_correlations(8, 0.6), -1.0, 1.0)
        share = (prior.sample(rng, (500, 8)) > off).mean(axis=0)
        assert (np.abs(share - 0.5) < 4 * 0.5 / 500**0.5).all()


def test_an_end_that_stands_for_none_may_be_the_largest_number():
    covariance = 0.01 * _equal_correlations(3, 0.5)
    priors = [TruncatedMultivariateNormal(1.0, covariance, 0.0, end) for end in (1e6, 1.7e308)]
    draws = [prior.sample(np.random.default_rng(0), (50, 3)) for prior in priors]
    np.testing.assert_array_equal(*draws)


def test_sample_each_equals_sample_of_each_and_leaves_the_generators_where_that_does():
    for name, prior in PRIORS_TO_REJECT.items():
        rngs, others = ([np.random.default_rng(seed) for seed in range(40)] for _ in range(2))
        alone = [prior.sample(rng, (prior.num_arms,)) for rng in others]
        np.testing.assert_array_equal(prior.sample_each(rngs), alone, name)
        assert [rng.random() for rng in rngs] == [rng.random() for rng in others], name


def test_log_density_is_the_normal_one_up_to_a_constant(rng):
    for name, prior in PRIORS_TO_REJECT.items():
        draws = prior.sample(rng, (4, 5, prior.num_arms))
        mean = np.broadcast_to(prior.mean, prior.num_arms)
        normal = stats.multivariate_normal(mean, np.array(prior.covariance))
        assert np.ptp(prior.log_density(draws) - normal.logpdf(draws)) <= 1e-9, name


def test_arms_of_which_no_draw_would_be_found_are_refused_when_the_environment_is_made():
    with pytest.raises(ValueError, match="found in reasonable time, got 160 arms of which"):
        gym.make("DependentPriorBandit-v0", num_arms=160)
