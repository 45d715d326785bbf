"""Pieces of the page, all text in them escaped."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from bandit_gym.results.html.charts import Chart, Line
from bandit_gym.results.styles import COLOURS
from bandit_gym.results.tables import Table

BOUND_DASHES = ("2,3", "2,8")
DASHES = ("", "7,4", "2,3", "8,3,2,3", "15,5", "15,4,2,4", "2,8")
SYMBOLS = {"": "", "circle": "●", "square": "■", "diamond": "◆", "triangle-up": "▲", "x": "✕"}
"""Marks of plotly, and the letters that look like them; with dashes, for those without colour."""

MOST_COLUMNS = 6
MOST_BANDS = 8  # as in page.js
MANY_BANDS = (
    "95 % bands are drawn while at most 8 agents are shown; pointing at a curve tells them."
)
NAMED_IN_ALT = 5


def look(number: int) -> dict[str, Any]:
    """Return how agent `number` is drawn: 7 colours and dashes, 49 of both, then with marks."""
    count = len(COLOURS)
    return {
        "colour": number % count,
        "dash": DASHES[(number + number // count) % len(DASHES)],
        "symbol": list(SYMBOLS)[number // count % len(SYMBOLS)],
    }


def paragraph(text: str) -> str:
    """Write a note; lines stay lines."""
    return f'<p class="note">{escape(text)}</p>'


def literal(label: str) -> str:
    """Write a label as it is; which way it runs is no matter of what stands beside it."""
    return f"<bdi>{escape(label)}</bdi>"


def table(content: Table) -> str:
    """Write a table whose first column names the rows; a narrow screen scrolls it."""
    head = "".join(f'<th scope="col">{literal(cell)}</th>' for cell in content.header)
    rows = "".join(f"<tr>{_row(line)}</tr>" for line in content.lines)
    notes = "".join(map(paragraph, content.notes))
    title, notes = escape(content.title), "".join(map(paragraph, content.notes))
    return (
        f'<p class="title">{title}</p><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{title}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{notes}"
    )


def legend(group: str, agents: Iterable[tuple[int, str]]) -> str:
    """Write buttons that show and hide agents in all charts of a group."""
    buttons = "".join(
        f'<button type="button" aria-pressed="true" data-agent="{number}">'
        f"{_swatch(number)}{literal(label)}</button>"
        for number, label in agents
    )
    return (
        f'<div class="legend" role="group" aria-label="Agents shown" data-group="{group}">{buttons}'
        '<button type="button" data-all="true">all</button>'
        '<button type="button" data-all="false">none</button></div>'
    )


def figure(name: str, chart: Chart) -> str:
    """Write the place of a chart, what a reader may switch, and its values as a table."""
    switches = "".join(
        f'<button type="button" data-log="{letter}" '
        f'aria-pressed="{str(letter in chart.log).lower()}">log {letter}</button>'
        for letter in chart.may_log
    )
    options = "".join(f"<option>{escape(choice)}</option>" for choice in chart.choices)
    bounds = [line.name for line in chart.lines if line.agent < 0]
    drawn = "".join(
        f'<span class="bound">{_draw_line("var(--faint)", dash)}{escape(bound)}</span>'
        for bound, dash in zip(bounds, BOUND_DASHES, strict=False)
    )
    select = f"<label>show <select data-choice>{options}</select></label>"
    banded = sum(bool(line.half) for line in chart.lines)
    foggy = paragraph(MANY_BANDS) if banded > MOST_BANDS else ""
    return (
        f'<figure data-chart="{name}"><figcaption>{literal(chart.title)}</figcaption>'
        f'<div class="controls">{switches}{select if len(chart.choices) > 1 else ""}{drawn}</div>'
        f'<div class="plot" role="img" aria-label="{escape(describe(chart))}"></div>'
        f"{foggy}<details><summary>Values as a table</summary>{_values(chart)}</details></figure>"
    )


def describe(chart: Chart) -> str:
    """Say in a few sentences what a chart shows, for those who do not see it."""
    own = [line for line in chart.lines if line.agent >= 0 and line.y]
    last = sorted((line.y[-1], line.name) for line in own if line.y[-1] is not None)
    named = last[:NAMED_IN_ALT]
    listed = ", ".join(f"{name} {value:g}" for value, name in named)
    which = f"the {len(named)} lowest of {len(last)} agents" if len(last) > len(named) else "agents"
    return (
        f"Line chart. {chart.title}: {chart.y_title} by {chart.x_title}. "
        f"At the end, {which} from low to high: {listed}. All agents are in the table that follows."
    )


def embed(data: Any) -> str:
    """Write data so that no text in them can end the element that they stand in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _row(line: Sequence[str]) -> str:
    cells = "".join(f"<td>{literal(cell)}</td>" for cell in line[1:])
    return f'<th scope="row">{literal(line[0])}</th>{cells}'


def _swatch(number: int) -> str:
    style = look(number)
    return _draw_line(f"var(--c{style['colour']})", style["dash"], SYMBOLS[style["symbol"]])


def _draw_line(colour: str, dash: str, mark: str = "") -> str:
    """Draw what a line of a chart looks like, for a legend."""
    return (
        f'<svg width="34" height="12" aria-hidden="true" style="color:{colour}">'
        '<line x1="0" y1="6" x2="34" y2="6" stroke="currentColor" stroke-width="2" '
        f'stroke-dasharray="{dash}"/>'
        f'<text x="17" y="10" text-anchor="middle" font-size="11" fill="currentColor">{mark}</text>'
        "</svg>"
    )


def _values(chart: Chart) -> str:
    """Write the first choice at some places of the horizontal axis, the last among them."""
    longest = max((line.x for line in chart.lines), key=len, default=[])
    places = [longest[i] for i in _spread(len(longest))]
    lines = [[line.name, *(_value(line, place) for place in places)] for line in chart.lines]
    header = ["", *(f"{place:g}" for place in places)]
    choice = next(iter(chart.choices))
    title = f"{chart.y_title}{f', {choice}' if choice else ''}, by {chart.x_title}"
    return table(Table(title, header, lines, []))


def _spread(count: int) -> list[int]:
    """Return some indices, ever farther from each other."""
    if count <= MOST_COLUMNS:
        return list(range(count))
    return sorted({round(count ** (i / (MOST_COLUMNS - 1))) - 1 for i in range(MOST_COLUMNS)})


def _value(line: Line, place: float) -> str:
    """Write the value at the last recorded place that is not beyond this one."""
    index = max((i for i, x in enumerate(line.x) if x <= place), default=None)
    value = None if index is None else line.y[index]
    if index is None or value is None:
        return "-"
    half = line.half[index] if line.half else None
    return f"{value:.4g}" if half is None or math.isnan(half) else f"{value:.4g} ± {half:.2g}"
