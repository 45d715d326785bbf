"""Exact Thompson sampling: decisions per second, batched and in one lane.

A decision is `act` and the `observe` of its reward. Rewards are Bernoulli and the prior Beta(1, 1)
for everyone, or Beta(5, 5) where methods of ours are compared; K = 10, and every round starts from
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from agents import ExactThompson
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem
from benchmarks.games import play_from_start
from benchmarks.plain_numpy import BetaThompson
from benchmarks.session import Contestants, Measurement, Session
from benchmarks.timing import Contestant, rounds_of
from benchmarks.workers.rewards import NUM_ARMS, NUM_STEPS, reward_table

PEER_NAMES = ("mabwiser", "river", "smpybandits")
NUM_LANES = 2000
NUM_BATCH_STEPS = 100
NUM_GRID_STEPS = 500
"""Tables are copied between lanes with equal data, which become fewer as they grow old."""


def measurements(session: Session) -> Iterator[Measurement]:
    """Tell of many lanes against plain NumPy and tables, and of one lane against the peers."""
    yield _many(session)
    yield _grid(session)
    yield _one(session)


def _many(session: Session) -> Measurement:
    num_lanes = session.effort.width(NUM_LANES)

    def contestants() -> Contestants:
        uniforms = np.random.default_rng(0).random((NUM_BATCH_STEPS, num_lanes))
        agents = {"ours": ExactThompson(_problem()), "plain NumPy": BetaThompson(NUM_ARMS)}
        return {name: play_from_start(agent, NUM_ARMS, uniforms) for name, agent in agents.items()}

    title = f"exact TS, {num_lanes} lanes: "
    return session.match(
        title, {"exact.many.numpy": ("plain NumPy", "ours")}, "decision", contestants
    )


def _grid(session: Session) -> Measurement:
    """Tell what tables cost where conjugacy would do."""
    num_lanes = session.effort.width(NUM_LANES)
    num_steps = session.effort.length(NUM_GRID_STEPS, minimum=50)

    def contestants() -> Contestants:
        uniforms = np.random.default_rng(0).random((num_steps, num_lanes))
        return {
            method: play_from_start(ExactThompson(_problem(5.0), method=method), NUM_ARMS, uniforms)
            for method in ("grid", "conjugate")
        }

    title = f"exact TS, {num_lanes} lanes x {num_steps} steps: "
    return session.match(title, {"exact.many.grid": ("grid", "conjugate")}, "decision", contestants)


def _one(session: Session) -> Measurement:
    def contestants() -> Contestants:
        peers = {name: session.peers.contestant(name) for name in PEER_NAMES}
        return {"ours": _ours_single(), "plain NumPy": _plain_single(), **peers}

    names = {**{name: name for name in PEER_NAMES}, "numpy": "plain NumPy"}
    ratios = {f"exact.one.{key}": (name, "ours") for key, name in names.items()}
    return session.match("exact TS, one lane: ", ratios, "decision", contestants)


def _problem(shape: float = 1.0) -> BanditProblem:
    return BanditProblem(Bernoulli(), Beta(shape, shape), NUM_ARMS)


def _ours_single() -> Contestant:
    agent = ExactThompson(_problem())
    rewards = reward_table()

    def play() -> None:
        agent.reset(seed=0)
        for row in rewards:
            arm = agent.act()
            agent.observe(arm, row[arm])

    return rounds_of(play, NUM_STEPS)


def _plain_single() -> Contestant:
    rewards = reward_table()

    def play() -> None:
        rng = np.random.default_rng(0)
        successes, failures = np.ones(NUM_ARMS), np.ones(NUM_ARMS)
        for row in rewards:
            arm = rng.beta(successes, failures).argmax()
            successes[arm] += row[arm]
            failures[arm] += 1 - row[arm]

    return rounds_of(play, NUM_STEPS)
