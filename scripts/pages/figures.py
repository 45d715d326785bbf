"""Figures of panels whose curves and rows are named where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_gym.results.plots import draw_band, styles
from bandit_gym.results.results import RunResults
from bandit_gym.results.styles import COLOURS
from bandit_gym.typing import FloatArray
from pages.simulations import curves

LINE = 0.075
"""Height of a name, as a share of its axes."""


def new_panels(
    titles: Sequence[str], num_columns: int = 3, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with one panel per title; options are those of `Figure.subplots`."""
    num_columns = 2 if len(titles) == 4 else min(num_columns, len(titles))
    num_rows = -(-len(titles) // num_columns)
    size = max(7, 4.2 * num_columns), 2.9 * num_rows
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(num_rows, num_columns, squeeze=False, **options).ravel()
    for axes, title in zip(panels, titles, strict=False):
        axes.set_title(title, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(titles) :]:
        axes.remove()
    return figure, list(panels[: len(titles)])


def draw_regret(axes: Axes, runs: Mapping[str, Sequence[RunResults]]) -> None:
    """Draw each agent's mean regret over time and its band, over the worlds of its runs."""
    for (label, found), style in zip(runs.items(), styles(), strict=False):
        draw_band(axes, found[0].steps, curves("pseudo_regret", *found), label, style)
    axes.set(xlabel="step", ylabel="Bayesian pseudo-regret so far", ylim=(0, None))


def name_curves(axes: Axes) -> None:
    """Write the name of each curve beside its end, in its colour, none upon another."""
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    ends = [(line.get_xdata()[-1], line.get_ydata()[-1]) for line in lines]
    heights = (axes.transScale + axes.transLimits).transform(ends)[:, 1]
    order = np.argsort(heights)
    places = _spread(heights[order])
    for line, place in zip(np.array(lines, dtype=object)[order], places, strict=True):
        axes.annotate(
            str(line.get_label()), (1.02, place), xycoords="axes fraction", va="center",
            fontsize=8, color=line.get_color(),
        )  # fmt: skip


def _spread(heights: FloatArray) -> FloatArray:
    """Return the nearest heights to the given ones, which rise, that are a line or more apart.

    The lowest is moved up, and all with it, where it would be below the axes.
    """
    steps = LINE * np.arange(len(heights))
    lowest = np.maximum.accumulate(heights - steps)
    highest = np.minimum.accumulate((heights - steps)[::-1])[::-1]
    places = (lowest + highest) / 2 + steps
    return places + max(0.0, LINE / 2 - places[0])


def draw_strips(axes: Axes, rows: Mapping[str, FloatArray]) -> None:
    """Draw a row of dots for each name, with a stroke at their median."""
    for place, (values, colour) in enumerate(zip(rows.values(), COLOURS, strict=False)):
        axes.plot(values, np.full(len(values), place), "o", color=colour, alpha=0.35, ms=5, mew=0)
        axes.plot(np.median(values), place, "|", color=colour, ms=18, mew=2)
    _name_rows(axes, list(rows))


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
