"""The wrappers, around single environments and around vector ones, and wrappers as data.

Each named class is the manual of its effect. Around a vector environment it makes a
`LaneVectorWrapper` with the same effect, which equals `gymnasium.vector.SyncVectorEnv` of the
wrapped single environments to the last bit: rewards and infos, in every autoreset mode.

Notation: N lanes, K arms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from bandit_gym.checks import (
    check_actions,
    check_choice,
    check_keys,
    find_problem,
    load_named,
    message,
    split_name,
)
from bandit_gym.checks.typing import Info
from bandit_gym.envs.bandit import LANE
from bandit_gym.envs.observations import add_info, of_lane
from bandit_gym.wrappers.effects import (
    Batches,
    BinaryDraws,
    Delay,
    Effect,
    NonStationary,
    Termination,
    check_wrappable,
)

if TYPE_CHECKING:
    BaseVectorWrapper = VectorWrapper[Any, Any, Any, Any, Any]
else:  # which is generic since a later Gymnasium than the lowest
    BaseVectorWrapper = VectorWrapper


class LaneWrapper(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """A single environment, one lane, under an effect; a subclass names the effect."""

    effect_class: ClassVar[type[Effect]]

    def __init_subclass__(cls) -> None:
        cls.__signature__ = signature(cls.effect_class)  # type: ignore[attr-defined]

    def __new__(cls, env: Any = None, *args: Any, **options: Any) -> Any:
        """Put the effect around a vector environment where `env` is one."""
        if not isinstance(env, VectorEnv):
            return super().__new__(cls)
        return LaneVectorWrapper(cls, env, *args, **options)

    def __init__(self, env: Any, *args: Any, **options: Any) -> None:
        given = signature(type(self)).bind(env, *args, **options)
        given.apply_defaults()
        del given.arguments["env"]
        RecordConstructorArgs.__init__(self, **given.arguments)
        check_wrappable(env, self.effect_class)
        super().__init__(env)
        self.effect = self.effect_class(env.unwrapped, *args, **options)
        self.problem = _find_problem(env, self.effect)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.effect.restart(LANE)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """Pull one arm."""
        self.effect.env.check_can_step()
        actions = check_actions(action, self.effect.num_arms, None)
        self.effect.before_step(LANE, actions)
        observation, reward, terminated, truncated, info = self.env.step(action)
        rewards, infos = self.effect.after_step(LANE, actions, np.array([reward], dtype=np.float64))
        ends = self.effect.change_ends(terminated, truncated)
        return observation, float(rewards[0]), *ends, info | of_lane(infos)


class LaneVectorWrapper(BaseVectorWrapper):
    """A vector environment under the effect of a wrapper.

    Args:
        wrapper: class of the single form, which names the effect.
        env: the environment.
        *args: of the effect.
        **options: of the effect.
    """

    def __init__(self, wrapper: type[LaneWrapper], env: Any, *args: Any, **options: Any) -> None:
        check_wrappable(env, wrapper.effect_class)
        super().__init__(env)
        self.effect = wrapper.effect_class(env.unwrapped, *args, **options)
        self.problem = _find_problem(env, self.effect)
        self._name = wrapper.__name__

    def __repr__(self) -> str:
        """Return the names of the wrapper and of what it wraps."""
        return f"<{self._name}, {self.env}>"

    def reset(  # type: ignore[override]  # lists of seeds, as SyncVectorEnv takes them
        self, *, seed: Any = None, options: Info | None = None
    ) -> tuple[Any, Info]:
        """Start new episodes in all lanes, or in those of `options["reset_mask"]`, (N,) bool."""
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, dtype=np.bool_))
        observation, info = self.env.reset(seed=seed, options=options)  # may take the mask out
        self.effect.restart(np.flatnonzero(mask))
        return observation, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Info]:
        """Pull one arm per lane: (N,) actions, ignored where this step is the lane's autoreset."""
        env: Any = self.effect.env
        env.check_can_step()
        restarted = env.restarts_next()
        played = ~restarted
        lanes = np.flatnonzero(played)
        arms = check_actions(actions, self.effect.num_arms, self.num_envs, mask=played)
        self.effect.before_step(lanes, arms)
        observation, rewards, terminated, truncated, info = self.env.step(actions)
        rewards, infos = self.effect.after_step(lanes, arms, rewards)
        if self.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP:
            restarted = terminated | truncated
            add_info(info.get("final_info", {}), restarted, infos)
        add_info(info, ~restarted, infos)
        self.effect.restart(np.flatnonzero(restarted))
        return observation, rewards, *self.effect.change_ends(terminated, truncated), info


