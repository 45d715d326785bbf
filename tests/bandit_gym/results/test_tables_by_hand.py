"""What tables say of a few numbers, each worked out by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from fixed_instance import FIXED

from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.results import report, statistics
from bandit_gym.results.results import load_results
from bandit_gym.results.statistics import (
    bootstrap_interval,
    holm,
    interquartile_mean,
    is_normality_doubtful,
    mean_interval,
    performance_profile,
    proportion_interval,
)
from bandit_gym.results.summary import aggregate, summarise

SKEWED = np.array([0.0] * 10 + [1.0] * 5 + [2.0] * 3 + [9.0, 30.0])


def batch_mean(values):
    return values.mean(axis=(1, 2))


@pytest.mark.parametrize("sign", [1, -1])
def test_normality_is_doubtful_from_a_skewness_of_a_tenth_of_the_root_of_r(sign):
    """A share p of ones has skewness (1 - 2p) / sqrt(p (1 - p)): 1.036 and 0.980 about 1."""
    ones = np.arange(100)
    assert is_normality_doubtful(sign * (ones < 27))
    assert not is_normality_doubtful(sign * (ones < 28))


def test_interval_of_skewed_values_reaches_to_the_long_side():
    mean, low, high = mean_interval(SKEWED)
    assert mean == pytest.approx(SKEWED.mean())
    assert high - mean > 2 * (mean - low) > 0


def test_interval_of_skewed_values_moves_and_grows_with_them():
    _, low, high = mean_interval(SKEWED)
    moved, mirrored = mean_interval(3 * SKEWED + 7), mean_interval(-SKEWED)
    assert moved[1:] == pytest.approx((3 * low + 7, 3 * high + 7))
    assert mirrored[1:] == pytest.approx((-high, -low), rel=0.05)


@pytest.mark.parametrize("values", [SKEWED, np.arange(10.0)], ids=["bootstrap", "student"])
def test_less_confidence_gives_an_interval_inside(values):
    (_, low, high), (_, inner_low, inner_high) = (
        mean_interval(values, confidence=confidence) for confidence in (0.95, 0.5)
    )
    assert low < inner_low < values.mean() < inner_high < high


def test_students_interval_has_the_confidence_asked_for():
    """90 % point of t with 4 degrees of freedom: 1.533206; variance 2.5."""
    half = 1.533206 * math.sqrt(2.5 / 5)
    interval = mean_interval(np.arange(5.0), confidence=0.8)
    assert interval == pytest.approx((2.0, 2.0 - half, 2.0 + half))


def test_two_values_have_an_interval_and_one_has_none():
    """97.5 % point of t with one degree of freedom: 12.7062; standard error 1 / 2."""
    assert mean_interval(np.array([0.0, 1.0])) == pytest.approx((0.5, 0.5 - 6.3531, 0.5 + 6.3531))
    assert np.isnan(mean_interval(np.array([3.0]))[1:]).all()


@pytest.mark.parametrize(("confidence", "ends"), [(0.95, (0, 1)), (0.6, (0, 1)), (0.4, (0.5, 0.5))])
def test_bootstrap_interval_of_two_values_by_hand(confidence, ends):
    """Of two rows 0 and 1 the means are 0, 1/2 and 1, in a quarter, a half and a quarter."""
    values = np.array([[0.0], [1.0]])
    interval = bootstrap_interval(values, batch_mean, confidence=confidence)
    assert interval == (0.5, *ends)


def test_resampling_gives_the_same_whatever_is_in_memory_at_a_time(monkeypatch):
    whole = bootstrap_interval(SKEWED[:, None], batch_mean)
    monkeypatch.setattr(statistics, "MAX_RESAMPLED_VALUES", 100 * len(SKEWED))
    assert bootstrap_interval(SKEWED[:, None], batch_mean) == pytest.approx(whole)


def test_resampling_takes_1999_samples_in_batches_of_at_most_a_million_values():
    sizes = []

    def batch_mean(samples):
        sizes.append(len(samples))
        return samples.mean(axis=(1, 2))

    bootstrap_interval(np.arange(4000.0)[:, None], batch_mean)
    assert sizes[:-1] == [250] * 7 + [249]  # and at last the values themselves
    assert sizes[-1] == 1


def test_wilsons_interval_by_hand():
    """z^2 = 3.841459; (p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)."""
    interval = proportion_interval(np.array([1.0] * 3 + [0.0] * 7))
    assert interval == pytest.approx((0.3, 0.1077913, 0.6032219), abs=1e-7)


def test_holm_corrects_no_more_than_to_one_and_leaves_out_what_was_not_tested():
    """Sorted 0.02, 0.3, 0.8 times 3, 2, 1: 0.06, 0.6, 0.8; NaN stands for no test."""
    corrected = holm([0.8, np.nan, 0.02, 0.3])
    assert corrected.tolist() == pytest.approx([0.8, np.nan, 0.06, 0.6], nan_ok=True)
    assert holm([0.7, 0.9]).tolist() == [1.0, 1.0]


def test_interquartile_mean_drops_whole_scores_only_and_takes_many_tables():
    """A quarter of 6 scores is 1, of 8 it is 2."""
    tables = np.array([[[9.0, 1.0, 2.0], [3.0, 4.0, -50.0]], [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]])
    assert interquartile_mean(tables).tolist() == [2.5, 2.5]
    assert interquartile_mean(np.arange(8.0).reshape(2, 4) ** 2) == (4 + 9 + 16 + 25) / 4


def test_profile_is_a_share_of_all_scores():
    assert performance_profile(np.array([[1.0, 2.0, 4.0]]), np.array([2.0]))[0] == 2 / 3


@pytest.mark.parametrize(
    ("interval", "written"),
    [
        ((2.0, 1.5, 2.5), "2.0 ± 0.5"),
        ((2.0, 1.5, 2.54), "2.0 ± 0.5"),  # lopsided by 0.04, which one digit does not show
        ((2.0, 1.5, 2.56), "2.0 [1.5, 2.6]"),
        ((2.0, 1.0, 4.0), "2.0 [1.0, 4.0]"),
        ((2.0, math.nan, math.nan), "2.0"),
        ((math.nan, math.nan, math.nan), "-"),
    ],
)
def test_an_estimate_is_written_with_its_interval(interval, written):
    row = dict(zip(("x", "x_low", "x_high"), interval, strict=True))
    assert report._estimate(row, "x") == written


def test_an_estimate_is_written_with_as_many_digits_as_asked_for():
    row = {"x": 0.5, "x_low": 0.25, "x_high": 0.7502}
    assert report._estimate(row, "x", digits=3) == "0.500 ± 0.250"
    assert report._estimate(row, "x", digits=4) == "0.5000 [0.2500, 0.7502]"


@pytest.mark.parametrize(
    ("value", "written"), [(0.0009, "<0.001"), (0.001, "0.001"), (0.25, "0.250"), (math.nan, "-")]
)
def test_a_p_value_is_written_to_three_digits(value, written):
    assert report._p_value(value) == written


def test_a_table_is_aligned_left_and_then_right():
    cells = {"name": lambda row: row["n"], "x": lambda row: row["x"]}
    lines = list(report._tabulate([{"n": "a", "x": "1.25"}, {"n": "bcdef", "x": "3"}], cells))
    assert lines == ["name      x", "a      1.25", "bcdef     3"]


def test_a_report_tells_each_agents_numbers_by_hand(tmp_path):
    """Arms 0 and 2 of means 0.2, 0.5, 0.9 for 10 steps lose 7 and nothing."""
    experiment = Experiment(
        environments=[{**FIXED, "label": "here"}],
        agents=[
            {"agent": "stub_agents:Constant", "label": "worst"},
            {"agent": "stub_agents:Constant", "arm": 2, "label": "best"},
        ],
        replications=5,
        horizon=10,
        seed=3,
    )
    run_experiment(experiment, tmp_path, workers=Workers("serial"))
    lines = report.describe(load_results(tmp_path)).splitlines()
    assert lines[0] == "here: 5 replications of 10 steps, seed 3. Means ± 95 % intervals."
    titles = ("agent", "pseudo-regret", "less worst's, paired", "p (Holm)", "best arm found")
    assert lines[1].split("  ")[0].strip() == "agent"
    assert all(title in lines[1] for title in titles)
    assert lines[2].split()[:7] == ["worst", "7.0", "±", "0.0", "-", "-", "0%"]
    assert lines[3].split()[:9] == "best 0.0 ± 0.0 -7.0 ± 0.0 <0.001 100%".split()
    assert lines[4] == (
        "Pseudo-regret: sum over steps of best mean - pulled mean, averaged over the noise."
    )


def test_time_of_a_decision_is_told_in_microseconds():
    run = SimpleNamespace(environment=SimpleNamespace(label="e"), agent=SimpleNamespace(label="a"))
    found = SimpleNamespace(run=run, is_usable=True, seconds_per_decision=lambda: 0.002)
    unusable = SimpleNamespace(run=run, is_usable=False)
    (row,) = report.timing(SimpleNamespace(runs=[found, unusable]))
    assert row == {"env": "e", "agent": "a", "microseconds_per_decision": pytest.approx(2000.0)}


def test_time_of_a_decision_is_that_of_all_blocks_over_all_their_decisions(results):
    receipts = [block.receipt for block in results.runs[0].blocks]
    seconds = sum(receipt["agent_seconds"] for receipt in receipts)
    assert results.runs[0].seconds_per_decision() == pytest.approx(seconds / (2 * 20 * 50))


def test_samples_are_told_per_decision(tmp_path):
    smc = {"agent": "smc", "num_particles": 20}
    experiment = Experiment(environments=[FIXED], agents=[smc], replications=3, horizon=7)
    run_experiment(experiment, tmp_path, workers=Workers("serial"))
    (row,) = summarise(load_results(tmp_path)).to_dict("records")
    assert row["samples_per_decision"] == pytest.approx(20.0)


def test_quantiles_of_the_regret_are_told(results):
    rows = summarise(results).to_dict("records")
    assert [rows[0][name] for name in ("5 %", "median", "95 %")] == pytest.approx([35.0] * 3)


def test_scores_over_all_environments_have_an_interval(results):
    worst, best = aggregate(results).to_dict("records")
    assert worst["score_iqm_low"] <= worst["score_iqm"] <= worst["score_iqm_high"]
    assert worst["replications"] == 30
    assert best["agent"] == "best"
