"""Our agents and environments in Stable-Baselines3's protocol: `predict`, and a `VecEnv`.

SB3's evaluation shows a model observations only: rewards go to the caller. A Bayesian agent that
never hears of its rewards stays at chance unnoticed. So rewards have a channel of their
own here, and a policy whose channel is not connected refuses to go on. Notation: N
sub-environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.random import SeedSequence
from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_normalize
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

from bandit_gym.checks import check_fit, check_mask, message
from bandit_gym.problem import ContextualProblem
from bandit_gym.wrappers import deliver

Infos = list[dict[str, Any]]
REQUIRED_METHODS = ("reset", "reset_lanes", "act", "observe")


class AgentPolicy:
    """What `as_policy` returns: `predict` for SB3, and two ways for rewards to come in.

    - `evaluate_policy(policy, env, callback=policy.callback)`;
    - in a loop of your own, `policy.learn(actions, rewards, dones)` after every step of the
      `VecEnv`.

    Episodes may end at different times: a lane is reset when its `done` has been learned.
    `DummyVecEnv` rounds rewards to float32; Bernoulli and Poisson rewards do not notice.

    Args:
        agent: any agent with the methods of `agents.base.Agent`, `reset_lanes` included.
        seed: for the agent's first start; later starts continue its stream.

    Raises:
        TypeError: if it is no such agent.
    """

    def __init__(self, agent: Any, *, seed: int | SeedSequence | None = None) -> None:
        if isinstance(agent, type) or not all(hasattr(agent, name) for name in REQUIRED_METHODS):
            raise TypeError(
                f"agent must have the methods {', '.join(REQUIRED_METHODS)}, got {agent!r}; "
                "build one with agents.make_agent."
            )
        self.agent = agent
        self._seed = seed
        self._awaits_rewards = False

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """Choose an action for each sub-environment, as an SB3 model does.

        Args:
            observation: (N, ...) batch, as every `VecEnv` gives.
            state: None starts all lanes afresh; otherwise what the last call returned.
            episode_start: not needed; `dones` come in with the rewards.
            deterministic: without effect, because these agents must randomise to explore.

        Returns:
            (N,) actions, and the state for the next call: the number of steps since the start.

        Raises:
            RuntimeError: if the rewards of the last step have not come in.
        """
        if state is None:
            self.agent.reset(num_envs=len(observation), seed=self._seed)
            self._seed = None
        elif self._awaits_rewards:
            raise RuntimeError(
                "the agent must learn the rewards of every step, got none since the last predict; "
                "pass callback=policy.callback to evaluate_policy, or call policy.learn."
            )
        self._awaits_rewards = True
        return self.agent.act(observation), (state or 0) + 1

    def learn(
        self,
        actions: np.ndarray,
        rewards: np.ndarray,
        dones: np.ndarray,
        infos: Infos | None = None,
    ) -> None:
        """Let the agent observe one step of all lanes, then forget those whose episode ended.

        Args:
            actions: (N,) actions played.
            rewards: (N,) rewards, as the `VecEnv` gave them.
            dones: (N,) bool, True where the episode ended with this step.
            infos: as the `VecEnv` gave them, which late rewards need.
        """
        ended = check_mask("dones", dones, np.size(actions))
        if infos and "feedback_step" in infos[0]:
            names = [name for name in infos[0] if name.startswith("feedback_")]
            deliver(self.agent, {name: np.stack([info[name] for info in infos]) for name in names})
        else:
            self.agent.observe(actions, rewards)
        self.agent.reset_lanes(ended)
        self._awaits_rewards = False

    def callback(self, local_names: dict[str, Any], global_names: dict[str, Any]) -> None:
        """Take the rewards out of `evaluate_policy`, which calls this once per sub-environment.

        Raises:
            ValueError: if the agent was made for another number of arms, or rewards are normalised.
        """
        del global_names
        check_fit(self.agent, local_names["env"])
        normalised = unwrap_vec_normalize(local_names["env"])
        if normalised is not None and normalised.norm_reward:
            remedy = "set norm_reward=False"
            raise ValueError(message("env", "give rewards as they are", normalised, remedy))
        has_features = isinstance(getattr(self.agent, "problem", None), ContextualProblem)
        if normalised is not None and normalised.norm_obs and has_features:
            remedy = "set norm_obs=False"
            raise ValueError(message("env", "give features as they are", normalised, remedy))
        if self._awaits_rewards:  # the first call of a step sees the whole batch
            self.learn(*(local_names[name] for name in ("actions", "rewards", "dones", "infos")))


def as_policy(agent: Any, *, seed: int | SeedSequence | None = None) -> AgentPolicy:
    """Put an agent behind SB3's `predict(observation, state, episode_start, deterministic)`.

    >>> from agents import ExactThompson
    >>> from stable_baselines3.common.env_util import make_vec_env
    >>> from stable_baselines3.common.evaluation import evaluate_policy
    >>> env = make_vec_env("bandit_gym:BernoulliBandit-v0", n_envs=4, seed=1)
    >>> policy = as_policy(ExactThompson(env.get_attr("problem")[0]), seed=1)
    >>> mean, std = evaluate_policy(policy, env, n_eval_episodes=8, callback=policy.callback)
    >>> mean > 800  # of 1,000; pulling at random earns 500 on average
    True

    Args:
        agent: any agent with the methods of `agents.base.Agent`.
        seed: for the agent's own stream.
    """
    return AgentPolicy(agent, seed=seed)


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
        ValueError: if the environment is no vector environment, or resets in another way.
    """

    def __init__(
        self, env: gym.vector.VectorEnv[Any, Any, Any], *, ends_at_horizon: bool = False
    ) -> None:
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
            kept = {name: infos[lane].pop(name) for name in ("episode",) if name in infos[lane]}
            last = infos[lane].pop("final_info", {}) | kept | last
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

    def env_method(self, *arguments: Any, **options: Any) -> Any:
        """Refuse: lanes are no objects of their own."""
        text = "lanes are no environments of their own; use make_vec_env for single environments."
        raise NotImplementedError(text)

    set_attr = env_method

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
