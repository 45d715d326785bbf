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
from benchmarks.plain_numpy import BetaThompson
from benchmarks.session import Session
from benchmarks.timing import Contestant, Ratio, Row, rounds_of
from benchmarks.workers.rewards import NUM_ARMS, NUM_STEPS, reward_table

PEER_NAMES = ("mabwiser", "river", "smpybandits")
NUM_LANES = 2000
NUM_BATCH_STEPS = 100
NUM_GRID_STEPS = 500
"""Tables are copied between lanes with equal data, which become fewer as they grow old."""


def rows(session: Session) -> Iterator[Row]:
    """Measure many lanes against plain NumPy, and one lane against the peers."""
    num_lanes = session.effort.width(NUM_LANES)
    title = f"exact TS, {num_lanes} lanes: plain NumPy / ours"
    uniforms = np.random.default_rng(0).random((NUM_BATCH_STEPS, num_lanes))
    ours = _ours_batched(ExactThompson(_problem()), uniforms)
    yield from session.measure(
        {"ours": ours, "plain NumPy": _plain_batched(uniforms)},
        [Ratio("exact.many.numpy", title, "plain NumPy", "ours")],
        "decision",
    )
    yield from _grid_rows(session, num_lanes)
    peers = {name: session.peers.contestant(name) for name in PEER_NAMES}
    yield from session.measure(
        {"ours": _ours_single(), "plain NumPy": _plain_single(), **peers},
        [
            Ratio(f"exact.one.{key}", f"exact TS, one lane: {name} / ours", name, "ours")
            for key, name in {**{name: name for name in peers}, "numpy": "plain NumPy"}.items()
        ],
        "decision",
    )


def _grid_rows(session: Session, num_lanes: int) -> list[Row]:
    """Measure what tables cost where conjugacy would do."""
    num_steps = session.effort.length(NUM_GRID_STEPS, minimum=50)
    uniforms = np.random.default_rng(0).random((num_steps, num_lanes))
    contestants = {
        method: _ours_batched(ExactThompson(_problem(5.0), method=method), uniforms)
        for method in ("grid", "conjugate")
    }
    title = f"exact TS, {num_lanes} lanes x {num_steps} steps: grid / conjugate"
    ratio = Ratio("exact.many.grid", title, "grid", "conjugate")
    return session.measure(contestants, [ratio], "decision")


def _problem(shape: float = 1.0) -> BanditProblem:
    return BanditProblem(Bernoulli(), Beta(shape, shape), NUM_ARMS)


def _play_batched(agent: ExactThompson | BetaThompson, uniforms: np.ndarray) -> float:
    means = np.linspace(0.3, 0.7, NUM_ARMS)
    for row in uniforms:
        actions = agent.act()
        agent.observe(actions, (row < means[actions]).astype(float))
    return uniforms.size


def _ours_batched(agent: ExactThompson, uniforms: np.ndarray) -> Contestant:
    def play() -> float:
        agent.reset(uniforms.shape[1], seed=0)
        return _play_batched(agent, uniforms)

    return rounds_of(play)


def _plain_batched(uniforms: np.ndarray) -> Contestant:
    def play() -> float:
        return _play_batched(BetaThompson(uniforms.shape[1], NUM_ARMS, seed=0), uniforms)

    return rounds_of(play)


def _ours_single() -> Contestant:
    agent = ExactThompson(_problem())
    rewards = reward_table()

    def play() -> float:
        agent.reset(seed=0)
        for row in rewards:
            arm = agent.act()
            agent.observe(arm, row[arm])
        return NUM_STEPS

    return rounds_of(play)


def _plain_single() -> Contestant:
    rewards = reward_table()

    def play() -> float:
        rng = np.random.default_rng(0)
        successes, failures = np.ones(NUM_ARMS), np.ones(NUM_ARMS)
        for row in rewards:
            arm = rng.beta(successes, failures).argmax()
            successes[arm] += row[arm]
            failures[arm] += 1 - row[arm]
        return NUM_STEPS

    return rounds_of(play)
