"""Results in, figures out; nothing is simulated here.

Every figure is a `matplotlib.figure.Figure` of its own, drawn without pyplot: no window, no global
state. Bands are pointwise 95 % intervals of the mean over replications, Student's; below 10
replications there are none.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from bandit_gym.experiments.blocks import COLUMNS
from bandit_gym.experiments.entries import Entry
from bandit_gym.files import replacing
from bandit_gym.results.bounds import draw_lower_bound
from bandit_gym.results.curves import RANK_NAMES, rank_shares, rates
from bandit_gym.results.results import Results, RunResults, paired_differences
from bandit_gym.results.statistics import MIN_REPLICATIONS, half_widths, performance_profile
from bandit_gym.results.styles import (
    FORMATS,
    USUAL_WIDTH,
    Look,
    drawing_in,
    fill,
    literal,
    size,
    styles,
    text_width,
    wrapped,
)
from bandit_gym.results.summary import normalised_scores, regret_name
from bandit_gym.typing import FloatArray, IntArray

RANK_COLOURS = ("#0072b2", "#56b4e9", "#f0e442", "#e69f00", "#d55e00")
SHOWN_DPI = 100
LEGEND_ROW = 0.019  # inches, for each point of the font size
SHOWN = "\u200b"
"""Put before a label that begins with `_`, which matplotlib would leave out of legends."""

CUMULATIVE_REGRET = COLUMNS["cumulative_regret"]
DEFINITION = f"({CUMULATIVE_REGRET.definition.replace('-', '−')}, summed)"


class Picture(Figure):
    """A figure that notebooks show, as they do those of pyplot."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=SHOWN_DPI)
        return file.getvalue()


Drawings = Mapping[str, Callable[[list[RunResults]], Figure | None]]


def draw_all(results: Results, style: str = "screen") -> Iterator[tuple[str, Figure]]:
    """Yield every figure that the results allow, with a name for its file; see `styles.STYLES`."""
    yield from draw_each(results, FIGURES, style)
    if len(results.experiment.environments) > 1:
        with drawing_in(style) as finish:
            figure = finish(draw_performance_profile(results))
        yield "performance-profile", figure


def draw_each(
    results: Results, drawings: Drawings, style: str = "screen"
) -> Iterator[tuple[str, Figure]]:
    """Yield the figures of each environment in turn, where there is something to draw."""
    for number, environment in enumerate(results.experiment.environments):
        runs = results.usable(environment)
        for name, draw in drawings.items() if runs else ():
            with drawing_in(style) as finish:
                figure = draw(runs)
                figure = figure and finish(figure)
            if figure is not None:
                yield f"{number:02d}-{name}", figure


def draw_one(results: Results, environment: Entry, name: str) -> Figure | None:
    """Draw one of FIGURES for an environment with results, where there is something to draw."""
    figure = FIGURES[name](results.usable(environment))
    return figure and figure


