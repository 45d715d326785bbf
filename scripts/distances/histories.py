"""Histories of exact Thompson sampling, and agents brought to where they lead.

Letters: H steps at which a history is looked at, K arms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, SeedSequence

from agents import Agent, ExactThompson
from agents.oracle import action_probabilities_with_error
from bandit_gym.envs.dynamics import draw_means, pull
from bandit_gym.priors import TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem


class Pull(NamedTuple):
    """One pull by exact Thompson sampling: (K,) statistics before it, its arm and its reward."""

    counts: np.ndarray
    sums: np.ndarray
    action: int
    reward: float


class Histories(NamedTuple):
    """Sufficient statistics of one run at H steps, and the truth given them.

    Attributes:
        steps: (H,) increasing.
        counts: (H, K) pulls.
        sums: (H, K) total rewards.
        probabilities: (H, K) exact action probabilities.
        errors: (H,) their estimated errors.
    """

    steps: tuple[int, ...]
    counts: np.ndarray
    sums: np.ndarray
    probabilities: np.ndarray
    errors: np.ndarray


def is_dependent(problem: BanditProblem) -> bool:
    """Return whether the exact probabilities are found by Gibbs sampling, which has noise."""
    return isinstance(problem.prior, TruncatedMultivariateNormal)


def pulls(problem: BanditProblem, rng: Generator, agent_seed: Any) -> Iterator[Pull]:
    """Yield what exact Thompson sampling does in a world drawn from the prior, without end."""
    means = draw_means(problem.prior, rng, problem.num_arms)[None]
    agent = ExactThompson(problem)
    agent.reset(1, seed=agent_seed)
    while True:
        counts, sums, action = agent.counts[0].copy(), agent.sums[0].copy(), agent.act()
        reward = pull(problem.likelihood, means, action, rng.random(1))
        yield Pull(counts, sums, action[0], reward[0])
        agent.observe(action, reward)


def play(
    problem: BanditProblem, steps: tuple[int, ...], seed: SeedSequence, *, tolerance: float | None
) -> Histories:
    """Play one run of exact Thompson sampling and return what is known at the given steps.

    Args:
        problem: the world; its means are drawn from the prior.
        steps: numbers of pulls at which to look.
        seed: of the world and of the agent.
        tolerance: of the exact action probabilities; None for the oracle's default.
    """
    world_seed, agent_seed = seed.spawn(2)
    played = pulls(problem, np.random.default_rng(world_seed), agent_seed)
    seen = [each for step, each in enumerate(islice(played, max(steps) + 1)) if step in steps]
    counts, sums = np.array([each.counts for each in seen]), np.array([each.sums for each in seen])
    truth = action_probabilities_with_error(problem, counts, sums, tolerance=tolerance)
    return Histories(steps, counts, sums, *truth)


def advance(agent: Agent, histories: Histories) -> Iterable[int]:
    """Bring every lane to each step in turn and yield its index."""
    counts = np.diff(histories.counts, axis=0, prepend=0)
    sums = np.diff(histories.sums, axis=0, prepend=0.0)
    for h in range(len(histories.steps)):
        agent.warm_start(counts[h], sums[h])
        yield h
