"""How far each agent's law is from the posterior's, on histories that an exact agent came by.

Letters: H histories, K arms, N lanes.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.random import SeedSequence

from agents import ExactThompson
from agents.base import Agent
from agents.oracle import action_probabilities
from bandit_gym.envs import BanditVectorEnv
from bandit_gym.experiments.catalogue import load
from bandit_gym.experiments.entries import read_entries
from bandit_gym.fidelity.distance import noise_floor, total_variation
from bandit_gym.fidelity.suite import Case
from bandit_gym.fidelity.trial import best_arms, draw_means, make_agent
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import play
from cost_of_distance.settings import SHARES, Contender

NUM_DECISIONS, NUM_LANES = 1000, 20
"""Of an agent with each history; and of one that tells its law, runs whose law is asked for."""

CHAIN_TOLERANCE = 0.005
"""Largest error of the truth where arms are dependent: a third of a share's standard error."""


class History(NamedTuple):
    """Data of a run, and what they say.

    Attributes:
        horizon: of those whose decisions it stands for.
        counts: (K,) pulls.
        sums: (K,) total rewards.
        law: (K,) probabilities that each arm is the best.
    """

    horizon: int
    counts: np.ndarray
    sums: np.ndarray
    law: np.ndarray


def come_by(world: Case, horizons: Sequence[int], num_runs: int, seed: int) -> list[History]:
    """Return histories of exact runs, at times spread evenly below each horizon."""
    problem = world.problem
    looks: dict[int, list[int]] = {}
    for horizon, share in product(horizons, SHARES):
        looks.setdefault(max(1, round(share * horizon)), []).append(horizon)
    agent, found = ExactThompson(problem), []
    env = BanditVectorEnv(num_runs, problem, max_episode_steps=max(looks))
    key = zlib.crc32(world.world.encode())
    steps = play(agent, env, env_seed=seed, agent_seed=SeedSequence(seed, spawn_key=(key,)))
    for taken, _ in enumerate(islice(steps, max(looks)), start=1):
        if taken in looks:
            data = agent.counts.copy(), agent.sums.copy()
            lanes = zip(*data, strict=True)
            found += [(horizon, *lane) for lane, horizon in product(lanes, looks[taken])]
    tolerance = CHAIN_TOLERANCE if world.kind == "dependent" else None
    return [
        History(*each, action_probabilities(problem, *each[1:], tolerance=tolerance))
        for each in found
    ]


def measure(
    contender: Contender, problem: BanditProblem, histories: list[History], seed: int
) -> pd.DataFrame:
    """Return a row per history.

    `tv` is the distance over its noise, `lean` what the exact law's favourite gets too much, and
    `bold` how much more the agent's own favourite gets than the exact law's does there.
    """
    key = zlib.crc32(f"{contender.label}/{problem}".encode())
    source, rows = make_source(contender, problem), []
    for history, each in zip(
        histories, SeedSequence(seed, spawn_key=(key,)).spawn(len(histories)), strict=True
    ):
        laws, floor = find_laws(source, problem, history, each)
        leader = history.law.argmax()
        rows.append(
            {
                "horizon": history.horizon,
                "tv": float(total_variation(laws, history.law).mean()) - floor,
                "bold": float((laws.max(axis=1) - history.law.max()).mean()),
                "lean": float((laws[:, leader] - history.law[leader]).mean()),
            }
        )
    return pd.DataFrame(rows)


def make_source(contender: Contender, problem: BanditProblem) -> Any:
    """Return the agent, or the sampler that has its law."""
    if contender.sampler:
        return load(contender.sampler)
    (entry,) = read_entries("agents", "agent", [contender.entry])
    return make_agent(entry, problem, NUM_DECISIONS, contender.label)


def find_laws(
    source: Any, problem: BanditProblem, history: History, seed: SeedSequence
) -> tuple[np.ndarray, float]:
    """Return (N, K) laws, of as many runs, and what counting adds to their distance.

    An agent that tells its law is asked for it in several runs, which differ where it keeps what it
    drew. Others decide many times, and the frequencies are the law.
    """
    data = history.counts, history.sums
    if isinstance(source, Agent):
        _tell(source, data, seed, NUM_LANES)
        if source.has_exact_law:
            return source.action_probabilities(), 0.0
        _tell(source, data, seed, NUM_DECISIONS)
        arms = source.act()
    else:
        rng = np.random.default_rng(seed)
        arms = best_arms(
            draw_means(source, problem, data, rng, NUM_DECISIONS, source.__name__), rng
        )
    law = np.bincount(arms, minlength=problem.num_arms) / NUM_DECISIONS
    return law[None], noise_floor(history.law, NUM_DECISIONS)[0]


def _tell(agent: Agent, data: Any, seed: SeedSequence, num_lanes: int) -> None:
    agent.reset(num_lanes, seed=seed)
    agent.warm_start(*data)
