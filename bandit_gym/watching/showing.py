"""A run as it goes: its frames, as text on a terminal and as an animation in a file.

A frame has what the agent holds of each arm, what it pulls, and what that costs.

Letters: K arms, C cells of a range of means, T steps, S shown ones.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import SeedSequence
from PIL import Image
from rich.console import Console
from rich.live import Live
from rich.text import Text

from bandit_gym.checks import check_fit, check_seed, find_problem
from bandit_gym.checks.files import replacing
from bandit_gym.checks.styles import wrapped
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.envs.rendering import (
    NUM_CELLS,
    Belief,
    Frame,
    Range,
    averages,
    find_range,
    marked,
    most_pulled,
    render_picture,
)
from bandit_gym.experiments.catalogue import build, told_prior
from bandit_gym.experiments.experiment import Run
from bandit_gym.likelihoods import Likelihood
from bandit_gym.rollout import AGENT_STREAM, Step, play

NUM_DRAWS = 2000
"""Of posteriors that are held as draws, for a histogram."""

ASKED = ("mean", "density", "sample", "source")
"""Of a posterior, as `agents.snapshots` has them."""

Paint = Callable[[Frame], None]


HEIGHTS, PLACE = " ▁▂▃▄▅▆▇█", "│"
"""Signs for heights from nothing to all, and for a place."""

MOST_ROWS = 30
"""Of a page that is printed; a terminal has as many as it has."""

LEAST_ARMS = 2
BEST, LAST, TRUE = "green", "bold", "bold red"

TITLE_WIDTH = 50
"""Characters of a line of a picture's title, which fit even where all are capitals."""


# -- Frames ----------------------------------------------------------------------------------------


def watch(run: Run) -> Iterator[Frame]:
    """Play one episode, that of `rollout` at one lane with the run's seed, and yield its frames.

    There are at most 200 frames, evenly spaced in log t, the last step's among them.

    Args:
        run: agent, world, horizon and seed; of one lane.

    Raises:
        TypeError, ValueError: if agent and world cannot be built or do not fit each other.
    """
    check_seed("seed", run.seed)
    agent, env = build(run)
    check_fit(agent, env, warns=told_prior(run.agent.options) is None)
    agent_seed = SeedSequence(run.seed, spawn_key=(AGENT_STREAM,))
    steps = play(agent, env, env_seed=run.seed, agent_seed=agent_seed)
    shown, view, step = set(run.steps.tolist()), _View(run, agent, env), 0
    try:
        for step, played in enumerate(islice(steps, run.horizon), start=1):
            view.add(played)
            if step in shown:
                yield view.frame(step, played)
        if step not in shown:  # the world ended the episode
            yield view.frame(step, played)
    finally:
        env.close()


class _View:
    """What is kept of the steps for the frames to come."""

    def __init__(self, run: Run, agent: Any, env: Any) -> None:
        self.run, self.agent, self.env = run, agent, env
        problem = find_problem(env)
        self.likelihood = problem.likelihood
        self.pulls = np.zeros(problem.num_arms, dtype=np.int64)
        self.sums = np.zeros(problem.num_arms)
        self.regret = 0.0  # NaN where it is not told
        self.cells: Range | None = None

    def add(self, played: Step) -> None:
        arm = played.actions[0]
        self.pulls[arm] += 1
        self.sums[arm] += played.rewards[0]
        self.regret += np.nan if played.regrets is None else float(played.regrets[0])

    def frame(self, step: int, played: Step) -> Frame:
        belief = find_belief(self.agent, self.likelihood, self.pulls, self.sums)
        means = self._means(played)
        self.cells = find_range(means, belief, self.likelihood, self.cells)
        label, horizon = self.run.agent.label, self.run.horizon
        action = int(played.actions[0])
        status = f"step {step:,} of {horizon:,}, arm {action}"
        if not np.isnan(self.regret):
            status += f", regret {self.regret:,.1f}"
        title = self.run.environment.label, label, status
        heights = belief.draw(self.cells)
        return Frame(title, action, self.pulls.copy(), means, belief, self.cells, heights)

    def _means(self, played: Step) -> FloatArray | None:
        """Return the true means now; where they move, the world itself is asked."""
        told: Any = played.means
        if told is None:
            told = getattr(self.env.unwrapped, "means", None)
        return np.array(told[0]) if np.shape(told) == (1, *self.pulls.shape) else None


def find_belief(agent: Any, likelihood: Likelihood, counts: Any, sums: Any) -> Belief:
    """Return the posterior of an agent's single lane, or what averages say if it has none.

    Args:
        agent: the learner; asking for its posterior changes nothing in it.
        likelihood: law of the rewards.
        counts: (K,) pulls of each arm that the averages are taken over.
        sums: (K,) their rewards.
    """
    posterior: Any = None
    with contextlib.suppress(AttributeError, TypeError):  # rules that need no prior
        posterior = agent.posterior()
    if not all(hasattr(posterior, name) for name in ASKED):
        return averages(likelihood, np.asarray(counts, float), np.asarray(sums, float))
    centre = np.ravel(posterior.mean())

    def draw(cells: Range) -> FloatArray:
        return _to_own_height(_masses(posterior, cells), centre, cells)

    return Belief(f"posterior, from {posterior.source}", centre, draw)


