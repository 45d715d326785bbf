"""Results in, charts and figures out; nothing is simulated here.

A `Chart` holds the numbers that are drawn, and that a report's page lists beneath the figure. A
figure is a `matplotlib.figure.Figure` of its own, drawn without pyplot: no window, no global state.
Bands are pointwise 95 % intervals of the mean over replications, those of tables; below 10
replications there are none.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from bandit_gym.checks.typing import FloatArray
from bandit_gym.experiments.entries import Entry, short_name
from bandit_gym.files import replacing
from bandit_gym.results.data import (
    RunResults,
    StoredResults,
    describe_regret,
    paired_differences,
)
from bandit_gym.results.statistics import MIN_REPLICATIONS, mean_interval
from bandit_gym.styles import FORMATS, STYLES, LineStyle, agent_styles, dark_rules, wrap_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN_DPI = 100
LEGEND_ROW = 0.019  # inches, for each point of the font size
NUM_SPANS = 40
LEVELS = np.linspace(0, 1, 101)

NUM_MARKERS = 5
"""Of a curve, each at another place than those of the others, which it may coincide with."""

UNKNOWN_REGRETS = np.full(MIN_REPLICATIONS, np.nan)

DARK_STYLE = f"@media (prefers-color-scheme: dark) {{\n{dark_rules()}\n}}</style>".encode()
"""What a file in SVG has for dark pages; no other format has the place of it."""

MAX_AGENTS = 14
"""Of a figure; of more only the first are drawn, and the legend says how many are left out."""

MAX_SHORT_RATIO = 5000
"""Of the ends of a logarithmic axis that has ticks between powers of ten."""

MIN_LOG_RATIO = 20
"""Of the largest value of a parameter to the smallest, from which its axis is logarithmic."""


class NotebookFigure(Figure):
    """A figure that notebooks show, as they do those of pyplot."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=SHOWN_DPI)
        return file.getvalue()


class Curve(NamedTuple):
    """A curve of a chart.

    Attributes:
        label: of the agent, or what else it shows.
        line_style: its colour and dash, an agent's the same in all charts.
        x: (S,) steps or levels.
        y: (S,) values.
        band: (S,) ends of their 95 % intervals; None where there are none.
        dots: indices of the values that have a dot.
    """

    label: str
    line_style: LineStyle
    x: np.ndarray
    y: FloatArray
    band: tuple[FloatArray, FloatArray] | None = None
    dots: Sequence[int] = ()


class Chart(NamedTuple):
    """What a figure shows, before it is drawn.

    Attributes:
        name: what is shown.
        environment: the label of the environment that it was measured in.
        subtitle: what the numbers rest on.
        y_title: what the vertical axis shows.
        curves: at least one.
        log: letters of the logarithmic axes, of "xy".
        bottom: lower end of the vertical axis; None for that of the values.
        top: its upper end; None for that of the values.
        x_title: what the horizontal axis shows.
    """

    name: str
    environment: str
    subtitle: str
    y_title: str
    curves: list[Curve]
    log: str = ""
    bottom: float | None = None
    top: float | None = None
    x_title: str = "step"


def _title_regret(environment: Entry) -> str:
    name, definition, _ = describe_regret(environment)
    return f"{name} so far\n({definition}, summed)".replace(" - ", " − ")


def chart_regret(results: StoredResults, environment: Entry) -> Chart | None:
    """Return the mean regret of each agent over time."""
    y_title = _title_regret(environment)
    return _make_chart(results, environment, "Regret over time", y_title, _regret, bottom=0.0)


def chart_differences(results: StoredResults, environment: Entry) -> Chart | None:
    """Return each agent's regret less that of the first agent, paired by replication."""
    reference = results.reference(environment)
    if reference is None or len(results.usable(environment)) < 2:
        return None
    y_title = f"{_title_regret(environment)},\nless that of the reference, paired"
    measure = partial(_differences, reference)
    chart = _make_chart(results, environment, "Paired differences over time", y_title, measure)
    if chart is not None:
        flat = chart.curves[0]
        chart.curves[0] = flat._replace(label=f"{flat.label} (reference)", band=None)
    return chart


