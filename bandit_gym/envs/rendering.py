"""Pictures of a bandit: a text table, and a bar picture good enough for a talk.

The mode "human" writes the table into the terminal after each reset and step, one over the other:
that needs no display, and no library for windows.

These are for people, so unlike observations they show the true means.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike, NDArray

from bandit_gym.checks import check_choice
from bandit_gym.envs.observations import PlayRecord
from bandit_gym.likelihoods import Likelihood
from bandit_gym.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RENDER_MODES = ("ansi", "rgb_array", "human")
RENDER_FPS = 4

CLEAR = "\x1b[H\x1b[J"
"""Moves a terminal's cursor to the top, and empties what is below."""

NO_TERMINAL = (
    'render_mode "human" must have a terminal to write into, and the standard output is none, so '
    'nothing is shown; use "rgb_array" for pictures, or "ansi" for text.'
)

# After Okabe and Ito: colour-blind eyes can tell these apart, and so can anybody in grey.
ARM_COLOUR, BEST_COLOUR, SEEN_COLOUR = "#a9d4f0", "#009e73", "#000000"
PULLS_COLOUR, LAST_COLOUR = "#999999", "#d55e00"
MOST_LABELLED_ARMS = 25

_CHI_SQUARED_95 = 3.841458820694124  # 95 % quantile of chi-squared with one degree of freedom
_NUM_HALVINGS = 50


class LaneView:
    """Everything a picture of one lane shows.

    Args:
        likelihood: law of the rewards.
        means: (N, K) true means.
        record: of the play in N lanes.
        lane: the one to be seen.
    """

    def __init__(
        self, likelihood: Likelihood, means: FloatArray, record: PlayRecord, lane: int
    ) -> None:
        self.likelihood = likelihood
        self.means = means[lane]
        self.best_arm = int(self.means.argmax())
        self.pulls, self.reward_sums = record.plays.pulls[lane], record.plays.reward_sums[lane]
        self.last_action = int(record.plays.last_actions[lane])  # -1 before the first pull

    @property
    def title(self) -> str:
        """One line that says how far the episode is and how it goes."""
        num_pulls = int(self.pulls.sum())
        plural = "" if num_pulls == 1 else "s"
        start = f"{self.likelihood.name.capitalize()} bandit, {num_pulls:,} pull{plural}"
        if num_pulls == 0:
            return start
        regret = float(self.pulls @ (self.means.max() - self.means))
        return f"{start}, mean reward {self.reward_sums.sum() / num_pulls:.3f}, regret {regret:.1f}"


def check_render_mode(render_mode: str | None) -> str | None:
    """Return the render mode if it is None or a known one."""
    return None if render_mode is None else check_choice("render_mode", render_mode, RENDER_MODES)


def render(
    render_mode: str | None, likelihood: Likelihood, means: FloatArray, record: PlayRecord | None
) -> tuple[Any, ...] | None:
    """Draw each of N lanes.

    Args:
        render_mode: None draws nothing, and warns.
        likelihood: law of the rewards.
        means: (N, K) true means.
        record: of the play in N lanes; None before the first reset.

    Returns:
        N texts for "ansi", N (H, W, 3) uint8 arrays for "rgb_array". None for "human", which
        writes into the terminal, and waits so long that there are `RENDER_FPS` a second.

    Raises:
        gymnasium.error.ResetNeeded: before the first reset.
    """
    if render_mode is None:
        gym.logger.warn("render was called on an environment made without a render_mode.")
        return None
    if record is None:
        raise ResetNeeded("reset must be called before render.")
    views = (LaneView(likelihood, means, record, lane) for lane in range(len(means)))
    if render_mode == "human":
        _show(views)
        return None
    return tuple(map(render_text if render_mode == "ansi" else render_picture, views))


def _show(views: Iterator[LaneView]) -> None:
    """Write as much of the tables as fits into the terminal, from the first lane on."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return _tell_of_no_terminal()
    columns, rows = shutil.get_terminal_size()
    shown = list(islice(views, max(1, rows // 4)))
    tables = (render_text(view, max(1, rows // len(shown) - 3)) for view in shown)
    lines = [line[:columns] for table in tables for line in table.splitlines()]
    sys.stdout.write(CLEAR + "\n".join(lines) + "\n")
    sys.stdout.flush()
    time.sleep(1 / RENDER_FPS)


@cache  # so that it is said once
def _tell_of_no_terminal() -> None:
    print(NO_TERMINAL, file=sys.stderr)  # no warning: Gymnasium's own checker tries every mode


def most_pulled(pulls: IntArray, best_arm: int | None, most: int) -> IntArray:
    """Return at most so many arms, in order: those pulled most often, and the best one if known."""
    order = np.argsort(-pulls, kind="stable")
    if best_arm is not None:
        order = np.concatenate([[best_arm], order[order != best_arm]])
    return np.sort(order[:most])


def render_text(view: LaneView, most_arms: int | None = None) -> str:
    """Write a table with a row per arm; `*` marks the best arm, `<` the one pulled last.

    Args:
        view: of a lane.
        most_arms: rows at most; None is one for each arm.
    """
    lines = [view.title, f"{'arm':>5} {'pulls':>7} {'empirical':>10} {'true mean':>10}"]
    num_arms = len(view.means)
    shown = most_pulled(view.pulls, view.best_arm, most_arms or num_arms)
    for arm in shown.tolist():
        pulls = view.pulls[arm]
        empirical = f"{view.reward_sums[arm] / pulls:.3f}" if pulls else "-"
        marks = ("*" if arm == view.best_arm else " ") + ("<" if arm == view.last_action else "")
        row = f"{arm:>5} {pulls:>7} {empirical:>10} {view.means[arm]:>10.3f} {marks}"
        lines.append(row.rstrip())
    if len(shown) < num_arms:
        lines.append(f"and {num_arms - len(shown):,} arms pulled less")
    return "\n".join(lines) + "\n"


def render_picture(view: LaneView) -> NDArray[np.uint8]:
    """Paint true means, empirical means with 95 % intervals, and pulls; (540, 960, 3) pixels.

    Drawn on a canvas of its own, without pyplot: no window and no global state. The layout is
    fixed, because a computed one doubles the time and would move about in a film.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 5.4), dpi=100)
    canvas = FigureCanvasAgg(figure)
    layout = {"left": 0.08, "right": 0.98, "top": 0.84, "bottom": 0.11, "hspace": 0.12}
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1), gridspec_kw=layout)
    _draw_true_means(top, view)
    _draw_empirical_means(top, view)
    _draw_pulls(bottom, view)
    _label(top, bottom, view)
    figure.suptitle(view.title, fontsize=16)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = canvas.buffer_rgba()  # type: ignore[no-untyped-call]
    return np.asarray(pixels)[:, :, :3].copy()


