"""Exact Thompson sampling: decisions per second, batched and in one lane.

A decision is `act` and the `observe` of its reward. Rewards are Bernoulli and the prior Beta(1, 1)
for everyone, or Beta(5, 5) where methods of ours are compared; K = 10, and every round starts from
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from agents import ExactThompson
from benchmarks.games import conjugate_problem, play_from_start
from benchmarks.plain_numpy import BetaThompson
from benchmarks.session import Contestants, Measurement, Session
from benchmarks.timing import Contestant, make_contestant
from benchmarks.workers.one_lane import NUM_ARMS, NUM_STEPS, new_game

PEER_NAMES = ("mabwiser", "river")
NUM_BATCH_LANES = 2000
NUM_BATCH_STEPS = 100
NUM_GRID_STEPS = 500
"""Tables are copied between lanes with equal data, which become fewer as they grow old."""


def measurements(session: Session) -> Iterator[Measurement]:
    """Yield the measurements of lanes against NumPy, of tables, and against peers."""
    num_lanes = session.effort.width(NUM_BATCH_LANES)
    yield session.match(
        f"exact TS, {num_lanes} lanes: ",
        {"exact.many.numpy": ("plain NumPy", "ours")},
        "decision",
        lambda: play_from_start(
            {"ours": ExactThompson(conjugate_problem(1.0)), "plain NumPy": BetaThompson(NUM_ARMS)},
            NUM_BATCH_STEPS,
            num_lanes,
        ),
    )
    problem = conjugate_problem(5.0)
    num_steps = session.effort.length(NUM_GRID_STEPS, minimum=50)
    yield session.match(
        f"exact TS, {num_lanes} lanes x {num_steps} steps: ",
        {"exact.many.grid": ("grid", "conjugate")},
        "decision",
        lambda: play_from_start(
            {name: ExactThompson(problem, method=name) for name in ("grid", "conjugate")},
            num_steps,
            num_lanes,
        ),
    )
    yield _time_single_lane(session)


def _time_single_lane(session: Session) -> Measurement:
    def contestants() -> Contestants:
        peers = {name: session.peers.contestant(name) for name in PEER_NAMES}
        return {"ours": _ours_single(), "plain NumPy": _plain_single(), **peers}

    names = {**{name: name for name in PEER_NAMES}, "numpy": "plain NumPy"}
    ratios = {f"exact.one.{key}": (name, "ours") for key, name in names.items()}
    return session.match("exact TS, one lane: ", ratios, "decision", contestants)


def _ours_single() -> Contestant:
    agent = ExactThompson(conjugate_problem(1.0))

    def start() -> tuple[Callable, Callable]:
        agent.reset(seed=0)
        return agent.act, agent.observe

    return make_contestant(new_game(start), NUM_STEPS)


def _plain_single() -> Contestant:
    def start() -> tuple[Callable, Callable]:
        rng = np.random.default_rng(0)
        successes, failures = np.ones(NUM_ARMS), np.ones(NUM_ARMS)

        def learn(arm: int, reward: int) -> None:
            successes[arm] += reward
            failures[arm] += 1 - reward

        return lambda: rng.beta(successes, failures).argmax(), learn

    return make_contestant(new_game(start), NUM_STEPS)