class DelayedReward(LaneWrapper):
    """Rewards arrive some steps after the pulls that earned them.

    Info: `feedback_step`, `feedback_action` and `feedback_reward`, (W,) each: the step of the
    episode (0 is the first) that a reward belongs to, the arm pulled then, and the reward; -1, -1
    and 0 where fewer than W rewards arrive. W is the number of different delays that a reward may
    have. `pull_reward` is what this pull has earned, whenever it arrives: the truth, as `regret`
    is. Where arms have features, `feedback_features`, (W, d), are those of the pulled arms, and 0
    where no reward arrives. The reward of a step is the sum of what arrives;
    `bandit_gym.wrappers.deliver` lets an agent observe it. What is still on its way when an episode
    ends is lost.

    Args:
        env: an environment of bandit_gym's with observation="constant", for others show rewards.
        delay: steps that each reward takes, 0 for none; or the distribution of a random number of
            them, {"name": "uniform", "low": 0, "high": 20}.
    """

    effect_class = Delay


class BatchedFeedback(LaneWrapper):
    """The rewards of B steps arrive together, in the last of them.

    Info, and what an agent does with it: see `DelayedReward`, with W = B.

    Args:
        env: an environment of bandit_gym's with observation="constant", for others show rewards.
        size: B, steps to a batch.
    """

    effect_class = Batches


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

    effect_class = NonStationary


class BinaryReward(LaneWrapper):
    """A reward r in [0, 1] becomes 1 with probability r, otherwise 0, so that Beta priors apply.

    The means, and so `regret`, stay as they are. Agents that are built from this environment are
    given its prior with the Bernoulli likelihood; `env.unwrapped.problem` is that of the rewards as
    they were. Put `DelayedReward` or `BatchedFeedback` around it, not inside.

    Args:
        env: an environment of bandit_gym's with a likelihood of rewards in [0, 1] and
            observation="constant", for others show the rewards as they were.

    References:
        Agrawal and Goyal (2012), algorithm 2.
    """

    effect_class = BinaryDraws


class EndsAtHorizon(LaneWrapper):
    """The time limit is the end: an episode is terminated after its last pull, not truncated.

    That is true where only the T pulls count. Learners such as PPO or DQN then add no estimate of
    later rewards to the last one.

    Args:
        env: an environment of bandit_gym's with a time limit.
    """

    effect_class = Termination


WRAPPERS: dict[str, type[LaneWrapper]] = {
    each.__name__: each
    for each in (BatchedFeedback, BinaryReward, DelayedReward, Drift, EndsAtHorizon)
}


def _find_problem(env: Any, effect: Effect) -> Any:
    """Return the problem of an environment under an effect; None where the inner one is unknown."""
    known = find_problem(env)
    return known and (effect.problem or known)


def wrap(env: Any, wrappers: Any) -> Any:
    """Put wrappers around an environment, single or vector.

    Args:
        env: the environment.
        wrappers: dicts of a `name`, one of `WRAPPERS` or `module:Class`, and of options.

    Raises:
        TypeError: if they are no such list, or an option is of the wrong kind.
        ValueError: if a name or an option is unknown, or a value out of range.
    """
    for make, options in check_wrappers(wrappers):
        env = make(env, **options)
    return env


def check_wrappers(wrappers: Any) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
    """Return the class of each wrapper, and its options; errors are those of `wrap`."""
    if isinstance(wrappers, str | bytes | Mapping) or not isinstance(wrappers, Sequence):
        raise TypeError(message("wrappers", "be a list of dicts with the key 'name'", wrappers))
    found = []
    for settings in wrappers:
        name, options = split_name("wrapper", settings)
        if isinstance(name, str) and ":" in name:
            make = load_named("wrapper", name)
        else:
            make = WRAPPERS[check_choice("wrapper", name, WRAPPERS)]
        check_keys(f"options of {name}", options, optional=[*signature(make).parameters][1:])
        found.append((make, options))
    return found
