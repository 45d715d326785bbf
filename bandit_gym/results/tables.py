"""Tables of estimates, as numbers with intervals and as the cells that a report shows.

Bayesian pseudo-regret is the sum over steps of max(means) - means[action], averaged over instances
drawn from the prior (over the noise alone where the means are fixed). Realised regret has the
reward in place of the pulled arm's mean; its expectation is the same and its variance is larger.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bandit_gym.checks import check_choice
from bandit_gym.checks.typing import FloatArray
from bandit_gym.experiments.blocks import COLUMNS, DOUBTED
from bandit_gym.experiments.experiment import Entry
from bandit_gym.results import statistics
from bandit_gym.results.statistics import FEW_REPLICATIONS, MIN_REPLICATIONS, Interval
from bandit_gym.results.stored import RunResults, Stored, paired_differences

QUANTILES = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}
COUNTED = {"wins": "better", "losses": "worse", "undecided": "undecided"}
"""Title -> the verdict that is counted below it."""

NOTHING = "-"
DOUBTFUL = "*"
Row = Mapping[Any, Any]
Cells = dict[str, Callable[[Row], str]]  # title -> what a row has below it
TITLED = [name for name, column in COLUMNS.items() if column.title]
"""The columns of which there are estimates, that of the regret first."""

DETAILS = [name for name in TITLED if COLUMNS[name].table != "estimates"]
"""Those that a printed table shows where it is asked to, and a report always."""


class Table(NamedTuple):
    """A table of a report, its cells written.

    Attributes:
        title: what stands above it.
        cells: a row for each agent, by its label, and a column for each title.
        notes: sentences that stand below it.
    """

    title: str
    cells: pd.DataFrame
    notes: list[str]


def summarise(results: Stored) -> pd.DataFrame:
    """Tabulate the state at the horizon, one row per run that can be reported.

    Columns: `env`, `agent`, `replications`; the columns with a title in `COLUMNS` as estimates of
    means, each followed by the ends `_low` and `_high` of its 95 % interval, NaN below 10
    replications, and but for shares by `_is_doubtful`: whether a heavy tail may make it too short;
    `flagged`, the share of decisions whose agent called its posterior unreliable, and `doubts_...`,
    where it tells them, those of each `Doubt`; quantiles of the pseudo-regret; `difference`, the
    mean pseudo-regret less that of the environment's first agent, paired by replication, with its
    interval, its `p_holm`, corrected for all comparisons of the table, and what follows from that:
    the `verdict` "better", "worse" or "undecided".

    The table depends on the results alone, to the last bit, but for `microseconds_per_decision`.
    """
    rows: list[dict[str, Any]] = []
    for environment in results.experiment.environments:
        reference = results.reference(environment)
        rows += [_describe(found, reference) for found in results.usable(environment)]
    table = pd.DataFrame(rows)
    if rows:
        table["p_holm"] = statistics.holm(table.pop("p_value"))
        table["verdict"] = [_judge(row) for row in table.itertuples()]
    return table


def regret_name(environment: Entry) -> str:
    """Say in words which regret a table or an axis shows."""
    title = COLUMNS["cumulative_regret"].title
    return title if "means" in environment.options else f"Bayesian {title}"


def _describe(found: RunResults, reference: RunResults | None) -> dict[str, Any]:
    regret, differences = found.final("cumulative_regret"), _final_differences(found, reference)
    doubts = {name: _share_of_decisions(found, name) for name in DOUBTED}
    return {
        "env": found.run.environment.label,
        "agent": found.run.agent.label,
        "replications": len(regret),
        **_estimates(found),
        "flagged": _share_of_decisions(found, "is_unreliable"),
        **{name: share for name, share in doubts.items() if not math.isnan(share)},
        **{name: float(np.quantile(regret, q)) for name, q in QUANTILES.items()},
        **_mean("difference", differences),
        "p_value": statistics.paired_p_value(differences),
    }


def _share_of_decisions(found: RunResults, name: str) -> float:
    return float(found.final(name).mean() / found.run.horizon)


def _estimates(found: RunResults) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in (name for name, column in COLUMNS.items() if column.title):
        estimate = _share if COLUMNS[name].unit == "share" else _mean
        row |= estimate(name, found.final(name))
    samples = _mean("samples_per_decision", found.final("num_samples") / found.run.horizon)
    return row | samples | {"microseconds_per_decision": 1e6 * found.seconds_per_decision()}


def _final_differences(found: RunResults, reference: RunResults | None) -> FloatArray:
    """Return the paired differences at the horizon, one NaN where there is nothing to compare."""
    if reference is None or found is reference:
        return np.array([np.nan])
    _, differences = paired_differences(found, reference, "cumulative_regret")
    return differences[:, -1] if len(differences) else np.array([np.nan])


def _judge(row: Any) -> str:
    """Say what is known of a row's difference; nothing where there is none."""
    if np.isnan(row.difference):
        return ""
    if not row.p_holm < statistics.LEVEL:
        return "undecided"
    return "better" if row.difference < 0 else "worse"


