import dataclasses
import math

import numpy as np
import pytest
from fixed_instance import ENV, FIXED, WORST
from scipy import stats

from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.results.results import load_results, paired_differences
from bandit_gym.results.statistics import holm, mean_interval, paired_p_value
from bandit_gym.results.summary import (
    aggregate,
    lower_bound_slope,
    normalised_scores,
    summarise,
)


def test_summary_knows_the_regret_of_agents_that_never_learn(results):
    table = summarise(results)
    assert table["pseudo_regret"].tolist() == pytest.approx([35.0, 0.0, 35.0, 0.0])
    assert table["best_arm_found"].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert table["simple_regret"].tolist() == pytest.approx([0.7, 0.0, 0.7, 0.0])


def test_summary_pairs_differences_with_the_first_agent(results):
    table = summarise(results)
    assert table["difference"].tolist() == pytest.approx([np.nan, -35.0] * 2, nan_ok=True)
    assert table["p_holm"].tolist() == pytest.approx([np.nan, 0.0] * 2, nan_ok=True)


@pytest.fixture(scope="module")
def telling(tmp_path_factory):
    """Agents that tell of samples and flags, in two worlds with means drawn from the prior."""
    smc = {"agent": "smc", "num_particles": 20, "label": "smc"}
    doubting = {"agent": "stub_agents:Doubting", "label": "doubting"}
    experiment = Experiment(
        environments=[ENV, {"env": ENV, "num_arms": 3}],
        agents=["random", "ucb1", smc, doubting],
        replications=12,
        horizon=40,
        block_size=6,
    )
    folder = tmp_path_factory.mktemp("telling")
    run_experiment(experiment, folder, workers=Workers("serial"))
    return load_results(folder)


def test_p_values_are_corrected_for_all_comparisons_of_the_table(telling):
    raw = [
        paired_p_value(paired_differences(found, runs[0], "pseudo_regret")[1][:, -1])
        for runs in map(telling.usable, telling.experiment.environments)
        for found in runs[1:]
    ]
    table = summarise(telling)
    assert table["p_holm"].dropna().tolist() == holm(raw).tolist()
    assert table["p_holm"].isna().sum() == 2  # the references


def test_verdict_follows_from_the_corrected_p_value(telling):
    for row in summarise(telling).itertuples():
        if row.agent == "random":
            assert row.verdict == ""
        else:
            clear = "better" if row.difference < 0 else "worse"
            assert row.verdict == (clear if row.p_holm < 0.05 else "undecided")


def test_verdict_is_better_for_less_regret(results):
    assert summarise(results)["verdict"].tolist() == ["", "better"] * 2


def test_nothing_is_decided_below_ten_replications(telling):
    experiment = dataclasses.replace(telling.experiment, replications=6)
    runs = [dataclasses.replace(found, blocks=found.blocks[:1]) for found in telling.runs]
    table = summarise(dataclasses.replace(telling, experiment=experiment, runs=tuple(runs)))
    assert table.filter(regex="_(low|high|holm)$").isna().all(axis=None)
    assert table["verdict"].tolist() == ["", *["undecided"] * 3] * 2


def test_samples_are_counted_per_decision(telling):
    table = summarise(telling).set_index("agent")
    assert table.loc["smc", "samples_per_decision"].tolist() == [20.0, 20.0]
    assert table.loc["random", "samples_per_decision"].isna().all()


def test_flags_are_counted_per_decision(telling):
    """The stub flags the first 10 of its 40 decisions."""
    table = summarise(telling).set_index("agent")
    assert table.loc["doubting", "flagged"].tolist() == [0.25, 0.25]
    assert table.loc["random", "flagged"].isna().all()


def test_a_skewed_regret_of_few_replications_is_marked(telling):
    row = summarise(telling).iloc[0]
    skewness = stats.skew(telling.runs[0].final("realised_regret"))
    assert row["realised_regret_is_doubtful"] == (abs(skewness) > 1)


def test_realised_regret_scatters_around_pseudo_regret(results):
    """Its mean over R = 30 sums of T = 50 rewards of variance 0.2 * 0.8 is within 4 errors."""
    row = summarise(results).iloc[0]
    error = np.sqrt(50 * 0.2 * 0.8 / 30)
    assert row["realised_regret"] != row["pseudo_regret"]
    assert abs(row["realised_regret"] - row["pseudo_regret"]) < 4 * error


