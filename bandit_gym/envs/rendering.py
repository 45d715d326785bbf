"""What there is to see of a bandit at one time, as data; and its text and its picture.

These are for people, so unlike observations they show the true means.

Notation: K arms, C cells of a range of means, S shown steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from bandit_gym.checks.typing import FloatArray, IntArray
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
NUM_SHOWN_DRAWS = 200
"""Of posteriors that are held as draws: each is a tick."""

SIZE, DPI = (9.6, 5.4), 100
"""Inches, and dots in each."""

MAX_DRAWN_ARMS = 20
ROW_HEIGHT = 0.85
"""Of what is drawn of an arm, where one row is 1."""

TICK_HEIGHT = 0.4
"""Of a draw, in the same unit."""

LINE_HEIGHT = 0.03
"""Of a title, where the figure's is 1."""

# After Okabe and Ito: colour-blind eyes can distinguish these, and so can anybody in grey.
ARM_COLOUR, BEST_COLOUR, LAST_COLOUR, TRUE_COLOUR = "#56b4e9", "#009e73", "#d55e00", "#000000"
PULLS_COLOUR = "#bbbbbb"

_CHI_SQUARED_95 = 3.841458820694124  # 95 % quantile of chi-squared with one degree of freedom


class View(NamedTuple):
    """What there is to see after one step.

    Attributes:
        title: lines on who plays where, the last of which says how far it is.
        action: arm pulled last, -1 before the first.
        pulls: (K,) pulls of each arm.
        means: (K,) true means, None where they are not reported.
        source: what the arms' estimates are taken from, in words.
        centre: (K,) posterior means or averages, inf or nan for arms of which nothing is known.
        cells: lowest and highest mean of the range that is drawn.
        heights: (K, C) what is drawn in its cells, each arm's highest at 1; or
        draws: (K, M) draws of the means, each a tick, of a posterior without a density.
    """

    title: tuple[str, ...]
    action: int
    pulls: IntArray
    means: FloatArray | None
    source: str
    centre: FloatArray
    cells: Range
    heights: FloatArray | None
    draws: FloatArray | None = None

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
    lanes = range(len(means))
    views = (show_record(likelihood, means[lane], record, lane) for lane in lanes)
    return tuple(map(render_text if render_mode == "ansi" else render_picture, views))


def show_record(
    likelihood: Likelihood, means: FloatArray | None, record: PlayRecord, lane: int = 0
) -> View:
    """Return what there is to see of a lane with (K,) true means; None hides them."""
    num_pulls, total = int(record.lengths[lane]), record.reward_sums[lane].sum()
    title = f"{likelihood.name.capitalize()} bandit, {num_pulls:,} pull{'s' * (num_pulls != 1)}"
    if num_pulls:
        title += f", mean reward {total / num_pulls:.3f}"
        regret = np.nan if means is None else record.regrets[lane]
        title += "" if np.isnan(regret) else f", regret {regret:.1f}"
    return make_view((title,), likelihood, means, record, lane)


def make_view(
    title: tuple[str, ...],
    likelihood: Likelihood,
    means: FloatArray | None,
    record: PlayRecord,
    lane: int = 0,
    posterior: Any = None,
    before: Range | None = None,
) -> View:
    """Return what there is to see of a lane.

    Args:
        title: lines on who plays where.
        likelihood: of the rewards.
        means: (K,) true means; None where they are not to be seen.
        record: of the play.
        lane: of the record.
        posterior: of the lane's agent, with the methods of `PosteriorSnapshot`; None takes averages
            of the record.
        before: the range so far, within which nothing moves.
    """
    pulls, sums = record.pulls[lane].copy(), record.reward_sums[lane]
    action, draws = int(record.last_actions[lane]), None
    heights: FloatArray | None
    if posterior is None:
        source = "average, 95 % interval"
        centre = np.where(pulls > 0, sums / np.maximum(pulls, 1), np.nan)
    else:
        centre = np.ravel(posterior.mean())
        source = f"posterior, from {posterior.source}"  # which may not be known before
    cells = find_range(centre if means is None else means, likelihood, before)
    if posterior is None:
        heights = mark_centres(compute_intervals(likelihood, pulls, sums, cells), centre, cells)
    elif (heights := compute_densities(posterior, cells)) is not None:
        heights = mark_centres(heights, centre, cells)
    else:
        draws = posterior.sample(NUM_SHOWN_DRAWS, seed=0).reshape(NUM_SHOWN_DRAWS, -1).T
        source += f", {NUM_SHOWN_DRAWS} draws"
    return View(title, action, pulls, means, source, centre, cells, heights, draws)


