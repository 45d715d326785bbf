"""What is read from a folder is what its files hold, recomputed here by pandas, NumPy and SciPy."""

import errno
import math
import os
import re
import shutil
import subprocess
import tracemalloc
import warnings
from dataclasses import replace
from html import escape, unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixed_instance import BEST, ENV, FIXED, WORST
from markdown_it import MarkdownIt
from matplotlib.figure import Figure
from refusals import check_refusals
from scipy import optimize, stats
from surface import CUMULATIVE_REGRET, SERIAL, charts_in, rewrite_block, simulate, tables_of

from bandit_gym import compare, load_results
from bandit_gym.cli import main
from bandit_gym.experiments import Experiment, load_experiment
from bandit_gym.results import join_results, plots, write_html
from bandit_gym.results.data import paired_differences
from bandit_gym.results.report import describe, write_estimate, write_latex, write_markdown
from bandit_gym.results.statistics import mean_interval, paired_p_value

REPLICATIONS, HORIZON = 22, 40
SIZES = {"replications": REPLICATIONS, "horizon": HORIZON, "block_size": 8}
ENVIRONMENTS = {**FIXED, "label": "fixed"}, {"env": ENV, "num_arms": 3, "label": "drawn"}
AGENTS = (
    "random",
    "ucb1",
    {"agent": "smc", "num_particles": 20, "label": "smc"},
    {"agent": "stub_agents:Doubting", "label": "doubting"},
    {"agent": "stub_agents:Telling", "tells": {"mood": -1.5, "age": 3.0}, "label": "telling"},
)
LABELS = ["random", "ucb1", "smc", "doubting", "telling"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Five agents in two worlds; of the last block, six of eight replications are asked for."""
    path = tmp_path_factory.mktemp("results")
    simulate(path, ENVIRONMENTS, AGENTS, **SIZES)
    return path


@pytest.fixture(scope="module")
def results(folder):
    return load_results(folder)


@pytest.fixture(scope="module")
def rows(folder, results):
    """All rows that were asked for, as the files have them, with labels for settings."""
    table = pd.read_parquet(folder / "blocks")
    experiment = results.experiment
    for column, entries in (("env", experiment.environments), ("agent", experiment.agents)):
        table[column] = table[column].astype(str).map({each.name: each.label for each in entries})
    return table[table["replication"] < REPLICATIONS]


def curves(rows, env, agent, column=CUMULATIVE_REGRET):
    """Return (R, S) values of a run."""
    own = rows[(rows["env"] == env) & (rows["agent"] == agent)]
    return own.pivot(index="replication", columns="step", values=column).to_numpy()


def final(rows, env, agent, column=CUMULATIVE_REGRET):
    return curves(rows, env, agent, column)[:, -1]


RUNS = [(environment["label"], agent) for environment in ENVIRONMENTS for agent in LABELS]


@pytest.fixture
def only_tables(monkeypatch):
    """Leave out the figures of reports and pages but the first, which take most of their time."""
    monkeypatch.setattr(plots, "FIGURES", {})


FEW_FIGURES = {name: plots.FIGURES[name] for name in ("regret", "distribution")}


def test_a_folder_whose_name_is_not_utf8_is_read_again(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9")
    written = simulate(path, [FIXED], ["random"], 12, 10)
    read = load_results(path)
    assert len(read.frame()) == len(written.frame()) == 120 and not read.damaged


@pytest.fixture
def few_figures(monkeypatch):
    """Draw two kinds of figures alone, one over time and one of the horizon."""
    monkeypatch.setattr(plots, "FIGURES", FEW_FIGURES)


# -- Rows ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.pages  # which show these lines
def test_files_are_read_in_one_line_by_three_libraries(folder):
    """Their rows are those of whole blocks: 24 replications, where 22 were asked for."""
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    count, table = 2 * 5 * 24 * HORIZON, pd.read_parquet(folder / "blocks")
    files = f"{folder}/blocks/**/*.parquet"
    assert len(table) == len(polars.read_parquet(files)) == count
    assert list(table.columns) == polars.read_parquet(files).columns
    query = f"SELECT count(*), sum(diagnostics['age']) FROM '{files}'"
    (found,) = duckdb.sql(query).fetchall()
    assert found == (count, 2 * 24 * 3.0 * HORIZON * (HORIZON + 1) / 2)


def test_frame_has_the_rows_that_were_asked_for_and_a_column_for_each_own_diagnostic(results, rows):
    frame = results.frame()
    keys = ["env", "agent", "replication", "step"]
    expected = rows.drop(columns="diagnostics").sort_values(keys, ignore_index=True)
    own = [dict(each) for each in rows.sort_values(keys)["diagnostics"]]
    names = sorted({name for each in own for name in each})
    assert {"age", "mood"} < {*names}
    columns = {name: [each.get(name, np.nan) for each in own] for name in names}
    expected = expected.assign(**columns)
    found = frame.astype({"experiment": str, "env": str, "agent": str})
    found = found.sort_values(keys, ignore_index=True)
    expected = expected.astype({"experiment": found["experiment"].dtype})
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    assert found["mood"].notna().sum() == 2 * REPLICATIONS * HORIZON


# -- The table ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(results):
    return results.table().set_index(["env", "agent"])


def test_table_has_a_row_for_each_run_with_means_and_intervals_of_the_files(table, rows):
    """By the function that `results/test_statistics.py` tests."""
    assert list(table.index) == RUNS
    assert set(table["replications"]) == {REPLICATIONS}
    for column in (CUMULATIVE_REGRET, "realised_regret", "simple_regret"):
        for run in RUNS:
            found = table.loc[run, [column, f"{column}_low", f"{column}_high"]]
            assert tuple(found) == pytest.approx(mean_interval(final(rows, *run, column))), column


def test_shares_have_wilsons_interval(table, rows):
    """Its ends are the p with |share - p| = z sqrt(p (1 - p) / n)."""

    def excess(p, share):
        return (share - p) ** 2 - stats.norm.ppf(0.975) ** 2 * p * (1 - p) / REPLICATIONS

    for run in RUNS:
        share = final(rows, *run, "best_arm_found").mean()
        args = (share,)
        low = 0.0 if share == 0 else optimize.brentq(excess, 0.0, min(share, 1 - 1e-9), args)
        high = 1.0 if share == 1 else optimize.brentq(excess, max(share, 1e-9), 1.0, args)
        found = table.loc[run, ["best_arm_found", "best_arm_found_low", "best_arm_found_high"]]
        assert found.tolist() == pytest.approx([share, low, high], abs=1e-9)


def test_quantiles_samples_and_flags_are_those_of_the_files(table, rows):
    for run in RUNS:
        levels = [0.05, 0.25, 0.5, 0.75, 0.95]
        quantiles = table.loc[run, ["5 %", "25 %", "median", "75 %", "95 %"]].tolist()
        assert quantiles == pytest.approx(np.quantile(final(rows, *run), levels).tolist())
    samples, flags = table["samples_per_decision"], table["flagged"]
    assert samples.xs("smc", level="agent").tolist() == [20.0, 20.0]
    assert samples.drop("smc", level="agent").isna().all()
    assert flags.xs("doubting", level="agent").tolist() == [0.25, 0.25]  # 10 of 40 decisions
    assert flags.xs("random", level="agent").isna().all()


def test_differences_are_paired_with_the_first_agent_and_corrected_by_holm(table, rows):
    raw, num_students = {}, 0
    for env, agent in RUNS:
        found = table.loc[(env, agent)]
        if agent == "random":
            assert np.isnan(found["difference"]) and np.isnan(found["p_holm"])
            assert found["verdict"] == ""
            continue
        regret, reference = final(rows, env, agent), final(rows, env, "random")
        differences = regret - reference
        interval = found[["difference", "difference_low", "difference_high"]]
        assert tuple(interval) == pytest.approx(mean_interval(differences))
        raw[env, agent] = paired_p_value(differences)
        if abs(stats.skew(differences)) <= 0.1 * math.sqrt(REPLICATIONS):  # Student's law holds
            num_students += 1
            assert raw[env, agent] == pytest.approx(stats.ttest_rel(regret, reference).pvalue)
    assert num_students >= 4
    corrected, so_far = {}, 0.0
    for rank, run in enumerate(sorted(raw, key=raw.get)):
        so_far = max(so_far, min(1.0, (len(raw) - rank) * raw[run]))
        corrected[run] = so_far
    for run, p_value in corrected.items():
        found = table.loc[run]
        assert found["p_holm"] == pytest.approx(p_value)
        clear = "better" if found["difference"] < 0 else "worse"
        assert found["verdict"] == (clear if p_value < 0.05 else "undecided")
    assert {"better", "undecided"} <= set(table["verdict"])


def test_scores_over_environments_are_interquartile_means_of_shares_of_uniform_play(results, rows):
    table = tables_of(results)["aggregate"].set_index("agent")
    assert table.index.tolist() == LABELS
    for agent in LABELS:
        scores = [
            final(rows, env, agent) / final(rows, env, agent, "uniform_regret").mean()
            for env in ("fixed", "drawn")
        ]
        found = table.loc[agent]
        assert found["score_iqm"] == pytest.approx(stats.trim_mean(np.ravel(scores), 0.25))
        assert found["score_iqm_low"] <= found["score_iqm"] <= found["score_iqm_high"]
        assert found["replications"] == REPLICATIONS


def test_only_replications_that_both_have_are_paired_and_scored(folder, rows, tmp_path):
    """Of ucb1 the first block in the fixed world is missing: replications 8 to 21 are left."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    [lost] = (copy / "blocks").glob("*means-0*--ucb1--*")
    (lost / "00000.parquet").unlink()
    tables = tables_of(load_results(copy))
    regret, reference = (final(rows, "fixed", agent)[8:] for agent in ("ucb1", "random"))
    found = tables["summary"].set_index(["env", "agent"]).loc["fixed", "ucb1"]
    assert found["replications"] == 14
    assert found["difference"] == pytest.approx((regret - reference).mean())
    scores = [
        final(rows, env, "ucb1")[8:] / final(rows, env, "ucb1", "uniform_regret")[8:].mean()
        for env in ("fixed", "drawn")
    ]
    found = tables["aggregate"].set_index("agent").loc["ucb1"]
    assert found["replications"] == 14
    assert found["score_iqm"] == pytest.approx(stats.trim_mean(np.ravel(scores), 0.25))


UNSCORED = (
    {"env": ENV, "num_arms": 2, "means": [0.5, 0.5], "label": "equal arms"},
    {"env": ENV, "num_arms": 3, "wrappers": [{"name": "Drift", "std": 0.1}], "label": "drifting"},
)


def test_environments_where_uniform_play_loses_nothing_or_none_knows_what_have_no_score(
    tmp_path, only_tables
):
    found = {}
    for environments in (ENVIRONMENTS, (*ENVIRONMENTS, *UNSCORED), UNSCORED):
        out = tmp_path / f"{len(found)}"
        found[len(found)] = simulate(out, environments, ("random", "ucb1"), 10, HORIZON)
    scores = {number: tables_of(results)["aggregate"] for number, results in found.items()}
    pd.testing.assert_frame_equal(scores[0], scores[1])
    assert scores[2]["environments"].tolist() == [0, 0]
    assert scores[2]["score_iqm"].isna().all() and scores[2]["score_mean"].isna().all()
    note = "what uniform play loses is 0 or unknown there: equal arms; drifting."
    assert "is 0 or unknown" not in write_latex(found[0])
    page = write_html(found[2], tmp_path / "page.html").read_text("utf-8")
    texts = [write(results) for results in (found[1], found[2]) for write in (repr, write_latex)]
    for text in (*texts, unescape(page)):
        assert note in text
        assert not re.search(r"\bnan\b", text.partition("All environments")[2])
    assert "Empty" not in repr(simulate(tmp_path / "alone", UNSCORED, ("random",), 2, HORIZON))


def test_ranking_has_the_best_first_in_each_environment(results, table):
    ranking = results.ranking()
    assert list(ranking) == ["env", "agent", "regret", "low", "high", "verdict"]
    assert ranking["env"].drop_duplicates().tolist() == ["fixed", "drawn"]
    for env, rows in ranking.groupby("env"):
        assert rows["regret"].is_monotonic_increasing and len(rows) == len(LABELS)
        own = table.loc[env].loc[rows["agent"]]
        columns = [CUMULATIVE_REGRET, f"{CUMULATIVE_REGRET}_low", f"{CUMULATIVE_REGRET}_high"]
        assert rows[["regret", "low", "high"]].to_numpy().tolist() == own[columns].values.tolist()
        assert rows["verdict"].tolist() == own["verdict"].tolist()


@pytest.mark.parametrize("first", ["random", "stub_agents:Raising"])
def test_agents_that_fail_keep_a_blank_row_with_their_error_and_compare_warns(first):
    agents = {"first": first, "fails": {"agent": "stub_agents:Raising", "at": 2}, "last": "ucb1"}
    sizes = {"replications": 12, "horizon": 60, "workers": SERIAL, "progress": False}
    failing = ["fails"] if first == "random" else ["first", "fails"]
    with pytest.warns(UserWarning) as warned:
        results = compare(agents, env=FIXED, **sizes)
    env = results.experiment.environments[0].label
    error = "RuntimeError: I have had enough"
    expected = [f"agent {label} failed in {env}: {error}" for label in failing]
    assert [str(each.message) for each in warned] == expected
    table = results.table().set_index("agent")
    assert table.index.tolist() == ["first", "fails", "last"] and table.loc["last", "failed"] == ""
    for label in failing:
        row = table.loc[label].drop(["env", "replications", "failed", "verdict"])
        assert table.loc[label, "failed"] == error and table.loc[label, "verdict"] == ""
        assert row[[name for name in row.index if not name.endswith("_doubtful")]].isna().all()
    assert table.loc["last", CUMULATIVE_REGRET] > 0
    assert table.loc["last", "difference"] < 0 or first != "random"
    assert set(results.frame()["agent"]) == {"first", "last"} - {*failing}
    assert [run.run.agent.label for run in results.failed] == failing
    assert re.search(r"\nfails( +-)+\n", str(results)) and "nan" not in str(results)


def test_results_of_nothing_but_failures_are_a_table_of_errors(tmp_path):
    results = simulate(tmp_path, [FIXED], [{"agent": "stub_agents:Raising", "at": 2}], 12, 60)
    (row,) = results.table().to_dict("records")
    assert row["failed"] == "RuntimeError: I have had enough" and math.isnan(row["difference"])
    assert results.frame().empty and results.curves().empty and len(results.ranking()) == 1
    assert "Left out: Raising(at=2) in" in str(results)


def test_results_keep_no_file_open(folder):
    """A process may have 256; blocks beyond were damaged, it said."""
    before = len(os.listdir("/proc/self/fd"))
    kept = load_results(folder)
    assert len(os.listdir("/proc/self/fd")) == before and kept.num_missing == 0


def test_files_that_cannot_be_read_are_not_damaged(folder, monkeypatch):
    read_bytes = Path.read_bytes

    def read(path):
        if path.suffix == ".parquet":
            raise OSError(errno.EMFILE, "Too many open files")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    with pytest.raises(OSError, match="Too many open files"):
        load_results(folder)


def test_a_run_without_blocks_has_nothing_to_pair(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    of_ucb1 = load_results(copy).runs[1].run
    for blocks in (copy / "blocks").glob(f"{of_ucb1.name}-*"):
        shutil.rmtree(blocks)
    runs = load_results(copy).runs
    replications, differences = paired_differences(runs[1], runs[0], CUMULATIVE_REGRET)
    assert len(replications) == len(differences) == 0


def test_rows_are_read_in_at_most_twice_their_size(folder):
    """And with it the bytes of the files, a twentieth."""
    tracemalloc.start()
    rows = load_results(folder).frame()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(rows) == 10 * REPLICATIONS * HORIZON
    assert peak < 2 * rows.memory_usage(deep=True).sum()


# -- Text ---------------------------------------------------------------------------------------


ESTIMATES = [
    (12.34, 10.0, 14.68, False, "12.3 ± 2.3"),
    (12.34, 12.318, 12.362, True, "12.340 ± 0.022*"),
    (-0.001, -3.0, 1.0, False, "0.0 [-3.0, 1.0]"),
    (1234.0, 1100.0, 1500.0, True, "1234 [1100, 1500]*"),
    (2.0, 2.0, 2.0, False, "2.0 ± 0.0"),
    (2.0, math.nan, math.nan, True, "2.0 ± -"),
    (math.nan, math.nan, math.nan, False, "-"),
]


def test_estimates_have_half_their_interval_or_both_ends_where_it_is_lopsided():
    for mean, low, high, is_doubtful, text in ESTIMATES:
        row = {"x": mean, "x_low": low, "x_high": high, "x_is_doubtful": is_doubtful}
        assert write_estimate(row, "x") == text


def test_text_tells_each_agents_numbers_by_hand(tmp_path):
    """Arms 0 and 2 of means 0.2, 0.5, 0.9 for 10 steps lose 7 and nothing."""
    agents = [{"agent": "stub_agents:Constant", "arm": arm, "label": f"a{arm}"} for arm in (0, 2)]
    lines = str(simulate(tmp_path, [{**FIXED, "label": "here"}], agents, 12, 10)).splitlines()
    assert lines[0] == "here: 12 replications of 10 steps, seed 0. Means ± 95 % intervals."
    titles = ("agent", "pseudo-regret", "less a0's, paired", "p (Holm)", "best arm found")
    assert all(title in lines[1] for title in titles)
    assert lines[2].split()[:8] == "a0 7.0 ± 0.0 - - - 0%".split()
    assert lines[3].split()[:10] == "a2 0.0 ± 0.0 -7.0 ± 0.0 better <0.001 100%".split()
    told = "Pseudo-regret: sum over steps of best mean - pulled mean, averaged over the noise."
    assert lines[4] == told
    assert "Verdicts: regret below or above a0's with p < 0.05; undecided otherwise." in lines


def test_the_regret_at_each_horizon_is_in_all_tables(tmp_path):
    """An arm that loses 0.7 a step, in one run; few steps of 300 are recorded, 250 among them."""
    agents, horizons = ["stub_agents:Constant"], [3, 250, 300]
    results = simulate(tmp_path, [FIXED], agents, 12, horizons)
    columns = [f"{CUMULATIVE_REGRET}{end}" for end in ("_3", "_250", "")]
    (row,) = results.table()[columns + [f"{CUMULATIVE_REGRET}_250_high"]].to_numpy()
    assert row == pytest.approx([2.1, 175.0, 210.0, 175.0])
    for text in (str(results), write_latex(results).replace(r"$\pm$", "±").replace(" &", "")):
        lines = [" ".join(line.split()) for line in text.splitlines()]
        assert any("after 3 steps after 250 steps pseudo-regret" in line for line in lines)
        assert any("Constant 2.1 ± 0.0 175.0 ± 0.0 210.0 ± 0.0" in line for line in lines)


def test_an_earlier_horizon_that_no_episode_lasts_to_has_no_column(tmp_path):
    """After 30 steps it was the regret after 20."""
    rows = pd.DataFrame({"x": np.arange(20.0), "left": 1.0, "right": 0.0})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    env = {"env": "TableBandit-v0", "table": str(tmp_path / "rows.csv"), "features": ["x"]}
    env |= {"rewards": ["left", "right"], "likelihood": "gaussian"}
    results = simulate(tmp_path / "out", [env], ["random"], 2, [5, 20, 30, 50])
    earlier = [name for name in results.table() if re.fullmatch(f"{CUMULATIVE_REGRET}_\\d+", name)]
    assert earlier == [f"{CUMULATIVE_REGRET}_5"]
    assert re.findall(r"after (\d+) steps", str(results)) == ["5"]


def test_where_no_regret_is_reported_none_is_explained_or_drawn(tmp_path):
    results = simulate(tmp_path, ["stub_envs:Silent-v0"], ["random"], 12, [5, 9])
    told = describe(results, columns=["simple_regret"])
    assert "12 replications of 9 steps" in told and "egret" not in told
    assert [*plots.make_charts(results, results.experiment.environments[0])] == []
    page = write_html(results, tmp_path / "page.html").read_text("utf-8")
    assert "<svg" not in page and "regret at the horizon" not in page


def test_text_says_what_verdicts_rest_on_and_which_numbers_are_in_doubt(results, table):
    text = str(results)
    assert (table["difference_is_doubtful"] | table[f"{CUMULATIVE_REGRET}_is_doubtful"]).any()
    assert "fewer than 100 replications: the interval may be too short." in text
    assert "p < 0.05 after Holm's correction for the 8 comparisons of this report" in text
    assert text.count("doubting: 25 % of decisions flagged, where it may be wrong.") == 2
    assert "Bayesian pseudo-regret: sum over steps" in text
    assert "\nPseudo-regret: sum over steps" in text


def test_text_says_why_decisions_were_flagged(tmp_path):
    agents = [
        {"agent": "stub_agents:Collapsing", "label": "one"},
        {"agent": "stub_agents:Collapsing", "num_blind": 10, "label": "two"},
        "random",
    ]
    found = simulate(tmp_path, [FIXED], agents, 4, 100)
    told = str(found).splitlines()
    assert "one: 64 % of decisions flagged: particles collapsed." in told
    reasons = "particles collapsed (64 %), low coverage (10 %)"
    assert f"two: 64 % of decisions flagged: {reasons}." in told
    table = found.table().set_index("agent")
    assert table["doubts_low_coverage"].tolist()[:2] == [0.0, 0.1]
    assert table.loc["random", ["flagged", "doubts_particles_collapsed"]].isna().all()


def test_below_ten_replications_there_are_no_intervals_and_no_verdicts(folder, results):
    part = load_results(folder, Experiment(ENVIRONMENTS, AGENTS, **SIZES | {"replications": 9}))
    for found in tables_of(part).values():
        assert found.filter(regex="_(low|high|holm)$").isna().all(axis=None)
    assert not set(part.table()["verdict"]) & {"better", "worse"}
    assert "- for an interval or a p-value: none below 10 replications." in str(part)
    assert "Holm's correction" not in str(part)
    assert "for an interval" not in str(results)


def test_notebooks_show_the_text_as_tables(results):
    html = results._repr_html_()
    assert unescape(re.sub("<[^>]*>", " ", html)).split() == str(results).split()
    assert html.count("<table") == 2 + 1  # of the worlds, and over all


def test_blocks_made_with_other_libraries_are_told(folder, results, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    path = next((copy / "blocks").rglob("00001.parquet"))
    rewrite_block(path, {"versions": {"numpy": "0.0"}})
    assert "Blocks were made with different versions: {" in str(load_results(copy))
    assert "different versions" not in str(results)


# -- Figures ------------------------------------------------------------------------------------


def lines_of(figure):
    return {line.get_label(): line for line in figure.axes[0].lines}


@pytest.mark.parametrize("env", ["fixed", "drawn"])
@pytest.mark.parametrize("kind", ["regret", "differences"])
def test_curves_are_means_of_replications_with_tables_intervals(results, table, rows, env, kind):
    """At each of the first steps and at the horizon, where the table has it too."""
    figure = results.plot(env=env, kind=kind)
    lines, axes = lines_of(figure), figure.axes[0]
    assert figure.get_suptitle() == env
    is_paired = kind == "differences"
    reference = curves(rows, env, "random") if is_paired else 0.0
    column, drawn = ("difference", LABELS[1:]) if is_paired else (CUMULATIVE_REGRET, LABELS)
    for band, agent in zip(axes.collections, drawn, strict=True):
        values = curves(rows, env, agent) - reference
        assert lines[agent].get_xdata().tolist() == list(range(1, HORIZON + 1))
        assert lines[agent].get_ydata() == pytest.approx(values.mean(axis=0))
        in_table = table.loc[(env, agent), [f"{column}_low", f"{column}_high"]]
        for step in (1, 2, HORIZON // 2, HORIZON):
            at = [y for x, y in band.get_paths()[0].vertices if x == step]
            ends = mean_interval(values[:, step - 1])[1:]
            assert (min(at), max(at)) == pytest.approx(ends)
        assert ends == pytest.approx(tuple(in_table))
    if is_paired:
        assert set(lines["random (reference)"].get_ydata()) == {0}


def test_curves_end_in_the_interval_of_the_table_also_of_shares_and_skewed_regret(results, table):
    for column in (CUMULATIVE_REGRET, "best_arm_found", "last_switch"):
        last = results.curves(column).groupby(["env", "agent"]).last()
        for run in RUNS:
            ends = table.loc[run, [column, f"{column}_low", f"{column}_high"]].tolist()
            assert last.loc[run, ["mean", "low", "high"]].tolist() == pytest.approx(ends), column
    assert (abs(stats.skew(results.runs[1].final(CUMULATIVE_REGRET)))) > 0.1 * REPLICATIONS**0.5


OF_ALL = set(LABELS)
RATES = [
    ("per-step", CUMULATIVE_REGRET, OF_ALL),
    ("best-arm", "optimal_pulls", OF_ALL),  # 40 steps are 40 spans
    ("samples", "num_samples", {"smc"}),
    ("flagged", "is_unreliable", {"smc", "doubting"}),
]


def test_rates_of_each_step_are_drawn_for_agents_that_tell_them(results, rows):
    for kind, column, agents in RATES:
        found = lines_of(results.plot(env="fixed", kind=kind))
        for agent, line in found.items():
            told = np.diff(curves(rows, "fixed", agent, column), prepend=0)
            assert line.get_ydata() == pytest.approx(told.mean(axis=0)), kind
        assert {"doubting", "smc"} & agents <= {*found} <= agents


def test_regret_at_the_horizon_is_drawn_as_quantiles_with_a_dot_at_the_mean(results, rows):
    figure = results.plot(env="drawn", kind="distribution")
    for agent, line in lines_of(figure).items():
        regret, (dot,) = final(rows, "drawn", agent), line.get_markevery()
        assert line.get_ydata() == pytest.approx(np.quantile(regret, line.get_xdata()))
        assert abs(line.get_ydata() - regret.mean()).argmin() == dot
    assert list(lines_of(figure)) == LABELS
    assert "at most this regret" in figure.axes[0].get_xlabel()


def test_regret_at_the_horizon_is_drawn_against_an_option_of_a_grid(tmp_path):
    """Arms of means 0.2, 0.5, 0.9 lose 7, 4 and nothing in 10 steps."""
    environments = [FIXED, {"env": ENV, "grid": {"num_arms": [3, 60]}}]
    agents = ["random", {"agent": "stub_agents:Constant", "grid": {"arm": [0, 1, 2]}}]
    results = simulate(tmp_path, environments, agents, 12, 10)
    fixed, *drawn = (each.label for each in results.experiment.environments)
    means = results.table().set_index(["env", "agent"])[CUMULATIVE_REGRET]
    found = lines_of(results.plot(kind="parameter-arm"))
    assert found["Constant"].get_xydata() == pytest.approx(np.array([[0, 7], [1, 4], [2, 0]]))
    assert found["random"].get_ydata() == pytest.approx([means[fixed, "random"]] * 3)
    figure = results.plot(env=drawn[0], kind="parameter-num_arms")
    assert (figure.get_suptitle(), figure.axes[0].get_xscale()) == (ENV, "log")
    assert list(lines_of(figure)) == [each.label for each in results.experiment.agents]
    for agent, line in lines_of(figure).items():
        assert line.get_ydata() == pytest.approx([means[each, agent] for each in drawn])
    assert len(figure.axes[0].collections) == 4  # bands
    agents = [{"agent": "stub_agents:Constant", "grid": {"arm": [1, 2]}}, "stub_agents:Constant"]
    own = simulate(tmp_path / "own", [FIXED], agents, 12, 10).plot(kind="parameter-arm")
    drawn_regrets = [line.get_ydata() for line in own.axes[0].lines]
    assert np.array(drawn_regrets) == pytest.approx(np.array([[4, 0], [7, 7]]))
    plain = simulate(tmp_path / "plain", [ENV, environments[1]], ["random"], 12, 10)
    assert plain.plot(env=drawn[0], kind="parameter-num_arms").axes  # beside the default number
    for environment in (fixed, drawn[1]):  # alone, and drawn with the first
        with pytest.raises(ValueError, match="kind must be one that these results allow"):
            results.plot(env=environment, kind="parameter-num_arms")


def test_many_steps_are_drawn_as_rates_between_those_recorded(tmp_path):
    """Samples told of after t steps are t (t + 1) / 2; of arms 0 and 2 in turn half are best."""
    agent = {"agent": "stub_agents:Scripted", "arms": [0, 2], "label": "mine"}
    results = simulate(tmp_path, [FIXED], [agent], 2, 300)
    (axes,) = results.plot(kind="samples").axes
    steps, samples = axes.lines[0].get_data()
    assert axes.get_yscale() == "log" and axes.get_ylim()[0] > 0.5
    assert np.cumsum(samples * np.diff(steps, prepend=0)) == pytest.approx(steps * (steps + 1) / 2)
    best = results.plot(kind="best-arm").axes[0].lines[0].get_xydata()
    assert len(best) == 40  # spans of steps
    assert 0.4 < best[:, 1].mean() < 0.6


def test_rates_are_per_decision_and_episodes_end_sooner_under_one_agent(tmp_path, monkeypatch):
    """Replication i ends after 2 + i steps under the first arm, which loses 0.7; the best lasts."""
    short = {"env": "stub_envs:Short-v0", "means": FIXED["means"]}
    results = simulate(tmp_path, [short], [WORST, BEST], 3, 9, block_size=3)
    for kind, first, last in (("best-arm", 0.0, 1.0), ("per-step", 0.7, 0.0)):
        worst, best = (line.get_ydata() for line in results.plot(kind=kind).axes[0].lines)
        assert (worst, best) == (pytest.approx([first] * 4), pytest.approx([last] * 6)), kind
    monkeypatch.setattr(plots, "FIGURES", {"regret": plots.chart_regret})
    text = write_html(results, tmp_path / "page.html").read_text("utf-8")
    assert re.search(r"<td>1.867</td>\s*<td>2.1</td>\s*<td>-</td>", text)


def test_figures_are_drawn_on_axes_of_the_users(results):
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert results.plot(env="drawn", ax=left) is figure and not right.lines
    assert [line.get_label() for line in left.lines] == LABELS
    assert [text.get_text() for text in left.get_legend().get_texts()] == LABELS
    assert left.get_title().startswith("drawn\n22 replications")


def test_of_many_agents_fourteen_are_drawn_and_the_rest_is_counted(tmp_path):
    agents = [{**BEST, "arm": n % 3, "size": n, "label": f"{n}"} for n in range(16)]
    results = simulate(tmp_path, [FIXED], agents, 10, 5)
    figure = results.plot()
    assert len(figure.axes[0].lines) == len(figure.legends[0].get_texts()) == 14
    looks = {(line.get_color(), str(line.get_linestyle())) for line in figure.axes[0].lines}
    assert len(looks) == 14
    assert figure.legends[0].get_title().get_text() == "2 more are left out"


def test_figures_say_what_they_show(results, folder):
    axes = results.plot(env="drawn").axes[0]
    assert axes.get_title() == "22 replications; bands: 95 % interval of the mean"
    assert axes.get_xlabel() == "step"
    assert axes.get_ylabel() == "Bayesian pseudo-regret so far\n(best mean − pulled mean, summed)"
    few = load_results(folder, Experiment(ENVIRONMENTS, AGENTS, **SIZES | {"replications": 9}))
    axes = few.plot(env="fixed").axes[0]
    assert axes.get_title() == "9 replications; no bands below 10" and not axes.collections
    assert results.plot()._repr_png_()[:4] == b"\x89PNG"


def test_plot_refuses_what_there_is_not_and_what_the_results_do_not_allow(folder):
    alone = load_results(folder, Experiment(ENVIRONMENTS, ["random"], **SIZES))
    for options, text in (
        ({"env": "fixd"}, "env must be .*'fixed'"),
        ({"kind": "regrets"}, "kind must be .*'regret'"),
        ({"kind": "samples"}, "kind must be one that these results allow"),
        ({"kind": "differences"}, "kind must be one that these results allow"),
    ):
        with pytest.raises(ValueError, match=text):
            alone.plot(**options)
    with pytest.raises(ValueError, match="column must be one of .*, got 'agent'"):
        alone.curves("agent")
    with pytest.raises(ValueError, match="results must hold a run that can be drawn, got 'none'"):
        replace(alone, runs=()).plot()
    with pytest.raises(TypeError, match="ax must be an Axes, got 3"):
        alone.plot(ax=3)


# -- The command report -------------------------------------------------------------------------

KINDS = "regret differences per-step distribution best-arm samples flagged".split()


def touch(figure, path, formats):
    """Make empty files in place of a figure's, which take most of the time of a report."""
    files = [path.with_name(f"{path.name}.{suffix}") for suffix in formats]
    for file in files:
        file.touch()
    return files


@pytest.fixture(scope="module")
def report(folder, tmp_path_factory):
    """The folder that the command writes, with empty files for figures."""
    path = tmp_path_factory.mktemp("report")
    options = ["--format", "svg", "--latex", "--markdown"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "save_figure", touch)
        assert main(["report", str(folder), "--out", str(path), *options]) == 0
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The results of one agent in one world."""
    path = tmp_path_factory.mktemp("small")
    simulate(path, [FIXED], ["random"], 4, 9)
    return path


def test_report_writes_its_tables_text_and_a_figure_of_each_kind(report, results, folder):
    figures = [f"{number:02d}-{kind}" for number in (0, 1) for kind in KINDS]
    tables = ["summary.csv", "aggregate.csv", "report.txt", "tables.tex", "tables.md"]
    expected = tables + [f"{name}.svg" for name in figures]
    assert sorted(path.name for path in report.iterdir()) == sorted(expected)
    for name, table in tables_of(results).items():
        found = pd.read_csv(report / f"{name}.csv", keep_default_na=False, na_values=[""])
        texts = found.columns.intersection(["verdict", "failed"])
        found = found.astype(dict.fromkeys(texts, object)).fillna(dict.fromkeys(texts, ""))
        pd.testing.assert_frame_equal(found, table, check_dtype=False)
    text = (report / "report.txt").read_text("utf-8")
    assert str(results).partition("\n")[0] in text and text.count("\ndoubting ") == 3
    assert "Realised regret: sum over steps of max(means) - reward." in text
    assert "last switch" in text


def test_time_of_a_decision_is_that_of_all_blocks_over_all_their_decisions(report, folder):
    """But for those of the first steps, half of them at most."""
    timing, expected = pd.read_csv(report / "summary.csv"), []
    for path in (folder / "timings").iterdir():
        sums = pd.read_json(path, lines=True)[["agent_seconds", "decisions"]].sum()
        assert sums["decisions"] == 24 * (HORIZON - min(30, HORIZON // 2))
        expected.append(1e6 * sums["agent_seconds"] / sums["decisions"])
    assert sorted(timing["microseconds_per_decision"]) == pytest.approx(sorted(expected))


@pytest.fixture(scope="module")
def usual(small, tmp_path_factory):
    """Name -> bytes of what is written where nothing special is asked for."""
    path = tmp_path_factory.mktemp("usual")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "FIGURES", FEW_FIGURES)
        assert main(["report", str(small), "--out", str(path), "--latex"]) == 0
    return {each.name: each.read_bytes() for each in path.iterdir()}


def test_figures_are_for_screens_unless_papers_are_asked_for(usual, small, tmp_path, few_figures):
    paper = ["--format", "pdf", "--style", "paper"]
    assert main(["report", str(small), "--out", str(tmp_path), *paper]) == 0
    heads = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for path in tmp_path.glob("*.pdf"):
        assert path.read_bytes().startswith(heads["pdf"])
    for name, data in usual.items():
        assert data.startswith(heads.get(name[-3:], b""))
    names = {name[:-4] for name in usual if name.endswith("png")}
    assert names == {name[:-4] for name in usual if name.endswith("svg")}
    assert names == {path.stem for path in tmp_path.glob("*.pdf")}
    assert not [*tmp_path.glob("*.png"), *tmp_path.glob("*.svg")]


def test_tables_for_latex_have_the_rules_of_booktabs_and_a_row_for_each_agent(report):
    tables = (report / "tables.tex").read_text("utf-8").split(r"\begin{tabular}{")[1:]
    assert len(tables) == 3  # of the worlds, and over all
    for text in tables:
        assert all(text.count(rf"\{rule}rule") == 1 for rule in ("top", "mid", "bottom"))
        lines = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert {line.count(" & ") for line in lines} == {len(text.partition("}")[0]) - 1}
        assert [line.partition(" & ")[0] for line in lines][1:] == LABELS


def test_columns_asked_for_are_in_all_tables_and_blank_ones_in_none(folder, tmp_path, only_tables):
    options = ["--latex", "--markdown", "--columns", "last_switch", "--out", str(tmp_path)]
    assert main(["report", str(folder), *options]) == 0
    for name in ("report.txt", "tables.tex", "tables.md"):
        text = (tmp_path / name).read_text("utf-8")
        assert "last switch" in text and "realised regret" not in text, name
        assert "samples/decision" in text, name
    alone = load_results(folder, Experiment(ENVIRONMENTS[:1], AGENTS[:1], **SIZES))
    for text in (str(alone), write_latex(alone), write_markdown(alone), alone._repr_html_()):
        assert "pseudo-regret" in text
        for title in ("samples/decision", "verdict", "p (Holm)", "paired"):
            assert title not in text, title


PAPER = r"""\documentclass{article}
\usepackage{booktabs}
\begin{document}
\input{tables}
\cite{bandit_gym}
\bibliographystyle{plain}
\bibliography{cited}
\end{document}
"""


@pytest.mark.nightly
@pytest.mark.skipif(not shutil.which("pdflatex"), reason="LaTeX is not installed")
def test_tables_and_citation_compile(report, page, tmp_path):
    shutil.copy(report / "tables.tex", tmp_path)
    cited = re.search(r"@misc.*?\n}", unescape(page.read_text("utf-8")), re.S)[0]
    (tmp_path / "cited.bib").write_text(cited, encoding="utf-8")
    (tmp_path / "paper.tex").write_text(PAPER, encoding="utf-8")
    draw = ["pdflatex", "-halt-on-error", "paper"]
    for command in (draw, ["bibtex", "paper"], draw, draw):
        told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert told.returncode == 0 and "Warning--" not in told.stdout, told.stdout
    assert "undefined" not in (tmp_path / "paper.log").read_text("utf-8", "replace")


def test_a_report_is_the_same_again_and_follows_no_link(usual, small, tmp_path, few_figures):
    (tmp_path / "out").mkdir()
    for name in usual:
        (tmp_path / f"of {name}").write_text("mine")
        (tmp_path / "out" / name).symlink_to(tmp_path / f"of {name}")
    assert main(["report", str(small), "--latex", "--out", str(tmp_path / "out")]) == 0
    assert {(tmp_path / f"of {name}").read_text() for name in usual} == {"mine"}
    assert not any((tmp_path / "out" / name).is_symlink() for name in usual)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == usual


def test_figures_have_the_scale_of_steps_that_is_asked_for(results, small, tmp_path, monkeypatch):
    scales = {}
    monkeypatch.setattr(
        plots,
        "save_figure",
        lambda figure, path, _: scales.update({path.name: figure.axes[0].get_xscale()}) or [],
    )
    for asked in ([], ["--xscale", "log"], ["--xscale", "linear"]):
        assert main(["report", str(small), "--out", str(tmp_path), *asked]) == 0
        scale = (asked or [None])[-1]
        assert scales.pop("00-regret") == (scale or "linear")
        assert scales.pop("00-per-step") == (scale or "log")
        assert scales.pop("00-distribution") == "linear"  # as it starts at 0


# -- Several folders ------------------------------------------------------------------------------


def test_several_results_are_reported_as_if_they_were_one(folder, results):
    parts = [Experiment(ENVIRONMENTS, agents, **SIZES) for agents in (AGENTS[:2], AGENTS[2:])]
    assert str(join_results([load_results(folder, part) for part in parts])) == str(results)


def test_agents_and_environments_that_are_not_in_all_folders_are_not_missing(folder):
    parts = (ENVIRONMENTS[:1], AGENTS[:3]), (ENVIRONMENTS[1:], AGENTS[1:])
    joined = join_results([load_results(folder, Experiment(*part, **SIZES)) for part in parts])
    table, aggregate = joined.table().set_index("env"), tables_of(joined)["aggregate"]
    assert table.loc["fixed", "agent"].tolist() == LABELS[:3]
    assert table.loc["drawn", "agent"].tolist() == LABELS[1:]
    assert table.loc["drawn", "difference"].isna().all()  # as the first agent was not there
    assert aggregate["agent"].tolist() == ["ucb1", "smc"] and joined.num_missing == 0
    assert "Holm's correction for the 2 comparisons" in str(joined)


REFUSED = [
    ({}, "a run must be in one folder of a report only, got 'random in fixed'"),
    ({"seed": 1}, r"seed must be the same in all folders of a report, got \[0, 1\]"),
    ({"agents": [{"agent": "ucb1", "label": "random"}]}, "agents must have different labels"),
]


def test_results_that_are_not_of_one_comparison_are_refused(results, tmp_path):
    for number, (change, text) in enumerate(REFUSED):
        settings = {"environments": [ENVIRONMENTS[0]], "agents": ["random"], **SIZES, **change}
        other = simulate(tmp_path / f"{number}", **settings)
        with pytest.raises(ValueError, match=text):
            join_results([results, other])
    check_refusals(join_results, [([], "parts must be at least one, got []")])
    check_refusals(join_results, [(["a"], TypeError, "parts must be a Results, got 'a'")])


def test_the_command_report_takes_several_folders_of_one_results_version(
    small, tmp_path, capsys, monkeypatch, only_tables
):
    out, again = ["--out", str(tmp_path / "out")], tmp_path / "again"
    assert main(["report", str(small), str(small)]) == 2
    assert "--out must be given for a report of several folders" in capsys.readouterr().err
    simulate(again, [FIXED], ["ucb1"], 4, 9)
    assert main(["report", str(small), str(again), *out, "--format", "svg"]) == 0
    assert "ucb1" in (tmp_path / "out" / "report.txt").read_text("utf-8")
    monkeypatch.setattr("bandit_gym.experiments.execution.RESULTS_VERSION", 1)
    simulate(again, [FIXED], ["ucb1"], 4, 9)
    assert main(["report", str(small), str(again), *out]) == 2
    told = capsys.readouterr().err
    assert "a report must hold blocks of one code, got two of the engine" in told
    assert told.count("\n") == 1


# -- The page -----------------------------------------------------------------------------------

HARM = [
    "<script>alert(1)</script>",
    "$x$ %{y} &lt;b&gt; [/red] _a_",
    "אבג",
    "L" * 200,
    "_hidden",
    "=1+1",
    "@a $5 and $6",
    "-1",
    'a "b" \\ # é ]',
]
HOSTILE_LABEL = "</script><b> $\\alpha$"


@pytest.fixture(scope="module")
def harmful(tmp_path_factory):
    """A folder of agents with labels that mean something to some reader."""
    agents = [{"agent": "ucb1", "scale": 1.0 + n, "label": label} for n, label in enumerate(HARM)]
    folder = tmp_path_factory.mktemp("harmful")
    simulate(folder, [{**FIXED, "label": HOSTILE_LABEL}], agents, 12, 9)
    return folder


@pytest.fixture(scope="module")
def page(harmful, tmp_path_factory):
    out = tmp_path_factory.mktemp("page")
    assert main(["report", str(harmful), "--html", "--out", str(out)]) == 0
    assert [path.name for path in out.iterdir()] == ["report.html"]
    return out / "report.html"


def test_labels_stand_in_the_page_and_in_a_notebook_as_text_only(page, harmful):
    text = page.read_text("utf-8")
    assert all(escape(label, quote=False) in text for label in (*HARM, HOSTILE_LABEL))
    assert HARM[0] not in text and "</script><b>" not in text
    assert "<script" not in text
    html = load_results(harmful)._repr_html_()
    assert all(escape(label, quote=False) in html for label in (*HARM, HOSTILE_LABEL))
    assert "<script" not in html and "</script" not in html


def test_page_asks_the_network_for_nothing(page):
    text = page.read_text("utf-8")
    assert not re.search(r'\b(?:src|href|action)="(?!#|data:)', text)
    assert not re.search(r"@import|url\((?!data:|['\"]?data:|#)", text)
    assert not re.search(r"<(?:link|iframe|object|embed|form)\b", text)


def test_page_has_the_charts_tables_settings_and_versions(page, harmful, tmp_path):
    text = page.read_text("utf-8")
    assert charts_in(text) == 7  # of all worlds, and of one: none of samples, one of `scale`
    assert "p (Holm)" in text and "How to cite" in text
    found = re.search(r"<h2>The experiment</h2><pre[^>]*>(.*?)</pre>", text, re.S)
    (tmp_path / "again.json").write_text(unescape(found[1]), encoding="utf-8")
    assert load_experiment(tmp_path / "again.json") == load_results(harmful).experiment


def test_page_is_small_and_tells_numbers_of_figures_in_tables_and_words(folder, results, tmp_path):
    one = load_results(folder, Experiment(ENVIRONMENTS[:1], AGENTS, **SIZES))
    path = write_html(one, tmp_path / "page.html")
    assert path.stat().st_size < 600_000
    figures = re.findall("<figure>.*?</figure>", path.read_text("utf-8"), re.S)
    assert len(figures) == 1 + len(KINDS)  # a forest, and the others
    for figure in figures:
        spoken = unescape(re.search('aria-label="([^"]*)"', figure)[1])
        assert re.search(r"rom low to high: .*\d", spoken), spoken
        assert figure.count("<details>") == figure.count("<svg") == figure.count("<table") == 1
    last = results.curves().query("env == 'fixed' and agent == 'smc'").iloc[-1]
    value = f"{last['mean']:.4g} [{last['low']:.4g}, {last['high']:.4g}]"
    assert sum(value in unescape(figure) for figure in figures) == 1  # regret over time
    mark = "A long tail and fewer than 100 replications: the interval may be too short."
    assert "*</td>" in figures[0] and mark in figures[0]


def test_page_chooses_its_colours_for_light_and_for_dark(page):
    text = page.read_text("utf-8")
    rules = dict(re.findall(r'\[style\*="stroke: (#\w{6})"\] { stroke: (#\w{6}) !important', text))
    drawn = re.findall(
        "(?:stroke|fill): (#[0-9a-f]{6})", " ".join(re.findall("<svg.*?</svg>", text, re.S))
    )
    assert set(drawn) <= set(rules) and len({*rules, *rules.values()}) == 2 * len(rules)


def test_page_begins_with_an_answer_for_each_environment_and_counts_verdicts(tmp_path, only_tables):
    """Arms of means 0.2, 0.5, 0.9 lose 7, 4 and nothing in 10 steps, and uniform play 11/3."""
    arms = {"middle": 1, "first": 0, "last": 2}
    agents = [{"agent": "stub_agents:Constant", "arm": arms[name], "label": name} for name in arms]
    turned = {**FIXED, "means": [0.9, 0.5, 0.2], "label": "turned"}
    results = simulate(tmp_path, [FIXED, turned], agents, 12, 10)
    page = write_html(results, tmp_path / "page.html").read_text("utf-8")
    text = page.partition("<body>")[2]
    told = unescape(re.sub("<[^>]*>", "", text))
    less = "has less regret than middle (-4.0 ± 0.0, p < 0.001)"
    more = "has more regret than middle (3.0 ± 0.0, p < 0.001)"
    assert f": last {less}; first {more}." in told and f"turned: first {less}; last {more}." in told
    rows = [re.findall("<t[dh]>([^<]*)<", row) for row in re.findall("<tr>.*?</tr>", text, re.S)]
    counts = {row[0]: row[2:] for row in rows if len(row) == 6 and row[0] in arms}
    mean = f"{7 / 2 / (11 / 3):.3f}"
    assert counts["first"] == counts["last"] == [mean, "1", "1", "0"]
    assert counts["middle"][1:] == ["-", "-", "-"]


def test_same_results_give_the_same_page(small, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "FIGURES", {"regret": plots.chart_regret})
    found = load_results(small)
    texts = [write_html(found, tmp_path / name).read_text("utf-8") for name in ("one", "two")]
    first, second = (re.sub(r"Written on [\d-]+", "", text) for text in texts)
    assert first == second


def test_page_of_nothing_says_so_and_shows_the_experiment(harmful, tmp_path):
    shutil.copy(harmful / "experiment.json", tmp_path)
    assert main(["report", str(tmp_path), "--html", "--out", str(tmp_path / "new")]) == 0
    text = (tmp_path / "new" / "report.html").read_text("utf-8")
    assert "Not complete: 9 of 9 blocks are missing." in text
    assert "&quot;agents&quot;: [" in text and charts_in(text) == 0


@pytest.mark.slow
@pytest.mark.nightly
def test_a_browser_draws_and_prints_the_page_and_has_nothing_to_complain_of(page):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    complaints = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_context(viewport={"width": 390, "height": 844}).new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("dialog", lambda dialog: complaints.append(dialog.message))
        tab.on("request", lambda request: complaints.append(request.url))
        tab.goto(page.as_uri())
        charts = tab.locator("figure").all()
        for chart in charts:
            assert chart.locator("svg").is_visible()
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        table = tab.locator(".scroll").nth(1)
        assert table.evaluate("box => (box.scrollLeft = 99)") == 99  # which names of agents stay at
        assert table.locator("th").first.bounding_box()["x"] == table.bounding_box()["x"]
        printed = tab.pdf(format="A4", tagged=True)
        tab.emulate_media(media="print")
        tab.set_viewport_size({"width": 718, "height": 1000})  # A4 less margins of 1 cm
        assert tab.evaluate("document.documentElement.scrollWidth") == 718
        for shown in (*charts, *tab.locator("table").all()):
            box = shown.bounding_box()
            assert box["height"] > 20 and 0 <= box["x"] < box["x"] + box["width"] <= 718
        browser.close()
    assert printed.count(b"/Alt") == len(charts) == 7
    assert [each for each in complaints if not each.startswith(page.as_uri())] == []


# -- Labels elsewhere ---------------------------------------------------------------------------


def drawn(text):
    """Return what matplotlib draws of a text that it takes for no formula."""
    assert text._preprocess_math(text.get_text())[1] is False
    return text._preprocess_math(text.get_text())[0].replace("\n", "")


@pytest.mark.parametrize("kind", ["regret", "differences", "best-arm"])
def test_figures_show_every_label_as_it_is(harmful, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = load_results(harmful).plot(kind=kind)
        figure.draw_without_rendering()
    texts = figure.legends[0].get_texts()
    assert {drawn(text).removesuffix(" (reference)") for text in texts} >= set(HARM)
    assert drawn(figure._suptitle) == HOSTILE_LABEL
    for shown in (figure.legends[0], figure._suptitle):
        box = shown.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1


def test_text_and_tables_show_every_label_as_it_is(harmful):
    found = load_results(harmful)
    assert all(f"\n{label} " in str(found) for label in HARM)
    latex = write_latex(found)
    assert r"\textless{}script\textgreater{}alert(1)\textless{}/script\textgreater{} &" in latex
    assert r"\$x\$ \%\{y\} \&lt;b\&gt; {[}/red{]} \_a\_ &" in latex
    html = MarkdownIt().enable("table").render(write_markdown(found))
    told, shown = unescape(re.sub("<[^>]*>", " ", html)).split(), str(found).split()
    assert html.count("<table") == 1 and told == shown[: len(told)]
    assert shown[len(told)] == "Verdicts:"


def test_labels_that_are_cut_still_differ_and_a_single_step_is_a_dot(tmp_path):
    """Two whose first 40 letters and last 40 are the same, in lines of 60 letters."""
    labels = ["a" * 40 + middle + "z" * 40 for middle in "12"]
    agents = [{**BEST, "arm": arm, "label": label} for arm, label in enumerate(labels)]
    found = simulate(tmp_path, [FIXED], agents, 2, 1)
    assert [line.get_markevery() for line in found.plot().axes[0].lines] == [[0], [0]]
    for label in labels:
        assert f"\n{label[:41]}… " in describe(found, width=60)


# -- The command export -------------------------------------------------------------------------


def test_export_writes_every_row_that_was_asked_for(folder, results, tmp_path, capsys):
    assert main(["export", str(folder), "--csv", str(tmp_path / "all.csv")]) == 0
    assert str(tmp_path / "all.csv") in capsys.readouterr().out
    frame = results.frame().astype({"experiment": str, "env": str, "agent": str})
    found = pd.read_csv(tmp_path / "all.csv")
    pd.testing.assert_frame_equal(found, frame, check_dtype=False, check_exact=True)


def test_export_replaces_its_own_link_and_writes_through_one_that_is_typed(small, tmp_path):
    copy = shutil.copytree(small, tmp_path / "copy")
    (copy / "results.csv").symlink_to("/dev/null")
    (tmp_path / "typed.csv").symlink_to("/dev/null")
    assert main(["export", str(copy)]) == 0
    assert main(["export", str(copy), "--csv", str(tmp_path / "typed.csv")]) == 0
    assert not (copy / "results.csv").is_symlink()
    assert (tmp_path / "typed.csv").is_symlink()


def test_export_into_the_output_leaves_it_what_it_is(small, tmp_path, capfd):
    """Under `> out.csv`, /dev/stdout leads to a file, and was replaced by another."""
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    assert main(["export", str(small), "--csv", str(tmp_path / "stdout")]) == 0
    told = capfd.readouterr()
    assert (tmp_path / "stdout").is_symlink() and "One row per stored replication" in told.err
    assert len(told.out.splitlines()) == len(load_results(small).frame()) + 1


def test_export_leaves_a_file_as_it_is_when_the_disk_is_full(small, tmp_path, monkeypatch):
    (tmp_path / "all.csv").write_text("mine")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    assert main(["export", str(small), "--csv", str(tmp_path / "all.csv")]) == 1
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
