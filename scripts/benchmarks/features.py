"""Decisions of agents where arms have features: logistic rewards, N(0, 1) coefficients, K = 10.

A decision is `act` on fresh features and the `observe` of its reward, after many rows. Plain NumPy
takes one draw of the Laplace approximation, which it fits anew by Newton's method each time.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from agents import RacingThompson
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Normal
from bandit_gym.problem import ContextualProblem
from benchmarks.session import Contestants, Measurement, Session
from benchmarks.timing import Contestant, make_contestant
from benchmarks.workers.visitors import NUM_ARMS, NUM_DECISIONS, Visitors

SIZES = {
    "features.one": (5, 1000, 1),
    "features.many": (5, 1000, 50),
    "features.large": (20, 5000, 1),
}
"""Key of a row -> features, rows and lanes."""

PEER_NAMES = ("bayesianbandits", "polyagamma", "mabwiser_features")


def measurements(session: Session) -> Iterator[Measurement]:
    """Yield the measurements of a decision by size, and of ours against plain NumPy."""
    for key, (num_features, num_rows, num_lanes) in SIZES.items():
        title = f"racing, d = {num_features}, {num_rows:,} rows, {num_lanes} lanes"
        yield session.time(key, title, partial(_ours, num_features, num_rows, num_lanes))

    def contestants() -> Contestants:
        return {
            "ours": _ours(*SIZES["features.one"]),
            "ours, disjoint": _ours(*SIZES["features.one"], is_disjoint=True),
            "plain NumPy": make_contestant(_play_numpy, NUM_DECISIONS),
        } | {name: session.peers.contestant(name) for name in PEER_NAMES}

    ratios = {
        "features.numpy": ("plain NumPy", "ours"),
        "features.bayesianbandits": ("bayesianbandits", "ours"),
        "features.polyagamma": ("polyagamma", "ours"),
        "features.mabwiser": ("mabwiser_features", "ours, disjoint"),
    }
    yield session.match("racing with features, one lane: ", ratios, "decision", contestants)


def _ours(
    num_features: int, num_rows: int, num_lanes: int, *, is_disjoint: bool = False
) -> Contestant:
    draws = Visitors(num_features, num_lanes, is_disjoint)
    problem = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), NUM_ARMS, len(draws.theta))
    agent = RacingThompson(problem)
    agent.reset(num_lanes, seed=0)
    arms = np.zeros(num_lanes, dtype=np.int64)
    for i in range(num_rows):
        features = draws.features()[:, i % NUM_ARMS]
        agent.observe(arms, draws.rewards(features), observation=features)
    agent.act(draws.features())
    shown = [draws.features() for _ in range(NUM_DECISIONS)]

    def play() -> None:
        player: Any = copy.deepcopy(agent)
        for features in shown:
            chosen = player.act(features)
            player.observe(chosen, draws.rewards(features[np.arange(num_lanes), chosen]))

    return make_contestant(play, NUM_DECISIONS * num_lanes)


def _play_numpy() -> None:
    num_features, num_rows, _ = SIZES["features.one"]
    draws, rng = Visitors(num_features, 1), np.random.default_rng(1)
    (rows, rewards), mode = draws.rows(num_rows), np.zeros(num_features)
    for _ in range(NUM_DECISIONS):
        for _ in range(3):  # Newton steps
            p = 1 / (1 + np.exp(-rows @ mode))
            precision = np.eye(num_features) + (rows * (p * (1 - p))[:, None]).T @ rows
            mode = mode + np.linalg.solve(precision, rows.T @ (rewards - p) - mode)
        theta = mode + np.linalg.solve(
            np.linalg.cholesky(precision).T, rng.normal(size=num_features)
        )
        features = draws.features()[0]
        chosen = features[(features @ theta).argmax()]
        rows, rewards = np.vstack([rows, chosen]), np.append(rewards, draws.rewards(chosen[None]))
