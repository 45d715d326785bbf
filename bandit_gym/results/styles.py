"""How figures look: their colours, and what becomes of them on a screen and in a paper."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's, told apart by colour-blind eyes."""
LINE_STYLES = ("-", "--", "-.", ":")
"""They repeat what the colours say."""

TITLE_WIDTH, TITLE_SPACE = 64, 36
"""Characters of a title across a figure, and the font sizes that there are for them."""

USUAL_WIDTH = 0.64
"""Of small letters and digits, at most, where the font has size 1; capitals take more."""

Look = dict[str, Any]

FORMATS: dict[str, dict[str, Any]] = {
    "png": {"dpi": 200},
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}
"""Of figures, and what makes the same figure the same bytes in each."""


class Style(NamedTuple):
    """What a style makes of a figure.

    Attributes:
        size: width and height in inches, before legends make it taller.
        settings: those of matplotlib that it changes.
        has_titles: whether titles stand above the axes; in papers the caption says what they say.
    """

    size: tuple[float, float]
    settings: Any = {}
    has_titles: bool = True


STYLES = {
    "screen": Style((5.2, 4.0)),
    "paper": Style(
        (3.33, 2.8),  # a column of a two-column paper
        {
            "font.family": ["serif", "sans-serif"],  # which has scripts that the first lacks
            "mathtext.fontset": "dejavuserif",
            "font.size": 8,
            "axes.labelsize": "small",
            "lines.linewidth": 1.1,
            "axes.linewidth": 0.6,
        },
        has_titles=False,
    ),
}

_used = ContextVar("_used", default="screen")


def size() -> tuple[float, float]:
    """Return the width and the height of figures in the style that is in use, in inches."""
    return STYLES[_used.get()].size


def styles() -> Iterator[Look]:
    """Yield ever new combinations of colour and line style: 7 x 4 of them, then again."""
    number = 0
    while True:
        style = LINE_STYLES[(number + number // 28) % len(LINE_STYLES)]
        yield {"color": COLOURS[number % len(COLOURS)], "linestyle": style}
        number += 1


def literal(text: str) -> str:
    """Return text that matplotlib shows as it is, and takes for no formula."""
    return text.replace("$", r"\$")


def text_width(text: str) -> float:
    """Return how wide a line of text is, where the font has size 1; blanks around it left out."""
    if not text.strip():
        return 0.0
    return float(TextPath((0, 0), literal(text.strip()), size=1).get_extents().width)


def fill(text: str, width: int, space: float) -> str:
    """Break text into lines of at most so many characters, none wider than there is space.

    Args:
        text: all of it stays.
        width: characters.
        space: in font sizes.
    """
    lines = [text]
    while (widest := max(map(text_width, lines))) > space or max(map(len, lines)) > width:
        width = min(width, int(max(map(len, lines)) * space / widest))
        lines = textwrap.wrap(text, max(1, width), break_on_hyphens=False)
        if width < 2:
            break
    return "\n".join(lines)


def wrapped(title: str) -> str:
    """Break a long title into lines, for which labels offer their commas only."""
    if len(title) > TITLE_WIDTH or text_width(title) > TITLE_SPACE:
        title = fill(title.replace(",", ", "), TITLE_WIDTH, TITLE_SPACE)
    return literal(title)


@contextlib.contextmanager
def drawing_in(style: str) -> Iterator[Callable[[Figure], Figure]]:
    """Draw in one of the styles; what is drawn is to be passed to the function that this yields."""
    token = _used.set(style)
    try:
        with matplotlib.rc_context(STYLES[style].settings):
            yield _as_it_is if STYLES[style].has_titles else _without_titles
    finally:
        _used.reset(token)


def _as_it_is(figure: Figure) -> Figure:
    return figure


def _without_titles(figure: Figure) -> Figure:
    """Remove what a caption says; names of agents to the left of panels stay."""
    if figure.get_suptitle():
        figure.suptitle("")
    for axes in figure.axes:
        axes.set_title("")
    return figure
