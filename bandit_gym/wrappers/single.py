"""The wrappers, around single environments; of a vector environment they make those of `vector`.

Each class is the manual of its effect, for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv

from bandit_gym.checks import check_actions, message
from bandit_gym.envs import BanditEnv
from bandit_gym.typing import BoolArray
from bandit_gym.wrappers.arms import AvailableDiscrete, ComingAndGoing
from bandit_gym.wrappers.delays import Batches, Delay
from bandit_gym.wrappers.drifting import Moving
from bandit_gym.wrappers.effects import Effect, Told
from bandit_gym.wrappers.rules import check_place

LANE = np.array([0])
"""The only one."""


class LaneWrapper(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """A single environment, one lane, under an effect; a subclass names the effect."""

    effect_class: ClassVar[type[Effect]]

    def __new__(cls, env: Any = None, *args: Any, **options: Any) -> Any:
        """Make the wrapper of the same name for vector environments where `env` is one."""
        if isinstance(env, VectorEnv):
            from bandit_gym.wrappers import vector

            return getattr(vector, cls.__name__)(env, *args, **options)
        return super().__new__(cls)

    def __init__(self, env: gym.Env[Any, Any], **options: Any) -> None:
        RecordConstructorArgs.__init__(self, **options)
        if not isinstance(getattr(env, "unwrapped", None), BanditEnv):
            raise TypeError(message("env", "be an environment of bandit_gym's", env))
        check_place(env, self.effect_class)
        super().__init__(env)
        self.effect = self.effect_class(cast(Any, env.unwrapped), **options)
        self._has_begun = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._has_begun = True
        return observation, info | _of_lane(self.effect.restart(LANE))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pull one arm."""
        if not self._has_begun:
            return self.env.step(action)  # type: ignore[return-value]  # which asks for a reset
        problem = self.effect.world.problem
        actions = check_actions(action, problem.num_arms, None)
        self.effect.begin(LANE, actions)
        observation, reward, terminated, truncated, info = self.env.step(action)
        rewards, told = self.effect.follow(LANE, actions, np.array([reward], dtype=np.float64))
        return observation, float(rewards[0]), terminated, truncated, info | _of_lane(told)


def _of_lane(told: Told) -> dict[str, Any]:
    """Return what is told of the only lane, as numbers and arrays of their own."""
    first = {name: values[0] for name, values in told.items()}
    return {name: v.copy() if isinstance(v, np.ndarray) else v.item() for name, v in first.items()}


class DelayedReward(LaneWrapper):
    """Rewards arrive some steps after the pulls that earned them.

    Info: `feedback_step`, `feedback_action` and `feedback_reward`, (W,) each: the step of the
    episode (0 is the first) that a reward belongs to, the arm pulled then, and the reward; -1, -1
    and 0 where fewer than W rewards arrive. W is 1 for a fixed delay, otherwise one more than the
    longest. `pull_reward` is what this pull has earned, whenever it arrives: the truth, as `regret`
    is. The reward of a step is the sum of what arrives; `bandit_gym.wrappers.deliver` lets an agent
    observe it. What is still on its way when an episode ends is lost.

    Args:
        env: an environment of bandit_gym's with observation="constant", for others show rewards.
        delay: steps that each reward takes, 0 for none; or a dict of a law by its name,
            {"name": "uniform", "low": 0, "high": 20}, or
            {"name": "geometric", "mean": 10.0, "maximum": 100}, longer ones cut to the maximum.
    """

    effect_class = Delay

    def __init__(self, env: gym.Env[Any, Any], delay: int | Mapping[str, Any] = 10) -> None:
        super().__init__(env, delay=delay)


class BatchedFeedback(LaneWrapper):
    """The rewards of B steps arrive together, in the last of them.

    Info, and what an agent does with it: see `DelayedReward`, with W = B.

    Args:
        env: an environment of bandit_gym's with observation="constant", for others show rewards.
        size: B, steps to a batch.
    """

    effect_class = Batches

    def __init__(self, env: gym.Env[Any, Any], size: int = 10) -> None:
        super().__init__(env, size=size)


class AvailableArms(LaneWrapper):
    """Not all arms can be pulled at every step: sleeping bandits.

    An episode begins with all arms. After each step those that are there leave with one
    probability, and the others return with another, independently; one stays in any case. Or masks
    tell, step by step, which arms are there. Pulling an arm that is not there raises
    `InvalidAction` and changes nothing.

    Info: `action_mask`, (K,) int8, 1 for the arms that can be pulled next, in resets and steps; it
    is what `action_masks()` returns, and what `action_space.sample()` keeps to. `regret` compares
    with the best arm that was there.

    Args:
        env: an environment of bandit_gym's.
        leaving: probability of an arm to leave, in [0, 1]; None is 0.1.
        returning: probability of an arm to return, in [0, 1]; None is 0.5.
        masks: lists of K truth values, for step 0, 1, ... of an episode, over and over, in place of
            the two probabilities.
    """

    effect_class = ComingAndGoing
    effect: ComingAndGoing

    def __init__(
        self,
        env: gym.Env[Any, Any],
        leaving: float | None = None,
        returning: float | None = None,
        masks: Sequence[Sequence[bool]] | None = None,
    ) -> None:
        super().__init__(env, leaving=leaving, returning=returning, masks=masks)
        self.action_space = AvailableDiscrete(self.effect.num_arms, self.effect)

    def action_masks(self) -> BoolArray:
        """Return (K,) True for the arms that can be pulled next, as sb3-contrib asks for it."""
        return self.effect.available[0].copy()


class Drift(LaneWrapper):
    """The means of the arms move while an episode goes on.

    They begin as the environment has drawn them, and move before each pull but the first. Info:
    `regret` compares with the arm that is best now; `means`, (K,), those that were played on.

    Args:
        env: an environment of bandit_gym's.
        std: deviation of a random walk's step, > 0, in reward units; where the prior has an end the
            walk turns back.
        period: steps after which all means are drawn anew from the prior, over and over.
        probability: in (0, 1], of drawing all of them anew before a pull. One of the three.
    """

    effect_class = Moving

    def __init__(
        self,
        env: gym.Env[Any, Any],
        std: float | None = None,
        period: int | None = None,
        probability: float | None = None,
    ) -> None:
        super().__init__(env, std=std, period=period, probability=probability)
