import dataclasses

import pandas as pd
import pytest
from fixed_instance import ENV, FIXED

from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.files import RESULTS_VERSION
from bandit_gym.results import report
from bandit_gym.results.report import describe, draw_regret, write_report
from bandit_gym.results.results import load_results
from bandit_gym.results.tables import Table


def test_report_says_which_regret_it_shows(results):
    assert "pseudo-regret" in describe(results)
    assert "Bayesian" not in describe(results)  # the means are fixed


def test_report_defines_the_regret_below_every_table(results):
    definition = "Pseudo-regret: sum over steps of best mean - pulled mean, averaged over"
    assert describe(results).count(definition) == 2


def test_report_says_how_verdicts_are_reached(results):
    text = describe(results)
    assert "better" in text
    assert "p < 0.05 after Holm's correction for the 2 comparisons of this report" in text


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Results of 9 replications, of which one agent flags a quarter of its decisions."""
    experiment = Experiment(
        environments=[ENV, {"env": ENV, "num_arms": 3}],
        agents=["random", "stub_agents:Doubting"],
        replications=9,
        horizon=40,
    )
    folder = tmp_path_factory.mktemp("few")
    run_experiment(experiment, folder, workers=Workers("serial"))
    return load_results(folder)


def test_report_has_dashes_for_intervals_below_ten_replications(few):
    text = describe(few, details=True)
    lines = [line for line in text.splitlines() if line.startswith(("random ", "Doubting "))]
    assert len(lines) == 2 * (2 * 2 + 1)  # of each agent two tables per world, and the score
    assert not any("[" in line for line in lines)
    assert all("± -" in line for line in lines)
    assert text.count("- for an interval or a p-value: none below 10 replications.") == 2 * 2 + 1
    assert "Holm's correction" not in text


def test_report_has_no_word_on_missing_intervals_when_there_is_none(results):
    assert "for an interval" not in describe(results, details=True)


def test_tables_have_no_interval_below_ten_replications(few, tmp_path, monkeypatch):
    monkeypatch.setattr("bandit_gym.results.plots.draw_all", lambda *_: [])
    write_report(few, tmp_path)
    for name in ("summary.csv", "aggregate.csv"):
        assert pd.read_csv(tmp_path / name).filter(regex="_(low|high)$").isna().all(axis=None)


def test_report_tells_the_share_of_decisions_flagged(few):
    assert describe(few).count("Doubting: 25 % of decisions flagged, where it may be wrong.") == 2


def test_receipts_count_the_decisions_of_all_lanes(results):
    """Blocks of 20 lanes and 50 steps."""
    assert {block.receipt["decisions"] for run in results.runs for block in run.blocks} == {1000}


def test_report_shows_the_spread_on_demand(results):
    text = describe(results, details=True)
    assert "Realised regret: sum over steps of best mean - reward." in text
    assert "realised regret" in text
    assert "median" in text


def test_report_draws_one_picture_of_regret_per_environment(results, tmp_path):
    pictures = draw_regret(results, tmp_path)
    assert [path.name for path in pictures] == ["00-regret.png", "01-regret.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)


@pytest.fixture(scope="module")
def written(results, tmp_path_factory):
    """The folder of a report."""
    folder = tmp_path_factory.mktemp("report")
    write_report(results, folder)
    return folder


def test_report_folder_holds_tables_text_and_figures(written):
    assert pd.read_csv(written / "summary.csv")["agent"].tolist() == ["Constant", "best"] * 2
    names = {path.name for path in written.iterdir()}
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


def test_a_table_is_aligned_left_and_then_right():
    table = Table("above", ["name", "x"], [["a", "1.25"], ["bcdef", "3"]], ["below"])
    lines = report.write_text(table).splitlines()
    assert lines == ["above", "name      x", "a      1.25", "bcdef     3", "below"]


def test_a_report_tells_each_agents_numbers_by_hand(tmp_path):
    """Arms 0 and 2 of means 0.2, 0.5, 0.9 for 10 steps lose 7 and nothing."""
    experiment = Experiment(
        environments=[{**FIXED, "label": "here"}],
        agents=[
            {"agent": "stub_agents:Constant", "label": "worst"},
            {"agent": "stub_agents:Constant", "arm": 2, "label": "best"},
        ],
        replications=12,
        horizon=10,
        seed=3,
    )
    run_experiment(experiment, tmp_path, workers=Workers("serial"))
    lines = report.describe(load_results(tmp_path)).splitlines()
    assert lines[0] == "here: 12 replications of 10 steps, seed 3. Means ± 95 % intervals."
    titles = ("agent", "pseudo-regret", "less worst's, paired", "p (Holm)", "best arm found")
    assert lines[1].split("  ")[0].strip() == "agent"
    assert all(title in lines[1] for title in titles)
    assert lines[2].split()[:8] == "worst 7.0 ± 0.0 - - - 0%".split()
    assert lines[3].split()[:10] == "best 0.0 ± 0.0 -7.0 ± 0.0 <0.001 better 100%".split()
    assert lines[4] == (
        "Pseudo-regret: sum over steps of best mean - pulled mean, averaged over the noise."
    )


def test_no_file_of_a_report_is_written_through_a_link(results, written, tmp_path):
    names = [path.name for path in written.iterdir()]
    (tmp_path / "linked").mkdir()
    for name in names:
        (tmp_path / f"of {name}").write_text("mine")
        (tmp_path / "linked" / name).symlink_to(tmp_path / f"of {name}")
    write_report(results, tmp_path / "linked")
    assert {(tmp_path / f"of {name}").read_text() for name in names} == {"mine"}
    assert not any((tmp_path / "linked" / name).is_symlink() for name in names)


def test_blocks_made_with_different_versions_are_told(results):
    run = results.runs[0]
    other = dataclasses.replace(
        run.blocks[0], receipt={**run.blocks[0].receipt, "versions": {"numpy": "0.0"}}
    )
    changed = dataclasses.replace(run, blocks=(other, *run.blocks[1:]))
    mixed = dataclasses.replace(results, runs=(changed, *results.runs[1:]))
    assert "Blocks were made with different versions: {'numpy': '0.0'}; {" in report.describe(mixed)
    assert "different versions" not in report.describe(results)