def _mean(name: str, values: FloatArray) -> dict[str, Any]:
    is_doubtful = statistics.is_coverage_doubtful(values)
    return _spread(name, statistics.mean_interval(values)) | {f"{name}_is_doubtful": is_doubtful}


def _share(name: str, values: FloatArray) -> dict[str, Any]:
    return _spread(name, statistics.proportion_interval(values))


def _spread(name: str, interval: Interval) -> dict[str, Any]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), interval, strict=True))


def aggregate(results: Stored) -> pd.DataFrame:
    """Tabulate each agent over all environments: mean scores, and their interquartile means.

    A score is a replication's final pseudo-regret divided by what uniform play loses on average in
    that environment: 0 is perfect, 1 no better than chance. It leaves out environments where that
    is 0, as all arms are equal, or unknown, as means move or are not reported; `environments` is
    how many are left, and with none the scores are NaN. Only replications and agents present in
    every environment count. A replication has the same seed in all environments, so it is one
    value, and intervals resample replications whole; below 10 of them there are none.
    """
    rows = []
    left_out = _without_score(results)
    for agent in results.experiment.agents:
        runs = [found for found in results.runs if found.run.agent == agent]
        common = reduce(np.intersect1d, [found.replications for found in runs])
        if all(found.is_usable for found in runs) and len(common):
            scored = [found for found in runs if found.run.environment not in left_out]
            kept = [_scores(found)[np.isin(found.replications, common)] for found in scored]
            scores = np.stack(kept or [np.full(len(common), np.nan)], axis=1)
            interval = statistics.bootstrap_interval(scores, statistics.interquartile_mean)
            row = {"agent": agent.label, "environments": len(kept), "replications": len(scores)}
            row |= {"score_mean": scores.mean()} | _spread("score_iqm", interval)
            rows.append(row)
    return pd.DataFrame(rows)


def _without_score(results: Stored) -> list[Entry]:
    """Return the environments where uniform play loses nothing, or it is not known how much."""
    return [
        environment
        for environment in results.experiment.environments
        if not all(_uniform_regret(found) > 0 for found in results.usable(environment))
    ]


def _uniform_regret(found: RunResults) -> float:
    return float(found.final("uniform_regret").mean())


def _scores(found: RunResults) -> FloatArray:
    return np.asarray(found.final("cumulative_regret") / _uniform_regret(found))


# -- Tables of text -------------------------------------------------------------------------------


def make_tables(
    results: Stored, rows: Sequence[Row], columns: Sequence[str] = ()
) -> dict[Entry, Table]:
    """Make a table of each environment that there are results of.

    Args:
        results: what is stored.
        rows: those of `summarise`.
        columns: names of those to show beside the usual ones.

    Raises:
        ValueError: if there is no estimate of one of them.
    """
    for name in columns:
        check_choice("columns", name, TITLED)
    made = {}
    for environment in results.experiment.environments:
        own = [row for row in rows if row["env"] == environment.label]
        if own:
            made[environment] = _make_estimates(results, environment, own, columns)
    return made