def render_text(view: View) -> str:
    """Write a table with a row per arm; `*` marks the best arm, `<` the one pulled last."""
    lines = [*view.title, f"{'arm':>5} {'pulls':>7} {'empirical':>10} {'true mean':>10}"]
    for arm, average in enumerate(view.centre):
        label = "-" if np.isnan(average) else f"{average:.3f}"
        mean = "-" if view.means is None else f"{view.means[arm]:.3f}"
        marks = ("*" if arm == view.best_arm else " ") + ("<" if arm == view.action else "")
        lines.append(f"{arm:>5} {view.pulls[arm]:>7} {label:>10} {mean:>10} {marks}".rstrip())
    return "\n".join(lines) + "\n"


def render_picture(view: View, title: str | None = None) -> NDArray[np.uint8]:
    """Paint a view under its own title or another; (540, 960, 3) pixels.

    Drawn on a canvas of its own, without pyplot: no window and no global state.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    draw_view(figure, view, "\n".join(view.title) if title is None else title)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = canvas.buffer_rgba()  # type: ignore[no-untyped-call]
    return np.asarray(pixels)[:, :, :3].copy()


def select_most_pulled(pulls: IntArray, best_arm: int | None, max_arms: int) -> IntArray:
    """Return at most so many arms, in order: those pulled most often, and the best one if known."""
    order = np.argsort(-pulls, kind="stable")
    if best_arm is not None:
        order = np.concatenate([[best_arm], order[order != best_arm]])
    return np.sort(order[:max_arms])


def find_middles(cells: Range) -> FloatArray:
    """Return the (C,) middles of the cells of a range."""
    edges = np.linspace(*cells, NUM_CELLS + 1)
    return (edges[1:] + edges[:-1]) / 2


def compute_intervals(
    likelihood: Likelihood, counts: IntArray, sums: FloatArray, cells: Range
) -> FloatArray:
    """Return (K, C) bars over the 95 % likelihood intervals of arms with (K,) counts and sums.

    These hold the means mu with 2 (l(s / n) - l(mu)) <= 3.84. Unlike s / n +- 1.96 standard errors
    they stay inside the support, and do not shrink to a point when all rewards are equal. There
    are none if the deviation of rewards is unknown.
    """
    if likelihood.needs_squares:
        return np.zeros((len(counts), NUM_CELLS))
    peaks = likelihood.log_likelihood(sums / np.maximum(counts, 1), counts, sums)
    values = likelihood.log_likelihood(find_middles(cells), counts[:, None], sums[:, None])
    has_interval = (counts > 0) & np.isfinite(peaks)
    with np.errstate(invalid="ignore"):  # of arms without a largest value
        is_inside = 2 * (peaks[:, None] - values) <= _CHI_SQUARED_95
    return np.where(is_inside & has_interval[:, None], INTERVAL_HEIGHT, 0.0)


def compute_densities(posterior: Any, cells: Range) -> FloatArray | None:
    """Return (K, C) densities at the middles of cells; None of a posterior without a density.

    Each arm's are drawn to its own height; all are 0 where they fall between cells.
    """
    try:
        densities = posterior.density(find_middles(cells)).reshape(NUM_CELLS, -1).T
    except TypeError:  # it is held as draws
        return None
    densities = np.nan_to_num(densities, nan=0.0, posinf=0.0)
    highest = densities.max(axis=1, keepdims=True)
    return np.asarray(densities / np.where(highest > 0, highest, 1.0))


def mark_centres(heights: FloatArray, centre: FloatArray, cells: Range) -> FloatArray:
    """Give arms that nowhere reach 1 that height in the cell of their centre, if it is in range."""
    low, high = cells
    arms = np.flatnonzero((heights.max(axis=1) < 1) & (centre >= low) & (centre <= high))
    cell_indices = ((centre[arms] - low) / (high - low) * NUM_CELLS).astype(int)
    heights[arms, np.minimum(cell_indices, NUM_CELLS - 1)] = 1.0
    return heights


def find_range(centre: FloatArray, likelihood: Likelihood, before: Range | None = None) -> Range:
    """Return the range of means to draw: all there are, or half as far beyond as they are apart.

    Args:
        centre: (K,) true means, or else the estimates, of which the finite ones count.
        likelihood: whose support is drawn to its ends, as far as it has any.
        before: the range so far, within which nothing moves.
    """
    lowest, highest = likelihood.support
    if np.isfinite([lowest, highest]).all():
        return lowest, highest
    ends = centre[np.isfinite(centre)]
    low, high = (ends.min(), ends.max()) if len(ends) else (0.0, 0.0)
    std = 1.0 if likelihood.needs_squares else float(likelihood.reward_std(low))
    margin = (high - low) / 2 or std or 1.0
    low, high = max(low - margin, lowest), min(high + margin, highest)
    return (low, high) if before is None else (min(low, before[0]), max(high, before[1]))


def draw_view(figure: Figure, view: View, title: str) -> None:
    """Draw a view under a title on an empty figure.

    The layout is fixed: one that is computed would move about in a film.
    """
    figure.text(0.1, 0.985, title, va="top", fontsize=10, parse_math=False)
    top = 0.89 - LINE_HEIGHT * title.count("\n")
    space = {"left": 0.1, "right": 0.98, "bottom": 0.09, "top": top, "wspace": 0.04}
    known, pulled = figure.subplots(1, 2, width_ratios=(3, 1), gridspec_kw=space)
    arms = select_most_pulled(view.pulls, view.best_arm, MAX_DRAWN_ARMS)
    _draw_estimates(known, view, arms)
    _draw_pulls(pulled, view, arms)
    for each in (known, pulled):
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(labelsize=9)


def _draw_estimates(axes: Axes, view: View, arms: IntArray) -> None:
    middles = find_middles(view.cells)
    for row, arm in enumerate(arms.tolist()):
        colour = BEST_COLOUR if arm == view.best_arm else ARM_COLOUR
        base = -row - 0.5
        if view.heights is not None:
            top = base + ROW_HEIGHT * view.heights[arm]
            axes.fill_between(middles, base, top, color=colour, linewidth=0.5)
        if view.draws is not None:
            top = base + TICK_HEIGHT
            axes.vlines(view.draws[arm], base, top, color=colour, linewidth=0.8, alpha=0.4)
        if view.means is not None:
            mean_line = [view.means[arm]] * 2
            axes.plot(mean_line, [base, base + ROW_HEIGHT], color=TRUE_COLOUR, linewidth=1.5)
    axes.set_yticks(-np.arange(len(arms)), [f"arm {arm}" for arm in arms.tolist()])
    axes.set(xlim=view.cells, ylim=(-len(arms) + 0.4, 0.6))
    label = "" if view.means is None else "; line: true mean; green: best arm"
    axes.set_title(f"{view.source}{label}", fontsize=10, loc="left")


def _draw_pulls(axes: Axes, view: View, arms: IntArray) -> None:
    pulls, rows = view.pulls[arms], -np.arange(len(arms))
    colours = np.where(arms == view.action, LAST_COLOUR, PULLS_COLOUR)
    bars = axes.barh(rows, pulls, color=colours, height=0.7)
    axes.bar_label(bars, [f"{each:,}" for each in pulls.tolist()], padding=3, fontsize=9)
    axes.set(xlim=(0, 1.35 * max(1, view.pulls.max())), ylim=(-len(arms) + 0.4, 0.6))
    axes.set(xticks=[], yticks=[])
    left = len(view.pulls) - len(arms)
    more = f"pulls ({left:,} arms more)" if left else "pulls; orange: the last"
    axes.set_title(more, fontsize=10, loc="left")