def _draw_true_means(axes: "Axes", view: LaneView) -> None:
    others = np.arange(len(view.means)) != view.best_arm
    axes.bar(np.flatnonzero(others), view.means[others], color=ARM_COLOUR, label="true mean")
    best = view.best_arm
    axes.bar(best, view.means[best], color=BEST_COLOUR, label="true mean of the best arm")
    axes.axhline(0.0, color=SEEN_COLOUR, linewidth=0.8)
    if np.isfinite(view.likelihood.support).all():
        axes.set_ylim(view.likelihood.support)


def _draw_empirical_means(axes: "Axes", view: LaneView) -> None:
    seen = np.flatnonzero(view.pulls)
    averages = view.reward_sums[seen] / view.pulls[seen]
    low, high = likelihood_interval(view.likelihood, view.pulls[seen], view.reward_sums[seen])
    axes.errorbar(
        seen,
        averages,
        yerr=(averages - low, high - averages),
        fmt="o",
        color=SEEN_COLOUR,
        capsize=4,
        clip_on=False,
        label="empirical mean, 95 % interval",
    )


def _draw_pulls(axes: "Axes", view: LaneView) -> None:
    arms = np.arange(len(view.pulls))
    colours = np.where(arms == view.last_action, LAST_COLOUR, PULLS_COLOUR)
    bars = axes.bar(arms, view.pulls, color=colours)
    axes.set_ylim(0, 1.3 * max(1, view.pulls.max()))
    if len(arms) <= MOST_LABELLED_ARMS:
        axes.bar_label(bars, fontsize=11)
        axes.set(xticks=arms, yticks=[])


def _label(top: "Axes", bottom: "Axes", view: LaneView) -> None:
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=12)
        axes.set_xlim(-0.6, len(view.means) - 0.4)
    top.set_ylabel("mean reward", fontsize=14)
    top.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, frameon=False, fontsize=12)
    bottom.set_ylabel("pulls", fontsize=14)
    bottom.set_xlabel("arm (the one pulled last in orange)", fontsize=14)


def likelihood_interval(
    likelihood: Likelihood, counts: ArrayLike, sums: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Compute 95 % likelihood-ratio intervals of the mean, {mu : 2 (l(s / n) - l(mu)) <= 3.84}.

    Unlike s / n +- 1.96 standard errors they stay inside the support, and they do not shrink to a
    point when all rewards are equal.

    Args:
        likelihood: law of the rewards.
        counts: (K,) number of rewards of each arm, at least 1.
        sums: (K,) their sums.

    Returns:
        (K,) lower and (K,) upper ends. Both are s / n where the likelihood has no largest value.
    """
    counts, sums = np.asarray(counts, dtype=np.float64), np.asarray(sums, dtype=np.float64)
    centre = sums / counts
    peak = likelihood.log_likelihood(centre, counts, sums)
    has_peak = np.isfinite(peak)
    peak = np.where(has_peak, peak, 0.0)
    step = likelihood.reward_std(centre) / np.sqrt(counts) + 1.0 / counts

    def mean_at(share: FloatArray, end: float) -> FloatArray:
        """Return the mean at a share of the way to an end of the support, which may be infinite."""
        if np.isfinite(end):
            return centre + share * (end - centre)
        return centre + np.copysign(step * share / (1.0 - share), end)

    def find_end(end: float) -> FloatArray:
        inside, outside = np.zeros(centre.shape), np.ones(centre.shape)
        for _ in range(_NUM_HALVINGS):
            middle = 0.5 * (inside + outside)
            drop = peak - likelihood.log_likelihood(mean_at(middle, end), counts, sums)
            is_in = 2.0 * drop <= _CHI_SQUARED_95
            inside, outside = np.where(is_in, middle, inside), np.where(is_in, outside, middle)
        return np.where(has_peak, mean_at(inside, end), centre)

    low, high = likelihood.support
    return find_end(low), find_end(high)