def chart_best_arm(results: StoredResults, environment: Entry) -> Chart | None:
    """Return how often each agent plays the best arm, averaged over spans of steps."""
    axes = {"log": "x", "bottom": 0.0, "top": 1.0}
    y_title, measure = "share of pulls of the best arm", partial(_average_spans, "optimal_pulls")
    return _make_chart(results, environment, "Pulls of the best arm", y_title, measure, **axes)


def chart_per_step(results: StoredResults, environment: Entry) -> Chart | None:
    """Return the mean regret of a single step, averaged over spans of steps."""
    name, measure = "Regret of each step", partial(_average_spans, "cumulative_regret")
    y_title = f"regret of a step\n({describe_regret(environment)[1]})".replace(" - ", " − ")
    return _make_chart(results, environment, name, y_title, measure, log="x", bottom=0.0)


def chart_distribution(results: StoredResults, environment: Entry) -> Chart | None:
    """Return quantiles of each agent's regret at the horizon, with a dot where the mean is."""
    curves, runs = [], results.usable(environment)
    styles = style_entries(results.experiment.agents)
    for run in runs:
        values, agent = run.final("cumulative_regret"), run.run.agent
        quantiles = np.quantile(values, LEVELS)
        dot = int(np.abs(quantiles - values.mean()).argmin())
        curves.append(Curve(agent.label, styles[agent], LEVELS, quantiles, dots=[dot]))
    return Chart(
        "Distribution of the regret",
        environment.label,
        f"{max(len(run.replications) for run in runs)} replications; dots: means",
        f"{describe_regret(environment)[0]} at the horizon",
        curves,
        x_title="share of replications with at most this regret",
    )


def chart_samples(results: StoredResults, environment: Entry) -> Chart | None:
    """Return how many samples a decision takes, over time; None if no agent draws any."""
    measure = partial(_rates, "num_samples")
    return _make_chart(results, environment, "Samples per decision", "samples", measure, log="xy")


def chart_flagged(results: StoredResults, environment: Entry) -> Chart | None:
    """Return the share of decisions flagged as unreliable, over time; None if none was."""
    name, measure = "Decisions flagged as unreliable", partial(_rates, "is_unreliable")
    return _make_chart(
        results, environment, name, "share of decisions", measure, log="x", bottom=0.0
    )


ChartMaker = Callable[[StoredResults, Entry], Chart | None]

FIGURES: dict[str, ChartMaker] = {
    "regret": chart_regret,
    "differences": chart_differences,
    "per-step": chart_per_step,
    "distribution": chart_distribution,
    "best-arm": chart_best_arm,
    "samples": chart_samples,
    "flagged": chart_flagged,
}


def chart_parameter(results: StoredResults, environment: Entry, name: str) -> Chart | None:
    """Return regret at the horizon against a numeric option of the environment, or else of agents.

    Environments that differ in nothing else share the chart of the first of them. An agent without
    the option has the same regret at all values.
    """
    rest, experiment = _without_option(environment, name), results.experiment
    has_option = name in environment.options
    group = [
        each
        for each in experiment.environments
        if _without_option(each, name) == rest and (name in each.options) == has_option
    ]
    runs = [run for each in group for run in results.usable(each)]
    measured: dict[tuple[Entry, bool], dict[float | None, RunResults]] = {}
    for run in runs:
        agent = run.run.agent
        owner = run.run.environment if name in environment.options else agent
        value = _numbers(owner).get(name)
        entry = agent if value is None or owner is not agent else _without_option(agent, name)
        is_flat = value is None and owner is agent  # not a point of the curve of such a grid
        measured.setdefault((entry, is_flat), {})[value] = run
    if environment != runs[0].run.environment or max(map(len, measured.values())) < 2:
        return None
    x = sorted({value for points in measured.values() for value in points if value is not None})
    styles, curves = style_entries(experiment.agents), []
    for (entry, _), points in measured.items():
        along = [points.get(value, points.get(None)) for value in x]
        finals = [run.final("cumulative_regret") if run else UNKNOWN_REGRETS for run in along]
        means, *band = np.array([mean_interval(values) for values in finals]).T
        style = styles[next(iter(points.values())).run.agent]
        dots = () if None in points else range(len(x))
        curves.append(Curve(entry.label, style, np.array(x), means, _keep_known(band), dots))
    y_title = f"{describe_regret(environment)[0]} at the horizon"
    log = "x" if 0 < MIN_LOG_RATIO * x[0] <= x[-1] else ""
    title, subtitle = f"Regret by {name}", _describe_bands(runs)
    return Chart(title, rest.label, subtitle, y_title, curves, log, x_title=name)


