"""A frame as a picture, by matplotlib: what is known of each arm, its pulls, and regret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bandit_gym.results.styles import fill
from bandit_gym.typing import IntArray
from bandit_gym.watching.frames import Frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ARMS = 20
TITLE_WIDTH, TITLE_SPACE = 120, 50
"""Characters of a line at most, and font sizes that there are for them."""

ROW_HEIGHT = 0.85
"""Of what is drawn of an arm, where one row is 1."""

LINE_HEIGHT = 0.03
"""Of a title, where the figure's is 1."""

# After Okabe and Ito, as in `bandit_gym.envs.rendering`.
ARM_COLOUR, BEST_COLOUR, LAST_COLOUR, TRUE_COLOUR = "#56b4e9", "#009e73", "#d55e00", "#000000"


def draw(figure: Figure, frame: Frame) -> None:
    """Draw a frame on a figure, in the place of what was there.

    The layout is fixed: one that is computed would move about in a film.
    """
    figure.clear()
    names = [fill(label, TITLE_WIDTH, TITLE_SPACE) for label in (frame.world, frame.agent)]
    title = "\n".join([*names, frame.status])
    figure.text(0.1, 0.985, title, va="top", fontsize=10, parse_math=False)
    top = 0.89 - LINE_HEIGHT * title.count("\n")
    grid = {"left": 0.1, "right": 0.98, "bottom": 0.09, "top": top, "hspace": 0.42, "wspace": 0.04}
    axes = figure.subplot_mosaic(
        [["known", "pulls"], ["regret", "regret"]],
        height_ratios=(3, 1),
        width_ratios=(3, 1),
        gridspec_kw=grid,
    )
    arms = frame.shown_arms(MOST_ARMS)
    _draw_known(axes["known"], frame, arms)
    _draw_pulls(axes["pulls"], frame, arms)
    _draw_regret(axes["regret"], frame)
    for each in axes.values():
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(labelsize=9)


def _draw_known(axes: Axes, frame: Frame, arms: IntArray) -> None:
    low, high = frame.cells
    edges = np.linspace(low, high, frame.heights.shape[1] + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    for row, arm in enumerate(arms.tolist()):
        colour = BEST_COLOUR if arm == frame.best_arm else ARM_COLOUR
        base = -row - 0.5 + 0.0 * middles
        top = base + ROW_HEIGHT * frame.heights[arm]
        axes.fill_between(middles, base, top, color=colour, linewidth=0.5)
        if frame.means is not None:
            place = [frame.means[arm]] * 2
            axes.plot(place, [base[0], base[0] + ROW_HEIGHT], color=TRUE_COLOUR, linewidth=1.5)
    axes.set_yticks(-np.arange(len(arms)), [f"arm {arm}" for arm in arms.tolist()])
    axes.set(xlim=(low, high), ylim=(-len(arms) + 0.4, 0.6))
    told = "" if frame.means is None else "; line: true mean; green: best arm"
    axes.set_title(f"{frame.belief}{told}", fontsize=10, loc="left")


def _draw_pulls(axes: Axes, frame: Frame, arms: IntArray) -> None:
    pulls, rows = frame.pulls[arms], -np.arange(len(arms))
    colours = [LAST_COLOUR if arm == frame.action else "#bbbbbb" for arm in arms.tolist()]
    bars = axes.barh(rows, pulls, color=colours, height=0.7)
    axes.bar_label(bars, [f"{each:,}" for each in pulls.tolist()], padding=3, fontsize=9)
    axes.set(xlim=(0, 1.35 * max(1, frame.pulls.max())), ylim=(-len(arms) + 0.4, 0.6))
    axes.set(xticks=[], yticks=[])
    left = len(frame.pulls) - len(arms)
    more = f"pulls ({left:,} arms more)" if left else "pulls; orange: the last"
    axes.set_title(more, fontsize=10, loc="left")


def _draw_regret(axes: Axes, frame: Frame) -> None:
    axes.set(xlim=(0, frame.horizon))
    axes.set_xlabel("step", fontsize=10)
    if frame.regrets is None:
        axes.set_title("regret: not told", fontsize=10, loc="left")
        return
    axes.plot([0, *frame.steps], [0, *frame.regrets], color=LAST_COLOUR)
    axes.set_ylim(0, 1.05 * max(1.0, frame.regrets[-1]))
    axes.set_title("regret so far", fontsize=10, loc="left")
