"""Environment steps per second: native against `SyncVectorEnv`, gymnax and plain NumPy.

A native round is a whole episode, the drawing of new means and generators included; so is gymnax's.
`SyncVectorEnv` is timed between resets, for an episode of it takes too long: that is in its favour.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv

from bandit_gym import ENV_IDS
from benchmarks import plain_numpy
from benchmarks.session import Session
from benchmarks.timing import Contestant, Ratio, Row, rounds_of

LANES = {"few": 64, "many": 2000}
HORIZON = 1000


def rows(session: Session) -> Iterator[Row]:
    """Measure steps and resets of every id, and Bernoulli steps against gymnax."""
    for env_id in ENV_IDS:
        yield from _steps(session, env_id, "few")
        if session.effort.is_full or env_id == ENV_IDS[0]:
            yield from _steps(session, env_id, "many")
        yield from _resets(session, env_id)
    yield from _against_gymnax(session)


def _steps(session: Session, env_id: str, label: str) -> list[Row]:
    num_lanes = session.effort.width(LANES[label])
    contestants = {
        "native": _native_episode(env_id, num_lanes),
        "SyncVectorEnv": _step_of(_sync(env_id, num_lanes)),
    }
    title = f"{_name(env_id)} step, {num_lanes} lanes"
    key = f"environment.{_name(env_id)}.{label}"
    ratios = [Ratio(f"{key}.sync", f"{title}: SyncVectorEnv / native", "SyncVectorEnv", "native")]
    if _name(env_id) == "bernoulli":
        contestants["plain NumPy"] = _plain_step(num_lanes)
        ratios.append(
            Ratio(f"{key}.limit", f"{title}: native / plain NumPy", "native", "plain NumPy")
        )
    return session.measure(contestants, ratios, "step of a lane")


def _resets(session: Session, env_id: str) -> list[Row]:
    num_lanes = session.effort.width(LANES["few"])
    contestants = {
        "native": _reset_of(_native(env_id, num_lanes)),
        "SyncVectorEnv": _reset_of(_sync(env_id, num_lanes)),
    }
    key = f"environment.{_name(env_id)}.few.reset"
    title = f"{_name(env_id)} reset, {num_lanes} lanes: SyncVectorEnv / native"
    ratios = [Ratio(key, title, "SyncVectorEnv", "native")]
    return session.measure(contestants, ratios, "reset of a lane")


def _against_gymnax(session: Session) -> list[Row]:
    num_lanes = session.effort.width(LANES["many"])
    contestants = {
        "native": _native_episode(ENV_IDS[0], num_lanes, num_arms=2),
        "gymnax": session.peers.contestant("gymnax"),
    }
    title = f"bernoulli step, {num_lanes} lanes, 2 arms: gymnax / native"
    ratios = [Ratio("environment.bernoulli.many.gymnax", title, "gymnax", "native")]
    return session.measure(contestants, ratios, "step of a lane")


def _name(env_id: str) -> str:
    return env_id.partition("Bandit-")[0].lower()


def _native(env_id: str, num_lanes: int, **options: Any) -> gym.vector.VectorEnv:
    return gym.make_vec(
        f"bandit_gym:{env_id}",
        num_envs=num_lanes,
        vectorization_mode="vector_entry_point",
        **options,
    )


def _sync(env_id: str, num_lanes: int) -> SyncVectorEnv:
    make = lambda: gym.make(f"bandit_gym:{env_id}", disable_env_checker=True)  # noqa: E731
    return SyncVectorEnv([make] * num_lanes)


def _native_episode(env_id: str, num_lanes: int, num_arms: int = 10) -> Contestant:
    env = _native(env_id, num_lanes, num_arms=num_arms, max_episode_steps=HORIZON)
    actions = np.random.default_rng(0).integers(num_arms, size=(HORIZON, num_lanes))

    def play() -> float:
        env.reset()
        for row in actions:
            env.step(row)
        return HORIZON * num_lanes

    env.reset(seed=0)
    return rounds_of(play)


def _step_of(env: SyncVectorEnv) -> Contestant:
    env.reset(seed=0)
    actions = np.zeros(env.num_envs, dtype=np.int64)

    def step() -> float:
        env.step(actions)
        return env.num_envs

    return rounds_of(step)


def _plain_step(num_lanes: int) -> Contestant:
    rng = np.random.default_rng(0)
    means = rng.random((num_lanes, 10))
    best = means.max(axis=1)
    actions = rng.integers(10, size=num_lanes)

    def step() -> float:
        plain_numpy.step_bernoulli(rng, means, best, actions)
        return num_lanes

    return rounds_of(step)


def _reset_of(env: gym.vector.VectorEnv) -> Contestant:
    env.reset(seed=0)

    def reset() -> float:
        env.reset()
        return env.num_envs

    return rounds_of(reset)
