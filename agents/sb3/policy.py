"""An act/observe agent behind Stable-Baselines3's `predict`.

SB3's evaluation shows a model observations only: rewards go to the caller. A Bayesian agent that
never hears of its rewards stays at chance unnoticed. So rewards have a channel of their
own here, and a policy whose channel is not connected refuses to go on. Notation: N
sub-environments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import SeedSequence

from bandit_gym.checks import check_fit, check_mask

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
        self._num_lanes = 0

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
        self._num_lanes = len(observation)
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

    def learn(self, actions: np.ndarray, rewards: np.ndarray, dones: np.ndarray) -> None:
        """Let the agent observe one step of all lanes, then forget those whose episode ended.

        Args:
            actions: (N,) actions played.
            rewards: (N,) rewards, as the `VecEnv` gave them.
            dones: (N,) bool, True where the episode ended with this step.
        """
        ended = check_mask("dones", dones, self._num_lanes or np.size(actions))
        self.agent.observe(actions, rewards)
        self.agent.reset_lanes(ended)
        self._awaits_rewards = False

    def callback(self, local_names: dict[str, Any], global_names: dict[str, Any]) -> None:
        """Take the rewards out of `evaluate_policy`, which calls this once per sub-environment.

        Raises:
            ValueError: if the agent was made for another number of arms.
        """
        del global_names
        check_fit(self.agent, local_names["env"])
        if self._awaits_rewards:  # the first call of a step sees the whole batch
            self.learn(local_names["actions"], local_names["rewards"], local_names["dones"])


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