def _masses(posterior: Any, cells: Range) -> FloatArray:
    """Return (K, C) densities at the middles of the cells, or how many draws fall into each."""
    edges = np.linspace(*cells, NUM_CELLS + 1)
    try:
        found = posterior.density((edges[1:] + edges[:-1]) / 2).reshape(NUM_CELLS, -1).T
    except TypeError:
        draws = posterior.sample(NUM_DRAWS, seed=0).reshape(NUM_DRAWS, -1).T
        found = np.array([np.histogram(each, edges)[0] for each in draws], dtype=float)
    return np.nan_to_num(found, nan=0.0, posinf=0.0)


def _to_own_height(masses: FloatArray, centre: FloatArray, cells: Range) -> FloatArray:
    """Scale each arm's masses to a highest of 1; what falls between cells stands at its mean."""
    highest = masses.max(axis=1, keepdims=True)
    is_lost = highest[:, 0] == 0
    return marked(masses / np.where(highest > 0, highest, 1.0), is_lost, centre, cells)


# -- Pictures --------------------------------------------------------------------------------------


@contextlib.contextmanager
def on_terminal(fps: float) -> Iterator[Paint]:
    """Give a function that shows a frame on the standard output; no more than `fps` a second.

    On a terminal each is in the place of the one before; elsewhere the last one is printed alone.
    """
    is_terminal = sys.stdout.isatty()
    console = Console(
        file=sys.stdout, highlight=False, markup=False, emoji=False, force_terminal=is_terminal
    )
    next_time = time.monotonic()
    with Live(console=console, auto_refresh=False) as live:

        def paint(frame: Frame) -> None:
            nonlocal next_time
            if console.is_interactive:
                time.sleep(max(0.0, next_time - time.monotonic()))
                next_time = time.monotonic() + 1 / fps
            num_rows = console.height - 1 if console.is_interactive else MOST_ROWS
            live.update(lay_out(frame, console, num_rows), refresh=True)

        try:
            yield paint
        finally:
            live.stop()
            if not console.is_terminal and live.get_renderable():
                console.line()


def lay_out(frame: Frame, console: Console, num_rows: int) -> Text:
    """Write a frame in at most so many rows, if that can be, of the console's width."""
    *names, status = frame.title
    heads = [*map(Text, names), Text(status, style="bold")]
    top, key = (
        [line for text in texts for line in text.wrap(console, console.width)]
        for texts in (heads, [_key(frame)])
    )
    room = num_rows - len(top) - len(key) - 2  # scale, and arms left out
    arms = most_pulled(frame.pulls, frame.best_arm, max(LEAST_ARMS, room))
    lines = [*top, *_table(frame, arms, console.width), *key]
    for line in lines:
        line.rstrip()
    return Text("\n", no_wrap=True, overflow="crop", end="").join(lines)


def _table(frame: Frame, arms: IntArray, width: int) -> Iterator[Text]:
    """Yield the scale of means and a row for each arm; say how many are left out."""
    numbers = [f"{value:.3g}" if np.isfinite(value) else "-" for value in frame.belief.centre[arms]]
    pulls = [f"{count:,}" for count in frame.pulls[arms]]
    columns = pd.DataFrame({"arm": arms, "pulls": pulls, "mean": numbers})
    head, *left = columns.to_string(index=False).splitlines()
    strip = max(1, width - len(head) - 4)
    low, high = (f"{end:.3g}" for end in frame.cells)
    yield Text(f"{head}    {low}{high.rjust(strip - len(low))}", style="dim")
    for arm, words in zip(arms.tolist(), left, strict=True):
        marks = ("*" if arm == frame.best_arm else " ") + ("<" if arm == frame.action else " ")
        row = Text(f"{words}{marks}  ")
        row.stylize(BEST if arm == frame.best_arm else "")
        row.stylize(LAST if arm == frame.action else "")
        yield row.append_text(_strip(frame, arm, strip))
    left_out = len(frame.pulls) - len(arms)
    if left_out:
        yield Text(f"and {left_out:,} arms pulled less", style="dim")


def _strip(frame: Frame, arm: int, width: int) -> Text:
    """Draw an arm's heights in so many letters, and a sign in the place of its true mean."""
    heights = frame.heights[arm]
    starts = np.linspace(0, len(heights), width + 1)[:-1].astype(int)
    levels = np.rint(np.maximum.reduceat(heights, starts) * (len(HEIGHTS) - 1)).astype(int)
    strip = Text("".join(HEIGHTS[level] for level in levels), style="cyan")
    if frame.means is None:
        return strip
    low, high = frame.cells
    place = min(width - 1, max(0, int((frame.means[arm] - low) / (high - low) * width)))
    strip.plain = strip.plain[:place] + PLACE + strip.plain[place + 1 :]
    strip.stylize(TRUE, place, place + 1)
    return strip


def _key(frame: Frame) -> Text:
    true = "" if frame.means is None else f"; {PLACE} true mean, * best arm"
    return Text(f"{frame.belief.name}{true}; < pulled last", style="dim")


@contextlib.contextmanager
def filming(path: Path, fps: float) -> Iterator[Paint]:
    """Give a function that adds a frame to a GIF, which is there when all is done."""
    images: list[Image.Image] = []
    yield lambda frame: images.append(
        Image.fromarray(render_picture(frame, fit_title(frame))).quantize()
    )
    first, *others = images
    pace = {"duration": round(1000 / fps), "loop": 0}
    with replacing(path, is_typed=True) as file:
        first.save(file, "GIF", save_all=True, append_images=others, **pace)


def fit_title(frame: Frame) -> str:
    """Return a frame's title in lines that fit into a picture."""
    return "\n".join(wrapped(line, TITLE_WIDTH) for line in frame.title)