def _without_option(entry: Entry, name: str) -> Entry:
    """Return an entry without one of its options, labelled by the others."""
    if name not in entry.options:
        return entry
    options = {key: value for key, value in entry.options.items() if key != name}
    return replace(entry, options=options, label=replace(entry, options=options).name)


def _numbers(entry: Entry) -> dict[str, float]:
    """Return the options that are numbers."""
    return {name: value for name, value in entry.options.items() if type(value) in (int, float)}


def list_figures(results: StoredResults) -> dict[str, ChartMaker]:
    """Return FIGURES, and "parameter-NAME" for each option that is a number."""
    entries = *results.experiment.environments, *results.experiment.agents
    names = {name for entry in entries for name in _numbers(entry) if name.isidentifier()}
    parameters = {f"parameter-{name}": partial(chart_parameter, name=name) for name in names}
    makers = FIGURES | dict(sorted(parameters.items()))
    return {name: partial(_make_known, maker) for name, maker in makers.items()}


def _make_known(make: ChartMaker, results: StoredResults, environment: Entry) -> Chart | None:
    """Return a chart; None if no value is known, as where an environment reports no regret."""
    chart = make(results, environment)
    is_known = chart is not None and any(np.isfinite(curve.y).any() for curve in chart.curves)
    return chart if is_known else None


def make_charts(results: StoredResults, environment: Entry) -> Iterator[Chart]:
    """Yield all charts of an environment with results that have something to show."""
    yield from filter(None, (make(results, environment) for make in list_figures(results).values()))


Measured = tuple[np.ndarray, FloatArray]
"""(S,) steps and (R, S) values, of no replication where there is nothing to show."""


def _make_chart(
    results: StoredResults,
    environment: Entry,
    name: str,
    y_title: str,
    measure: Callable[[RunResults], Measured],
    **axes: Any,
) -> Chart | None:
    """Return the means of what is measured of each run; None if there are none."""
    runs, curves = results.usable(environment), []
    styles = style_entries(results.experiment.agents)
    for run in runs:
        steps, values = measure(run)
        if len(values):
            dots = [0] if len(steps) == 1 else []  # no line
            means, *band = mean_interval(values)
            agent, shown = run.run.agent, (means, _keep_known(band), dots)
            curves.append(Curve(agent.label, styles[agent], steps, *shown))
    if not curves:
        return None
    return Chart(name, environment.label, _describe_bands(runs), y_title, curves, **axes)


def _keep_known(band: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray] | None:
    """Return the ends of a band; None where there are no intervals."""
    low, high = band
    return None if np.isnan(low).all() else (low, high)


def _describe_bands(runs: Sequence[RunResults]) -> str:
    count = max(len(run.replications) for run in runs)
    bands = "bands: 95 % interval of the mean"
    return f"{count} replications; {bands if count >= MIN_REPLICATIONS else 'no bands below 10'}"


def _regret(run: RunResults) -> Measured:
    return run.steps, run.curves("cumulative_regret")


def _differences(reference: RunResults, run: RunResults) -> Measured:
    steps = max(run.steps, reference.steps, key=len)
    return steps, paired_differences(run, reference, "cumulative_regret")[1]


def _average_spans(column: str, run: RunResults) -> Measured:
    """Return means per decision of sums, in spans of steps; none where they are unknown."""
    spans = np.array_split(np.arange(len(run.steps)), min(NUM_SPANS, len(run.steps)))
    last = [span[-1] for span in spans]
    sums, ends = run.curves(column)[:, last], run.steps[last]
    lengths = np.diff(ends, prepend=0)
    if np.isnan(sums).any():
        return ends, sums[:0]
    decisions = run.curves("decisions")[:, last]
    return np.sqrt((ends - lengths + 1) * ends), _divide_sums(sums, decisions)


