"""The page: one table per world and one picture of all regret curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pages.figures import new_panels
from pages.page import Section, markdown_table, with_ends
from pages.simulations import Runs, difference, final_regret

from bandit_gym.results.plots import draw_band
from bandit_gym.results.statistics import Interval, mean_interval
from bandit_gym.results.styles import COLOURS
from sb3_comparison.evaluation import Panel
from sb3_comparison.labels import End, label_ends
from sb3_comparison.settings import FROZEN, LEARNS, NEITHER, World

LINE_STYLES = {LEARNS: "-", FROZEN: "--", NEITHER: ":"}
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


def tell(panels: Sequence[Panel], table: pd.DataFrame) -> list[Section]:
    """Return a section for each world and one for the curves of all."""
    return [
        *(_tell_world(panel.world, table[table["world"] == panel.world.title]) for panel in panels),
        Section("Regret over time", pictures={"regret": draw(panels)}),
    ]


def tabulate(panels: Sequence[Panel]) -> pd.DataFrame:
    """Return one row per world and agent, lowest regret first."""
    tables = [
        pd.DataFrame([_row(panel, label) for label in panel.runs]).sort_values("regret")
        for panel in panels
    ]
    return pd.concat(tables, ignore_index=True)


def _tell_world(world: World, table: pd.DataFrame) -> Section:
    reference = world.learners[0]["label"]
    rows = [_cells(row, reference) for row in table.to_dict("records")]
    text = f"{world.replications} episodes of {world.horizon} pulls, the same for every agent."
    return Section(world.title, text, body=[markdown_table(rows)])


def draw(panels: Sequence[Panel]) -> Figure:
    """Draw the mean regret of every agent over time, one panel per world."""
    titles = [f"{p.world.title}\n{p.world.replications} episodes, 95 % bands" for p in panels]
    figure, all_axes = new_panels(titles)
    figure.set_figwidth(4.6 * len(titles))  # there is a label on the right of each panel
    colours = _colours(panels)
    for axes, panel in zip(all_axes, panels, strict=True):
        _draw_panel(axes, panel, colours)
    all_axes[0].set_ylabel("pseudo-regret so far")
    return figure


def _colours(panels: Sequence[Panel]) -> dict[str, str]:
    """Give every agent a colour, the same in all panels; random play is grey."""
    labels = dict.fromkeys((label for panel in panels for label in panel.runs), "0.5")
    named = [label for label in labels if label != "random"]
    return labels | dict(zip(named, COLOURS, strict=False))


def _draw_panel(axes: Axes, panel: Panel, colours: dict[str, str]) -> None:
    for label, run in panel.runs.items():
        style = {"color": colours[label], "linestyle": LINE_STYLES[panel.kind(label)]}
        draw_band(axes, run.steps, run.curves("pseudo_regret"), label, style)
    axes.set(xlabel="pull", ylim=(0, _ceiling(panel.runs)))
    final = {label: float(run.final("pseudo_regret").mean()) for label, run in panel.runs.items()}
    label_ends(axes, {label: End(height, colours[label]) for label, height in final.items()})


def _ceiling(runs: Runs) -> float:
    """Return where a panel ends: all of it, unless random play would dwarf what the others do."""
    tops = {label: run.curves("pseudo_regret").mean(0).max() for label, run in runs.items()}
    others = [top for label, top in tops.items() if label != "random"]
    return 1.05 * float(min(max(tops.values()), 2 * max(others)))


def _row(panel: Panel, label: str) -> Row:
    found, trained = panel.runs[label], panel.models.get(label)
    reference = next(iter(panel.runs.values()))
    regret = final_regret(found)
    return {
        "world": panel.world.title,
        "agent": label,
        "kind": panel.kind(label),
        "episodes": len(found.replications),
        "horizon": panel.world.horizon,
        **_spread("return", mean_interval(found.final("reward"))),
        **_spread("regret", regret),
        **_spread("difference", difference((found, reference))),
        "share_of_random": regret.estimate / float(found.final("uniform_regret").mean()),
        "training_steps": trained.num_steps if trained else 0,
        "training_cpu_seconds": trained.cpu_seconds if trained else 0.0,
        "microseconds_per_decision": 1e6 * found.seconds_per_decision(),
    }


def _spread(name: str, interval: Interval) -> Row:
    return dict(zip((name, f"{name}_low", f"{name}_high"), interval, strict=True))


def _cells(row: Row, reference: str) -> dict[str, str]:
    is_trained = row["training_steps"] > 0
    return {
        "agent": row["agent"],
        "kind": row["kind"],
        "return": _interval(row, "return"),
        "regret": _interval(row, "regret"),
        f"less {reference}'s": "-" if row["agent"] == reference else _interval(row, "difference"),
        "share of random's": f"{row['share_of_random']:.0%}",
        "trained on": f"{row['training_steps']:,}" if is_trained else "-",
        "CPU time": f"{row['training_cpu_seconds']:.0f} s" if is_trained else "-",
        "µs/decision": f"{row['microseconds_per_decision']:.1f}",
    }


def _interval(row: Row, name: str) -> str:
    return with_ends(Interval(row[name], row[f"{name}_low"], row[f"{name}_high"]), 2)