def _make_estimates(
    results: Stored,
    environment: Entry,
    rows: Sequence[Row],
    columns: Sequence[str],
) -> Table:
    experiment, most = results.experiment, max(row["replications"] for row in rows)
    title = (
        f"{environment.label}: {most} replication{'s' * (most != 1)} of "
        f"{experiment.horizon} steps, seed {experiment.seed}. Means ± 95 % intervals."
    )
    cells: Cells = {
        "agent": lambda row: row["agent"],
        regret_name(environment): partial(_write, "cumulative_regret"),
        f"less {experiment.agents[0].label}'s, paired": lambda row: write_estimate(
            row, "difference"
        ),
        "verdict": lambda row: row["verdict"] or NOTHING,
        "p (Holm)": lambda row: write_p_value(row["p_holm"]),
        **_cells(name for name in TITLED[1:] if name not in DETAILS),
        **_cells(columns),
        "samples/decision": lambda row: write_number(row["samples_per_decision"], "{:.1f}"),
        "µs/decision": lambda row: write_number(row["microseconds_per_decision"], "{:.2f}"),
    }
    notes = [
        _define_regret(environment),
        *(f"{COLUMNS[name].title.capitalize()}: {COLUMNS[name].meaning}." for name in columns),
        *interval_notes(rows, ("cumulative_regret", "difference", *columns)),
        *_flag_notes(rows),
        *_belief_notes(results, environment),
    ]
    return fill(title, rows, cells, notes)


def _cells(names: Iterable[str]) -> Cells:
    return {COLUMNS[name].title: partial(_write, name) for name in names}


def _write(name: str, row: Row) -> str:
    column = COLUMNS[name]
    if column.unit == "share":
        return write_number(row[name], "{:.0%}")
    return write_estimate(row, name, column.digits)


def _define_regret(environment: Entry) -> str:
    over = "the noise" if "means" in environment.options else "instances drawn from the prior"
    return (
        f"{regret_name(environment).capitalize()}: sum over steps of "
        f"{COLUMNS['cumulative_regret'].definition}, averaged over {over}."
    )


def _flag_notes(rows: Sequence[Row]) -> Iterator[str]:
    """Say how many of their decisions agents called unreliable; nothing if none tells."""
    telling = [row for row in rows if not math.isnan(row["flagged"])]
    for row in telling:
        if row["flagged"] > 0:
            flagged = f"{row['agent']}: {write_share(row['flagged'])} of decisions flagged"
            yield f"{flagged}{_reasons(row) or ', where it may be wrong'}."
    if telling and not any(row["flagged"] for row in telling):
        yield "No decision was flagged as unreliable."


def _reasons(row: Row) -> str:
    """Return ": " and the doubts of an agent in words, the most frequent first; "" if untold."""
    names = sorted((name for name in DOUBTED if row.get(name, 0) > 0), key=lambda name: -row[name])
    if len(names) < 2:
        return "".join(f": {DOUBTED[name].words}" for name in names)
    return ": " + ", ".join(f"{DOUBTED[name].words} ({write_share(row[name])})" for name in names)


def _belief_notes(results: Stored, environment: Entry) -> Iterator[str]:
    """Say which agents believe in another prior or likelihood than the environment's."""
    for found in results.usable(environment):
        misbelief = found.blocks[0].origin.get("misbelief")
        if isinstance(misbelief, str):
            text = "".join(c if c.isprintable() else "?" for c in misbelief)
            yield f"{found.run.agent.label}: misspecified, for it {text}."


