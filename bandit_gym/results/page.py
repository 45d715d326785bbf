"""A report in one HTML file, which opens from disk, prints, and asks no network for anything.

The charts are those of `plots`, drawn by plotly; the tables are those of `tables`. All text that
people chose is escaped.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bandit_gym.checks import check_file, import_extra
from bandit_gym.checks.files import VERSION, replacing
from bandit_gym.checks.styles import line_style
from bandit_gym.checks.typing import FloatArray
from bandit_gym.experiments.entries import Entry
from bandit_gym.results.report import (
    DETAIL_COLUMNS,
    MISSING_CELL,
    Table,
    closing_notes,
    make_aggregate,
    make_tables,
    shorten_labels,
    version_notes,
    write_estimate,
    write_p_value,
)

if TYPE_CHECKING:
    from bandit_gym.results.plots import Chart, Curve
    from bandit_gym.results.results import Results

MAX_CURVE_POINTS = 120
"""Of a curve: more are not distinguished on a screen."""

MAX_BANDS = 8
"""Agents of a chart beyond which bands would be a fog."""

NUM_TABLE_STEPS = 6
"""Of the horizontal axis, at which the table of a chart lists its values."""

MAX_LABEL_LENGTH = 28
"""Characters of an agent's label in charts; tables have all of them."""

PHONE_WIDTH = 40
"""Characters beside each other, of which a phone shows no more."""

GROUND, RULE, ERROR_COLOUR = "rgba(0,0,0,0)", "#d0d0d0", "#6b6b6b"
AXIS = {
    "title": {"standoff": 8, "font": {"size": 12}},
    "automargin": True,
    "gridcolor": RULE,
    "zeroline": False,
    "tickformat": ",",
}
LAYOUT = {
    "paper_bgcolor": GROUND,
    "plot_bgcolor": GROUND,
    "font": {"size": 12, "color": "#1a1a1a"},
    "margin": {"l": 10, "r": 12, "t": 30, "b": 10},
    "xaxis": AXIS,
    "yaxis": AXIS,
}
"""Of all figures, as plotly's templates have it."""

SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
"""By which a browser itself sees to it that the page asks no network for anything."""

STYLESHEET = """
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 0 1rem 2rem; max-width: 80rem; overflow-wrap: anywhere;
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; }
h2 { margin: 2.5rem 0 .3rem; }
.note, summary { opacity: .8; font-size: .875rem; margin: .4rem 0; white-space: pre-line; }
.scroll { overflow-x: auto; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 1rem 0; width: 38rem; max-width: 100%; }
table { border-collapse: collapse; font-size: .8125rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .5rem; text-align: right; overflow-wrap: normal; font-weight: normal; }
td { white-space: nowrap; }
thead th { border-block: 1px solid GrayText; vertical-align: bottom; }
tr > th:first-child { position: sticky; left: 0; background: Canvas; text-align: left;
  overflow-wrap: anywhere; min-width: 7rem; max-width: 16rem; }
tbody tr:nth-child(even) > * { background: color-mix(in srgb, CanvasText 6%, Canvas); }
pre { white-space: pre-wrap; font-size: .8125rem; }
@media screen and (prefers-color-scheme: dark) { .plot { filter: invert(1) hue-rotate(180deg); } }
@media print {
  :root { color-scheme: light; }
  body { font-size: 10pt; padding: 0; }
  .plot, tr, li { break-inside: avoid; }
  h2, .title, figcaption { break-after: avoid; }
  .scroll { overflow: visible; }
  table { font-size: 7pt; }
  th, td { padding: .1rem .25rem; white-space: normal; }
  tr > th:first-child { position: static; min-width: 4rem; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
}
"""

CITATION = f"""@misc{{bandit_gym,
  author = {{{{The bandit-gym developers}}}},
  title = {{bandit-gym: Bayesian bandits for Gymnasium}},
  year = {{2026}},
  version = {{{VERSION}}},
  note = {{results version {{version}}}}
}}"""


