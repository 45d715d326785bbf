"""Results in, charts and figures out; nothing is simulated here.

A `Chart` holds the numbers that are drawn, by matplotlib here and by plotly on a report's page. A
figure is a `matplotlib.figure.Figure` of its own, drawn without pyplot: no window, no global state.
Bands are pointwise 95 % intervals of the mean over replications, Student's; below 10
replications there are none.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from bandit_gym.checks.files import replacing
from bandit_gym.checks.styles import FORMATS, STYLES, Look, literal, look, wrapped
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.experiments.blocks import COLUMNS
from bandit_gym.experiments.entries import Entry
from bandit_gym.results.statistics import MIN_REPLICATIONS, half_widths
from bandit_gym.results.stored import RunResults, paired_differences
from bandit_gym.results.summary import regret_name

if TYPE_CHECKING:
    from bandit_gym.results.results import Results

SHOWN_DPI = 100
LEGEND_ROW = 0.019  # inches, for each point of the font size
NUM_SPANS = 40

CUMULATIVE_REGRET = COLUMNS["cumulative_regret"]
DEFINITION = f"({CUMULATIVE_REGRET.definition.replace('-', '−')}, summed)"


class Picture(Figure):
    """A figure that notebooks show, as they do those of pyplot."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=SHOWN_DPI)
        return file.getvalue()


class Curve(NamedTuple):
    """A curve of a chart.

    Attributes:
        label: of the agent, or what else it shows.
        look: its colour and dash, an agent's the same in all charts.
        x: (S,) steps or levels.
        y: (S,) values.
        half: (S,) half widths of their 95 % intervals; None where there are none.
    """

    label: str
    look: Look
    x: np.ndarray
    y: FloatArray
    half: FloatArray | None = None


class Chart(NamedTuple):
    """What a figure shows, before it is drawn.

    Attributes:
        name: what is shown.
        world: the label of the world that it was measured in.
        subtitle: what the numbers rest on.
        x_title: what the horizontal axis shows.
        y_title: what the vertical axis shows.
        curves: at least one.
        log: letters of the logarithmic axes, of "xy".
        bottom: lower end of the vertical axis; None for that of the values.
        top: its upper end; None for that of the values.
    """

    name: str
    world: str
    subtitle: str
    x_title: str
    y_title: str
    curves: list[Curve]
    log: str = ""
    bottom: float | None = None
    top: float | None = None


def chart_regret(results: Results, environment: Entry) -> Chart:
    """Return the mean regret of each agent over time."""
    runs = results.usable(environment)
    curves = [_band(results, run, run.steps, run.curves("cumulative_regret")) for run in runs]
    name = f"{regret_name(environment)} so far"
    chart = _over_time(runs, "Regret over time", f"{name}\n{DEFINITION}", curves)
    return chart._replace(bottom=0.0)


def chart_differences(results: Results, environment: Entry) -> Chart | None:
    """Return each agent's regret less that of the first agent, paired by replication."""
    runs, reference = results.usable(environment), results.reference(environment)
    if reference is None or len(runs) < 2:
        return None
    curves = []
    for run in runs:
        common, values = paired_differences(run, reference, "cumulative_regret")
        if run is reference:
            flat = _band(results, run, run.steps, values)
            label = f"{flat.label} (reference)"
            curves.append(flat._replace(label=label, half=None))
        elif len(common):
            curves.append(_band(results, run, run.steps, values))
    y_title = (
        f"{regret_name(environment)} so far\n{DEFINITION},\nless that of the reference, paired"
    )
    return _over_time(runs, "Paired differences over time", y_title, curves)


def chart_best_arm(results: Results, environment: Entry) -> Chart:
    """Return how often each agent plays the best arm, averaged over spans of steps."""
    runs = results.usable(environment)
    curves = []
    for run in runs:
        is_best = run.curves("action_rank") == 0
        num_spans = min(NUM_SPANS, len(run.steps))
        spans = np.array_split(np.arange(len(run.steps)), num_spans)
        times = np.array([np.exp(np.log(run.steps[span]).mean()) for span in spans])
        shares = np.stack([is_best[:, span].mean(axis=1) for span in spans], axis=1)
        curves.append(_band(results, run, times, shares))
    chart = _over_time(runs, "Pulls of the best arm", "share of pulls of the best arm", curves)
    return chart._replace(log="x", bottom=0.0, top=1.0)


def chart_samples(results: Results, environment: Entry) -> Chart | None:
    """Return how many samples a decision takes, over time; None if no agent draws any."""
    chart = _chart_rates(
        results, environment, "num_samples", "Samples per decision", "samples per decision"
    )
    return chart and chart._replace(log="xy")


def chart_flagged(results: Results, environment: Entry) -> Chart | None:
    """Return the share of decisions flagged as unreliable, over time; None if none was."""
    name = "Decisions flagged as unreliable"
    chart = _chart_rates(results, environment, "is_unreliable", name, "share of decisions")
    return chart and chart._replace(log="x", bottom=0.0)


