import math

import numpy as np
import pytest

from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.results.statistics import (
    bootstrap_interval,
    holm,
    interquartile_mean,
    is_normality_doubtful,
    lai_robbins_slope,
    mean_interval,
    paired_p_value,
    performance_profile,
    proportion_interval,
)


def coverage(make_interval, samples, truth):
    intervals = [make_interval(sample) for sample in samples]
    return np.mean([interval.low <= truth <= interval.high for interval in intervals])


def test_mean_interval_covers_95_percent_of_uniform_plays_regret():
    """On K = 3 arms with uniform means it is T (3/4 - 1/2) on average; T = 20."""
    rng = np.random.default_rng(0)
    means = rng.random((30_000, 3))
    pulls = rng.multinomial(20, [1 / 3] * 3, size=len(means))
    regrets = (pulls * (means.max(axis=1, keepdims=True) - means)).sum(axis=1).reshape(-1, 30)
    assert 0.93 < coverage(mean_interval, regrets, truth=20 * (3 / 4 - 1 / 2)) < 0.97


def test_mean_interval_covers_95_percent_when_values_are_skewed():
    samples = np.random.default_rng(0).exponential(size=(1000, 30))
    assert 0.93 < coverage(mean_interval, samples, truth=1.0) < 0.97


def test_proportion_interval_covers_95_percent():
    samples = np.random.default_rng(0).binomial(1, 0.7, size=(2000, 100))
    assert 0.93 < coverage(proportion_interval, samples, truth=0.7) < 0.97


def test_bootstrap_interval_covers_95_percent_of_interquartile_means_over_environments():
    """Scores of two environments that share their luck, as common random numbers make them do."""
    rng = np.random.default_rng(0)
    luck, own = rng.normal(size=(200, 100, 1)), rng.normal(size=(200, 100, 2))
    found = coverage(lambda s: bootstrap_interval(s, interquartile_mean), luck + own, truth=0.0)
    assert abs(found - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 200)


def test_mean_interval_is_students_when_values_are_symmetric():
    interval = mean_interval(np.array([1.0, 2.0, 3.0, 4.0]))
    half = 3.182446 * math.sqrt(5 / 3) / 2  # 97.5 % point of t with 3 degrees; variance 5 / 3
    assert interval == pytest.approx((2.5, 2.5 - half, 2.5 + half))


def test_mean_interval_has_no_ends_when_there_is_one_value():
    assert np.isnan(mean_interval(np.array([1.0]))[1:]).all()


def test_mean_interval_is_a_point_when_all_values_are_equal():
    assert mean_interval(np.full(5, 2.0)) == (2.0, 2.0, 2.0)


def test_mean_interval_is_finite_when_nearly_all_values_are_equal():
    interval = mean_interval(np.array([0.0] * 59 + [1.0]))
    assert interval.low == 0.0
    assert 1 / 60 < interval.high < 0.1


def test_normality_is_doubtful_when_one_value_dwarfs_the_others():
    assert is_normality_doubtful(np.array([0.0] * 19 + [100.0]))
    assert not is_normality_doubtful(np.arange(20.0))


def test_paired_p_value_rejects_one_in_twenty_when_there_is_no_difference():
    samples = np.random.default_rng(0).normal(size=(1000, 20))
    rejected = np.mean([paired_p_value(sample) < 0.05 for sample in samples])
    assert abs(rejected - 0.05) < 4 * math.sqrt(0.05 * 0.95 / 1000)


def test_paired_p_value_flips_signs_when_normality_is_doubtful():
    """All 20 differences positive: two of the 2^20 sign patterns are as extreme."""
    skewed = np.array([0.1] * 19 + [100.0])
    assert paired_p_value(skewed) > paired_p_value(np.arange(1.0, 21.0))


@pytest.mark.parametrize(("value", "expected"), [(0.0, 1.0), (1.0, 0.0)])
def test_paired_p_value_is_certain_when_all_differences_are_equal(value, expected):
    assert paired_p_value(np.full(5, value)) == expected


def test_holm_corrects_by_hand():
    """Sorted 0.01, 0.03, 0.04 times 3, 2, 1 and never falling: 0.03, 0.06, 0.06."""
    assert holm([0.04, 0.01, 0.03]).tolist() == pytest.approx([0.06, 0.03, 0.06])


def test_interquartile_mean_leaves_out_the_outer_quarters():
    assert interquartile_mean(np.array([[-100.0, 1.0], [3.0, 100.0]])) == 2.0


def test_performance_profile_counts_scores_at_most_each_level():
    scores = np.array([[0.1, 0.2], [0.3, 0.4]])
    assert performance_profile(scores, np.array([0.0, 0.2, 1.0])).tolist() == [0.0, 0.5, 1.0]


def test_lai_robbins_slope_is_two_variances_over_the_gap_for_gaussian_rewards():
    """KL(N(0, 4), N(1, 4)) = 1 / 8, so gap / KL = 8."""
    assert lai_robbins_slope(Gaussian(2.0), np.array([0.0, 1.0])) == pytest.approx(8.0)


def test_lai_robbins_slope_counts_every_worse_arm_for_bernoulli_rewards():
    divergence = 0.2 * math.log(0.2 / 0.5) + 0.8 * math.log(0.8 / 0.5)
    slope = lai_robbins_slope(Bernoulli(), np.array([0.2, 0.5, 0.2, 0.5]))
    assert slope == pytest.approx(2 * 0.3 / divergence)
