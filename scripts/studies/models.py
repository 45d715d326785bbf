"""The study's models of Stable-Baselines3, and their training environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import process_time
from typing import Any

import gymnasium as gym
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from gymnasium.spaces import Box
from gymnasium.vector.utils import batch_space
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import LinearSchedule

from agents.sb3 import GymnasiumVecEnv

FEATURES, REMEMBERED = "ContextualBandit-v0", "scripts.studies.models:RememberedBandit-v0"
FIRST_CHECKPOINT = 10_000


class Remembered(gym.vector.VectorWrapper):  # type: ignore[type-arg]
    """Shows (N, K d) features, and (N, d) of the last arm, with a minus sign if it paid nothing.

    That is all that a pull says of the coefficients. At the start of an episode it is 0.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        num_arms, self._num_features = env.single_observation_space.shape
        size = (num_arms + 1) * self._num_features
        self.single_observation_space = Box(-np.inf, np.inf, (size,))
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)

    def reset(self, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
        """Start all episodes."""
        self._shown, info = self.env.reset(**options)
        return self._show(np.zeros((self.num_envs, self._num_features))), info

    def step(self, actions: np.ndarray) -> Any:
        """Play (N,) actions."""
        row = self._shown[np.arange(self.num_envs), actions]
        self._shown, rewards, *ends, info = self.env.step(actions)
        row = row * (2 * rewards - 1)[:, None]
        row[np.logical_or(*ends)] = 0.0
        return self._show(row), rewards, *ends, info

    def _show(self, row: np.ndarray) -> np.ndarray:
        features = self._shown.reshape(self.num_envs, -1)
        return np.concatenate([features, row], axis=1).astype(np.float32)


def make_remembered(**options: Any) -> Remembered:
    """Make lanes of the environment with features that show what the last pull said."""
    return Remembered(gym.make_vec(FEATURES, **options))


MAKER = f"{__name__}:make_remembered"
gym.register(REMEMBERED.rpartition(":")[2], entry_point=MAKER, vector_entry_point=MAKER)


class ScaledCounts(BaseFeaturesExtractor):
    """Turn counts into posterior means under a uniform prior, their precision, and the time left.

    The first few pulls matter most, and among counts over the horizon they are next to nothing.

    Args:
        space: of the observation mode `counts`, (2 K + 1,).
        horizon: T, by which the pulls in it were divided.
    """

    def __init__(self, space: Any, horizon: int) -> None:
        super().__init__(space, space.shape[0])
        self.num_arms, self.horizon = space.shape[0] // 2, horizon

    def forward(self, counts: torch.Tensor) -> torch.Tensor:
        """Return (B, 2 K + 1) features of (B, 2 K + 1) observations."""
        pulls, averages, left = torch.split(counts, [self.num_arms, self.num_arms, 1], dim=1)
        pulls = pulls * self.horizon
        means = (pulls * averages + 1) / (pulls + 2)
        return torch.cat([4 * means - 2, 2 / (pulls + 1).sqrt() - 1, 2 * left - 1], dim=1)


class Checkpoints(BaseCallback):
    """Evaluates the model at the start, at `FIRST_CHECKPOINT` pulls, and when they doubled."""

    def __init__(self, evaluate: Callable[[Any], float]) -> None:
        super().__init__()
        self._evaluate, self._next, self._since = evaluate, 0, process_time()
        self.found: dict[str, Any] = {"pulls": [], "returns": [], "seconds": 0.0}

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= self._next:
            self.evaluate()
            self._next = max(2 * self._next, FIRST_CHECKPOINT)

    def evaluate(self) -> None:
        """Note the mean return of the policy as it is now."""
        self.found["seconds"] += process_time() - self._since
        self.found["pulls"].append(self.num_timesteps)
        self.found["returns"].append(self._evaluate(self.model))
        self._since = process_time()


def show_to_models(env: Mapping[str, Any], observation: str) -> dict[str, Any]:
    """Return an environment's entry with what models see of it: features are no mode of its own."""
    if env["env"] != FEATURES:
        return {**env, "observation": observation}
    return {**env, "env": REMEMBERED} if observation == "history" else {**env}


def make_training_env(env: Mapping[str, Any], horizon: int, observation: str, num_envs: int) -> Any:
    """Build lanes of an environment, which start anew in the step in which they end."""
    options = show_to_models(env, observation) | {"max_episode_steps": horizon}
    name = options.pop("env")
    options.pop("horizon", None)
    return gym.make_vec(name, num_envs=num_envs, autoreset_mode="SameStep", **options)


def resolve_model_settings(settings: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return a model's settings, with those of the model that it is like."""
    details = settings["models"][label]
    return settings["models"].get(details.get("like"), {}) | details


def make_model(details: Mapping[str, Any], env: Mapping[str, Any], horizon: int, seed: int) -> Any:
    """Build an untrained model and its environments, stepped as one batch."""
    lanes = make_training_env(env, horizon, details["observation"], details["num_envs"])
    options = dict(details["options"])
    if details.get("is_scaled"):
        features = {"features_extractor_class": ScaledCounts}
        options["policy_kwargs"] = features | {"features_extractor_kwargs": {"horizon": horizon}}
    options["learning_rate"] = LinearSchedule(options["learning_rate"], 0.0, end_fraction=1.0)
    home = stable_baselines3 if hasattr(stable_baselines3, details["algorithm"]) else sb3_contrib
    ended = GymnasiumVecEnv(lanes, ends_at_horizon=details.get("ends_at_horizon", True))
    torch.set_num_threads(1)  # fastest for networks of this size, and results do not depend on it
    make = getattr(home, details["algorithm"])
    return make(details["policy"], ended, seed=seed, device="cpu", **options)
