"""The frames of a run: what its agent holds of each arm, what it pulls, and what that costs.

Letters: K arms, C cells of a range of means, T steps, S shown ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from bandit_gym.checks import check_fit, check_seed, find_problem
from bandit_gym.envs.rendering import (
    NUM_CELLS,
    Belief,
    Curve,
    Frame,
    Range,
    averages,
    find_range,
    marked,
)
from bandit_gym.experiments.experiment import Run
from bandit_gym.experiments.simulation import build, headline
from bandit_gym.likelihoods import Likelihood
from bandit_gym.rollout import AGENT_STREAM, Step, play
from bandit_gym.typing import FloatArray

NUM_DRAWS = 2000
"""Of posteriors that are held as draws, for a histogram."""

ASKED = ("mean", "density", "sample", "source")
"""Of a posterior, as `agents.snapshots` has them."""


class PlayError(RuntimeError):
    """The agent or the world raised something while it was watched."""


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
        self.regret = 0.0  # NaN where it is not told
        self.curve: list[tuple[int, float]] = []
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
        self.curve.append((step, self.regret))
        label, horizon = self.run.agent.label, self.run.horizon
        action = int(played.actions[0])
        status = f"step {step:,} of {horizon:,}, arm {action}"
        curve = None
        if not np.isnan(self.regret):
            status += f", regret {self.regret:,.1f}"
            curve = Curve(horizon, *map(np.array, zip(*self.curve, strict=True)))
        title = self.run.environment.label, label, status
        heights = belief.draw(self.cells)
        return Frame(title, action, self.pulls.copy(), means, belief, self.cells, heights, curve)

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
    posterior = _ask(agent)
    if posterior is None:
        return averages(likelihood, np.asarray(counts, float), np.asarray(sums, float))
    centre = np.ravel(posterior.mean())

    def draw(cells: Range) -> FloatArray:
        return _to_own_height(_masses(posterior, cells), centre, cells)

    return Belief(f"posterior, from {posterior.source}", centre, draw)


def _ask(agent: Any) -> Any:
    """Return an agent's posterior; None of rules that need no prior, and of others' agents."""
    try:
        posterior = agent.posterior()
    except (AttributeError, TypeError):
        return None
    return posterior if all(hasattr(posterior, name) for name in ASKED) else None


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
