"""Rows in; a table in the terminal, a JSON document and a table in Markdown out."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from bandit_gym.checks.styles import COLOURS
from bandit_gym.experiments.provenance import versions
from bandit_gym.results.report import markdown_rows
from benchmarks.thresholds import TARGETS, judge_row
from benchmarks.timing import Effort, ResultRow

MARKER = "<!-- scripts/benchmark.py --markdown -->"
TABLE_COLUMNS = ("row", "median", "quartiles", "bar", "aim", "", "cost per unit of work")
OWN_CONTESTANTS = ("ours", "native", "grid")
"""How the names of our own contestants begin."""


def document(
    rows: Sequence[ResultRow], effort: Effort, peer_versions: dict[str, dict[str, str]]
) -> dict[str, Any]:
    """Return everything that was found, JSON-able."""
    return {
        "machine": machine(),
        "versions": versions(),
        "peers": peer_versions,
        "effort": asdict(effort),
        "rows": [_row_to_dict(row) for row in rows],
    }


def machine() -> dict[str, Any]:
    """Describe the machine, and how busy it was."""
    return {
        "processor": _name_processor(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def print_report(found: dict[str, Any], rows: Sequence[ResultRow]) -> None:
    """Print the table, and below it the machine and the versions."""
    effort = found["effort"]
    turns = f"{effort['repeats']} turns by the {effort['clock']} clock"
    print(f"{effort['name']}: medians and quartiles of {turns}")
    print(pd.DataFrame([_write_cells(row) for row in rows]).to_string(index=False))
    parts = {"machine": found["machine"], "versions": found["versions"], **found["peers"]}
    for heading, facts in parts.items():
        print(f"{heading}: {_write_facts(facts)}")


def write_markdown(found: dict[str, Any], rows: Sequence[ResultRow], path: Path) -> None:
    """Put the table between the two MARKER lines of a document, and draw the picture beside it.

    Raises:
        ValueError: if the document does not have the marker twice.
    """
    parts = path.read_text().split(MARKER)
    if len(parts) != 3:
        raise ValueError(f"{path} must have the line {MARKER!r} twice, got {len(parts) - 1}.")
    path.write_text(MARKER.join([parts[0], f"\n{_make_markdown(found, rows)}\n", parts[2]]))
    with rc_context({"svg.hashsalt": path.stem}):
        figure = draw([row for row in rows if row.costs])
        figure.savefig(path.with_suffix(".svg"), transparent=True, metadata={"Date": None})


def draw(rows: Sequence[ResultRow]) -> Figure:
    """Draw what each contestant of each row costs; the one that is judged is filled."""
    figure = Figure(figsize=(7.0, 0.55 * len(rows) + 0.6), layout="constrained")
    axes = figure.subplots()
    for position, row in enumerate(rows):
        costs = np.array(list(row.costs.values())) * 1e6
        axes.plot(costs, np.full(len(costs), position), color="0.7", zorder=0)
        for name, cost in zip(row.costs, costs, strict=True):
            is_ours = name.startswith(OWN_CONTESTANTS)
            fill, height = (COLOURS[0], position - 0.17) if is_ours else ("white", position + 0.36)
            axes.plot(cost, position, "o", color=COLOURS[0], markerfacecolor=fill)
            axes.annotate(name, (cost, height), ha="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [row.title.partition(":")[0] for row in rows], fontsize=8)
    axes.set(xscale="log", xlabel="µs", ylim=(len(rows) - 0.5, -0.6))
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def format_value(value: float | None, unit: str) -> str:
    """Write a value with three digits that matter."""
    if value is None:
        return "absent"
    digits = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{digits} {unit}"


def format_seconds(seconds: float) -> str:
    """Write a duration in the unit that suits it, with three digits."""
    return EngFormatter("s")(float(f"{seconds:.3g}"))


def _make_markdown(found: dict[str, Any], rows: Sequence[ResultRow]) -> str:
    effort, where = found["effort"], found["machine"]
    facts = dict(found["versions"])
    for peer in found["peers"].values():
        facts |= islice(peer.items(), 1, 2)  # after Python, the peer itself
    head = (
        f"Effort {effort['name']}, {effort['repeats']} turns, {effort['clock']} clock; "
        f"{where['processor']}, {where['cores']} cores, load {where['load_average'][0]}; "
        f"{_write_facts(facts)}."
    )
    table = markdown_rows([_write_cells(row) for row in rows])
    reasons = [
        {"row": f"`{row.key}`", "why its bar lies there": TARGETS[row.key].reason}
        for row in rows
        if row.key in TARGETS
    ]
    return f"{head}\n\n{table}" + (f"\n\n{markdown_rows(reasons)}" if reasons else "")


def _write_facts(facts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _write_cells(row: ResultRow) -> dict[str, str]:
    """Return what a row says in each of COLUMNS."""
    spread = "" if row.low is None else f"{row.low:.3g} to {row.high:.3g}"
    threshold = TARGETS.get(row.key)
    limits = ["", ""]
    if threshold is not None:
        sign = ">=" if threshold.is_floor else "<="
        limits = [
            "" if end is None else f"{sign} {end:g}" for end in (threshold.value, threshold.aim)
        ]
    costs = " / ".join(f"{name} {format_seconds(cost)}" for name, cost in row.costs.items())
    notes = "; ".join(part for part in (costs and f"{costs} per {row.work}", row.note) if part)
    cells = row.title, format_value(row.value, row.unit), spread, *limits, judge_row(row), notes
    return dict(zip(TABLE_COLUMNS, cells, strict=True))


def _row_to_dict(row: ResultRow) -> dict[str, Any]:
    threshold = TARGETS.get(row.key)
    return {**asdict(row), "bar": threshold and asdict(threshold), "verdict": judge_row(row)}


def _name_processor() -> str:
    named = re.search("model name.*: (.*)", Path("/proc/cpuinfo").read_text())
    return named[1] if named else "unknown"
