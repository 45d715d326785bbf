import math

import numpy as np
import pytest
from scipy import stats

from bandit_gym.results.data import _scores
from bandit_gym.results.statistics import (
    MIN_REPLICATIONS,
    batch_mean,
    bootstrap_interval,
    correct_by_holm,
    interquartile_mean,
    is_coverage_doubtful,
    is_normality_doubtful,
    mean_interval,
    paired_p_value,
    proportion_interval,
)


def coverage(make_interval, samples, truth):
    intervals = [make_interval(sample) for sample in samples]
    return np.mean([interval.low <= truth <= interval.high for interval in intervals])


def test_mean_interval_covers_95_percent_when_values_are_skewed():
    samples = np.random.default_rng(0).exponential(size=(1000, 30))
    noise = 3 * (0.95 * 0.05 / len(samples)) ** 0.5
    assert coverage(mean_interval, samples, truth=1.0) == pytest.approx(0.95, abs=noise)


def test_bootstrap_interval_covers_95_percent_of_interquartile_means_over_environments():
    """Scores of two environments that share their luck, as common random numbers make them do."""
    rng = np.random.default_rng(0)
    luck, own = rng.normal(size=(200, 100, 1)), rng.normal(size=(200, 100, 2))
    found = coverage(lambda s: bootstrap_interval(s, interquartile_mean), luck + own, truth=0.0)
    assert abs(found - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 200)


def test_bootstrap_interval_is_no_narrower_when_an_environment_is_counted_five_times():
    """Environments of the same seeds and the same scores tell no more than one of them."""
    scores = np.random.default_rng(0).normal(size=(30, 1))
    once, often = (bootstrap_interval(np.repeat(scores, n, axis=1), batch_mean) for n in (1, 5))
    assert often == pytest.approx(once)


def of_columns(values):
    return bootstrap_interval(values[:, None], batch_mean)


def test_intervals_have_ends_and_tests_a_p_value_from_ten_replications_on():
    values = np.arange(10) % 2.0
    for make_interval in (mean_interval, proportion_interval, of_columns):
        estimate, *ends = make_interval(values[: MIN_REPLICATIONS - 1])
        assert estimate == pytest.approx(4 / 9), make_interval
        assert np.isnan(ends).all(), make_interval
        assert np.isfinite(make_interval(values)).all(), make_interval
    assert math.isnan(paired_p_value(values[:9])) and 0 < paired_p_value(values) < 1


def test_mean_interval_is_finite_when_nearly_all_values_are_equal():
    interval = mean_interval(np.array([0.0] * 59 + [1.0]))
    assert interval.low == 0.0
    assert 1 / 60 < interval.high < 0.1
    assert mean_interval(np.full(10, 2.0)) == (2.0, 2.0, 2.0)


def test_normality_is_doubtful_from_a_skewness_of_a_tenth_of_the_root_of_r_on():
    """Shares of ones have the skewness (1 - 2 p) / sqrt(p (1 - p)).

    That is 1.04 and, with one more, 0.98 of 100 where the bound is 1; 0.58 and 0.41 of 25 where it
    is 0.5.
    """
    for num_ones, count in [(27, 100), (9, 25)]:
        ones, more = (np.repeat([1.0, 0.0], [n, count - n]) for n in (num_ones, num_ones + 1))
        assert is_normality_doubtful(ones) and not is_normality_doubtful(more), count


def test_coverage_is_doubtful_when_few_values_are_skewed():
    """A fifth of ones has a skewness of 0.6 / 0.4 = 1.5, three tenths one of 0.87."""
    assert is_coverage_doubtful(np.repeat([1.0, 0.0], [2, 8]))
    assert is_coverage_doubtful(np.repeat([0.0, -1.0], [79, 20]))
    assert not is_coverage_doubtful(np.repeat([1.0, 0.0], [20, 80]))
    assert not is_coverage_doubtful(np.repeat([1.0, 0.0], [3, 7]))
    assert not is_coverage_doubtful(np.zeros(10))


def rejected(samples):
    return np.mean([paired_p_value(sample) < 0.05 for sample in samples])


def test_paired_p_value_keeps_its_level_on_normal_and_on_lognormal_differences():
    """It rejects 0.067 of centred ones at R = 20 (its docstring); Student's test rejects 0.14."""
    normal = np.random.default_rng(0).normal(size=(500, 20))
    assert abs(rejected(normal) - 0.05) < 4 * math.sqrt(0.05 * 0.95 / 500)
    lognormal = np.random.default_rng(0).lognormal(size=(500, 20)) - math.exp(0.5)
    assert abs(rejected(lognormal) - 0.067) < 4 * math.sqrt(0.067 * 0.933 / 500)


def test_paired_p_value_keeps_its_level_on_heavy_tails_to_both_sides():
    """The bootstrap alone rejects 0.07 to 0.08 of Student's t of 3 degrees at R = 20."""
    samples = np.random.default_rng(0).standard_t(3, size=(500, 20))
    students = np.mean(stats.ttest_1samp(samples, 0.0, axis=1).pvalue < 0.05)
    assert rejected(samples) <= students <= 0.05


