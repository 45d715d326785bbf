"""A report in one HTML file, which opens from disk, prints, and asks no network for anything.

Its figures are those of `plots`, as SVG whose colours the page chooses, light or dark; its tables
are those of `report`. All text that people chose is escaped.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from datetime import date
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bandit_gym.checks import check_file
from bandit_gym.experiments.entries import Entry
from bandit_gym.files import VERSION, replacing
from bandit_gym.results.data import StoredResults
from bandit_gym.results.report import (
    DETAIL_COLUMNS,
    MISSING_CELL,
    Table,
    closing_notes,
    interval_notes,
    make_aggregate,
    make_tables,
    version_notes,
    write_estimate,
    write_p_value,
    write_part,
)
from bandit_gym.styles import STYLES, dark_rules

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bandit_gym.results.plots import Chart, Curve

MAX_CURVE_POINTS = 120
"""Of a curve: more are not distinguished on a screen."""

NUM_TABLE_STEPS = 6
"""Of the horizontal axis, at which the table of a chart lists its values."""

REGRET = "cumulative_regret"

SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
"""By which a browser itself sees to it that the page asks no network for anything."""

STYLESHEET = """
@media screen and (prefers-color-scheme: dark) { DARK }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 0 1rem 2rem; max-width: 80rem; overflow-wrap: anywhere;
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; }
h2 { margin: 2.5rem 0 .3rem; }
.note, summary { opacity: .8; font-size: .875rem; margin: .4rem 0; white-space: pre-line; }
.scroll { overflow-x: auto; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 1rem 0; width: 35rem; max-width: 100%; }
.plot svg { display: block; width: 100%; height: auto; }
table { border-collapse: collapse; font-size: .8125rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .5rem; text-align: right; overflow-wrap: normal; font-weight: normal; }
td { white-space: nowrap; }
thead th { border-block: 1px solid GrayText; vertical-align: bottom; }
tr > th:first-child { position: sticky; left: 0; background: Canvas; text-align: left;
  overflow-wrap: anywhere; min-width: 7rem; max-width: 16rem; }
tbody tr:nth-child(even) > * { background: color-mix(in srgb, CanvasText 6%, Canvas); }
pre { white-space: pre-wrap; font-size: .8125rem; }
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


def write_html(results: StoredResults, path: str | Path) -> Path:
    """Write a report in one file, which shows all there is so far.

    Args:
        results: what to report.
        path: the file; its folder is made unless it is there.

    Returns:
        The path.

    Raises:
        OSError: if the file cannot be written.
    """
    path = check_file("path", path)
    page = "\n".join(_write_html_page(results)).encode()
    with replacing(path, allows_devices=True) as file:
        file.write(page)
    return path


