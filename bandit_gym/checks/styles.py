"""How figures look, on a screen, on the page of a report and in a paper."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#e69f00", "#56b4e9", "#000000", "#882255"),
)
"""Okabe and Ito's and a wine red: distinct to colour-blind eyes, on dark pages too."""

DASHES = {"solid": "-", "dash": "--", "dashdot": "-.", "dot": ":"}
"""As plotly and as matplotlib call them; they repeat what the colours say."""

MAX_LINE_LENGTH = 37
"""Characters, which fit across a figure even where all are capitals."""

FORMATS: dict[str, dict[str, Any]] = {
    "png": {"dpi": 200},
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}
"""Of figures, and settings that make the same figure the same bytes in each."""

AXIS_SCALES = ("linear", "log")

STYLES: dict[str, Any] = {
    "screen": {"figure.figsize": (5.2, 4.0)},
    "paper": {
        "figure.figsize": (3.33, 2.8),  # a column of a two-column paper
        "font.family": ["serif", "sans-serif"],  # which has scripts that the first lacks
        "mathtext.fontset": "dejavuserif",
        "font.size": 8,
        "axes.labelsize": "small",
        "lines.linewidth": 1.1,
        "axes.linewidth": 0.6,
    },
}
"""Settings of matplotlib; in a paper the caption says what titles say."""


class LineStyle(NamedTuple):
    """A colour, and a dash by plotly's name."""

    colour: str
    dash: str

    @property
    def line(self) -> dict[str, Any]:
        """What matplotlib takes for it."""
        return {"color": self.colour, "linestyle": DASHES[self.dash]}


def line_style(number: int) -> LineStyle:
    """Return how agent `number` of an experiment is drawn: 8 x 4 ways, then again."""
    count, dashes = len(COLOURS), list(DASHES)
    return LineStyle(COLOURS[number % count], dashes[(number + number // count) % len(dashes)])


def escape_formula(text: str) -> str:
    """Return text that matplotlib shows as it is, and takes for no formula."""
    return text.replace("$", r"\$")


def wrap_text(text: str, width: int = MAX_LINE_LENGTH) -> str:
    """Break a long text into lines, all of it kept; labels offer their commas only."""
    if len(text) <= width:
        return text
    return textwrap.fill(text.replace(",", ", "), width, break_on_hyphens=False)
