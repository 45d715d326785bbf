"""What can be put to a suite: agents with `act` and `observe`, and samplers of the posterior.

A *sampler* is a function `(problem, counts, sums, rng, size)` that returns (size, K) means, drawn
independently from what it takes the posterior to be, with `rng` as the only source of randomness.
Data are (K,) counts and sums. Where `sampler.is_batched` is true, whole runs hand it all lanes at
once: (size, K) data, from each row of which one row of means is to be drawn.

Letters: K arms, N lanes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial, update_wrapper
from typing import Any, cast

import numpy as np
from numpy.random import Generator, SeedSequence

from bandit_gym.checks import message
from bandit_gym.checks.arrays import as_numbers
from bandit_gym.experiments.catalogue import is_sampler, load_agent
from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.packed import unpack_options
from bandit_gym.likelihoods import Likelihood
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray, IntArray

Sampler = Callable[[BanditProblem, IntArray, FloatArray, Generator, int], FloatArray]

LONGEST_REPLAY = 10_000
"""Pulls that an agent without `warm_start` is shown one by one."""


def find_sampler(entry: Entry) -> Sampler | None:
    """Return the sampler that an entry names, with its options; None if it names an agent."""
    code = load_agent(entry.target)
    if not is_sampler(code):
        return None
    found = partial(cast(Sampler, code), **unpack_options(entry.options))
    return update_wrapper(found, code)  # with its `is_batched`


def make_agent(entry: Entry, problem: BanditProblem, horizon: int, where: str) -> Any:
    """Make an agent, of a sampler if that is what the entry names.

    Args:
        entry: the agent.
        problem: it is told.
        horizon: pulls of the run, told to agents that ask.
        where: name of the problem, for messages.
    """
    sampler = find_sampler(entry)
    if sampler is not None:
        return SamplerAgent(problem, sampler, where)
    code, options = load_agent(entry.target), unpack_options(entry.options)
    if "horizon" in inspect.signature(code).parameters:
        options = {"horizon": horizon} | options
    return code(problem, **options)


class SamplerAgent:
    """Thompson sampling from a sampler: the best arm of one draw, lane by lane.

    Args:
        problem: likelihood, prior and number of arms.
        sampler: of its posterior.
        where: name of the problem, for messages.
    """

    def __init__(self, problem: BanditProblem, sampler: Sampler, where: str) -> None:
        self.problem, self.sampler, self.where = problem, sampler, where

    def reset(self, num_envs: int | None = None, seed: SeedSequence | int | None = None) -> None:
        """Forget everything and prepare for lanes."""
        self.rng = np.random.default_rng(seed)
        self.counts = np.zeros((num_envs or 1, self.problem.num_arms), dtype=np.int64)
        self.sums = np.zeros(self.counts.shape)

    def act(self, observation: Any = None) -> IntArray:
        """Return (N,) arms."""
        draw = partial(draw_means, self.sampler, self.problem, rng=self.rng, where=self.where)
        if getattr(self.sampler, "is_batched", False):
            return best_arms(draw((self.counts, self.sums), size=len(self.counts)), self.rng)
        draws = [draw(data, size=1) for data in zip(self.counts, self.sums, strict=True)]
        return best_arms(np.concatenate(draws), self.rng)

    def observe(self, action: Any, reward: Any, mask: Any = None) -> None:
        """Count (N,) rewards."""
        lanes = np.arange(len(self.counts)) if mask is None else np.flatnonzero(mask)
        self.counts[lanes, np.asarray(action)[lanes]] += 1
        self.sums[lanes, np.asarray(action)[lanes]] += np.asarray(reward)[lanes]


def draw_means(
    sampler: Sampler,
    problem: BanditProblem,
    data: tuple[IntArray, FloatArray],
    rng: Generator,
    size: int,
    where: str,
) -> FloatArray:
    """Return a sampler's (size, K) means, and refuse what are none.

    Raises:
        ValueError: if they have another shape, are no finite numbers or lie outside the support;
            names the problem.
    """
    found = sampler(problem, data[0].copy(), data[1].copy(), rng, size)
    name, shape = f"what the sampler returns in {where!r}", (size, problem.num_arms)
    means = as_numbers(found)
    if means is None:
        raise ValueError(message(name, f"be numbers of shape {shape}", found))
    if means.shape != shape:
        raise ValueError(message(name, f"have shape {shape}", means.shape))
    if not np.isfinite(means).all():
        raise ValueError(message(name, "be finite", means[~np.isfinite(means)][0]))
    low, high = problem.arm_support().T
    is_outside = (means < low) | (means > high)
    if is_outside.any():
        arm = int(np.nonzero(is_outside)[1][0])
        condition = f"lie in the support of arm {arm}, [{low[arm]:g}, {high[arm]:g}]"
        raise ValueError(message(name, condition, means[is_outside][0]))
    return means


def best_arms(means: FloatArray, rng: Generator) -> IntArray:
    """Return the (N,) best arms of (N, K) means, ties broken at random."""
    is_best = means == means.max(axis=1, keepdims=True)
    return np.asarray((is_best * (1 + rng.random(means.shape))).argmax(axis=1))


def tell_history(
    agent: Any, likelihood: Likelihood, counts: IntArray, sums: FloatArray, num_lanes: int
) -> None:
    """Let every lane of an agent know (K,) data, one by one if it has no `warm_start`."""
    if hasattr(agent, "warm_start"):
        agent.warm_start(counts, sums)
        return
    for arm, reward in rewards_that_add_up(likelihood, counts, sums):
        agent.observe(np.full(num_lanes, arm), np.full(num_lanes, reward))


def can_be_told(agent: Any, counts: IntArray) -> bool:
    """Say whether a history is short enough for an agent, or it has `warm_start`."""
    return hasattr(agent, "warm_start") or int(counts.sum()) <= LONGEST_REPLAY


def rewards_that_add_up(
    likelihood: Likelihood, counts: IntArray, sums: FloatArray
) -> Iterator[tuple[int, float]]:
    """Yield arms and possible rewards that make up (K,) counts and sums, as equal as can be."""
    for arm in np.flatnonzero(counts):
        each, count = sums[arm] / counts[arm], int(counts[arm])
        if not likelihood.has_whole_rewards:
            yield from ((int(arm), float(each)) for _ in range(count))
            continue
        low = np.floor(each)
        num_higher = round(sums[arm] - low * count)
        yield from ((int(arm), float(low + (i < num_higher))) for i in range(count))
