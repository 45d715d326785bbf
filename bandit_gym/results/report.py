"""What people read: tables in plain text, and the folder `report` with tables and figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from bandit_gym.checks import check_folder, check_object, make_folder
from bandit_gym.experiments.columns import COLUMNS
from bandit_gym.experiments.entries import Entry
from bandit_gym.files import RESULTS_VERSION, write_atomically
from bandit_gym.results.results import Results
from bandit_gym.results.spreadsheet import to_csv
from bandit_gym.results.statistics import FEW_REPLICATIONS, LEVEL, MIN_REPLICATIONS
from bandit_gym.results.summary import QUANTILES, aggregate, regret_name, summarise

NOTHING = "-"
DOUBTFUL = "*"
Row = Mapping[Any, Any]
Cells = dict[str, Callable[[Row], str]]  # title -> what a row has below it


def describe(results: Results, *, details: bool = False) -> str:
    """Write one table per environment, then the scores over all, then what is missing or failed.

    If another version of the engine drew the numbers, that is said before all.

    Args:
        results: what to write about.
        details: add to each environment how the regret is spread and what it became in rewards.
    """
    rows = summarise(results).to_dict("records")
    times = {
        (row["env"], row["agent"]): row["microseconds_per_decision"] for row in timing(results)
    }
    parts = list(_version_note(results))
    for environment in results.experiment.environments:
        own = [row for row in rows if row["env"] == environment.label]
        if own:
            parts.append(_describe_environment(results, environment, own, times))
            if details:
                parts.append(_describe_spread(own))
    if len(results.experiment.environments) > 1 and (
        scores := aggregate(results).to_dict("records")
    ):
        parts.append(_describe_aggregate(scores))
    notes = [*_verdict_note(results, rows), *_optimum_note(results), *_warnings(results)]
    return "\n\n".join([*parts, *notes])


def write_report(results: Results, directory: Path) -> None:
    """Write tables as CSV, the text of `describe` and all figures as PNG and SVG into a folder."""
    from bandit_gym.results import plots  # brings matplotlib, which a table does not need

    check_object("results", results, Results)
    directory = check_folder("directory", directory)
    make_folder("directory", directory)
    tables = {
        "summary": summarise(results),
        "aggregate": aggregate(results),
        "timing": pd.DataFrame(timing(results)),
    }
    for name, table in tables.items():
        marked = table.assign(mark=results.mark) if results.mark else table
        write_atomically(directory / f"{name}.csv", to_csv(marked))
    text = describe(results, details=True)
    write_atomically(directory / "report.txt", f"{text}\n".encode())
    for name, figure in plots.draw_all(results):
        plots.save(figure, directory / name)


def draw_regret(results: Results, directory: Path) -> list[Path]:
    """Draw the regret over time, one picture per environment, and return the PNG files."""
    from bandit_gym.results import plots

    check_object("results", results, Results)
    directory = check_folder("directory", directory)
    make_folder("directory", directory)
    figures = plots.draw_each(results, {"regret": plots.draw_regret})
    return [
        path for name, figure in figures for path in plots.save(figure, directory / name, ["png"])
    ]


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


def _describe_environment(
    results: Results, environment: Entry, rows: Sequence[Row], times: Mapping[Any, float]
) -> str:
    experiment = results.experiment
    title = (
        f"{environment.label}: {max(row['replications'] for row in rows)} replications of "
        f"{experiment.horizon} steps, seed {experiment.seed}. Means ± 95 % intervals."
    )
    cells: Cells = {
        "agent": lambda row: row["agent"],
        regret_name(environment): lambda row: _estimate(row, "pseudo_regret"),
        f"less {experiment.agents[0].label}'s, paired": lambda row: _estimate(row, "difference"),
        **_optimal_cells(rows),
        "p (Holm)": lambda row: _p_value(row["p_holm"]),
        "verdict": lambda row: row["verdict"] or NOTHING,
        COLUMNS["best_arm_found"].title: lambda row: _number(row["best_arm_found"], "{:.0%}"),
        "samples/decision": lambda row: _number(row["samples_per_decision"], "{:.1f}"),
        "µs/decision": lambda row: _number(times[row["env"], row["agent"]], "{:.2f}"),
    }
    notes = [
        *_interval_notes(rows, ("pseudo_regret", "difference")),
        *_flag_notes(rows),
        *_belief_notes(results, environment),
    ]
    return "\n".join([title, *_tabulate(rows, cells), _define_regret(environment), *notes])


def _optimal_cells(rows: Sequence[Row]) -> Cells:
    """Return the column of regrets over the least possible, where that is known."""
    known = ("times_optimal", "times_optimal_high")
    is_known = any(not math.isnan(row[name]) for row in rows for name in known)
    return {"times optimal": _write_times_optimal} if is_known else {}


def _write_times_optimal(row: Row) -> str:
    """Write the estimate with its interval; where the least regret has bounds, the ends alone."""
    low, high = row["times_optimal_low"], row["times_optimal_high"]
    if not math.isnan(row["times_optimal"]):
        return _estimate(row, "times_optimal", digits=2)
    if math.isinf(high):
        return f"over {low:.1f}"
    return NOTHING if math.isnan(high) else f"{low:.1f} to {high:.1f}"


def _define_regret(environment: Entry) -> str:
    over = "the noise" if "means" in environment.options else "instances drawn from the prior"
    return (
        f"{regret_name(environment).capitalize()}: sum over steps of "
        f"{COLUMNS['pseudo_regret'].definition}, averaged over {over}."
    )


def _describe_spread(rows: Sequence[Row]) -> str:
    realised, simple = COLUMNS["realised_regret"], COLUMNS["simple_regret"]
    title = (
        f"{realised.title.capitalize()}: sum over steps of {realised.definition}. "
        f"{simple.title.capitalize()}: {simple.definition}.\n"
        "Quantiles are those of the pseudo-regret over replications."
    )
    cells: Cells = {
        "agent": lambda row: row["agent"],
        realised.title: lambda row: _estimate(row, "realised_regret"),
        simple.title: lambda row: _estimate(row, "simple_regret", digits=4),
        **{name: partial(_quantile, name) for name in QUANTILES},
    }
    notes = _interval_notes(rows, ("realised_regret", "simple_regret"))
    return "\n".join([title, *_tabulate(rows, cells), *notes])


def _interval_notes(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """Say where intervals are missing, and which of those named may be too short."""
    if any(_is_missing(row, name) for row in rows for name in names):
        yield f"{NOTHING} for an interval or a p-value: none below {MIN_REPLICATIONS} replications."
    if any(_is_marked(row, name) for row in rows for name in names):
        yield (
            f"{DOUBTFUL} A long tail and fewer than {FEW_REPLICATIONS} replications: the interval "
            "may be too short."
        )


def _flag_notes(rows: Sequence[Row]) -> Iterator[str]:
    """Say how many of their decisions agents called unreliable; nothing if none tells."""
    shares = {row["agent"]: row["flagged"] for row in rows if not math.isnan(row["flagged"])}
    for agent, share in shares.items():
        if share > 0:
            yield f"{agent}: {_percent(share)} of decisions flagged, where it may be wrong."
    if shares and not any(shares.values()):
        yield "No decision was flagged as unreliable."


def _belief_notes(results: Results, environment: Entry) -> Iterator[str]:
    """Say which agents believe in another prior or likelihood than the environment's."""
    for found in results.usable(environment):
        misbelief = found.blocks[0].receipt.get("misbelief")
        if isinstance(misbelief, str):
            text = "".join(c if c.isprintable() else "?" for c in misbelief)
            yield f"{found.run.agent.label}: misspecified, for it {text}."


