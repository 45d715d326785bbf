import numpy as np
import pytest
from fixed_instance import ENV, FIXED, WORST

from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.results.results import load_results, paired_differences
from bandit_gym.results.statistics import mean_interval
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


def test_aggregate_is_the_interquartile_mean_over_environments(results):
    """0.7 a step where uniform play loses 0.9 - (0.2 + 0.5 + 0.9) / 3."""
    table = aggregate(results)
    assert table["score_iqm"].tolist() == pytest.approx([0.7 / (0.9 - 1.6 / 3), 0.0])


def test_lower_bound_exists_for_fixed_means_only(results):
    random_means = Experiment(environments=[ENV], agents=["random"]).environments[0]
    assert lower_bound_slope(results.experiment.environments[0]) > 0
    assert lower_bound_slope(random_means) is None


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
