"""How figures look, on a screen, on the page of a report and in a paper."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#e69f00", "#56b4e9", "#000000", "#882255"),
)
"""Okabe and Ito's and a wine red: distinct to colour-blind eyes."""

DARK_COLOURS = (
    *("#4ba3dd", "#ff8b45", "#2fc79b", "#eaa9cd"),
    *("#f2bd4b", "#a5dcff", "#f0f0f0", "#c9588c"),
)
"""The same hues on a dark page, lighter than it as the others are darker than a white one."""

DASHES = ("-", "--", "-.", ":")
"""They repeat what the colours say."""

MAX_LINE_LENGTH = 37
"""Characters, which fit across a figure even where all are capitals."""

FORMATS: dict[str, dict[str, Any]] = {
    "png": {"dpi": 200},
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}
"""Of figures, and settings that make the same figure the same bytes in each."""

AXIS_SCALES = ("linear", "log")
FILE_STYLES = ("screen", "paper")
"""Those of `STYLES` that figures in files have."""

STYLES: dict[str, Any] = {
    "screen": {"figure.figsize": (5.2, 4.0)},
    "page": {"figure.figsize": (5.2, 4.0), "svg.fonttype": "none", "savefig.transparent": True},
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
    """A colour, and a dash by matplotlib's name."""

    colour: str
    dash: str

    @property
    def line(self) -> dict[str, Any]:
        """What matplotlib takes for it."""
        return {"color": self.colour, "linestyle": self.dash}


def line_style(number: int) -> LineStyle:
    """Return how agent `number` of an experiment is drawn: 8 x 4 ways, then again."""
    count = len(COLOURS)
    return LineStyle(COLOURS[number % count], DASHES[(number + number // count) % len(DASHES)])


def escape_formula(text: str) -> str:
    """Return text that matplotlib shows as it is, and takes for no formula."""
    return text.replace("$", r"\$")


def wrap_text(text: str, width: int = MAX_LINE_LENGTH) -> str:
    """Break a long text into lines, all of it kept; labels offer their commas only."""
    if len(text) <= width:
        return text
    return textwrap.fill(text.replace(",", ", "), width, break_on_hyphens=False)