def save(figure: Figure, path: Path, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write a figure in each of the formats; the same figure gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [path.with_name(f"{path.name}.{suffix}") for suffix in formats]
    with matplotlib.rc_context({"svg.hashsalt": path.name, "pdf.fonttype": 42}):
        for file, suffix in zip(files, formats, strict=True):
            with replacing(file) as opened:
                figure.savefig(opened, format=suffix, **FORMATS[suffix])
    return files


def draw_regret(runs: list[RunResults]) -> Figure:
    """Draw the mean regret of each agent over time, with bands.

    For a fixed instance the Lai-Robbins slope is drawn as a dotted line that starts where the
    bound's C log t does.
    """
    figure, axes = _new_curves(runs)
    for found, style in zip(runs, styles(), strict=False):
        draw_band(
            axes, found.steps, found.curves("cumulative_regret"), found.run.agent.label, style
        )
    top = axes.get_ylim()[1]  # the bound holds in the long run and may lie far above at first
    draw_lower_bound(axes, runs[0])
    axes.set_ylabel(f"{_regret_so_far(runs)}\n{DEFINITION}")
    axes.set_ylim(0, top)
    return _with_legend(figure)


def draw_differences(runs: list[RunResults]) -> Figure | None:
    """Draw each agent's regret less the first agent's, paired by replication."""
    if len(runs) < 2:
        return None
    figure, axes = _new_curves(runs)
    reference = runs[0].run.agent.label
    for found, style in zip(runs, styles(), strict=False):
        _, differences = paired_differences(found, runs[0], "cumulative_regret")
        if found is runs[0]:
            axes.axhline(0, label=_shown(f"{reference} (reference)"), **style)
        elif len(differences):
            draw_band(axes, found.steps, differences, found.run.agent.label, style)
    axes.set_ylabel(f"{_regret_so_far(runs)}\n{DEFINITION},\nless that of the reference, paired")
    return _with_legend(figure)


def draw_samples(runs: list[RunResults]) -> Figure | None:
    """Draw how many samples a decision takes, over time; None if no agent draws any."""
    drawing = [
        (found, style)
        for found, style in zip(runs, styles(), strict=False)
        if not np.isnan(found.final("num_samples")).all()
    ]
    if not drawing:
        return None
    figure, axes = _new_curves(runs)
    for found, style in drawing:
        samples = rates(found.steps, found.curves("num_samples"))
        draw_band(axes, found.steps, samples, found.run.agent.label, style)
    axes.set(xscale="log", yscale="log", ylabel="samples per decision")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    return _with_legend(figure)


def draw_arm_choice(runs: list[RunResults]) -> Figure:
    """Draw how often each agent plays the best arm, the second best, ... at each time."""
    figure = Picture(figsize=_panel_size(len(runs)), layout="constrained")
    panels = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    for axes, found in zip(panels, runs, strict=True):
        steps, shares = rank_shares(found)
        axes.stackplot(steps, shares, colors=RANK_COLOURS, labels=RANK_NAMES, linewidth=0)
        axes.set(xscale="log", xlim=(steps[0], steps[-1]), ylim=(0, 1))
        axes.set_title(wrapped(found.run.agent.label), fontsize="small", loc="left")
    panels[-1].set_xlabel("step")
    figure.supylabel("share of pulls of the best arm, the second best, ...", fontsize="medium")
    figure.suptitle(wrapped(runs[0].run.environment.label), fontsize="medium")
    return _with_legend(figure)


def draw_performance_profile(results: Results) -> Figure:
    """Draw the share of replications, over all environments, that score below each level."""
    count = len(results.experiment.environments)
    figure, axes = _new_figure("Performance profile", f"all replications in {count} environments")
    scores = normalised_scores(results)
    highest = max((float(np.quantile(values, 0.99)) for values in scores.values()), default=1.0)
    levels = np.linspace(0, highest, 400)
    for (label, values), style in zip(scores.items(), styles(), strict=False):
        axes.plot(levels, performance_profile(values, levels), label=_shown(label), **style)
    axes.set_xlabel(
        f"{CUMULATIVE_REGRET.title}, as a share of what uniform play loses\n{DEFINITION}"
    )
    axes.set_ylabel("share of replications\nin all environments below")
    axes.set_ylim(0, 1)
    return _with_legend(figure)


FIGURES: Drawings = {
    "regret": draw_regret,
    "differences": draw_differences,
    "samples": draw_samples,
    "arm-choice": draw_arm_choice,
}


def _new_figure(title: str, subtitle: str) -> tuple[Figure, Axes]:
    figure = Picture(figsize=size(), layout="constrained")
    axes = figure.subplots()
    figure.suptitle(wrapped(title), fontsize="medium")
    axes.set_title(subtitle, fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0)
    return figure, axes


def _shown(label: str) -> str:
    """Return a label that no legend leaves out; `_with_legend` puts it right."""
    return f"{SHOWN}{label}" if label.startswith("_") else label


def _new_curves(runs: list[RunResults]) -> tuple[Figure, Axes]:
    is_banded = max(len(found.replications) for found in runs) >= MIN_REPLICATIONS
    bands = (
        "bands: 95 % interval of the mean" if is_banded else f"no bands below {MIN_REPLICATIONS}"
    )
    subtitle = f"{_count(runs)}; {bands}"
    figure, axes = _new_figure(runs[0].run.environment.label, subtitle)
    axes.set_xlabel("step")
    return figure, axes


def _count(runs: list[RunResults]) -> str:
    return f"{max(len(found.replications) for found in runs)} replications"


def _with_legend(figure: Figure) -> Figure:
    """Write the legend below the axes, where it hides no curve; a long one makes it all taller."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    across = _characters_across(figure)
    room = 0.7 * across
    shown = [fill(each.removeprefix(SHOWN), int(room), room * USUAL_WIDTH) for each in labels]
    lines = "\n".join(shown).splitlines()
    width = max((max(len(each), int(text_width(each) / USUAL_WIDTH)) for each in lines), default=1)
    columns = max(1, across // (width + 8))
    num_rows = math.ceil(sum(1 + label.count("\n") for label in shown) / columns)
    row = LEGEND_ROW * matplotlib.rcParams["font.size"]
    figure.set_figheight(figure.get_figheight() + row * max(0, num_rows - 2))
    legend = figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize="small"
    )
    for text, label in zip(legend.get_texts(), shown, strict=True):
        text.set_text(literal(label))
    return figure


def _panel_size(count: int) -> tuple[float, float]:
    """Return the size of a figure of so many panels, of which two and a half are a figure high."""
    width, height = size()
    return width, height * (0.35 + 0.275 * count)


def _characters_across(figure: Figure) -> int:
    """Return how many small characters, 0.445 of the font size wide, fit beside each other."""
    return int(72 * figure.get_figwidth() / (0.445 * matplotlib.rcParams["font.size"]))


def _regret_so_far(runs: list[RunResults]) -> str:
    return f"{regret_name(runs[0].run.environment)} so far"


def draw_band(axes: Axes, steps: IntArray, curves: FloatArray, label: str, style: Look) -> None:
    """Draw the mean of (R, S) curves and, from ten of them on, its 95 % band."""
    mean = curves.mean(axis=0)
    axes.plot(steps, mean, label=_shown(label), **style)
    if len(curves) >= MIN_REPLICATIONS:
        half = half_widths(curves)
        axes.fill_between(
            steps, mean - half, mean + half, color=style["color"], alpha=0.2, linewidth=0
        )
