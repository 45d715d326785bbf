"""The matrix of claims and readings: each cell looks at the data until it is decided, or a limit.

All cells share the level of 5 %: what a cell says at one look is wrong with a probability of at
most 5 % over cells times looks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from pages.command import Task
from pages.page import Section, markdown_table, short

from bandit_gym.results.statistics import LEVEL, Interval
from paper.claims import Claim
from paper.deciding import FAILS, HOLDS, MIN_CLUSTERS, UNDECIDED
from paper.readings import READINGS, Reading
from paper.trials import DEAR_SAMPLES

LOOKS = (1, 2, 4)
"""How much is looked at, in what is looked at first."""

SECONDS_PER_SAMPLE = 0.25e-6
"""Of a race with ten arms, on one core."""

NO_SUPREMUM = "nobody knows the supremum of w for this prior and proposal"
NOT_APPLICABLE, TOO_DEAR = "not applicable", "too dear"
MARKS = {
    HOLDS: ("✓", "#56b4e9"),
    FAILS: ("✗", "#e69f00"),
    UNDECIDED: ("?", "#f0e442"),
    TOO_DEAR: ("$", "#bbbbbb"),
    NOT_APPLICABLE: ("–", "#f5f5f5"),
}


class Cell(NamedTuple):
    """What became of a claim under a reading.

    Attributes:
        verdict: one of `MARKS`.
        interval: of the quantity at the look that settled it, or the last; None without one.
        count: clusters that it rests on.
        words: what follows the interval, or the reason where there is none.
    """

    verdict: str
    interval: Interval | None = None
    count: int = 0
    words: str = ""

    def __str__(self) -> str:
        """Write it as a cell of a table."""
        if self.interval is None:
            return self.words if self.verdict == TOO_DEAR else MARKS[NOT_APPLICABLE][0]
        estimate, low, high = self.interval
        ends = "" if low == high else f" [{short(low)}, {short(high)}], n = {self.count}"
        if math.isinf(high):
            ends = f" (no interval below {MIN_CLUSTERS}, n = {self.count})"
        return f"**{self.verdict}** {short(estimate)}{ends}{self.words}"


@dataclass(frozen=True)
class Judged(Section):
    """A section with rows of the matrix.

    Attributes:
        cells: sentence -> a cell for each of `READINGS`.
    """

    cells: Mapping[str, Sequence[Cell]] = field(default_factory=dict)


def judge(task: Task, title: str, text: str, claims: Sequence[Claim], num_cells: int) -> Judged:
    """Settle each claim under each reading, and lay the cells out.

    Args:
        task: with its `batches` at the first look.
        title: of the section.
        text: below it.
        claims: rows.
        num_cells: of the whole matrix, which share the level.
    """
    level = LEVEL / (num_cells * len(LOOKS))
    cells = {
        claim.sentence: [settle(claim, reading, task, level) for reading in READINGS]
        for claim in claims
    }
    rows = [
        {"claim": claim.sentence, "estimate": claim.quantity}
        | {r.name: str(cell) for r, cell in zip(READINGS, cells[claim.sentence], strict=True)}
        for claim in claims
    ]
    return Judged(title, text, [markdown_table(rows), *_reasons(cells)], cells=cells)


def settle(claim: Claim, reading: Reading, task: Task, level: float) -> Cell:
    """Look at more and more until the claim is decided, or to the last look.

    Args:
        claim: row.
        reading: column.
        task: with its `batches` at the first look.
        level: probability that a verdict at one look may be wrong with.
    """
    words = claim.refusal(reading)
    if words:
        return Cell(NOT_APPLICABLE, words=words)
    try:
        samples = claim.source.pilot(task, reading)
    except ValueError:
        if reading.scale != "supremum":
            raise
        return Cell(NOT_APPLICABLE, words=NO_SUPREMUM)
    if samples >= DEAR_SAMPLES:
        return Cell(TOO_DEAR, words=_cost(samples))
    for look in LOOKS:
        measure = claim.measure(claim.source.sample(task, look), reading)
        verdict = measure.verdict(level)
        if verdict != UNDECIDED:
            break
    drawn = [limit for limit in (measure.low, measure.high) if np.ndim(limit)]
    words = f", limit {' and '.join(short(float(np.mean(limit))) for limit in drawn)}"
    return Cell(verdict, measure.interval(level), len(measure.values), words if drawn else "")


def _cost(samples: float) -> str:
    seconds = 1000 * samples * SECONDS_PER_SAMPLE
    return f"{TOO_DEAR}: {samples:,.0f} samples a decision or more, {seconds:.1f} s for 1,000"


def _reasons(cells: Mapping[str, Sequence[Cell]]) -> Iterator[str]:
    """Say once under which readings nothing applies, and why."""
    found: dict[str, list[str]] = {}
    for row in cells.values():
        for reading, cell in zip(READINGS, row, strict=True):
            if cell.verdict == NOT_APPLICABLE:
                found.setdefault(cell.words, []).append(reading.name)
    for words, names in found.items():
        yield f"–: {words} ({'; '.join(dict.fromkeys(names))})"


def summarise(sections: Sequence[Judged]) -> Section:
    """Return the section that shows all cells at a glance."""
    grids = [[*section.cells.values()] for section in sections]
    columns = zip(*(row for grid in grids for row in grid), strict=True)
    by_reading = {r.name: Counter(_verdicts(c)) for r, c in zip(READINGS, columns, strict=True)}
    by_section = {
        section.title: Counter(_verdicts(cell for row in grid for cell in row))
        for section, grid in zip(sections, grids, strict=True)
    }
    total = sum(by_section.values(), Counter())
    applicable = total[HOLDS] + total[FAILS] + total[UNDECIDED]
    share = total[UNDECIDED] / max(1, applicable)
    return Section(
        title="The matrix",
        text=f"{applicable} cells apply; {total[UNDECIDED]} of them ({share:.0%}) are undecided.",
        body=[_counted("reading", by_reading), _counted("of the paper", by_section)],
        pictures={"readings": _draw(sections)},
        caption="What became of each claim, a row each, under each reading, a column each.",
    )


def _verdicts(cells: Iterable[Cell]) -> Iterator[str]:
    return (cell.verdict for cell in cells)


def _counted(heading: str, counts: Mapping[str, Counter[str]]) -> str:
    return markdown_table(
        [
            {heading: name} | {verdict: str(count[verdict]) for verdict in MARKS}
            for name, count in counts.items()
        ]
    )


def _draw(sections: Sequence[Judged]) -> Figure:
    """Draw a colour and a mark for each cell, rows grouped by section."""
    rows = [(each.title.partition(":")[0], *row) for each in sections for row in each.cells.items()]
    verdicts = [[cell.verdict for cell in cells] for _, _, cells in rows]
    places = {verdict: place for place, verdict in enumerate(MARKS)}
    figure = Figure(figsize=(11, 1.6 + 0.19 * len(rows)), layout="constrained")
    axes = figure.subplots()
    colours = ListedColormap([colour for _, colour in MARKS.values()])
    codes = np.array([[places[verdict] for verdict in row] for row in verdicts])
    axes.pcolormesh(codes, cmap=colours, vmin=0, vmax=len(MARKS) - 1, edgecolors="w", lw=0.8)
    for (i, j), code in np.ndenumerate(codes):
        mark = [*MARKS.values()][code][0]
        axes.text(j + 0.5, i + 0.5, mark, ha="center", va="center", fontsize=7)
    labels = [f"{where}  {sentence}" for where, sentence, _ in rows]
    axes.set_yticks(np.arange(len(rows)) + 0.5, [_cut(label) for label in labels], fontsize=6.5)
    names = [reading.name for reading in READINGS]
    axes.set_xticks(np.arange(len(READINGS)) + 0.5, names, fontsize=7, rotation=60, ha="left")
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    axes.set_xlabel(
        "   ".join(f"{mark} {verdict}" for verdict, (mark, _) in MARKS.items()), fontsize=8
    )
    return figure


def _cut(label: str) -> str:
    return label if len(label) <= 90 else label[:89] + "…"
