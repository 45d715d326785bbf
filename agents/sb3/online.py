"""A Stable-Baselines3 learner that trains inside the instance while it acts.

Every lane has a network of its own, which starts untrained in each episode and sees nothing but the
actions and rewards of that episode: a learner like every other agent here, and unlike the frozen
`SB3Agent`. SB3's `learn` drives the environment by itself; here the harness does, and hands each
reward to SB3's own rollout buffer, losses and optimiser. Letters: K arms, N lanes.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Discrete
from numpy.random import Generator
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from agents.base import Agent
from agents.sb3.isolation import isolated
from bandit_gym.checks import check_choice, check_integer, check_keys, check_real, message
from bandit_gym.problem import BanditProblem

ALGORITHMS: dict[str, Callable[..., OnPolicyAlgorithm]] = {"A2C": A2C, "PPO": PPO}
DEFAULTS: dict[str, Any] = {"gamma": 0.0, "policy_kwargs": {"net_arch": []}}
_OWN = ("policy", "env", "seed", "device", "_init_setup_model")  # what this module passes itself

_LARGEST = 1e6
"""Beyond it single precision overflows within a few steps."""

_SHARE, _POSITIVE, _NOT_NEGATIVE = (
    {"minimum": 0.0, "maximum": 1.0},
    {"above": 0.0, "maximum": _LARGEST},
    {"minimum": 0.0, "maximum": _LARGEST},
)
REALS: dict[str, dict[str, float]] = {
    "learning_rate": _POSITIVE,
    "gamma": _SHARE,
    "gae_lambda": _SHARE,
    "ent_coef": _NOT_NEGATIVE,
    "vf_coef": _NOT_NEGATIVE,
    "max_grad_norm": _POSITIVE,
    "rms_prop_eps": _POSITIVE,
    "clip_range": _POSITIVE,
    "clip_range_vf": _POSITIVE,
    "target_kl": _POSITIVE,
}
INTEGERS = {
    "n_steps": (1, 1_000_000),
    "batch_size": (2, 1_000_000),
    "n_epochs": (1, 1000),
    "stats_window_size": (1, 1_000_000),
}
"""Bounds that SB3 does not check, or only when it is too late to say what was wrong."""

MAY_BE_NONE = ("clip_range_vf", "target_kl")
FLAGS = ("normalize_advantage", "use_rms_prop", "use_sde")


class OnlineSB3(Agent):
    """SB3's A2C or PPO as a stateless learner inside each episode.

    With no hidden layers, the default, its network is one logit per arm and a baseline: A2C is then
    the gradient bandit algorithm, with RMSProp's steps. The policy changes only when a buffer of
    `n_steps` rewards is full, so its probabilities are computed once per training step, and actions
    are drawn from them with the agent's own generator. Where arms cannot be pulled, they are drawn
    from the policy among the others, and SB3's loss stays that of the whole policy.

    Args:
        problem: tells the number of arms, and which rewards are possible. The prior is not used.
        algorithm: "A2C" or "PPO".
        hyperparameters: the algorithm's own, as SB3 names them. `gamma` is 0 unless given, because
            a pull has no consequences, and `policy_kwargs` is `{"net_arch": []}`.

    Attributes:
        models: the N SB3 models.

    References:
        Sutton and Barto (2018), section 2.8, for the gradient bandit algorithm.
    """

    def __init__(
        self, problem: BanditProblem, *, algorithm: str = "A2C", **hyperparameters: Any
    ) -> None:
        super().__init__(problem)
        self._make = ALGORITHMS[check_choice("algorithm", algorithm, ALGORITHMS)]
        known = [name for name in inspect.signature(self._make).parameters if name not in _OWN]
        check_keys(f"{algorithm} options", hyperparameters, optional=known)
        _check_ranges(hyperparameters)
        self._options = DEFAULTS | hyperparameters
        try:
            self._new_model(np.random.default_rng(0))
        except Exception as error:  # SB3's own checks, of many kinds
            condition = "be such that SB3 can make a model of them"
            remedy = f"{type(error).__name__}: {error}".rstrip(".")
            raise ValueError(
                message(f"{algorithm} options", condition, hyperparameters, remedy)
            ) from error
        self.models: list[OnPolicyAlgorithm] = []

    def warm_start(self, counts: Any, sums: Any) -> None:
        """Refuse: this learner needs every reward, not their sums."""
        raise TypeError("OnlineSB3 must learn from single rewards; replay them with observe.")

    def save(self, path: str | Path) -> None:
        """Refuse: what it has learned are networks, which SB3 itself saves."""
        raise TypeError(
            "OnlineSB3 must be saved by SB3, one of its models at a time: models[0].save."
        )

    def _restart(self, mask: np.ndarray) -> None:
        if len(self.models) != self.num_lanes:
            self.models = [None] * self.num_lanes  # type: ignore[list-item]  # filled below
            self._log_probabilities = np.empty((self.num_lanes, self.problem.num_arms))
            self._values = np.empty(self.num_lanes)
        for lane in np.flatnonzero(mask).tolist():
            self.models[lane] = self._new_model(self.rng)
            self._look(lane)

    def _choose(self) -> np.ndarray:
        noise = self.rng.gumbel(size=self._log_probabilities.shape)
        actions: np.ndarray = np.argmax(self._among(self._log_probabilities + noise), axis=1)
        return actions

    def _law(self) -> np.ndarray:
        law: np.ndarray = np.exp(self._among(self._log_probabilities))
        return law / law.sum(axis=1, keepdims=True)

    def _learn(self, lanes: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        for lane, action, reward in zip(lanes.tolist(), actions, rewards, strict=True):
            buffer = self.models[lane].rollout_buffer
            buffer.add(
                obs=np.zeros(1),
                action=np.array([action]),
                reward=np.array([reward]),
                episode_start=np.array([buffer.pos == 0 and self.lane_counts[lane].sum() == 1]),
                value=torch.tensor(self._values[[lane]]),
                log_prob=torch.tensor(self._log_probabilities[[lane], action]),
            )
            if buffer.full:
                self._train(lane)

    def _train(self, lane: int) -> None:
        model = self.models[lane]
        value = torch.tensor(self._values[[lane]])
        model.rollout_buffer.compute_returns_and_advantage(value, dones=np.zeros(1))
        with isolated(self.rng):
            model.train()
        model.rollout_buffer.reset()
        self._look(lane)

    def _look(self, lane: int) -> None:
        """Ask a lane's network for its policy and its value, which only training changes."""
        policy: Any = self.models[lane].policy
        observation = torch.zeros(1, dtype=torch.int64)
        with torch.no_grad():
            distribution = policy.get_distribution(observation).distribution
            self._log_probabilities[lane] = distribution.logits.numpy()[0]
            self._values[lane] = policy.predict_values(observation).item()

    def _new_model(self, rng: Generator) -> OnPolicyAlgorithm:
        env: Any = gym.Env()  # tells SB3 the spaces; it is never stepped
        env.observation_space, env.action_space = Discrete(1), Discrete(self.problem.num_arms)
        with isolated(rng):
            options = copy.deepcopy(self._options)  # SB3 writes into policy_kwargs
            model = self._make("MlpPolicy", env, device="cpu", **options)
        model.set_logger(Logger(folder=None, output_formats=[]))
        return model


def _check_ranges(hyperparameters: dict[str, Any]) -> None:
    """Refuse numbers out of range; schedules, which are functions, are left to SB3."""
    for name, value in hyperparameters.items():
        is_left_out = value is None and name in MAY_BE_NONE
        if name in REALS and not callable(value) and not is_left_out:
            check_real(name, value, **REALS[name])
        if name in FLAGS and not isinstance(value, bool):
            raise TypeError(message(name, "be True or False", value))
        if name in INTEGERS:
            minimum, maximum = INTEGERS[name]
            check_integer(name, value, minimum=minimum, maximum=maximum)
