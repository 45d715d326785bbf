"""Figures of panels with one legend below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_gym.results.plots import draw_band, styles
from bandit_gym.results.results import RunResults
from pages.simulations import curves


def new_panels(
    titles: Sequence[str], num_columns: int = 3, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with one panel per title; options are those of `Figure.subplots`."""
    num_columns = 2 if len(titles) == 4 else min(num_columns, len(titles))
    num_rows = -(-len(titles) // num_columns)
    figure = Figure(figsize=(3.6 * num_columns, 2.9 * num_rows + 0.5), layout="constrained")
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


def add_legend(figure: Figure, num_columns: int, title: str | None = None) -> None:
    """Name below the panels what is in the first, which has all that is in the others."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=num_columns, fontsize="small",
        title=title,
    )  # fmt: skip
