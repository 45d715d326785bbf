import json
import shutil

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from fixed_instance import BEST, ENV, FIXED, WORST

from bandit_gym.experiments.columns import stored_columns
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.results.report import describe
from bandit_gym.results.results import line_up, load_results, paired_differences

COLUMNS = stored_columns(propensities=False)


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


def test_both_agents_meet_the_same_noise(results):
    """One uniform per step decides every arm's reward, so a better arm never pays less."""
    worst, best = results.runs[:2]
    _, differences = paired_differences(best, worst, "reward")
    assert (np.diff(differences, axis=1) >= 0).all()


def test_blocks_are_read_by_pandas_in_one_line(directory):
    table = pd.read_parquet(directory / "blocks", filters=[("replication", "<", 30)])
    assert list(table.columns) == list(COLUMNS)
    assert len(table) == 2 * 2 * 30 * 50


def test_blocks_are_read_by_polars_in_one_line(directory):
    polars = pytest.importorskip("polars")
    table = polars.read_parquet(directory / "blocks/**/*.parquet")
    assert table.columns == list(COLUMNS)
    assert len(table.filter(polars.col("replication") < 30)) == 2 * 2 * 30 * 50


def test_blocks_are_read_by_duckdb_in_one_line(directory):
    duckdb = pytest.importorskip("duckdb")
    files = f"'{directory}/blocks/**/*.parquet'"
    rows = duckdb.sql(f"SELECT count(*) FROM {files} WHERE replication < 30").fetchall()
    assert rows == [(2 * 2 * 30 * 50,)]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A folder of three agents: one with a diagnostic of its own, one with another, one without."""
    folder = tmp_path_factory.mktemp("mixed")
    agents = [
        {"agent": "stub_agents:Telling", "tells": {"mood": -1.0, "size": 2.0}, "label": "A"},
        {"agent": "stub_agents:Telling", "tells": {"age": 3.0}, "label": "B"},
        WORST,
    ]
    experiment = Experiment([FIXED], agents, replications=4, horizon=5, block_size=2)
    run_experiment(experiment, folder, workers=Workers("serial"))
    return folder


def test_blocks_of_agents_with_different_diagnostics_are_read_in_one_line(mixed):
    table = pd.read_parquet(mixed / "blocks")
    assert list(table.columns) == list(COLUMNS)
    assert set(table["diagnostics"].map(dict).map(tuple)) == {("mood", "size"), ("age",), ()}


def test_polars_reads_blocks_of_agents_with_different_diagnostics(mixed):
    polars = pytest.importorskip("polars")
    assert len(polars.read_parquet(mixed / "blocks/**/*.parquet")) == 3 * 4 * 5


def test_duckdb_reads_blocks_of_agents_with_different_diagnostics(mixed):
    duckdb = pytest.importorskip("duckdb")
    query = f"SELECT sum(diagnostics['age']) FROM '{mixed}/blocks/**/*.parquet'"
    assert duckdb.sql(query).fetchall() == [(3.0 * 4 * (1 + 2 + 3 + 4 + 5),)]


def test_the_frame_has_a_column_for_each_diagnostic_under_its_own_header(mixed):
    table = load_results(mixed).frame()
    assert list(table.columns) == [*list(COLUMNS)[:-1], "age", "mood", "size"]
    last = table[table["step"] == 5].groupby("agent", observed=True)[["age", "mood", "size"]].mean()
    assert last.loc["A"].tolist()[1:] == [-5.0, 10.0]
    assert last.loc["B", "age"] == 15.0
    assert last.isna().sum().sum() == 1 + 2 + 3


def test_curves_of_an_agents_own_diagnostic_are_read_by_its_name(mixed):
    assert load_results(mixed).runs[1].curves("age").tolist() == [[3.0, 6.0, 9.0, 12.0, 15.0]] * 4


def test_frames_hold_the_replications_asked_for(results):
    table = pd.concat(block.frame() for found in results.runs for block in found.blocks)
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


def test_worlds_are_lined_up_by_the_replications_that_all_have():
    tables = [
        (np.array([0, 1, 2, 4]), np.array([0.0, 10.0, 20.0, 40.0])),
        (np.array([1, 2, 3, 4]), np.array([1.0, 2.0, 3.0, 4.0])),
    ]
    assert line_up(tables).tolist() == [[10.0, 1.0], [20.0, 2.0], [40.0, 4.0]]


def test_a_column_that_nobody_declared_is_refused(results):
    with pytest.raises(ValueError, match="column must be one of .*, got 'of_tomorow'"):
        results.runs[0].curves("of_tomorow")


def test_blocks_are_opened_once_and_their_files_not_asked_again(tmp_path):
    experiment = Experiment(environments=[FIXED], agents=[WORST], replications=4, horizon=5)
    run_experiment(experiment, tmp_path, workers=Workers("serial"))
    results = load_results(tmp_path)
    shutil.rmtree(tmp_path)
    assert results.runs[0].final("pseudo_regret") == pytest.approx(5 * 0.7)
    assert results.runs[0].final("reward").shape == (4,)
    assert len(results.runs[0].blocks[0].frame()) == 4 * 5


def test_results_of_another_format_are_refused(tmp_path, directory):
    manifest = json.loads((directory / "experiment.json").read_text())
    (tmp_path / "experiment.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(ValueError, match=r"must have format \d, got 99"):
        load_results(tmp_path)


def test_results_of_no_folder_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="the folder must exist"):
        load_results(tmp_path / "nothing")


def test_time_of_a_decision_is_that_of_all_blocks_over_all_their_decisions(results):
    receipts = [block.receipt for block in results.runs[0].blocks]
    seconds = sum(receipt["agent_seconds"] for receipt in receipts)
    assert results.runs[0].seconds_per_decision() == pytest.approx(seconds / (2 * 20 * 50))


def test_damaged_blocks_are_named_and_left_out(tmp_path):
    experiment = Experiment(["BernoulliBandit-v0"], ["random"], replications=60, horizon=3)
    run_experiment(experiment, tmp_path, workers=Workers("serial"))
    (run,) = experiment.runs
    (tmp_path / "blocks" / run.name / "00001.parquet").write_bytes(b"PAR1")
    found = load_results(tmp_path)
    assert found.damaged == (f"{run.name}/00001",)
    assert found.runs[0].replications.tolist() == list(range(50))
    told = describe(found)
    assert (
        f"Not complete: 1 of 2 blocks are missing.\n\nNot whole: 1 blocks, for example {run.name}"
        in told
    )