FIGURES: dict[str, Callable[[Results, Entry], Chart | None]] = {
    "regret": chart_regret,
    "differences": chart_differences,
    "best-arm": chart_best_arm,
    "samples": chart_samples,
    "flagged": chart_flagged,
}


def make_charts(results: Results, environment: Entry) -> Iterator[Chart]:
    """Yield all charts of an environment with results that have something to show."""
    yield from filter(None, (make(results, environment) for make in FIGURES.values()))


def _chart_rates(
    results: Results, environment: Entry, column: str, name: str, y_title: str
) -> Chart | None:
    """Return means per step of what is stored as sums; None if all of it is 0."""
    runs, curves = results.usable(environment), []
    for run in runs:
        sums = run.curves(column)
        if not np.isnan(sums).any() and sums[:, -1].any():
            rates = np.diff(sums, axis=1, prepend=0) / np.diff(run.steps, prepend=0)
            curves.append(_band(results, run, run.steps, rates))
    return _over_time(runs, name, y_title, curves) if curves else None


def _over_time(runs: list[RunResults], name: str, y_title: str, curves: list[Curve]) -> Chart:
    count = max(len(run.replications) for run in runs)
    is_banded = count >= MIN_REPLICATIONS
    bands = "bands: 95 % interval of the mean" if is_banded else "no bands below 10"
    subtitle = f"{count} replications; {bands}"
    return Chart(name, runs[0].run.environment.label, subtitle, "step", y_title, curves)


def _band(
    results: Results, found: RunResults, x: FloatArray | IntArray, values: FloatArray
) -> Curve:
    """Average (R, S) values of a run."""
    half = half_widths(values) if len(values) >= MIN_REPLICATIONS else None
    agent = found.run.agent
    number = results.experiment.agents.index(agent)
    return Curve(agent.label, look(number), x, values.mean(axis=0), half)


def draw_all(
    results: Results, style: str = "screen", kinds: Collection[str] = tuple(FIGURES)
) -> Iterator[tuple[str, Figure]]:
    """Yield the figures that the results allow, with a name for the file of each."""
    for number, environment in enumerate(results.experiment.environments):
        for kind in (each for each in FIGURES if each in kinds):
            figure = draw_one(results, environment, kind, style)
            if figure is not None:
                yield f"{number:02d}-{kind}", figure


def draw_one(
    results: Results, environment: Entry, kind: str, style: str = "screen"
) -> Figure | None:
    """Draw one of FIGURES for an environment, where there is something to draw."""
    chart = FIGURES[kind](results, environment) if results.usable(environment) else None
    return chart and draw(chart, style)


def draw(chart: Chart, style: str = "screen") -> Figure:
    """Draw a chart in one of `styles.STYLES`."""
    with matplotlib.rc_context(STYLES[style]):
        figure = Picture(layout="constrained")
        axes = figure.subplots()
        for curve in chart.curves:
            axes.plot(curve.x, curve.y, label=curve.label, **curve.look.line)
            if curve.half is not None:
                ends = curve.y - curve.half, curve.y + curve.half
                axes.fill_between(curve.x, *ends, color=curve.look.colour, alpha=0.2, linewidth=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0)
        axes.set(xlabel=chart.x_title, ylabel=chart.y_title)
        axes.set_ylim(chart.bottom, chart.top)
        if "x" in chart.log:
            axes.set_xscale("log")
        if "y" in chart.log:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
        if style == "screen":
            figure.suptitle(literal(wrapped(chart.world)), fontsize="medium")
            axes.set_title(chart.subtitle, fontsize="small")
        _add_legend(figure)
        return figure


def _add_legend(figure: Figure) -> None:
    """Write the legend below the axes, where it hides no curve; a long one makes it all taller."""
    size, lines = matplotlib.rcParams["font.size"], figure.axes[0].lines
    labels = [wrapped(str(line.get_label())) for line in lines]
    longest = max(len(part) for label in labels for part in label.splitlines())
    columns = max(1, int(120 * figure.get_figwidth() / size) // (longest + 8))
    num_rows = sum(1 + label.count("\n") for label in labels) / columns
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * size * max(0, num_rows - 2))
    legend = figure.legend(
        *(lines, [str(number) for number in range(len(lines))]),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize="small",
    )
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set_text(literal(label))  # which may begin with "_": no legend would take it before


def save(figure: Figure, path: Path, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write a figure in each of the formats; the same figure gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [path.with_name(f"{path.name}.{suffix}") for suffix in formats]
    with matplotlib.rc_context({"svg.hashsalt": path.name, "pdf.fonttype": 42}):
        for file, suffix in zip(files, formats, strict=True):
            with replacing(file) as opened:
                figure.savefig(opened, format=suffix, **FORMATS[suffix])
    return files