def test_paired_p_value_is_below_a_twentieth_where_the_interval_leaves_zero_out_to_either_side():
    for shift in (-0.9, -0.7, 0.2):
        values = np.random.default_rng(0).exponential(size=40) + shift
        interval = mean_interval(values)
        assert is_normality_doubtful(values)
        assert (paired_p_value(values) < 0.05) == (not interval.low <= 0 <= interval.high), shift
        assert paired_p_value(-values) == paired_p_value(values), shift


def test_paired_p_value_is_certain_when_all_differences_are_equal():
    assert [paired_p_value(np.full(10, value)) for value in (0.0, 1.0)] == [1.0, 0.0]


SKEWED = np.array([0.0] * 10 + [1.0] * 5 + [2.0] * 3 + [9.0, 30.0])


def test_interval_of_skewed_values_ends_where_the_studentised_bootstrap_does_on_the_long_side():
    """1,999 resamples leave a tail of .025 within 4 sqrt(.025 * .975 / 1999) = .014 of itself."""
    samples = SKEWED[np.random.default_rng(1).integers(20, size=(20_000, 20))]
    pivots = (samples.mean(axis=1) - SKEWED.mean()) / stats.sem(samples, axis=1)
    steps = np.quantile(pivots, [0.025 + 0.014, 0.025 - 0.014])
    least, most = SKEWED.mean() - stats.sem(SKEWED) * steps
    mean, low, high = mean_interval(SKEWED)
    assert least <= high <= most and mean == pytest.approx(SKEWED.mean())
    assert low == pytest.approx(stats.t.interval(0.95, 19, mean, stats.sem(SKEWED))[0])


def test_intervals_of_columns_are_those_of_each_column_alone():
    """Skewed ones, tame ones, equal ones and nearly equal ones beside each other."""
    rng = np.random.default_rng(3)
    columns = [SKEWED, rng.normal(size=20), np.full(20, 2.0), np.r_[np.zeros(19), 1.0]]
    table = np.array(columns).T
    for make_interval, values in ((mean_interval, table), (proportion_interval, table / 30)):
        together = np.array(make_interval(values.reshape(20, 2, 2))).reshape(3, 4)
        alone = np.array([make_interval(column) for column in values.T]).T
        np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_interval_of_skewed_values_moves_and_grows_with_them():
    _, low, high = mean_interval(SKEWED)
    moved, mirrored = mean_interval(3 * SKEWED + 7), mean_interval(-SKEWED)
    assert moved[1:] == pytest.approx((3 * low + 7, 3 * high + 7))
    assert mirrored[1:] == pytest.approx((-high, -low), rel=0.05)


def test_students_interval_has_the_confidence_asked_for():
    """90 % point of t with 10 degrees of freedom: 1.372184; variance and count are both 11."""
    interval = mean_interval(np.arange(11.0), confidence=0.8)
    assert interval == pytest.approx((5.0, 5.0 - 1.372184, 5.0 + 1.372184))


def test_bootstrap_interval_of_one_value_among_nine_zeros_by_hand():
    """The mean is how often the 10 is drawn: at most 0, 1, 2, 3 times in 35, 74, 93, 98.7 %."""
    values = np.array([[0.0]] * 9 + [[10.0]])
    for confidence, ends in [(0.95, (0, 3)), (0.4, (0, 1)), (0.2, (1, 1))]:
        interval = bootstrap_interval(values, batch_mean, confidence=confidence)
        assert interval == pytest.approx((1.0, *ends))


def test_holm_corrects_no_more_than_to_one_and_leaves_out_what_was_not_tested():
    """Sorted 0.02, 0.3, 0.8 times 3, 2, 1: 0.06, 0.6, 0.8; NaN stands for no test."""
    corrected = correct_by_holm([0.8, np.nan, 0.02, 0.3])
    assert corrected.tolist() == pytest.approx([0.8, np.nan, 0.06, 0.6], nan_ok=True)
    assert correct_by_holm([0.7, 0.9]).tolist() == [1.0, 1.0]


def test_interquartile_mean_drops_whole_scores_only_and_takes_many_tables():
    """A quarter of 6 scores is 1, of 8 it is 2."""
    tables = np.array([[[9.0, 1.0, 2.0], [3.0, 4.0, -50.0]], [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]])
    assert interquartile_mean(tables).tolist() == [2.5, 2.5]
    assert interquartile_mean(np.arange(8.0).reshape(2, 4) ** 2) == (4 + 9 + 16 + 25) / 4


def test_a_score_is_a_ratio_of_two_means_of_the_same_replications():
    """What uniform play loses is an estimate too: each table is divided by its own."""
    uniform = np.random.default_rng(0).exponential(size=(2, 20, 3))
    tables = np.concatenate([uniform / 2, uniform], axis=2)
    np.testing.assert_allclose(_scores(tables).mean(axis=1), 0.5)
