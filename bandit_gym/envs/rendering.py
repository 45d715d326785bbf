"""How environments draw themselves: as a text table, or as a picture.

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
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from bandit_gym.checks import check_choice
from bandit_gym.envs.observations import PlayRecord
from bandit_gym.envs.pictures import DPI, SIZE, Frame, averages, draw, find_range, most_pulled
from bandit_gym.likelihoods import Likelihood
from bandit_gym.typing import FloatArray

RENDER_MODES = ("ansi", "rgb_array", "human")
RENDER_FPS = 4

CLEAR = "\x1b[H\x1b[J"
"""Moves a terminal's cursor to the top, and empties what is below."""

NO_TERMINAL = (
    'render_mode "human" must have a terminal to write into, and the standard output is none, so '
    'nothing is shown; use "rgb_array" for pictures, or "ansi" for text.'
)


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
    """Paint true means, averages with 95 % intervals, and pulls; (540, 960, 3) pixels.

    Drawn on a canvas of its own, without pyplot: no window and no global state.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    belief = averages(view.likelihood, view.pulls, view.reward_sums)
    cells = find_range(view.means, belief, view.likelihood)
    seen = view.last_action, view.pulls, view.means, belief, cells, belief.draw(cells)
    figure = Figure(figsize=SIZE, dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    draw(figure, Frame((view.title,), *seen), view.title)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = canvas.buffer_rgba()  # type: ignore[no-untyped-call]
    return np.asarray(pixels)[:, :, :3].copy()
