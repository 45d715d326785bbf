"""What there is to see of a bandit at one time, as data; and its text and its picture.

These are for people, so unlike observations they show the true means.

Notation: K arms, C cells of a range of means, S shown steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray
from bandit_gym.envs.observations import PlayRecord
from bandit_gym.likelihoods import Likelihood

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Range = tuple[float, float]

RENDER_MODES = ("ansi", "rgb_array")
RENDER_FPS = 4

NUM_CELLS = 96
INTERVAL_HEIGHT = 0.4

SIZE, DPI = (9.6, 5.4), 100
"""Inches, and dots in each."""

MAX_DRAWN_ARMS = 20
ROW_HEIGHT = 0.85
"""Of what is drawn of an arm, where one row is 1."""

LINE_HEIGHT = 0.03
"""Of a title, where the figure's is 1."""

# After Okabe and Ito: colour-blind eyes can distinguish these, and so can anybody in grey.
ARM_COLOUR, BEST_COLOUR, LAST_COLOUR, TRUE_COLOUR = "#56b4e9", "#009e73", "#d55e00", "#000000"
PULLS_COLOUR = "#bbbbbb"

_CHI_SQUARED_95 = 3.841458820694124  # 95 % quantile of chi-squared with one degree of freedom


class ArmEstimates(NamedTuple):
    """What is known of the arms at one time.

    Attributes:
        name: of what is drawn, in words.
        centre: (K,) posterior means or averages, inf or nan for arms of which nothing is known.
        draw: from a range of means to the (K, C) heights in its cells, each arm's highest at 1.
    """

    name: str
    centre: FloatArray
    draw: Callable[[Range], FloatArray]


@dataclass(frozen=True)
class Frame:
    """What there is to see after one step.

    Attributes:
        title: lines on who plays where, the last of which says how far it is.
        action: arm pulled last, -1 before the first.
        pulls: (K,) pulls of each arm.
        means: (K,) true means, None where they are not reported.
        belief: what is known of the arms.
        cells: lowest and highest mean of the range that is drawn.
    """

    title: tuple[str, ...]
    action: int
    pulls: IntArray
    means: FloatArray | None
    belief: ArmEstimates
    cells: Range

    @cached_property
    def heights(self) -> FloatArray:
        """(K, C) heights in [0, 1] over the cells of the range."""
        return self.belief.draw(self.cells)

    @property
    def best_arm(self) -> int | None:
        """The arm of largest true mean."""
        return None if self.means is None else int(self.means.argmax())


def render(
    render_mode: str | None, likelihood: Likelihood, means: FloatArray, record: PlayRecord | None
) -> tuple[Any, ...] | None:
    """Draw each of N lanes.

    Args:
        render_mode: None draws nothing, and warns.
        likelihood: distribution of the rewards.
        means: (N, K) true means.
        record: of the play in N lanes; None before the first reset.

    Returns:
        N texts for "ansi", N (H, W, 3) uint8 arrays for "rgb_array".

    Raises:
        gymnasium.error.ResetNeeded: before the first reset.
    """
    if render_mode is None:
        gym.logger.warn("render was called on an environment made without a render_mode.")
        return None
    if record is None:
        raise ResetNeeded("reset must be called before render.")
    frames = (make_frame(likelihood, means[lane], record, lane) for lane in range(len(means)))
    return tuple(map(render_text if render_mode == "ansi" else render_picture, frames))


def make_frame(
    likelihood: Likelihood, means: FloatArray | None, record: PlayRecord, lane: int = 0
) -> Frame:
    """Return what there is to see of a lane with (K,) true means; None hides them."""
    pulls, sums = record.pulls[lane], record.reward_sums[lane]
    num_pulls = int(pulls.sum())
    title = f"{likelihood.name.capitalize()} bandit, {num_pulls:,} pull{'s' * (num_pulls != 1)}"
    if num_pulls:
        title += f", mean reward {sums.sum() / num_pulls:.3f}"
        title += "" if means is None else f", regret {float(pulls @ (means.max() - means)):.1f}"
    belief = estimate_averages(likelihood, pulls, sums)
    action = int(record.last_actions[lane])
    return Frame((title,), action, pulls, means, belief, find_range(means, belief, likelihood))


def render_text(frame: Frame) -> str:
    """Write a table with a row per arm; `*` marks the best arm, `<` the one pulled last."""
    lines = [*frame.title, f"{'arm':>5} {'pulls':>7} {'empirical':>10} {'true mean':>10}"]
    for arm, average in enumerate(frame.belief.centre):
        label = "-" if np.isnan(average) else f"{average:.3f}"
        mean = "-" if frame.means is None else f"{frame.means[arm]:.3f}"
        marks = ("*" if arm == frame.best_arm else " ") + ("<" if arm == frame.action else "")
        lines.append(f"{arm:>5} {frame.pulls[arm]:>7} {label:>10} {mean:>10} {marks}".rstrip())
    return "\n".join(lines) + "\n"


