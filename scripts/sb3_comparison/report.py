"""The page: one table per world and one picture of all regret curves."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_gym.results.plots import COLOURS, Style, draw_band
from bandit_gym.results.results import paired_differences
from bandit_gym.results.statistics import Interval, mean_interval
from sb3_comparison.evaluation import Played
from sb3_comparison.settings import FROZEN, LEARNS, NEITHER, World

LINE_STYLES = {LEARNS: "-", FROZEN: "--", NEITHER: ":"}
Section = tuple[World, Sequence[Played]]
Row = dict[str, Any]

NOTES = f"""\
- *{LEARNS}*: starts every episode knowing nothing but, for Thompson sampling, the prior.
- *{FROZEN}*: its weights were trained on other instances of the same world and horizon, and stay.
- Return is the sum of an episode's rewards. Regret is its pseudo-regret, summed from
  `info["regret"]` in float64: what the best arm would have returned, less noise.
- *Trained on* so many pulls, which took so much processor time; the agent itself then takes
  *µs/decision*. Both depend on what else the machine does.
- Intervals are 95 % over evaluation episodes, for the models as trained: one training run each,
  so they say nothing of how another training seed would have done.
- Differences are paired: every agent plays the same means with the same reward noise.
"""


def tabulate(world: World, played: Sequence[Played]) -> list[Row]:
    """Return one row per agent, lowest regret first."""
    rows = [_row(world, agent, played[0]) for agent in played]
    return sorted(rows, key=lambda row: row["regret"])


def write_page(sections: Sequence[Section], directory: Path, title: str) -> Path:
    """Write `report.md`, `table.csv` and `regret.png` into a folder; return the page."""
    directory.mkdir(parents=True, exist_ok=True)
    tables = [(world, tabulate(world, played)) for world, played in sections]
    rows = [row for _, table in tables for row in table]
    with open(directory / "table.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    draw(sections).savefig(directory / "regret.png", dpi=110)
    parts = [f"# {title}", NOTES, *(markdown(world, table) for world, table in tables)]
    page = directory / "report.md"
    page.write_text("\n\n".join([*parts, "![Regret curves](regret.png)"]) + "\n", encoding="utf-8")
    return page


def markdown(world: World, rows: Sequence[Row]) -> str:
    """Write one world's table for people."""
    reference = world.learners[0]["label"]
    header = (
        "agent", "kind", "return", "regret", f"less {reference}'s", "share of random's",
        "trained on", "CPU time", "µs/decision",
    )  # fmt: skip
    lines = [header, ("---",) * 2 + ("---:",) * (len(header) - 2)]
    lines += [tuple(_cells(row, reference)) for row in rows]
    title = (
        f"## {world.title}\n\n{world.replications} episodes of {world.horizon} pulls, the same "
        "for every agent.\n"
    )
    return "\n".join([title, *("| " + " | ".join(line) + " |" for line in lines)])


def draw(sections: Sequence[Section]) -> Figure:
    """Draw the mean regret of every agent over time, one panel per world."""
    figure = Figure(figsize=(4.6 * len(sections), 4.2), layout="constrained")
    panels = figure.subplots(1, len(sections), squeeze=False)[0]
    colours = _colours(sections)
    for axes, (world, played) in zip(panels, sections, strict=True):
        _draw_panel(axes, world, played, colours)
    panels[0].set_ylabel("pseudo-regret so far")
    handles = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    title = f"solid: {LEARNS}; dashed: {FROZEN}; dotted: {NEITHER}"
    legend = {"loc": "outside lower center", "ncols": 4, "title": title}
    figure.legend(handles.values(), handles.keys(), **legend)
    return figure


def _colours(sections: Sequence[Section]) -> dict[str, str]:
    """Give every agent a colour, the same in all panels; random play is grey."""
    agents = {agent.label: agent.kind for _, played in sections for agent in played}
    named = [label for label, kind in agents.items() if kind != NEITHER]
    return dict(zip(named, COLOURS, strict=False)) | {
        label: "0.5" for label, kind in agents.items() if kind == NEITHER
    }


def _draw_panel(
    axes: Axes, world: World, played: Sequence[Played], colours: dict[str, str]
) -> None:
    for agent in played:
        found = agent.results
        style: Style = {"color": colours[agent.label], "linestyle": LINE_STYLES[agent.kind]}
        draw_band(axes, found.steps, found.curves("pseudo_regret"), agent.label, style)
    axes.set_title(f"{world.title}\n{world.replications} episodes, 95 % bands", fontsize="small")
    axes.set_xlabel("pull")
    axes.set_ylim(0, _ceiling(played))
    axes.spines[["top", "right"]].set_visible(False)


def _ceiling(played: Sequence[Played]) -> float:
    """Return where a panel ends: all of it, unless random play would dwarf what the others do."""
    highest = {agent.label: agent.results.curves("pseudo_regret").mean(0).max() for agent in played}
    others = [highest[agent.label] for agent in played if agent.kind != NEITHER]
    return 1.05 * float(min(max(highest.values()), 2 * max(others)))


def _row(world: World, agent: Played, reference: Played) -> Row:
    found, trained = agent.results, agent.trained
    _, differences = paired_differences(found, reference.results, "pseudo_regret")
    random_regret = float(found.final("uniform_regret").mean())
    regret = mean_interval(found.final("pseudo_regret"))
    return {
        "world": world.title,
        "agent": agent.label,
        "kind": agent.kind,
        "episodes": len(found.replications),
        "horizon": world.horizon,
        **_spread("return", mean_interval(found.final("reward"))),
        **_spread("regret", regret),
        **_spread("difference", mean_interval(differences[:, -1])),
        "share_of_random": regret.estimate / random_regret,
        "training_steps": trained.num_steps if trained else 0,
        "training_cpu_seconds": trained.cpu_seconds if trained else 0.0,
        "microseconds_per_decision": 1e6 * found.seconds_per_decision(),
    }


def _spread(name: str, interval: Interval) -> Row:
    return {name: interval.estimate, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _cells(row: Row, reference: str) -> list[str]:
    is_trained = row["training_steps"] > 0
    return [
        row["agent"],
        row["kind"],
        _interval(row, "return"),
        _interval(row, "regret"),
        "-" if row["agent"] == reference else _interval(row, "difference"),
        f"{row['share_of_random']:.0%}",
        f"{row['training_steps']:,}" if is_trained else "-",
        f"{row['training_cpu_seconds']:.0f} s" if is_trained else "-",
        f"{row['microseconds_per_decision']:.1f}",
    ]


def _interval(row: Row, name: str) -> str:
    return f"{row[name]:.2f} [{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}]"