def _verdict_note(results: Results, rows: Sequence[Row]) -> Iterator[str]:
    count = sum(not math.isnan(row["p_holm"]) for row in rows)
    if count:
        yield (
            f"Verdicts: regret below or above {results.experiment.agents[0].label}'s with "
            f"p < {LEVEL} after Holm's correction for the {count} comparisons of this report; "
            "undecided otherwise."
        )


def _optimum_note(results: Results) -> Iterator[str]:
    """Say what regret nobody can avoid in each environment, in one paragraph."""
    worlds = {found.run.environment: found.optimum for found in results.runs if found.is_usable}
    texts = {world.label: optimum.describe() for world, optimum in worlds.items() if optimum}
    lines = [f"Least possible regret in {label}: {text}" for label, text in texts.items() if text]
    if lines:
        yield "\n".join(lines)


def _describe_aggregate(rows: Sequence[Row]) -> str:
    title = (
        "All environments: interquartile mean, over environments and replications, of the "
        "pseudo-regret\nas a share of what uniform play loses. Means ± 95 % intervals."
    )
    cells: Cells = {
        "agent": lambda row: row["agent"],
        "score": lambda row: _estimate(row, "score_iqm", digits=3),
    }
    return "\n".join([title, *_tabulate(rows, cells), *_interval_notes(rows, ["score_iqm"])])


