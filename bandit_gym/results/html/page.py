"""The page: its sections in order, what draws its charts, and its size."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from bandit_gym.checks import check_file, check_object
from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.experiment import to_toml
from bandit_gym.files import RESULTS_VERSION, VERSION, replacing
from bandit_gym.results.html.charts import MOST_POINTS, Chart, make_charts, make_profile
from bandit_gym.results.html.markup import embed, figure, legend, look, paragraph, table
from bandit_gym.results.report import closing_notes, version_notes
from bandit_gym.results.results import Results
from bandit_gym.results.summary import summarise
from bandit_gym.results.tables import Table, make_aggregate, make_tables

LARGEST = 6_000_000
"""Bytes; a page that would be larger has curves of fewer points."""

FEWEST_POINTS = 25

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
"""By which a browser itself sees to it that the page asks no network for anything."""

CITATION = f"""@software{{bandit_gym,
  title = {{bandit-gym: Bayesian bandits for Gymnasium}},
  version = {{{VERSION}}},
  note = {{results version {{version}}}}
}}"""


def write_html(results: Results, path: str | Path) -> Path:
    """Write a report in one file of at most 6 MB, which shows all there is so far.

    Args:
        results: what to report.
        path: the file; its folder is made unless it is there.

    Returns:
        The path.

    Raises:
        ModuleNotFoundError: if plotly is not installed, which the extra `html` brings.
        OSError: if the file cannot be written.
    """
    check_object("results", results, Results)
    path = check_file("path", path)
    page = _fit(results, _library()).encode()
    with replacing(path, is_typed=True) as file:
        file.write(page)
    return path


def _library() -> str:
    """Return plotly's own code, which draws, compressed to a third."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        text = 'a report in HTML needs plotly: pip install "bayesian-bandit-gym[html]".'
        raise ModuleNotFoundError(text) from error
    packed = gzip.compress(get_plotlyjs().encode(), mtime=0)
    return base64.b64encode(packed).decode()


def _fit(results: Results, library: str) -> str:
    """Return the page with as many points a curve, of 200 or fewer, as keep it small enough."""
    rows = summarise(results).to_dict("records")
    tables = make_tables(results, rows)
    points = MOST_POINTS
    while True:
        page = _write(results, rows, tables, points).replace("LIBRARY", library, 1)
        if len(page.encode()) <= LARGEST or points <= FEWEST_POINTS:
            return page
        points //= 2


def _write(
    results: Results, rows: list[Any], tables: dict[Entry, tuple[Table, Table]], points: int
) -> str:
    charts: dict[str, Chart] = {}
    experiment = results.experiment
    title = (
        f"{_count(len(experiment.agents), 'agent')} in {_count(len(tables), 'world')}: "
        f"{experiment.replications} replications of {experiment.horizon} steps"
    )
    body = [
        f"<header><h1>{escape(title)}</h1></header><main>",
        *map(paragraph, version_notes(results)),
        _contents(list(tables)),
        *_write_overall(results, charts, points),
        *(_write_world(results, e, tables[e], charts, points) for e in tables),
        "" if tables else paragraph("No block is stored so far that can be reported."),
        *map(paragraph, closing_notes(results, rows)),
        *_write_sources(results),
        "</main>",
    ]
    return _page(title, "\n".join(body), _data(results, charts))


def _write_overall(results: Results, charts: dict[str, Chart], points: int) -> Iterator[str]:
    parts = [table(each) for each in make_aggregate(results)]
    for chart in make_profile(results, points):
        charts["all-0"] = chart
        drawn = [(line.agent, line.name) for line in chart.lines]
        parts += [legend("all", drawn), figure("all-0", chart)]
    if parts:
        yield f'<section id="all"><h2>All worlds</h2>{"".join(parts)}</section>'


def _write_world(
    results: Results,
    environment: Entry,
    tables: tuple[Table, Table],
    charts: dict[str, Chart],
    points: int,
) -> str:
    number = results.experiment.environments.index(environment)
    agents = [found.run.agent for found in results.usable(environment)]
    drawn = [(results.experiment.agents.index(agent), agent.label) for agent in agents]
    own = {f"{number}-{i}": c for i, c in enumerate(make_charts(results, environment, points))}
    charts |= own
    return (
        f'<section id="world-{number}"><h2><bdi>{escape(environment.label)}</bdi></h2>'
        f"{table(tables[0])}{legend(str(number), drawn)}"
        f"{''.join(figure(name, chart) for name, chart in own.items())}"
        f"<details><summary>Spread over replications</summary>{table(tables[1])}</details>"
        "</section>"
    )


def _write_sources(results: Results) -> Iterator[str]:
    """Yield what the results were made from and with, and how to cite them."""
    settings = escape(to_toml(results.experiment.to_dict()))
    yield f'<section id="experiment"><h2>The experiment</h2><pre tabindex="0">{settings}</pre>'
    yield f"{table(_list_versions(results))}</section>"
    citation = escape(CITATION.replace("{version}", str(results.version)))
    yield f'<section id="cite"><h2>How to cite</h2><pre tabindex="0">{citation}</pre></section>'


def _list_versions(results: Results) -> Table:
    """Tabulate what the blocks were made with; several where they differ."""
    found: dict[str, set[str]] = {}
    for block in (block for run in results.runs for block in run.blocks):
        for package, version in block.receipt["versions"].items():
            found.setdefault(str(package), set()).add(str(version))
    lines = [["results", str(results.version)], ["bandit-gym, of this report", VERSION]]
    lines += [[package, " and ".join(sorted(found[package]))] for package in sorted(found)]
    title = f"Versions; this package draws results of version {RESULTS_VERSION}"
    return Table(title, ["package", "version"], lines, [])


def _contents(environments: list[Entry]) -> str:
    """Link to the sections, where there are several worlds."""
    links = "".join(
        f'<li><a href="#world-{number}"><bdi>{escape(each.label)}</bdi></a></li>'
        for number, each in enumerate(environments)
    )
    return f'<nav aria-label="Worlds"><ul>{links}</ul></nav>' if len(environments) > 1 else ""


def _data(results: Results, charts: dict[str, Chart]) -> str:
    """Return what the page's code draws; lines of a chart share their horizontal positions."""
    looks = [look(number) for number in range(len(results.experiment.agents))]
    return embed({"looks": looks, "charts": {name: _pack(c) for name, c in charts.items()}})


def _pack(chart: Chart) -> dict[str, Any]:
    positions: list[list[float]] = []
    choices: dict[str, list[dict[str, Any]]] = {}
    for choice, lines in chart.choices.items():
        choices[choice] = packed = []
        for line in lines:
            if line.x not in positions:
                positions.append(line.x)
            packed.append(line._asdict() | {"x": positions.index(line.x)})
    return chart._asdict() | {"positions": positions, "choices": choices}


def _page(title: str, body: str, data: str) -> str:
    assets = files(__package__).joinpath("assets")
    style, code = (assets.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js"))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
<noscript><p class="note">Charts need JavaScript; their values are in the tables.</p></noscript>
<footer>Written by bandit-gym {VERSION}. Drawn by plotly.js, MIT licence.</footer>
<script type="application/json" id="data">{data}</script>
<script type="text/plain" id="library">LIBRARY</script>
<script>{code}</script>
</body>
</html>
"""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
