"""How figures look, on a screen, on the page of a report and in a paper."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import count
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

GROUND, INK, GREY, SHADE = "#ffffff", "#000000", "#888888", "#dddddd"
"""Of a light page: what is below all, text and axes, lines for reference, and areas for it."""

DARK = dict(zip(COLOURS, DARK_COLOURS, strict=True)) | {GROUND: "#131416", SHADE: "#33363a"}
"""What stands for each colour on a dark page; `GREY` is read on both."""

DASHES, MARKERS = ("-", "--", "-.", ":"), "osD^vPX*"
"""They repeat what the colours say."""

AGENT_NUMBERS = {
    **{"racing": 0, "exact": 1, "exact thompson": 1, "thompson sampling": 1, "thompson": 1},
    **{"conjugate shortcut": 2, "thompson, beta(1,1)": 2, "exact, reference prior": 2},
    **{"exact, prior": 2, "smc_paper": 3, "paper's smc": 3, "smc, 1,000 particles": 3},
    **{"ucb1": 4, "ucb": 4, "racing_paper": 5, "paper's race": 5, "greedy": 6, "laplace": 7},
    **{"smc": 8, "lin_ucb": 9, "ensemble of 30": 10, "moment-matched normal": 11},
    **{"diagonal laplace": 12, "bayes_ucb": 13, "bayes-ucb": 13, "kl_ucb": 14, "kl-ucb": 14},
    **{"exact thompson sampling": 1, "random": 15},
}
"""Of `line_style`, by labels and names of agents: the same on all pages."""

FIRST_FREE = max(AGENT_NUMBERS.values()) + 1

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

MAX_WIDTH = 5.2
"""Inches of a figure; a phone shows it 350 pixels wide, and so its texts of 10 points at 9."""

SCREEN: dict[str, Any] = {
    "figure.figsize": (MAX_WIDTH, 4.0),
    "axes.titlesize": "medium",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
STYLES: dict[str, Any] = {
    "screen": SCREEN,
    "page": SCREEN | {"svg.fonttype": "none", "savefig.transparent": True},
    "paper": {
        "figure.figsize": (3.33, 2.8),  # a column of a two-column paper
        "font.family": ["serif", "sans-serif"],  # which has scripts that the first lacks
        "mathtext.fontset": "dejavuserif",
        "font.size": 8,
        "axes.labelsize": "small",
        "legend.fontsize": "small",
        "lines.linewidth": 1.1,
        "axes.linewidth": 0.6,
    },
}
"""Settings of matplotlib; in a paper the caption says what titles say."""


class LineStyle(NamedTuple):
    """A colour, and a dash and a marker by matplotlib's names."""

    colour: str
    dash: str
    marker: str

    @property
    def line(self) -> dict[str, Any]:
        """What matplotlib takes for it."""
        return {"color": self.colour, "linestyle": self.dash}


def line_style(number: int) -> LineStyle:
    """Return how agent `number` is drawn: 8 x 4 lines and 8 x 8 marks, then again."""
    turned = number + number // len(COLOURS)
    return LineStyle(
        COLOURS[number % len(COLOURS)], DASHES[turned % len(DASHES)], MARKERS[turned % len(MARKERS)]
    )


def agent_styles(agents: Sequence[Sequence[str]]) -> list[LineStyle]:
    """Return how agents are drawn that stand beside each other.

    Each is drawn as on other pages by the first of its names that `AGENT_NUMBERS` has. An agent
    without one, or whose number another has before it, takes the next that is free.

    Args:
        agents: names of each, the best known first.
    """
    numbers: list[int] = []
    free = count(FIRST_FREE)
    for names in agents:
        known = [AGENT_NUMBERS[name.lower()] for name in names if name.lower() in AGENT_NUMBERS]
        numbers.append(known[0] if known and known[0] not in numbers else next(free))
    return [line_style(number) for number in numbers]


def dark_rules(part: str = "") -> str:
    """Return rules of CSS that give a figure in SVG, or those in a part, the colours of `DARK`."""
    rules = [f"{part or 'svg'} {{ fill: {DARK[INK]}; }}"]  # of text, which has no colour there
    for light, dark in DARK.items():
        for what in ("fill", "stroke"):
            rules.append(f'{part} [style*="{what}: {light}"] {{ {what}: {dark} !important; }}')
    return "\n".join(rules)


def wrap_text(text: str, width: int = MAX_LINE_LENGTH) -> str:
    """Break a long text into lines, all of it kept; labels offer their commas only."""
    if len(text) <= width:
        return text
    return textwrap.fill(text.replace(",", ", "), width, break_on_hyphens=False)
