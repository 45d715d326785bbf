import dataclasses
import json

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

from bandit_gym.experiments.columns import DESCRIPTIONS
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.files import RESULTS_VERSION
from bandit_gym.results.report import describe, draw_regret, write_report
from bandit_gym.results.results import (
    aggregate,
    load_results,
    lower_bound_slope,
    normalised_scores,
    paired_differences,
    summarise,
)
from bandit_gym.results.statistics import mean_interval

ENV = "BernoulliBandit-v0"
MEANS = [0.2, 0.5, 0.9]
FIXED = {"env": ENV, "num_arms": 3, "means": MEANS}
WORST, BEST = "stub_agents:Constant", {"agent": "stub_agents:Constant", "arm": 2, "label": "best"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Two agents of known regret, 0.7 and 0 a step, on two copies of a fixed instance."""
    experiment = Experiment(
        environments=[FIXED, {**FIXED, "label": "again"}],
        agents=[WORST, BEST],
        replications=30,
        horizon=50,
        block_size=20,
    )
    folder = tmp_path_factory.mktemp("results")
    run_experiment(experiment, folder, workers=Workers("serial"))
    return folder


@pytest.fixture(scope="module")
def results(directory):
    return load_results(directory)


def test_results_have_the_replications_asked_for_and_no_more(results):
    assert results.runs[0].replications.tolist() == list(range(30))
    assert results.runs[0].curves("reward").shape == (30, 50)


def test_stored_episodes_are_those_of_single_environments_with_the_same_seeds(tmp_path):
    experiment = Experiment(environments=[ENV], agents=["ucb1"], replications=4, horizon=40)
    run_experiment(experiment, tmp_path, workers=Workers("serial"))
    stored = load_results(tmp_path).runs[0]
    actions, regrets = stored.curves("action").astype(int), stored.curves("pseudo_regret")
    for lane in range(4):
        env = gym.make(f"bandit_gym:{ENV}", max_episode_steps=40)
        means = env.reset(seed=stored.run.environment_seeds(0)[lane])[1]["means"]
        assert regrets[lane] == pytest.approx(np.cumsum(means.max() - means[actions[lane]]))


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


def test_both_agents_meet_the_same_noise(results):
    """One uniform per step decides every arm's reward, so a better arm never pays less."""
    worst, best = results.runs[:2]
    _, differences = paired_differences(best, worst, "reward")
    assert (np.diff(differences, axis=1) >= 0).all()


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


def test_blocks_are_read_by_pandas_in_one_line(directory):
    table = pd.read_parquet(directory / "blocks")
    assert list(table.columns) == list(DESCRIPTIONS)
    assert len(table) == 2 * 2 * 40 * 50


def test_blocks_are_read_by_polars_in_one_line(directory):
    polars = pytest.importorskip("polars")
    table = polars.read_parquet(directory / "blocks/**/*.parquet")
    assert table.columns == list(DESCRIPTIONS)


def test_blocks_are_read_by_duckdb_in_one_line(directory):
    duckdb = pytest.importorskip("duckdb")
    rows = duckdb.sql(f"SELECT count(*) FROM '{directory}/blocks/**/*.parquet'").fetchall()
    assert rows == [(2 * 2 * 40 * 50,)]


def test_frames_hold_the_replications_asked_for(results):
    table = pd.concat(results.frames())
    assert table.groupby(["env", "agent"], observed=True)["replication"].nunique().eq(30).all()


def test_results_leave_out_a_damaged_block(tmp_path):
    experiment = Experiment(
        environments=[FIXED], agents=[WORST, BEST], replications=30, horizon=5, block_size=10
    )
    store = run_experiment(experiment, tmp_path, workers=Workers("serial"))
    store.block_path(experiment.runs[1], 1).write_bytes(b"")
    results = load_results(tmp_path)
    assert results.num_missing == 1
    assert results.runs[1].replications.tolist() == [*range(10), *range(20, 30)]
    common, differences = paired_differences(results.runs[1], results.runs[0], "pseudo_regret")
    assert common.tolist() == results.runs[1].replications.tolist()
    assert differences[:, -1] == pytest.approx(-5 * 0.7)


def test_report_says_which_regret_it_shows(results):
    assert "pseudo-regret" in describe(results)
    assert "Bayesian" not in describe(results)  # the means are fixed


def test_report_defines_the_regret_below_every_table(results):
    definition = "Pseudo-regret: sum over steps of best mean - pulled mean, averaged over"
    assert describe(results).count(definition) == 2


def test_report_shows_the_spread_on_demand(results):
    text = describe(results, details=True)
    assert "Realised regret: sum over steps of best mean - reward." in text
    assert "realised regret" in text
    assert "median" in text


def test_report_draws_one_picture_of_regret_per_environment(results, tmp_path):
    pictures = draw_regret(results, tmp_path)
    assert [path.name for path in pictures] == ["00-regret.png", "01-regret.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)


def test_report_folder_holds_tables_text_and_figures(results, tmp_path):
    write_report(results, tmp_path)
    assert pd.read_csv(tmp_path / "summary.csv")["agent"].tolist() == ["Constant", "best"] * 2
    names = {path.name for path in tmp_path.iterdir()}
    assert {"aggregate.csv", "timing.csv", "report.txt", "00-regret.svg"} <= names


def test_report_names_what_is_missing_and_what_failed(tmp_path):
    experiment = Experiment(
        environments=[ENV], agents=["random", "stub_agents:Raising"], replications=10, horizon=60
    )
    store = run_experiment(experiment, tmp_path, workers=Workers("serial"))
    store.block_path(experiment.runs[0], 0).unlink()
    text = describe(load_results(tmp_path))
    assert "Not complete: 2 of 2 blocks are missing." in text
    assert "Left out: Raising in BernoulliBandit-v0, which failed in 1 of 1 blocks" in text
    assert "RuntimeError: I have had enough" in text


def test_results_of_another_format_are_refused(tmp_path, directory):
    manifest = json.loads((directory / "experiment.json").read_text())
    (tmp_path / "experiment.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(ValueError, match="must have format 1, got 99"):
        load_results(tmp_path)


def test_results_of_no_folder_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="the folder must exist"):
        load_results(tmp_path / "nothing")


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


def test_results_of_another_version_say_so_before_anything_else(directory, results):
    assert results.version == RESULTS_VERSION
    older = dataclasses.replace(results, version=RESULTS_VERSION - 1)
    assert describe(older).startswith(f"These are results of version {RESULTS_VERSION - 1}")
    assert not describe(results).startswith("These are results of version")