def _rates(column: str, run: RunResults) -> Measured:
    """Return means per decision of what is stored as sums; none if all of it is 0."""
    sums = run.curves(column)
    if np.isnan(sums).any() or not sums[:, -1].any():
        return run.steps, sums[:0]
    return run.steps, _divide_sums(sums, run.curves("decisions"))


def _divide_sums(sums: FloatArray, decisions: FloatArray) -> FloatArray:
    """Return (R, S) values per decision, whose means are those of all decisions between two steps.

    A replication that has ended makes no decisions. Deviations from the mean are those of a ratio,
    linearised (Cochran, "Sampling Techniques", 1977, section 6.3).
    """
    added, made = (np.diff(values, axis=1, prepend=0) for values in (sums, decisions))
    mean_made = made.mean(axis=0)
    ratios = added.mean(axis=0) / mean_made
    return np.asarray(ratios + (added - ratios * made) / mean_made)


def save_figures(
    results: StoredResults,
    directory: Path,
    *,
    kinds: Sequence[str] | None = None,
    style: str = "screen",
    formats: Sequence[str] = ("png", "svg"),
    xscale: str | None = None,
) -> list[Path]:
    """Draw the figures that the results allow, save each in all formats, and return the files."""
    files, makers = [], list_figures(results)
    for number, environment in enumerate(results.experiment.environments):
        for kind in kinds or makers:
            chart = makers[kind](results, environment) if results.usable(environment) else None
            if chart is not None:
                figure = draw_figure(chart, style, xscale)
                files += save_figure(figure, directory / f"{number:02d}-{kind}", formats)
    return files


def draw_figure(chart: Chart, style: str = "screen", xscale: str | None = None) -> Figure:
    """Draw a chart in one of `styles.STYLES`.

    Args:
        chart: what to draw.
        style: how.
        xscale: of the horizontal axis where it starts above 0: "log", "linear", or None for the
            chart's own.
    """
    with matplotlib.rc_context(STYLES[style]):
        figure = NotebookFigure(layout="constrained")
        axes = figure.subplots()
        draw_chart(axes, chart, xscale)
        if style == "screen":
            figure.suptitle(wrap_text(chart.environment), fontsize="medium", parse_math=False)
            axes.set_title(chart.subtitle)
        size, columns, num_rows = _lay_out_legend(figure, chart)
        figure.set_figheight(figure.get_figheight() + LEGEND_ROW * size * max(0, num_rows - 2))
        add_legend(figure, chart, loc="outside lower center", ncols=columns, frameon=False)
        return figure


def draw_chart(axes: Axes, chart: Chart, xscale: str | None = None) -> None:
    """Draw the curves of a chart on axes of matplotlib's, without a title or a legend."""
    is_log = "x" in chart.log if xscale is None else xscale == "log"
    for number, curve in enumerate(shown := chart.curves[:MAX_AGENTS]):
        style, dots = curve.line_style, list(curve.dots)
        (line,) = axes.plot(curve.x, curve.y, label=curve.label, **style.line)
        marked = dots or _place_markers(curve.x, (number + 0.5) / len(shown), is_log)
        line.set(marker=style.marker, markersize=4.5, markevery=marked, clip_on=not dots)
        if curve.band is not None:
            look: dict[str, Any] = {"color": curve.line_style.colour, "alpha": 0.2, "linewidth": 0}
            axes.fill_between(curve.x, *curve.band, **look)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(xlabel=chart.x_title, ylabel=chart.y_title)
    if is_log and min(curve.x[0] for curve in chart.curves) > 0:
        axes.set_xscale("log")
    if "y" in chart.log:
        axes.set_yscale("log")
    axes.margins(x=0)
    axes.set_ylim(chart.bottom, chart.top)  # keeps limits that suit the scale
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        if axis.get_scale() == "log":
            is_short = high < MAX_SHORT_RATIO * low
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if is_short else (1.0,)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())


