"""Environment steps per second: native against `SyncVectorEnv`, gymnax and plain NumPy.

A native round is a whole episode of 1,000 steps, the drawing of new means included, as gymnax's is.
`SyncVectorEnv` is timed between resets, for an episode of it takes too long: that is in its favour.
Native environments are warm: their numbers come from the compiled loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv

from bandit_gym import ENV_IDS
from bandit_gym.numerics.streams import WORTH_COMPILING
from bandit_gym.registration import FEATURE_ENV_IDS
from benchmarks.session import HORIZON, Contestants, Measurement, Session
from benchmarks.timing import Contestant, make_contestant

NUM_LANES_BY_LABEL = {"few": 64, "many": 2000}


def measurements(session: Session) -> Iterator[Measurement]:
    """Yield the measurements of steps of every id, and of Bernoulli steps against gymnax."""
    for env_id in ENV_IDS:
        if env_id in FEATURE_ENV_IDS:
            continue
        yield _time_steps(session, env_id, "few")
        if session.effort.is_full or env_id == ENV_IDS[0]:
            yield _time_steps(session, env_id, "many")
    yield _time_against_gymnax(session)


def _time_steps(session: Session, env_id: str, label: str) -> Measurement:
    num_lanes = session.effort.width(NUM_LANES_BY_LABEL[label])
    key = f"environment.{_name_environment(env_id)}.{label}"
    ratios = {f"{key}.sync": ("SyncVectorEnv", "native")}
    makers = {
        "native": partial(_native_episode, env_id, num_lanes),
        "SyncVectorEnv": partial(_sync_step, env_id, num_lanes),
    }
    if _name_environment(env_id) == "bernoulli":
        ratios[f"{key}.limit"] = "native", "plain NumPy"
        makers["plain NumPy"] = partial(_plain_step, num_lanes)

    def contestants() -> Contestants:
        return {name: make() for name, make in makers.items()}

    title = f"{_name_environment(env_id)} step, {num_lanes} lanes: "
    return session.match(title, ratios, "step of a lane", contestants)


def _time_against_gymnax(session: Session) -> Measurement:
    num_lanes = session.effort.width(NUM_LANES_BY_LABEL["many"])

    def contestants() -> Contestants:
        native = _native_episode(ENV_IDS[0], num_lanes, num_arms=2)
        return {"native": native, "gymnax": session.peers.contestant("gymnax")}

    ratios = {f"environment.bernoulli.gymnax.t{HORIZON}": ("gymnax", "native")}
    title = f"bernoulli step, {num_lanes} lanes, 2 arms, episodes of {HORIZON}: "
    return session.match(title, ratios, "step of a lane", contestants)


def _name_environment(env_id: str) -> str:
    return env_id.partition("Bandit-")[0].lower()


def _native_episode(env_id: str, num_lanes: int, num_arms: int = 10) -> Contestant:
    options: Any = {"num_arms": num_arms, "max_episode_steps": HORIZON}
    options["vectorization_mode"] = "vector_entry_point"
    env = gym.make_vec(f"bandit_gym:{env_id}", num_lanes, **options)
    env.reset(seed=0)
    for _ in range(0, WORTH_COMPILING, num_lanes):
        env.reset()  # until its numbers come from the compiled loop
    actions = np.random.default_rng(0).integers(num_arms, size=(HORIZON, num_lanes))

    def play() -> None:
        env.reset()
        for row in actions:
            env.step(row)

    return make_contestant(play, actions.size)


def _sync_step(env_id: str, num_lanes: int) -> Contestant:
    make = partial(gym.make, f"bandit_gym:{env_id}", disable_env_checker=True)
    env = SyncVectorEnv([make] * num_lanes)
    env.reset(seed=0)
    return make_contestant(partial(env.step, np.zeros(num_lanes, dtype=np.int64)), num_lanes)


def _plain_step(num_lanes: int) -> Contestant:
    """Compute the least that a Bernoulli environment has to: rewards and pseudo-regrets."""
    rng = np.random.default_rng(0)
    means = rng.random((num_lanes, 10))
    best, actions = means.max(axis=1), rng.integers(10, size=num_lanes)

    def step() -> tuple[np.ndarray, np.ndarray]:
        pulled = means[np.arange(num_lanes), actions]
        return (rng.random(num_lanes) < pulled).astype(float), best - pulled

    return make_contestant(step, num_lanes)
