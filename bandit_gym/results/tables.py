"""The tables of a report, before anybody writes them as text, HTML or LaTeX."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from bandit_gym.checks import check_choice
from bandit_gym.experiments.blocks import COLUMNS, DOUBTED
from bandit_gym.experiments.entries import Entry
from bandit_gym.results.statistics import FEW_REPLICATIONS, MIN_REPLICATIONS
from bandit_gym.results.summary import QUANTILES, aggregate, regret_name

if TYPE_CHECKING:
    from bandit_gym.results.results import Results

NOTHING = "-"
DOUBTFUL = "*"
Row = Mapping[Any, Any]
Cells = dict[str, Callable[[Row], str]]  # title -> what a row has below it
TITLED = [name for name, column in COLUMNS.items() if column.title]
"""The columns of which there are estimates."""


class Table(NamedTuple):
    """A table of a report, its cells written.

    Attributes:
        title: what stands above it.
        header: the titles of its columns; the first is that of the agents.
        lines: a row for each agent.
        notes: sentences that stand below it.
    """

    title: str
    header: list[str]
    lines: list[list[str]]
    notes: list[str]


def make_tables(
    results: Results, rows: Sequence[Row], columns: Sequence[str] = ()
) -> dict[Entry, tuple[Table, Table]]:
    """Make two tables of each environment that there are results of: estimates, and the spread.

    Args:
        results: what is stored.
        rows: those of `summarise`.
        columns: names of those that the estimates are to show beside their own.

    Raises:
        ValueError: if there is no estimate of one of them.
    """
    for name in columns:
        check_choice("columns", name, TITLED)
    times = {
        (row["env"], row["agent"]): row["microseconds_per_decision"] for row in timing(results)
    }
    made = {}
    for environment in results.experiment.environments:
        own = [row for row in rows if row["env"] == environment.label]
        if own:
            estimates = _make_estimates(results, environment, own, times, columns)
            made[environment] = estimates, _make_spread(own)
    return made


def timing(results: Results) -> list[dict[str, Any]]:
    """List the agents' own time; unlike the other tables it differs from time to time."""
    return [
        {
            "env": found.run.environment.label,
            "agent": found.run.agent.label,
            "microseconds_per_decision": 1e6 * found.seconds_per_decision(),
        }
        for found in results.runs
        if found.is_usable
    ]


def _make_estimates(
    results: Results,
    environment: Entry,
    rows: Sequence[Row],
    times: Mapping[Any, float],
    columns: Sequence[str],
) -> Table:
    experiment = results.experiment
    title = (
        f"{environment.label}: {max(row['replications'] for row in rows)} replications of "
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
        **_cells([name for name in _shown("estimates") if name != "cumulative_regret"]),
        **_cells(columns),
        "samples/decision": lambda row: write_number(row["samples_per_decision"], "{:.1f}"),
        "µs/decision": lambda row: write_number(times[row["env"], row["agent"]], "{:.2f}"),
    }
    notes = [
        _define_regret(environment),
        *interval_notes(rows, ("cumulative_regret", "difference", *columns)),
        *_flag_notes(rows),
        *_belief_notes(results, environment),
    ]
    return fill(title, rows, cells, notes)


def _shown(table: str) -> list[str]:
    """Return the columns that a printed table has unasked."""
    return [name for name, column in COLUMNS.items() if column.table == table]


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


def _make_spread(rows: Sequence[Row]) -> Table:
    names = _shown("spread")
    realised, simple = (COLUMNS[name] for name in names)
    title = (
        f"{realised.title.capitalize()}: sum over steps of {realised.definition}. "
        f"{simple.title.capitalize()}: {simple.definition}.\n"
        "Quantiles are those of the pseudo-regret over replications."
    )
    cells: Cells = {
        "agent": lambda row: row["agent"],
        **_cells(names),
        **{name: partial(write_quantile, name) for name in QUANTILES},
    }
    notes = interval_notes(rows, names)
    return fill(title, rows, cells, notes)


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


def _belief_notes(results: Results, environment: Entry) -> Iterator[str]:
    """Say which agents believe in another prior or likelihood than the environment's."""
    for found in results.usable(environment):
        misbelief = found.blocks[0].receipt.get("misbelief")
        if isinstance(misbelief, str):
            text = "".join(c if c.isprintable() else "?" for c in misbelief)
            yield f"{found.run.agent.label}: misspecified, for it {text}."


def make_aggregate(results: Results) -> Iterator[Table]:
    """Yield the table over all environments, where there are several."""
    several = len(results.experiment.environments) > 1
    rows = aggregate(results).to_dict("records") if several else []
    if not rows:
        return
    title = (
        "All environments: interquartile mean, over environments and replications, of the "
        "pseudo-regret\nas a share of what uniform play loses. Means ± 95 % intervals."
    )
    cells: Cells = {
        "agent": lambda row: row["agent"],
        "score": lambda row: write_estimate(row, "score_iqm", digits=3),
    }
    yield fill(title, rows, cells, interval_notes(rows, ["score_iqm"]))


def fill(title: str, rows: Sequence[Row], cells: Cells, notes: Iterable[str]) -> Table:
    """Make a table by writing the cells of each row."""
    lines = [[write(row) for write in cells.values()] for row in rows]
    return Table(title, list(cells), lines, list(notes))


# -- Cells: how numbers, their intervals and what is missing of them are written


def write_estimate(row: Row, name: str, digits: int = 1) -> str:
    """Write "mean ± half width", or the two ends where the interval is lopsided."""
    mean, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if math.isnan(mean):
        return NOTHING
    if is_missing(row, name):
        return f"{mean:.{digits}f} ± {NOTHING}"
    mark = DOUBTFUL if _is_marked(row, name) else ""
    if abs((high - mean) - (mean - low)) < 0.5 * 10**-digits:
        return f"{mean:.{digits}f} ± {high - mean:.{digits}f}{mark}"
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]{mark}"


def write_share(share: float) -> str:
    """Write a share in per cent; one that is not zero never as zero."""
    return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def write_number(value: float, form: str) -> str:
    """Write a number in a form of `str.format`, or that there is none."""
    return NOTHING if math.isnan(value) else form.format(value)


def write_quantile(name: str, row: Row) -> str:
    """Write a quantile of the pseudo-regret."""
    return f"{row[name]:.1f}"


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