def _version_note(results: Results) -> Iterator[str]:
    if results.version != RESULTS_VERSION:
        yield (
            f"These are results of version {results.version}; this package draws those of version "
            f"{RESULTS_VERSION}, other numbers for the same settings. Do not compare the two."
        )
    if results.others:
        yield (
            f"Left out: {len(results.others)} blocks of another origin than the folder's, "
            f"for example {results.others[0]}."
        )
    if results.mark:
        yield f"{results.mark}."


def _warnings(results: Results) -> Iterator[str]:
    made_with = {str(block.receipt["versions"]) for run in results.runs for block in run.blocks}
    if len(made_with) > 1:
        yield "Blocks were made with different versions: " + "; ".join(sorted(made_with))
    if results.num_missing:
        total = len(results.runs) * results.experiment.num_blocks
        yield f"Not complete: {results.num_missing} of {total} blocks are missing."
    if results.damaged:
        yield (
            f"Not whole: {len(results.damaged)} blocks, for example {results.damaged[0]}; "
            "`bandit-gym resume` computes them again."
        )
    for found in results.failed:
        headline = next(iter(found.failures.values())).partition("\n")[0]
        yield (
            f"Left out: {found.run.agent.label} in {found.run.environment.label}, which failed in "
            f"{len(found.failures)} of {results.experiment.num_blocks} blocks: {headline}"
        )


def _estimate(row: Row, name: str, digits: int = 1) -> str:
    """Write "mean ± half width", or the two ends where the interval is lopsided."""
    mean, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if math.isnan(mean):
        return NOTHING
    if _is_missing(row, name):
        return f"{mean:.{digits}f} ± {NOTHING}"
    mark = DOUBTFUL if _is_marked(row, name) else ""
    if abs((high - mean) - (mean - low)) < 0.5 * 10**-digits:
        return f"{mean:.{digits}f} ± {high - mean:.{digits}f}{mark}"
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]{mark}"


def _is_missing(row: Row, name: str) -> bool:
    return math.isnan(row[f"{name}_low"]) and not math.isnan(row[name])


def _is_marked(row: Row, name: str) -> bool:
    return bool(row.get(f"{name}_is_doubtful")) and not _is_missing(row, name)


def _percent(share: float) -> str:
    return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def _number(value: float, form: str) -> str:
    return NOTHING if math.isnan(value) else form.format(value)


def _quantile(name: str, row: Row) -> str:
    return f"{row[name]:.1f}"


def _p_value(value: float) -> str:
    return "<0.001" if value < 0.001 else _number(value, "{:.3f}")


def _tabulate(rows: Sequence[Row], cells: Cells) -> Iterator[str]:
    """Yield aligned lines, titles first; the first column to the left, the others to the right."""
    lines = [list(cells), *([write(row) for write in cells.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        aligned = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *aligned])