def test_normalised_score_of_uniform_play_is_one(tmp_path):
    experiment = Experiment(
        environments=[FIXED], agents=["random"], replications=50, horizon=100, block_size=50
    )
    run_experiment(experiment, tmp_path, workers=Workers("serial"))
    (scores,) = normalised_scores(load_results(tmp_path)).values()
    assert abs(scores.mean() - 1.0) < 4 * scores.std() / np.sqrt(50)


def test_normalised_scores_are_shares_of_what_uniform_play_loses_on_average(telling):
    scores = normalised_scores(telling)["ucb1"]
    for column, found in zip(scores.T, telling.runs[1::4], strict=True):
        average = sum(found.final("uniform_regret")) / 12
        assert column == pytest.approx(found.final("pseudo_regret") / average)


def lacking(results, *missing):
    """Return results without some (run, block)."""
    runs = [
        dataclasses.replace(
            found,
            blocks=tuple(b for n, b in enumerate(found.blocks) if (number, n) not in missing),
        )
        for number, found in enumerate(results.runs)
    ]
    return dataclasses.replace(results, runs=tuple(runs))


def test_scores_are_those_of_replications_that_all_worlds_have(telling):
    scores = normalised_scores(lacking(telling, (1, 0)))
    assert scores["ucb1"].shape == (6, 2)
    assert scores["random"].shape == (12, 2)
    second = telling.runs[5]
    average = second.final("uniform_regret").mean()
    assert scores["ucb1"][:, 1] == pytest.approx(second.final("pseudo_regret")[6:] / average)


def test_agents_whose_worlds_share_no_replication_have_no_score(telling):
    found = lacking(telling, (1, 0), (5, 1))
    assert "ucb1" not in normalised_scores(found)
    assert aggregate(found)["agent"].tolist() == ["random", "smc", "doubting"]


def test_aggregate_is_the_interquartile_mean_over_environments(results):
    """0.7 a step where uniform play loses 0.9 - (0.2 + 0.5 + 0.9) / 3."""
    table = aggregate(results)
    assert table["score_iqm"].tolist() == pytest.approx([0.7 / (0.9 - 1.6 / 3), 0.0])


def test_aggregate_leaves_out_the_outer_quarters_of_all_scores(telling):
    table = aggregate(telling).set_index("agent")
    for agent, scores in normalised_scores(telling).items():
        middle = stats.trim_mean(scores, 0.25, axis=None)
        assert table.loc[agent, "score_iqm"] == pytest.approx(middle)
        assert middle != pytest.approx(scores.mean())


def test_lower_bound_exists_for_fixed_means_only(results, telling):
    """Gaps 0.7 and 0.4 over the divergences of 0.2 and 0.5 from 0.9."""
    slope = sum(
        (0.9 - p) / (p * math.log(p / 0.9) + (1 - p) * math.log((1 - p) / 0.1)) for p in (0.2, 0.5)
    )
    assert lower_bound_slope(results.runs[0]) == pytest.approx(slope)
    assert lower_bound_slope(telling.runs[0]) is None


@pytest.mark.slow
def test_intervals_cover_the_truth_in_95_of_100_experiments(tmp_path):
    """A thousand experiments of 30 replications: uniform play, less any one arm, loses 0."""
    experiment = Experiment(
        environments=[{"env": ENV, "num_arms": 3}],
        agents=["random", WORST],
        replications=30_000,
        horizon=20,
        block_size=6000,
    )
    run_experiment(experiment, tmp_path, workers=Workers("serial"))
    random, worst = load_results(tmp_path).runs
    differences = paired_differences(worst, random, "pseudo_regret")[1][:, -1]
    # the largest of K = 3 uniform means is 3/4 on average, and their average 1/2
    for values, truth in ((random.final("pseudo_regret"), 20 * (3 / 4 - 1 / 2)), (differences, 0)):
        intervals = [mean_interval(sample) for sample in values.reshape(-1, 30)]
        assert 0.93 < np.mean([low <= truth <= high for _, low, high in intervals]) < 0.97


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
