"""A study's page: verdicts, then sections with a picture and tables, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from bandit_gym.results.statistics import MIN_REPLICATIONS, Interval

DPI = 150


class Verdict(NamedTuple):
    """What became of one claim.

    Attributes:
        claim: in a sentence.
        holds: "holds", "holds in part", "does not hold", or "undecided" at this scale.
        evidence: the figures.
    """

    claim: str
    holds: str
    evidence: str


@dataclass(frozen=True)
class Section:
    """One table, figure or question of a study.

    Attributes:
        title: heading; what is before a colon stands beside its verdicts.
        text: what was chosen and how to read the rest.
        body: Markdown, a paragraph or a table each.
        pictures: name of the file -> figure, shown above the body.
        caption: what they show, in a sentence; who cannot see them is told it as well.
        verdicts: on the claims about it.
    """

    title: str
    text: str = ""
    body: Sequence[str] = ()
    pictures: Mapping[str, Figure] = field(default_factory=dict)
    caption: str = ""
    verdicts: Sequence[Verdict] = ()


def graded(*truths: bool, otherwise: str = "does not hold") -> str:
    """Say whether a claim holds everywhere, in part, or nowhere."""
    return "holds" if all(truths) else "holds in part" if any(truths) else otherwise


def write_page(page: Path, title: str, text: str, sections: Sequence[Section]) -> None:
    """Write a page and, beside it, its pictures."""
    page.parent.mkdir(parents=True, exist_ok=True)
    verdicts = [_verdict_row(section, each) for section in sections for each in section.verdicts]
    parts = [f"# {title}", text]
    if verdicts:
        parts += ["## Verdicts", markdown_table(verdicts)]
    for section in sections:
        for name, figure in section.pictures.items():
            figure.savefig(page.with_name(f"{name}.png"), dpi=DPI)
        shown = (f"![{section.caption or name}]({name}.png)" for name in section.pictures)
        caption = section.caption and f"*{section.caption}*"
        parts += [f"## {section.title}", section.text, *shown, caption, *section.body]
    page.write_text("\n\n".join(filter(None, parts)) + "\n", encoding="utf-8")


def _verdict_row(section: Section, verdict: Verdict) -> dict[str, str]:
    return {
        "where": section.title.partition(":")[0],
        "claim": verdict.claim,
        "verdict": f"**{verdict.holds}**",
        "evidence": verdict.evidence,
    }


def markdown_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Lay out rows that map each column's name to its cell."""
    lines = [rows[0], ["---"] * len(rows[0]), *(row.values() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def written(interval: Interval, digits: int = 1) -> str:
    """Write an interval as estimate ± half width, or with both ends where it is lopsided."""
    up, down = interval.high - interval.estimate, interval.estimate - interval.low
    if math.isnan(up) or max(up, down) > 1.2 * min(up, down):
        return with_ends(interval, digits)
    return f"{interval.estimate:.{digits}f} ± {(up + down) / 2:.{digits}f}"


def with_ends(interval: Interval, digits: int = 4) -> str:
    """Write an interval as estimate [low, high], or say that there is none."""
    if math.isnan(interval.low):
        return f"{interval.estimate:.{digits}f} (no interval below {MIN_REPLICATIONS})"
    estimate, low, high = (f"{value:.{digits}f}" for value in interval)
    return f"{estimate} [{low}, {high}]"


def short(number: float) -> str:
    """Write a number with three digits, or all before the point."""
    return f"{number:,.0f}" if 100 <= abs(number) < math.inf else f"{number:.3g}"