def render_picture(frame: Frame, title: str | None = None) -> NDArray[np.uint8]:
    """Paint a frame under its own title or another; (540, 960, 3) pixels.

    Drawn on a canvas of its own, without pyplot: no window and no global state.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    draw_frame(figure, frame, "\n".join(frame.title) if title is None else title)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = canvas.buffer_rgba()  # type: ignore[no-untyped-call]
    return np.asarray(pixels)[:, :, :3].copy()


def select_most_pulled(pulls: IntArray, best_arm: int | None, max_arms: int) -> IntArray:
    """Return at most so many arms, in order: those pulled most often, and the best one if known."""
    order = np.argsort(-pulls, kind="stable")
    if best_arm is not None:
        order = np.concatenate([[best_arm], order[order != best_arm]])
    return np.sort(order[:max_arms])


def estimate_averages(
    likelihood: Likelihood, counts: FloatArray | IntArray, sums: FloatArray
) -> ArmEstimates:
    """Return averages of (K,) sums, drawn as bars over their 95 % likelihood intervals.

    These hold the means mu with 2 (l(s / n) - l(mu)) <= 3.84. Unlike s / n +- 1.96 standard errors
    they stay inside the support, and do not shrink to a point when all rewards are equal.
    """
    is_seen = counts > 0
    centre = np.where(is_seen, sums / np.maximum(counts, 1), np.nan)
    peak = likelihood.log_likelihood(centre, counts, sums)

    def draw(cells: Range) -> FloatArray:
        edges = np.linspace(*cells, NUM_CELLS + 1)
        middles = (edges[1:] + edges[:-1]) / 2
        values = likelihood.log_likelihood(middles, counts[:, None], sums[:, None])
        with np.errstate(invalid="ignore"):  # of arms without a largest value
            is_inside = 2 * (peak[:, None] - values) <= _CHI_SQUARED_95
        has_interval = is_seen & np.isfinite(peak)
        heights = np.where(is_inside & has_interval[:, None], INTERVAL_HEIGHT, 0.0)
        return mark_centres(heights, is_seen, centre, cells)

    return ArmEstimates("average, 95 % interval", centre, draw)


def mark_centres(
    heights: FloatArray, where: BoolArray, centre: FloatArray, cells: Range
) -> FloatArray:
    """Return heights that are 1 in the cell of the centre of some arms, where that is in range."""
    low, high = cells
    with np.errstate(invalid="ignore"):
        arms = np.flatnonzero(where & (centre >= low) & (centre <= high))
    cell_indices = ((centre[arms] - low) / (high - low) * NUM_CELLS).astype(int)
    heights[arms, np.minimum(cell_indices, NUM_CELLS - 1)] = 1.0
    return heights


def find_range(
    means: FloatArray | None,
    belief: ArmEstimates,
    likelihood: Likelihood,
    before: Range | None = None,
) -> Range:
    """Return the range of means to draw: all there are, or half as far beyond as they are apart.

    Args:
        means: (K,) true means, None where they are not reported.
        belief: whose finite centres give the range otherwise.
        likelihood: whose support is drawn to its ends, as far as it has any.
        before: the range so far, within which nothing moves.
    """
    lowest, highest = likelihood.support
    if np.isfinite([lowest, highest]).all():
        return lowest, highest
    ends = belief.centre[np.isfinite(belief.centre)] if means is None else means
    low, high = (ends.min(), ends.max()) if len(ends) else (0.0, 0.0)
    margin = (high - low) / 2 or float(likelihood.reward_std(low)) or 1.0
    low, high = max(low - margin, lowest), min(high + margin, highest)
    return (low, high) if before is None else (min(low, before[0]), max(high, before[1]))


def draw_frame(figure: Figure, frame: Frame, title: str) -> None:
    """Draw a frame under a title on a figure, in the place of what was there.

    The layout is fixed: one that is computed would move about in a film.
    """
    figure.clear()
    figure.text(0.1, 0.985, title, va="top", fontsize=10, parse_math=False)
    top = 0.89 - LINE_HEIGHT * title.count("\n")
    space = {"left": 0.1, "right": 0.98, "bottom": 0.09, "top": top, "wspace": 0.04}
    known, pulled = figure.subplots(1, 2, width_ratios=(3, 1), gridspec_kw=space)
    arms = select_most_pulled(frame.pulls, frame.best_arm, MAX_DRAWN_ARMS)
    _draw_estimates(known, frame, arms)
    _draw_pulls(pulled, frame, arms)
    for each in (known, pulled):
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(labelsize=9)


def _draw_estimates(axes: Axes, frame: Frame, arms: IntArray) -> None:
    low, high = frame.cells
    edges = np.linspace(low, high, NUM_CELLS + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    for row, arm in enumerate(arms.tolist()):
        colour = BEST_COLOUR if arm == frame.best_arm else ARM_COLOUR
        base = -row - 0.5
        top = base + ROW_HEIGHT * frame.heights[arm]
        axes.fill_between(middles, base, top, color=colour, linewidth=0.5)
        if frame.means is not None:
            mean_line = [frame.means[arm]] * 2
            axes.plot(mean_line, [base, base + ROW_HEIGHT], color=TRUE_COLOUR, linewidth=1.5)
    axes.set_yticks(-np.arange(len(arms)), [f"arm {arm}" for arm in arms.tolist()])
    axes.set(xlim=(low, high), ylim=(-len(arms) + 0.4, 0.6))
    label = "" if frame.means is None else "; line: true mean; green: best arm"
    axes.set_title(f"{frame.belief.name}{label}", fontsize=10, loc="left")


def _draw_pulls(axes: Axes, frame: Frame, arms: IntArray) -> None:
    pulls, rows = frame.pulls[arms], -np.arange(len(arms))
    colours = np.where(arms == frame.action, LAST_COLOUR, PULLS_COLOUR)
    bars = axes.barh(rows, pulls, color=colours, height=0.7)
    axes.bar_label(bars, [f"{each:,}" for each in pulls.tolist()], padding=3, fontsize=9)
    axes.set(xlim=(0, 1.35 * max(1, frame.pulls.max())), ylim=(-len(arms) + 0.4, 0.6))
    axes.set(xticks=[], yticks=[])
    left = len(frame.pulls) - len(arms)
    more = f"pulls ({left:,} arms more)" if left else "pulls; orange: the last"
    axes.set_title(more, fontsize=10, loc="left")