def _place_markers(x: np.ndarray, offset: float, is_log: bool) -> list[int]:
    """Return indices whose places divide an axis evenly, moved by a share of their distance."""
    axis = np.log(x) if is_log and x[0] > 0 else x
    shares = (np.arange(NUM_MARKERS) + offset) / NUM_MARKERS
    places = axis[0] + (axis[-1] - axis[0]) * shares
    return sorted({int(np.abs(axis - place).argmin()) for place in places})


def style_entries(agents: Sequence[Entry]) -> dict[Entry, LineStyle]:
    """Return how each agent of an experiment is drawn in all of its figures."""
    names = [short_name(each.target) + ", prior" * ("prior" in each.options) for each in agents]
    labels = [each.label for each in agents]
    return dict(zip(agents, agent_styles([*zip(labels, names, strict=True)]), strict=True))


def draw_forest(results: StoredResults, environment: Entry, style: str = "screen") -> Figure:
    """Draw each agent's regret at the horizon, its interval, and its verdict as text."""
    rows = [row for row in results.estimates if row["env"] == environment.label]
    rows = [row for row in rows if not row["failed"]]
    styles = style_entries(results.experiment.agents)
    looks = {agent.label: style for agent, style in styles.items()}
    with matplotlib.rc_context(STYLES[style]):
        figure = NotebookFigure(layout="constrained", figsize=(5.2, 0.8 + 0.26 * len(rows)))
        axes = figure.subplots()
        for level, row in enumerate(rows):
            low, middle, high = (row[f"cumulative_regret{end}"] for end in ("_low", "", "_high"))
            look = looks[row["agent"]]
            axes.plot([low, high], [level, level], color=look.colour)
            axes.plot(middle, level, look.marker, color=look.colour)
            axes.annotate(
                row["verdict"],
                (np.fmax(middle, high), level),
                (6, 0),
                textcoords="offset points",
                verticalalignment="center",
            )
        labels = [wrap_text(row["agent"]) for row in rows]
        axes.set(yticks=range(len(rows)), ylim=(len(rows) - 0.5, -0.5))
        for text in axes.set_yticklabels(labels):
            text.set(parse_math=False)
        axes.set_xlabel(f"{describe_regret(environment)[0]} at the horizon")
        axes.margins(x=0.2)
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0] if axes.dataLim.x0 < 0 else 0.0))
        return figure


def add_legend(owner: Figure | Axes, chart: Chart, **options: Any) -> None:
    """Write the legend of a chart on a figure or axes, with labels as they are."""
    axes = owner.axes[0] if isinstance(owner, Figure) else owner
    lines = axes.lines[-min(MAX_AGENTS, len(chart.curves)) :]
    names = [str(number) for number in range(len(lines))]
    legend = owner.legend(lines, names, **options)
    for text, line in zip(legend.get_texts(), lines, strict=True):
        label = wrap_text(str(line.get_label()))
        text.set(text=label, parse_math=False)  # no legend takes one that begins with "_" before
    if left_out := len(chart.curves) - len(lines):
        legend.set_title(f"{left_out} more are left out")


def _lay_out_legend(figure: Figure, chart: Chart) -> tuple[float, int, float]:
    """Return font size, columns and rows of a legend below the axes, where it hides no curve."""
    size = matplotlib.rcParams["font.size"]
    labels = [wrap_text(curve.label) for curve in chart.curves[:MAX_AGENTS]]
    max_length = max(len(part) for label in labels for part in label.splitlines())
    columns = max(1, int(120 * figure.get_figwidth() / size) // (max_length + 8))
    return size, columns, sum(1 + label.count("\n") for label in labels) / columns


def save_figure(figure: Figure, path: Path, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write a figure in each of the formats; the same figure gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [path.with_name(f"{path.name}.{suffix}") for suffix in formats]
    with matplotlib.rc_context({"svg.hashsalt": path.name, "pdf.fonttype": 42}):
        for file, suffix in zip(files, formats, strict=True):
            drawn = io.BytesIO()
            figure.savefig(drawn, format=suffix, **FORMATS[suffix])
            with replacing(file) as opened:
                opened.write(drawn.getvalue().replace(b"</style>", DARK_STYLE, 1))
    return files
