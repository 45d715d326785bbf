import dataclasses

import pandas as pd
from fixed_instance import ENV

from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.files import RESULTS_VERSION
from bandit_gym.results.report import describe, draw_regret, write_report
from bandit_gym.results.results import load_results


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


def test_results_of_another_version_say_so_before_anything_else(directory, results):
    assert results.version == RESULTS_VERSION
    older = dataclasses.replace(results, version=RESULTS_VERSION - 1)
    assert describe(older).startswith(f"These are results of version {RESULTS_VERSION - 1}")
    assert not describe(results).startswith("These are results of version")


def test_blocks_of_another_version_are_named_before_anything_else(results):
    mixed = dataclasses.replace(results, others=("a-run/00003",))
    assert describe(mixed).startswith("Left out: 1 blocks of another origin")
    assert "a-run/00003" in describe(mixed).partition("\n")[0]
