"""What the studies share: sizes, simulations, and the page."""

import pytest
from matplotlib.figure import Figure
from pages.command import Part, Study, Task, run_study, scaled
from pages.page import Section, Verdict, graded, markdown_table, with_ends, write_page, written
from pages.simulations import difference, differences, final_regret, simulate

from bandit_gym.experiments.execution import Workers
from bandit_gym.results.statistics import Interval

WORLD = {"env": "BernoulliBandit-v0", "num_arms": 3, "label": "three arms"}


@pytest.mark.parametrize(
    ("interval", "text"),
    [(Interval(3.0, 2.0, 4.0), "3.0 ± 1.0"), (Interval(3.0, 2.5, 6.0), "3.0 [2.5, 6.0]")],
)
def test_interval_is_written_with_both_ends_when_lopsided(interval, text):
    assert written(interval) == text


def test_interval_that_is_missing_is_told():
    missing = Interval(3.0, float("nan"), float("nan"))
    assert written(missing) == with_ends(missing, 1) == "3.0 (no interval below 10)"


def test_interval_is_written_with_as_many_digits_as_asked():
    assert with_ends(Interval(0.5, 0.25, 0.625), 2) == "0.50 [0.25, 0.62]"


@pytest.mark.parametrize(
    ("truths", "holds"),
    [
        ([True, True], "holds"),
        ([True, False], "holds in part"),
        ([False, False], "undecided"),
        ([False], "undecided"),
    ],
)
def test_claim_is_graded_by_how_often_it_is_true(truths, holds):
    assert graded(*truths, otherwise="undecided") == holds


def test_table_has_one_column_per_key():
    rows = [{"agent": "exact", "regret": "1.0"}, {"agent": "racing", "regret": "2.0"}]
    table = "| agent | regret |\n| --- | --- |\n| exact | 1.0 |\n| racing | 2.0 |"
    assert markdown_table(rows) == table


@pytest.mark.parametrize(
    ("scale", "sizes"),
    [(1.0, (400, 1000)), (0.02, (8, 200)), (0.001, (4, 100)), (2.0, (800, 1000))],
)
def test_horizons_shrink_last_and_are_never_exceeded(scale, sizes):
    found = scaled({"replications": 400, "horizon": 1000}, scale)
    assert (found["replications"], found["horizon"]) == sizes


def test_page_has_verdicts_first_and_each_picture_in_its_section(tmp_path):
    first = Section("Table 1: a title", body=["a table"], verdicts=[Verdict("so", "holds", "why")])
    second = Section("Figure 2", "how to read it", pictures={"fig2": Figure()})
    write_page(tmp_path / "new" / "page.md", "Title", "Text.", [first, second])
    parts = (tmp_path / "new" / "page.md").read_text(encoding="utf-8").strip().split("\n\n")
    assert parts[:3] == ["# Title", "Text.", "## Verdicts"]
    assert parts[3].endswith("| Table 1 | so | **holds** | why |")
    assert parts[4:6] == ["## Table 1: a title", "a table"]
    assert parts[6:] == ["## Figure 2", "how to read it", "![fig2](fig2.png)"]
    assert (tmp_path / "new" / "fig2.png").stat().st_size > 0


def test_study_hands_each_part_its_own_scaled_sizes(tmp_path):
    given = {}

    def part(task):
        given.update(task.sizes)
        return Section("Part")

    parts = {"part": Part(part, {"runs": 400}), "rest": Part(part, {"runs": 500})}
    study = Study("Study", "", parts, "unused")
    arguments = ["--only", "part", "--scale", "0.5", "--out", str(tmp_path)]
    assert run_study(study, None, arguments) == 0
    assert given == {"runs": 200}
    page = (tmp_path / "part.md").read_text(encoding="utf-8")
    assert "## Part" in page and "Left out: rest." in page


def test_study_of_several_parts_has_their_page_and_what_leads_it(tmp_path):
    parts = {name: Part(lambda task, name=name: Section(name), {}) for name in ("a", "b", "c")}
    lead = {"lead": lambda sections: Section(f"lead of {len(sections)}"), "page": "several"}
    study = Study("Study", "", parts, "unused", **lead)
    assert run_study(study, None, ["--only", "c", "a", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "several.md").read_text(encoding="utf-8")
    titles = [line for line in page.splitlines() if line.startswith("## ")]
    assert titles == ["## lead of 2", "## a", "## c"]
    assert " --only a c --scale 1`" in page


@pytest.mark.parametrize("scale", ["0", "-1", "nan", "inf", "1001", "big"])
def test_scale_out_of_range_is_refused_with_the_range(scale, capsys):
    study = Study("Study", "", {}, "unused")
    with pytest.raises(SystemExit) as stop:
        run_study(study, None, ["--scale", scale])
    assert stop.value.code == 2
    assert "scale must be a number above 0 and at most 1000" in capsys.readouterr().err


@pytest.mark.parametrize("workers", ["0", "-1", "1.5", "all"])
def test_workers_that_are_no_positive_integer_are_refused(workers, capsys):
    with pytest.raises(SystemExit) as stop:
        run_study(Study("Study", "", {}, "unused"), None, ["--workers", workers])
    assert stop.value.code == 2
    assert "workers must be a positive integer, got" in capsys.readouterr().err


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    sizes = {"replications": 12, "horizon": 20}
    return Task(sizes, tmp_path_factory.mktemp("study"), Workers("serial"))


def test_difference_of_runs_is_that_of_their_regrets(task):
    runs = simulate(task, [WORLD], ["exact", "random"], block_size=50)["three arms"]
    expected = final_regret(runs["random"]).estimate - final_regret(runs["exact"]).estimate
    found = difference((runs["random"], runs["exact"]))
    assert found.estimate == pytest.approx(expected)
    assert found.low < found.estimate < found.high


def test_worlds_that_share_their_luck_are_counted_once(task):
    """The same world twice: the interval is that of one of them."""
    run = simulate(task, [WORLD], ["ucb1"], block_size=50)["three arms"]["ucb1"]
    assert final_regret(run, run) == pytest.approx(final_regret(run))


def test_differences_are_averaged_over_worlds_in_each_replication(task):
    small, large = simulate(
        task, [WORLD, {**WORLD, "num_arms": 5, "label": "five"}], ["exact", "ucb1"], block_size=50
    ).values()
    pairs = [(runs["ucb1"], runs["exact"]) for runs in (small, large)]
    each = [differences(pair) for pair in pairs]
    assert differences(*pairs) == pytest.approx((each[0] + each[1]) / 2)
    assert len(differences(*pairs)) == 12


def test_simulation_is_found_again(task, monkeypatch):
    simulate(task, [WORLD], ["ucb1"], block_size=50)
    monkeypatch.setattr("bandit_gym.experiments.execution.simulate_block", None)
    assert list(simulate(task, [WORLD], ["ucb1"], block_size=50)["three arms"]) == ["ucb1"]


def test_simulation_that_failed_is_told_with_its_agent(task):
    agent = {"agent": "stub_agents:Raising", "label": "raising"}
    with pytest.raises(RuntimeError, match=r"raising failed in(.|\n)*I have had enough"):
        simulate(task, [WORLD], [agent], block_size=50, horizon=60)
