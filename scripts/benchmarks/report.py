"""Rows in; a table in the terminal, a JSON document and a table in Markdown out."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from bandit_gym.experiments.provenance import versions
from bandit_gym.results.plots import save_figure
from bandit_gym.results.report import markdown_rows
from bandit_gym.styles import COLOURS, GREY, GROUND, MAX_WIDTH, STYLES
from benchmarks.thresholds import TARGETS, judge_row
from benchmarks.timing import Effort, ResultRow
from scripts.studies.environments import read_pins
from scripts.studies.study import fill_blocks, fold, fold_rows

PEER_NAMES = ("gymnax", "mabwiser", "river", "particles")
OWN_CONTESTANTS = ("ours", "native", "grid")
"""How the names of our own contestants begin."""


def document(rows: Sequence[ResultRow], effort: Effort) -> dict[str, Any]:
    """Return everything that was found, JSON-able."""
    pins = {name: read_pins(name) for name in PEER_NAMES if effort.has_peers}
    peers = {name: re.findall(rf"^{name}==(\S+)", text, re.M)[0] for name, text in pins.items()}
    return {
        "machine": machine(),
        "versions": versions() | peers,  # whose own dict blocks have
        "effort": asdict(effort),
        "rows": [asdict(row) | {"verdict": judge_row(row)} for row in rows],
    }


def machine() -> dict[str, Any]:
    """Describe the machine, and how busy it was."""
    named = re.search("model name.*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "processor": named[1] if named else "unknown",
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }


def describe(found: dict[str, Any]) -> str:
    """Say how the rows came about."""
    effort, where = found["effort"], found["machine"]
    facts = ", ".join(f"{name} {value}" for name, value in found["versions"].items())
    return (
        f"Effort {effort['name']}, {effort['repeats']} turns, {effort['clock']} clock; "
        f"{where['processor']}, {where['cores']} cores, load {where['load']}; {facts}."
    )


def print_report(found: dict[str, Any], rows: Sequence[ResultRow]) -> None:
    """Print the table, and below it the machine and the versions."""
    print(pd.DataFrame([_write_cells(row) for row in rows]).to_string(index=False))
    print(describe(found))


def write_markdown(found: dict[str, Any], rows: Sequence[ResultRow], path: Path) -> None:
    """Put the tables into the place of a document, and draw what compares beside it.

    Raises:
        ValueError: if the document has no place for them; see `fill_blocks`.
    """
    reasons = {f"`{row.key}`": TARGETS[row.key].reason for row in rows if row.key in TARGETS}
    table = fold_rows([_write_cells(row) for row in rows])
    why = [{"row": key, "why its bar lies there": reason} for key, reason in reasons.items()]
    whys = [fold("Why each bar lies where it does", markdown_rows(why))] if why else []
    text = "\n\n".join([describe(found), table, *whys])
    path.write_text(fill_blocks(path.read_text(), {"rows": text}))
    compared = [row for row in rows if row.costs]
    if compared:
        with matplotlib.rc_context(STYLES["screen"]):
            save_figure(draw(compared), path.with_suffix(""), ["svg"])


def draw(rows: Sequence[ResultRow]) -> Figure:
    """Draw what each contestant costs; ours are filled. Rows of one title are drawn as one."""
    costs: dict[str, dict[str, float]] = {}
    for row in rows:
        costs.setdefault(row.title.partition(":")[0], {}).update(row.costs)
    figure = Figure(figsize=(MAX_WIDTH, 0.75 * len(costs) + 0.5), layout="constrained")
    axes = figure.subplots()
    for position, (title, contestants) in enumerate(costs.items()):
        values = 1e6 * np.array(list(contestants.values()))
        axes.plot(values, np.full(len(values), position), color=GREY, linewidth=1, zorder=0)
        axes.annotate(
            title,
            (0.0, position),
            (0, 16),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontweight="bold",
        )
        for index, name in enumerate(sorted(contestants, key=contestants.__getitem__)):
            cost = 1e6 * contestants[name]
            is_ours = name.startswith(OWN_CONTESTANTS)
            axes.plot(cost, position, "o", color=COLOURS[0], mfc=COLOURS[0] if is_ours else GROUND)
            side = {"ha": "right" if index == 0 else "left", "va": "center"}
            if 0 < index < len(contestants) - 1:
                side = {"ha": "center", "va": "bottom"}
            shift = {"right": (-6, 0), "left": (6, 0), "center": (0, 5)}[side["ha"]]
            axes.annotate(name, (cost, position), shift, textcoords="offset points", **side)
    axes.set(xscale="log", xlabel="µs", yticks=(), ylim=(len(costs) - 0.6, -0.7))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(x=0.35)
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


def _write_cells(row: ResultRow) -> dict[str, str]:
    """Return what a row says in each column."""
    threshold = TARGETS.get(row.key)
    bar, aim = (None, None) if threshold is None else (threshold.value, threshold.aim)
    sign = ">=" if threshold and threshold.is_floor else "<="
    costs = " / ".join(f"{name} {format_seconds(cost)}" for name, cost in row.costs.items())
    notes = [f"{costs} per {row.work}"] * bool(costs) + [row.note] * bool(row.note)
    return {
        "row": row.title,
        "median": format_value(row.value, row.unit),
        "quartiles": "" if row.low is None else f"{row.low:.3g} to {row.high:.3g}",
        "bar": "" if bar is None else f"{sign} {bar:g}",
        "aim": "" if aim is None else f"{sign} {aim:g}",
        "": judge_row(row),
        "cost per unit of work": "; ".join(notes),
    }
