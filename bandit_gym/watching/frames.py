"""What there is to see of a run at one time, as data, and the run that shows it.

Letters: K arms, C cells of a range of means, T steps, S shown ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from bandit_gym.checks import check_fit, check_seed, find_problem
from bandit_gym.envs.rendering import most_pulled
from bandit_gym.experiments.experiment import Run
from bandit_gym.experiments.simulation import build, headline
from bandit_gym.rollout import AGENT_STREAM, Step, play
from bandit_gym.typing import FloatArray, IntArray
from bandit_gym.watching.belief import Range, find_belief, find_range


class PlayError(RuntimeError):
    """The agent or the world raised something while it was watched."""


@dataclass(frozen=True)
class Frame:
    """What there is to see after one step.

    Attributes:
        world: label of the environment.
        agent: label of the agent.
        step: t, from 1.
        horizon: T.
        action: arm pulled last.
        pulls: (K,) pulls of each arm.
        means: (K,) true means, None where nobody tells them.
        belief: what the heights are of.
        centre: (K,) posterior means or averages, inf or nan where nothing is known.
        cells: lowest and highest mean of the range that the heights stand on.
        heights: (K, C) in [0, 1] over the cells of that range.
        steps: (S,) steps shown so far.
        regrets: (S,) pseudo-regret up to each of these, in reward units; None if it is not told.
    """

    world: str
    agent: str
    step: int
    horizon: int
    action: int
    pulls: IntArray
    means: FloatArray | None
    belief: str
    centre: FloatArray
    cells: Range
    heights: FloatArray
    steps: IntArray
    regrets: FloatArray | None

    @property
    def best_arm(self) -> int | None:
        """The arm of largest true mean."""
        return None if self.means is None else int(self.means.argmax())

    @property
    def status(self) -> str:
        """How far the run is, and how it goes."""
        pulled = f"step {self.step:,} of {self.horizon:,}, arm {self.action}"
        return pulled if self.regrets is None else f"{pulled}, regret {self.regrets[-1]:,.1f}"

    def shown_arms(self, most: int) -> IntArray:
        """Return at most so many arms, in order: those pulled most often, and the best one."""
        return most_pulled(self.pulls, self.best_arm, most)


def watch(run: Run) -> Iterator[Frame]:
    """Play one episode, that of `rollout` at one lane with the run's seed, and yield its frames.

    There are at most 200 frames, evenly spaced in log t, the last step's among them.

    Args:
        run: agent, world, horizon and seed; of one lane.

    Raises:
        TypeError, ValueError: if agent and world cannot be built or do not fit each other.
        PlayError: if one of them raises something while it is at work.
    """
    check_seed("seed", run.seed)
    agent, env = _build(run)
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
    except (Exception, SystemExit) as error:
        raise _failed(run, step, error) from error
    finally:
        env.close()


def _build(run: Run) -> tuple[Any, Any]:
    try:
        agent, env = build(run)
        check_fit(agent, env, warns=run.agent.told is None)
    except (ValueError, TypeError, ImportError):
        raise
    except (Exception, SystemExit) as error:
        raise _failed(run, 0, error) from error
    return agent, env


def _failed(run: Run, step: int, error: BaseException) -> PlayError:
    names = f"{run.agent.label} failed in {run.environment.label}"
    return PlayError(f"{names} after {step} steps: {headline(error)}")


class _View:
    """What is kept of the steps for the frames to come."""

    def __init__(self, run: Run, agent: Any, env: Any) -> None:
        self.run, self.agent, self.env = run, agent, env
        problem = find_problem(env)
        self.likelihood = problem.likelihood
        self.pulls = np.zeros(problem.num_arms, dtype=np.int64)
        self.sums = np.zeros(problem.num_arms)
        self.regret: float | None = 0.0
        self.curve: list[tuple[int, float]] = []
        self.cells: Range | None = None

    def add(self, played: Step) -> None:
        arm = played.actions[0]
        self.pulls[arm] += 1
        self.sums[arm] += played.rewards[0]
        if played.pseudo_regrets is None or self.regret is None:
            self.regret = None
        else:
            self.regret += float(played.pseudo_regrets[0])

    def frame(self, step: int, played: Step) -> Frame:
        belief = find_belief(
            self.agent,
            self.likelihood,
            self._kept("counts", self.pulls),
            self._kept("sums", self.sums),
        )
        means = self._means(played)
        self.cells = find_range(means, belief, self.likelihood, self.cells)
        self.curve.append((step, self.regret or 0.0))
        shown, regrets = map(np.array, zip(*self.curve, strict=True))
        return Frame(
            world=self.run.environment.label,
            agent=self.run.agent.label,
            step=step,
            horizon=self.run.horizon,
            action=int(played.actions[0]),
            pulls=self.pulls.copy(),
            means=means,
            belief=belief.name,
            centre=belief.centre,
            cells=self.cells,
            heights=belief.draw(self.cells),
            steps=shown,
            regrets=None if self.regret is None else regrets,
        )

    def _kept(self, name: str, own: Any) -> Any:
        """Return the (K,) statistics that the agent keeps, which may fade; or else our own."""
        kept = _of_one_lane(getattr(self.agent, name, None), own.shape)
        return own if kept is None else kept

    def _means(self, played: Step) -> FloatArray | None:
        """Return the true means now; where they move, the world itself is asked."""
        told = played.means
        if told is None:
            told = getattr(self.env.unwrapped, "means", None)
        found = _of_one_lane(told, self.pulls.shape)
        return None if found is None else found.copy()


def _of_one_lane(values: Any, shape: tuple[int, ...]) -> Any:
    """Return the only lane of (1, K) values; None if they are something else."""
    return values[0] if np.shape(values) == (1, *shape) else None
