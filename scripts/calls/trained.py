"""The edges of `agents.sb3`."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np

import agents
from calls.edges import Edge
from calls.worlds import PROBLEM

HYPERPARAMETERS = {
    "learning_rate": "real",
    "n_steps": "integer",
    "gamma": "real",
    "gae_lambda": "real",
    "ent_coef": "real",
    "vf_coef": "real",
    "max_grad_norm": "real",
    "normalize_advantage": "flag",
    "policy_kwargs": "mapping",
}
PPO_ONLY = {"clip_range": "real", "n_epochs": "integer", "batch_size": "integer"}
SAVED = "model.zip"


def edges() -> list[Edge]:
    add = partial(Edge, "Stable-Baselines3")
    online = {"problem": "object", "algorithm": "name", **HYPERPARAMETERS}
    words = {name: ("A2C options", "PPO options") for name in (*HYPERPARAMETERS, *PPO_ONLY)}
    return [
        add("OnlineSB3", _online, online, words),
        add("OnlineSB3(PPO)", partial(_online, algorithm="PPO"), PPO_ONLY, words),
        add("SB3Agent", _agent, {"model": "object", "deterministic": "flag"}),
        add("SB3Agent.load", _load, {"path": "path", "deterministic": "flag"}),
        add(
            "saved_model",
            _saved,
            {"problem": "object", "path": "path", "deterministic": "flag"},
        ),
        add("as_policy", _policy, {"agent": "object", "seed": "seed"}),
        add(
            "as_policy(...).learn",
            _learn,
            {"actions": "lanes", "rewards": "lanes", "dones": "mask"},
            {"actions": ("action",)},
        ),
        add("GymnasiumVecEnv", lambda env: _sb3().GymnasiumVecEnv(env), {"env": "object"}),
        add("GymnasiumVecEnv.step", _step, {"actions": "lanes"}),
        add("GymnasiumVecEnv.get_attr", _attribute, {"attr_name": "name", "indices": "parameter"}),
        add("SB3Agent.act", _act, {"observation": "parameter"}),
    ]


def _sb3() -> Any:
    return import_module("agents.sb3")  # which brings PyTorch


def make_model() -> Any:
    """Return a small untrained model of SB3's."""
    from stable_baselines3 import A2C

    env = gym.make("BernoulliBandit-v0", num_arms=3, observation="counts", horizon=5)
    return A2C("MlpPolicy", env, policy_kwargs={"net_arch": []}, device="cpu", seed=0)


def _online(**bad: Any) -> None:
    agent = _sb3().OnlineSB3(**{"problem": PROBLEM, "n_steps": 2, **bad})
    agent.reset(seed=0)
    for _ in range(4):
        agent.observe(agent.act(), 1)


def _agent(**bad: Any) -> None:
    model = {} if "model" in bad else {"model": make_model()}
    _sb3().SB3Agent(**model, **bad)


def _load(**bad: Any) -> None:
    _sb3().SB3Agent.load(**{"path": SAVED, **bad})


def _saved(**bad: Any) -> None:
    _sb3().saved_model(**{"problem": PROBLEM, "path": SAVED, **bad})


def _policy(**bad: Any) -> None:
    policy = _sb3().as_policy(**{"agent": agents.UniformRandom(PROBLEM), **bad})
    policy.predict(np.zeros((2, 1)))


def _learn(**bad: Any) -> None:
    policy = _sb3().as_policy(agents.UniformRandom(PROBLEM), seed=0)
    policy.predict(np.zeros((2, 1)))
    policy.learn(**{"actions": [0, 1], "rewards": [0, 1], "dones": [False, True], **bad})


def _vec_env() -> Any:
    lanes = {"num_envs": 2, "num_arms": 3, "vectorization_mode": "vector_entry_point"}
    env = _sb3().GymnasiumVecEnv(
        gym.make_vec("BernoulliBandit-v0", autoreset_mode="SameStep", **lanes)
    )
    env.reset()
    return env


def _step(actions: Any) -> None:
    _vec_env().step(actions)


def _attribute(**bad: Any) -> None:
    _vec_env().get_attr(**{"attr_name": "num_envs", **bad})


def _act(observation: Any) -> None:
    agent = _sb3().SB3Agent(make_model())
    agent.reset(seed=0)
    agent.act(observation)