def _write_html_page(results: StoredResults) -> Iterator[str]:
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
<style>{STYLESHEET.replace("DARK", dark_rules(".plot svg"))}</style>
</head>
<body>
<header><h1>{escape(title)}</h1>"""
    yield write_part(
        f"Seed {experiment.seed}, results version {results.version}. Written on {date.today()} by "
        f"bandit-gym {VERSION}: bandit-gym report DIR --html"
    )
    yield "".join(map(write_part, version_notes(results)))
    yield "</header><main>"
    if tables:
        yield f"<ul>{''.join(_write_answer(results, each) for each in tables)}</ul>"
        forests = "".join(_write_forest(results, each) for each in tables)
        yield f'<div class="charts">{forests}</div>'
    else:
        yield write_part("No block is stored so far that can be reported.")
    yield "".join(map(write_part, closing_notes(results)))
    for table in make_aggregate(results):
        yield f"<section><h2>All environments</h2>{write_part(table)}</section>"
    for environment, table in tables.items():
        number = experiment.environments.index(environment)
        yield f'<section id="environment-{number}"><h2>{_write_literal(environment.label)}</h2>'
        yield write_part(table)
        yield _write_charts(results, environment)
        yield "</section>"
    settings = escape(json.dumps(experiment.to_dict(), indent=2))
    yield f"<section><h2>The experiment</h2><pre>{settings}</pre>"
    yield write_part(
        "Saved as experiment.json, these settings give the same numbers again: "
        "bandit-gym run experiment.json --out DIR; bandit-gym report DIR --html"
    )
    yield "</section>"
    citation = escape(CITATION.replace("{version}", str(results.version)))
    yield f"<section><h2>How to cite</h2><pre>{citation}</pre></section>"
    yield "</main></body></html>\n"


def _write_answer(results: StoredResults, environment: Entry) -> str:
    """Write a sentence: which agents have less regret than the first one, and which more."""
    own = [row for row in results.estimates if row["env"] == environment.label]
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
    link = f'<a href="#environment-{number}">{_write_literal(environment.label)}</a>'
    return f"<li>{link}: {'; '.join(parts) or 'there is nothing to compare'}.</li>"


def _write_literal(label: str) -> str:
    """Write a label as it is; which way it runs is no matter of what stands beside it."""
    return f"<bdi>{escape(label)}</bdi>"


def _count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# -- Figures ------------------------------------------------------------------------------------


def _write_charts(results: StoredResults, environment: Entry) -> str:
    from bandit_gym.results.plots import draw_figure, make_charts  # brings matplotlib

    written = []
    for chart in make_charts(results, environment):
        thinned = chart._replace(curves=[_thin_curve(curve) for curve in chart.curves])
        figure = draw_figure(thinned, "page")
        written.append(_write_figure(chart.name, _describe_chart(chart), figure, _tabulate(chart)))
    return f'<div class="charts">{"".join(written)}</div>'


def _write_forest(results: StoredResults, environment: Entry) -> str:
    from bandit_gym.results.plots import draw_forest

    title = f"{environment.label}: regret at the horizon, 95 % intervals"
    rows = [row for row in results.estimates if row["env"] == environment.label]
    rows = sorted((row for row in rows if pd.notna(row[REGRET])), key=lambda row: row[REGRET])
    if not rows:
        return ""
    shown = {
        row["agent"]: [write_estimate(row, REGRET), row["verdict"] or MISSING_CELL] for row in rows
    }
    names = pd.Index(["regret", "verdict"], name="agent")
    notes = [*interval_notes(rows, [REGRET])]
    table = Table(f"{title}, best first", pd.DataFrame(shown, names).T, notes)
    values = ", ".join(f"{agent} {regret}" for agent, (regret, _) in shown.items())
    text = f"{title}. From low to high: {values}."
    return _write_figure(title, text, draw_forest(results, environment, "page"), table)


def _write_figure(title: str, text: str, figure: Figure, table: Table) -> str:
    """Write a figure, with a text for those who do not see it and a table of its values."""
    values = f"<details><summary>Values as a table</summary>{write_part(table)}</details>"
    return (
        f"<figure><figcaption>{_write_literal(title)}</figcaption>"
        f'<div class="plot" role="img" aria-label="{escape(text)}">{_write_svg(figure)}</div>'
        f"{values}</figure>"
    )


def _write_svg(figure: Figure) -> str:
    """Write a figure as SVG that stands in a page, whose rules change its colours in the dark."""
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context({**STYLES["page"], "svg.hashsalt": "page"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r' id="\w+_\d+"', "", svg)  # which nothing refers to
    svg = re.sub(r' d="[^"]*"', lambda path: re.sub(r"\.(\d\d)\d+", r".\1", path[0]), svg)
    return svg


def _thin_curve(curve: Curve) -> Curve:
    """Return a curve with fewer points, those with a dot among them."""
    spaced = np.linspace(0, len(curve.x) - 1, MAX_CURVE_POINTS).round()
    kept = np.union1d(spaced, curve.dots).astype(int)
    band = None if curve.band is None else (curve.band[0][kept], curve.band[1][kept])
    dots = [int(np.searchsorted(kept, dot)) for dot in curve.dots]
    return curve._replace(x=curve.x[kept], y=curve.y[kept], band=band, dots=dots)


def _describe_chart(chart: Chart) -> str:
    """Say in a sentence what a chart shows, for people who do not see it."""
    last = sorted((float(curve.y[-1]), curve.label) for curve in chart.curves)
    final_values = ", ".join(f"{label} {value:.4g}" for value, label in last)
    axes = f"{chart.y_title} by {chart.x_title}"
    return f"{chart.name}: {axes}. At the end, from low to high: {final_values}."


def _tabulate(chart: Chart) -> Table:
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
    value = f"{curve.y[index]:.4g}"
    return (
        value
        if curve.band is None
        else f"{value} [{curve.band[0][index]:.4g}, {curve.band[1][index]:.4g}]"
    )
