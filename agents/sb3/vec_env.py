"""A Gymnasium vector environment as a Stable-Baselines3 `VecEnv`: the fast way to train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

Infos = list[dict[str, Any]]

_NO_LANE_ENVS = (
    "the lanes of a vector environment are no environments of their own; "
    "use make_vec_env for single environments."
)


class GymnasiumVecEnv(VecEnv):
    """N lanes of a vector environment in SB3's protocol, without a Python loop over environments.

    Everything is as `DummyVecEnv` over the single environments gives it, with the same seeds, but
    for the rewards, which stay float64. Lanes are not objects of their own: `set_attr` and
    `env_method` are refused.

    Args:
        env: made with `autoreset_mode="SameStep"`, which is how SB3 resets.
        ends_at_horizon: report to SB3 that an episode whose time is up has ended. By default it
            hears that the episode was cut off, as `DummyVecEnv` reports it, and adds to the last
            reward a guess of what would have come next. Where T pulls are all that counts, nothing
            comes next, and the guess is of an observation that it is never trained on.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if the environment resets in another way.
    """

    def __init__(
        self, env: gym.vector.VectorEnv[Any, Any, Any], *, ends_at_horizon: bool = False
    ) -> None:
        if not isinstance(env, gym.vector.VectorEnv):
            raise TypeError(f"env must be a Gymnasium vector environment, got {env!r}.")
        mode = env.metadata.get("autoreset_mode")
        if mode is not AutoresetMode.SAME_STEP:
            raise ValueError(
                f"env must have autoreset mode SameStep, got {mode!r}; "
                'make it with gym.make_vec(..., autoreset_mode="SameStep").'
            )
        self.env = env
        self.ends_at_horizon = ends_at_horizon
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> np.ndarray:
        """Start all episodes, with the seeds and options set before."""
        options = self._options[0]
        if any(other != options for other in self._options):
            raise ValueError(f"options must be the same in all lanes, got {self._options!r}.")
        has_seeds = any(seed is not None for seed in self._seeds)
        seeds: Any = list(self._seeds) if has_seeds else None
        observations, info = self.env.reset(seed=seeds, options=options or None)
        self.reset_infos = _split_info(info, self.num_envs)
        self._reset_seeds()
        self._reset_options()
        return np.asarray(observations)

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Step all lanes; where an episode ended, the observation is the next one's first."""
        observations, rewards, terminated, truncated, info = self.env.step(self._actions)
        dones = terminated | truncated
        infos = _split_info(info, self.num_envs)
        for lane in np.flatnonzero(dones):
            # SB3 returns the info of the last step, and keeps that of the reset.
            last = {"terminal_observation": infos[lane].pop("final_obs")}
            last = infos[lane].pop("final_info", {}) | last
            self.reset_infos[lane], infos[lane] = infos[lane], last
        was_cut_off = truncated & ~terminated & (not self.ends_at_horizon)
        for lane_info, was_cut in zip(infos, was_cut_off.tolist(), strict=True):
            lane_info["TimeLimit.truncated"] = was_cut
        return observations, rewards, dones, infos

    def close(self) -> None:
        """Close the vector environment."""
        self.env.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return one frame per lane."""
        frames: Any = self.env.render()
        return list(frames)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return the vector environment's attribute, once per lane asked for."""
        return [getattr(self.env, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Refuse: lanes share their attributes."""
        raise NotImplementedError(_NO_LANE_ENVS)

    def env_method(
        self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any
    ) -> list[Any]:
        """Refuse: lanes are no objects of their own."""
        raise NotImplementedError(_NO_LANE_ENVS)

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Say no for every lane asked for: there are no single environments to wrap."""
        return [False for _ in self._get_indices(indices)]


def _split_info(info: dict[str, Any], num_envs: int) -> Infos:
    """Turn a dict of arrays, each with the mask of its lanes, into one dict per lane."""
    infos: Infos = [{} for _ in range(num_envs)]
    for name, values in info.items():
        if name.startswith("_"):
            continue
        lanes = np.flatnonzero(info.get(f"_{name}", np.ones(num_envs))).tolist()
        if isinstance(values, dict):
            entries: Any = _split_info(values, num_envs)
        else:
            entries = values.tolist() if values.ndim == 1 else values
        for lane in lanes:
            infos[lane][name] = entries[lane]
    return infos