def make_aggregate(results: Stored, rows: Sequence[Row]) -> Iterator[Table]:
    """Yield the table over all environments, where there are several.

    Args:
        results: what is stored.
        rows: those of `summarise`, whose verdicts are counted.
    """
    several = len(results.experiment.environments) > 1
    scores = aggregate(results).to_dict("records") if several else []
    if not scores:
        return
    title = (
        "All environments: pseudo-regret as a share of what uniform play loses, over environments\n"
        "and replications. The interquartile mean drops the tails, which the mean has."
    )
    verdicts = Counter((row["agent"], row["verdict"]) for row in rows)
    cells: Cells = {
        "agent": lambda row: row["agent"],
        "interquartile mean": lambda row: write_estimate(row, "score_iqm", digits=3),
        "mean": lambda row: write_number(row["score_mean"], "{:.3f}"),
        **{title: partial(_count, verdicts, word) for title, word in COUNTED.items()},
    }
    notes = [*_score_notes(results), *interval_notes(scores, ["score_iqm"])]
    yield fill(title, scores, cells, notes)


def _score_notes(results: Stored) -> Iterator[str]:
    """Say which environments have no score; nothing if all have one."""
    labels = "; ".join(environment.label for environment in _without_score(results))
    if labels:
        yield f"Left out of the scores, as what uniform play loses is 0 or unknown there: {labels}."


def _count(verdicts: Counter[tuple[str, str]], word: str, row: Row) -> str:
    """Write how often an agent has a verdict; nothing of the reference."""
    is_judged = any(verdicts[row["agent"], each] for each in COUNTED.values())
    return str(verdicts[row["agent"], word]) if is_judged else NOTHING


def fill(title: str, rows: Sequence[Row], cells: Cells, notes: Iterable[str]) -> Table:
    """Make a table by writing the cells of each row."""
    lines = [[write(row) for write in cells.values()] for row in rows]
    return Table(title, name_rows(pd.DataFrame(lines, columns=list(cells))), list(notes))


def name_rows(cells: pd.DataFrame) -> pd.DataFrame:
    """Return cells whose rows are named by the first column, and that by its title."""
    title = cells.columns[0]
    return cells.set_index(title).rename_axis(index=None, columns=title)


# -- Cells: how numbers, their intervals and what is missing of them are written


def write_estimate(row: Row, name: str, digits: int = 1) -> str:
    """Write "mean ± half width", or the two ends where the interval is lopsided.

    The half width has two digits, and the mean has as many decimals.

    Args:
        row: of estimates.
        name: of the estimate.
        digits: decimals where there is no interval, or where it has no width.
    """
    mean, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if math.isnan(mean):
        return NOTHING
    if is_missing(row, name):
        return f"{mean:z.{digits}f} ± {NOTHING}"
    mark = DOUBTFUL if _is_marked(row, name) else ""
    half = max(high - mean, mean - low)
    if half > 0:
        digits = max(0, 1 - math.floor(math.log10(half)))
    if abs(high + low - 2 * mean) < 0.5 * 10**-digits:
        return f"{mean:z.{digits}f} ± {high - mean:.{digits}f}{mark}"
    return f"{mean:z.{digits}f} [{low:z.{digits}f}, {high:z.{digits}f}]{mark}"


def write_share(share: float) -> str:
    """Write a share in per cent; one that is not zero never as zero."""
    return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def write_number(value: float, form: str) -> str:
    """Write a number in a form of `str.format`, or that there is none."""
    return NOTHING if math.isnan(value) else form.format(value)


def write_p_value(value: float) -> str:
    """Write a p-value to three digits."""
    return "<0.001" if value < 0.001 else write_number(value, "{:.3f}")


def interval_notes(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """Say where intervals are missing, and which of those named may be too short."""
    if any(is_missing(row, name) for row in rows for name in names):
        yield f"{NOTHING} for an interval or a p-value: none below {MIN_REPLICATIONS} replications."
    if any(_is_marked(row, name) for row in rows for name in names):
        yield (
            f"{DOUBTFUL} A long tail and fewer than {FEW_REPLICATIONS} replications: the interval "
            "may be too short."
        )


def is_missing(row: Row, name: str) -> bool:
    """Say whether there is an estimate without an interval."""
    return math.isnan(row[f"{name}_low"]) and not math.isnan(row[name])


def _is_marked(row: Row, name: str) -> bool:
    return bool(row.get(f"{name}_is_doubtful")) and not is_missing(row, name)