def write_html(results: Results, path: str | Path) -> Path:
    """Write a report in one file, which shows all there is so far.

    Args:
        results: what to report.
        path: the file; its folder is made unless it is there.

    Returns:
        The path.

    Raises:
        ModuleNotFoundError: if plotly is not installed, which the extra `html` brings.
        OSError: if the file cannot be written.
    """
    path = check_file("path", path)
    library = import_extra("plotly.offline", "a report in HTML", "html").get_plotlyjs()
    page = "\n".join(_write_html_page(results, library)).encode()
    with replacing(path, is_typed=True) as file:
        file.write(page)
    return path


def write_part(part: Table | str) -> str:
    """Write a table, or a note of its own, as HTML."""
    return _write_note(part) if isinstance(part, str) else _write_table(part)


def _write_html_page(results: Results, library: str) -> Iterator[str]:
    from bandit_gym.results.plots import make_charts

    tables, experiment = make_tables(results, DETAIL_COLUMNS), results.experiment
    title = (
        f"{_count_noun(len(experiment.agents), 'agent')} "
        f"in {_count_noun(len(tables), 'environment')}: "
        f"{_count_noun(experiment.replications, 'replication')} "
        f"of {_count_noun(experiment.horizons[-1], 'step')}"
    )
    yield f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{SECURITY_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{STYLESHEET}</style>
<script>{library}</script>
</head>
<body>
<header><h1>{escape(title)}</h1>"""
    yield _write_note(
        f"Seed {experiment.seed}, results version {results.version}. Written on {date.today()} by "
        f"bandit-gym {VERSION}: bandit-gym report DIR --html"
    )
    yield "".join(map(_write_note, version_notes(results)))
    yield "</header><main>"
    if tables:
        yield f"<ul>{''.join(_write_answer(results, each) for each in tables)}</ul>"
        forests = "".join(_write_forest(results, each) for each in tables)
        yield f'<div class="charts">{forests}</div>'
    else:
        yield _write_note("No block is stored so far that can be reported.")
    yield "".join(map(_write_note, closing_notes(results)))
    for table in make_aggregate(results):
        yield f"<section><h2>All environments</h2>{_write_table(table)}</section>"
    for environment, table in tables.items():
        number = experiment.environments.index(environment)
        yield f'<section id="world-{number}"><h2>{_write_literal(environment.label)}</h2>'
        yield _write_table(table)
        yield _write_charts(make_charts(results, environment), f"chart-{number}")
        yield "</section>"
    settings = escape(json.dumps(experiment.to_dict(), indent=2))
    yield f"<section><h2>The experiment</h2><pre>{settings}</pre>"
    yield _write_note(
        "Saved as experiment.json, these settings give the same numbers again: "
        "bandit-gym run experiment.json --out DIR; bandit-gym report DIR --html"
    )
    yield "</section>"
    citation = escape(CITATION.replace("{version}", str(results.version)))
    yield f"<section><h2>How to cite</h2><pre>{citation}</pre></section>"
    yield "<noscript>Charts need JavaScript.</noscript></main>"
    yield "<footer>Drawn by plotly.js, MIT licence.</footer></body></html>\n"


def _write_answer(results: Results, environment: Entry) -> str:
    """Write a sentence: which agents have less regret than the first one, and which more."""
    own = [row for row in results.rows if row["env"] == environment.label]
    reference = _write_literal(results.experiment.agents[0].label)
    parts = []
    for verdict, word in (("better", "less"), ("worse", "more")):
        for row in (row for row in own if row["verdict"] == verdict):
            p_value = f"p = {write_p_value(row['p_holm'])}".replace("= <", "< ")
            proof = escape(f"{write_estimate(row, 'difference')}, {p_value}")
            agent = _write_literal(row["agent"])
            parts.append(f"{agent} has {word} regret than {reference} ({proof})")
    undecided = [_write_literal(row["agent"]) for row in own if row["verdict"] == "undecided"]
    if undecided:
        parts.append(f"undecided: {', '.join(undecided)}")
    number = results.experiment.environments.index(environment)
    link = f'<a href="#world-{number}">{_write_literal(environment.label)}</a>'
    return f"<li>{link}: {'; '.join(parts) or 'there is nothing to compare'}.</li>"


# -- Pieces -------------------------------------------------------------------------------------


def _write_note(text: str) -> str:
    """Write a note; lines stay lines."""
    return f'<p class="note">{escape(text)}</p>'


def _write_literal(label: str) -> str:
    """Write a label as it is; which way it runs is no matter of what stands beside it."""
    return f"<bdi>{escape(label)}</bdi>"


def _count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _write_table(table: Table) -> str:
    """Write a table whose first column names the rows; a narrow screen scrolls the others."""
    with pd.option_context("display.max_colwidth", None):
        html = table.cells.to_html(border=0)
    notes = "".join(map(_write_note, table.notes))
    return (
        f'<p class="note title">{escape(table.title)}</p>'
        f'<div class="scroll" tabindex="0">{html}</div>{notes}'
    )


# -- Charts -------------------------------------------------------------------------------------


def _write_charts(charts: Iterable[Chart], name: str) -> str:
    drawn = []
    for number, chart in enumerate(charts):
        values = _write_table(_tabulate_chart(chart))
        details = f"<details><summary>Values as a table</summary>{values}</details>"
        shown = chart.name, _describe_chart(chart), _draw_chart(chart)
        drawn.append(_write_figure(f"{name}-{number}", *shown, details))
    return f'<div class="charts">{"".join(drawn)}</div>'


def _write_figure(name: str, title: str, text: str, figure: Any, details: str = "") -> str:
    """Write a figure of plotly, with a text for those who do not see it."""
    import plotly.io

    html = plotly.io.to_html(
        figure,
        config={"responsive": True, "displayModeBar": False},
        include_plotlyjs=False,
        full_html=False,
        default_height=f"{figure.layout.height}px",
        div_id=name,
    )
    return (
        f"<figure><figcaption>{_write_literal(title)}</figcaption>"
        f'<div class="plot" role="img" aria-label="{escape(text)}">{html}</div>{details}</figure>'
    )


def _draw_chart(chart: Chart) -> Any:
    from plotly import graph_objects

    figure = graph_objects.Figure()
    is_banded = sum(curve.band is not None for curve in chart.curves) <= MAX_BANDS
    names = _shorten_labels([curve.label for curve in chart.curves])
    for curve, name in zip(chart.curves, names, strict=True):
        spaced = np.linspace(0, len(curve.x) - 1, MAX_CURVE_POINTS).round()
        kept = np.union1d(spaced, curve.dots).astype(int)
        x, y = curve.x[kept], curve.y[kept].astype(np.float32)
        band = None if curve.band is None else [end[kept].astype(np.float32) for end in curve.band]
        if band is not None and is_banded:
            figure.add_scatter(
                x=np.concatenate([x, x[::-1]]),
                y=np.concatenate([band[1], band[0][::-1]]),
                fill="toself",
                fillcolor=f"{curve.line_style.colour}2e",
                line_width=0,
                hoverinfo="skip",
                showlegend=False,
                legendgroup=curve.label,
            )
        figure.add_scatter(
            x=x,
            y=y,
            name=name,
            mode="lines+markers" if curve.dots else "lines",
            marker={"size": 8 * np.isin(kept, curve.dots), "opacity": 1},
            line={"color": curve.line_style.colour, "dash": curve.line_style.dash, "width": 2},
            customdata=[_write_band(band, index) for index in range(len(x))],
            hovertemplate="%{x:,.4~g}: %{y:.4g}%{customdata}",
            legendgroup=curve.label,
        )
    figure.update_layout(
        template={"layout": LAYOUT},
        height=340 + 12 * len(chart.curves),
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
    )
    figure.update_xaxes(title_text=_break_lines(chart.x_title))
    figure.update_yaxes(title_text=_break_lines(chart.y_title), range=[chart.bottom, chart.top])
    for axis in chart.log:
        figure.update_layout({f"{axis}axis": {"type": "log", "dtick": "D2"}})
    return figure


def _break_lines(title: str) -> str:
    """Return the title of an axis in lines that a phone shows."""
    lines = [part for line in title.splitlines() for part in textwrap.wrap(line, PHONE_WIDTH)]
    return "<br>".join(escape(line, quote=False) for line in lines)


def _write_forest(results: Results, environment: Entry) -> str:
    """Draw each agent's regret, its interval, and its verdict as text."""
    from plotly import graph_objects

    rows = pd.DataFrame([row for row in results.rows if row["env"] == environment.label])
    low, middle, high = (rows[f"cumulative_regret{end}"] for end in ("_low", "", "_high"))
    labels = [agent.label for agent in results.experiment.agents]
    colours = [line_style(labels.index(agent)).colour for agent in rows["agent"]]
    errors = {"array": high - middle, "arrayminus": middle - low, "color": ERROR_COLOUR}
    marks = {"mode": "markers", "marker": {"color": colours, "size": 8}, "error_x": errors}
    words = {"mode": "text", "text": " " + rows["verdict"], "textposition": "middle right"}
    levels, ticks = list(range(len(rows))), _shorten_labels(list(rows["agent"]))
    figure = graph_objects.Figure()
    figure.add_scatter(x=middle, y=levels, hovertemplate="%{x:.4g}<extra></extra>", **marks)
    figure.add_scatter(x=high, y=levels, hoverinfo="skip", cliponaxis=False, **words)
    figure.update_xaxes(rangemode="tozero")
    figure.update_yaxes(tickvals=levels, ticktext=ticks, range=[len(rows) - 0.5, -0.5])
    height = 60 + 24 * len(rows)
    figure.update_layout(template={"layout": LAYOUT}, height=height, margin_r=80, showlegend=False)
    title = f"{environment.label}: regret at the horizon, 95 % intervals"
    number = results.experiment.environments.index(environment)
    return _write_figure(f"forest-{number}", title, f"{title}. The table has the numbers.", figure)


def _shorten_labels(labels: Sequence[str]) -> list[str]:
    """Return both ends of each label, in which plotly finds no markup and no formula."""
    shortened = shorten_labels(labels, MAX_LABEL_LENGTH, _cut_middle)
    return [escape(label, quote=False).replace("$", "&#36;") for label in shortened]


def _cut_middle(text: str, max_length: int) -> str:
    """Return both ends of a text that has more than so many characters."""
    half = max_length // 2
    return text if len(text) <= max_length else f"{text[:half]}…{text[-half:]}"


def _describe_chart(chart: Chart) -> str:
    """Say in a sentence what a chart shows, for people who do not see it."""
    last = sorted((float(curve.y[-1]), curve.label) for curve in chart.curves)
    final_values = ", ".join(f"{label} {value:.4g}" for value, label in last)
    axes = f"{chart.y_title} by {chart.x_title}"
    return f"{chart.name}: {axes}. At the end, from low to high: {final_values}."


def _tabulate_chart(chart: Chart) -> Table:
    """Tabulate a chart at some places of the horizontal axis, ever farther from each other."""
    x = max((curve.x for curve in chart.curves), key=lambda each: each[-1])
    places = x[np.unique(np.geomspace(1, len(x), NUM_TABLE_STEPS).round().astype(int)) - 1]
    cells = pd.DataFrame(
        [[_write_curve_value(curve, place) for place in places] for curve in chart.curves],
        index=[curve.label for curve in chart.curves],
        columns=pd.Index([f"{place:.4g}" for place in places], name=""),
    )
    title = f"{chart.y_title}, by {chart.x_title}; {chart.subtitle}"
    return Table(title.replace("\n", " "), cells, [])


def _write_curve_value(curve: Curve, place: float) -> str:
    """Write the value nearest to a place; none beyond the end, as where episodes ended sooner."""
    if place > curve.x[-1]:
        return MISSING_CELL
    index = int(np.abs(curve.x - place).argmin())
    return f"{curve.y[index]:.4g}{_write_band(curve.band, index)}"


def _write_band(band: Sequence[FloatArray] | None, index: int) -> str:
    return "" if band is None else f" [{band[0][index]:.4g}, {band[1][index]:.4g}]"
