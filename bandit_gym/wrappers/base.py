"""Wrappers: an effect on the steps of N lanes, and how it goes around an environment.

An effect is written once, for N lanes, of which a single environment has one. Around a vector
environment, it equals `gymnasium.vector.SyncVectorEnv` of the wrapped single environments to the
last bit: rewards and infos, in every autoreset mode.

Notation: N lanes, M of them, K arms.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec, WrapperSpec
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from bandit_gym.checks import check_actions, find_problem, message
from bandit_gym.checks.typing import FloatArray, Info, IntArray, RewardsAndInfo
from bandit_gym.envs.bandit import LANE, BanditLanes
from bandit_gym.envs.observations import add_info, of_lane
from bandit_gym.problem import BanditProblem


class Effect:
    """An effect on the steps of N lanes; this one does nothing.

    Attributes:
        kind: what it changes; an environment has one effect of a kind.
        env: the environment.
        steps: (N,) steps that the lanes' episodes have had.
        problem: what agents are given in place of the environment's; None if it is unchanged.
    """

    kind: ClassVar[str]
    problem: BanditProblem | None = None

    def __init__(self, env: BanditLanes) -> None:
        self.env = env
        self.num_lanes, self.num_arms = len(env.streams.seeds), env.problem.num_arms
        self.steps = np.zeros(self.num_lanes, dtype=np.int64)

    def restart(self, lanes: IntArray) -> None:
        """Begin new episodes in the (M,) lanes."""
        self.steps[lanes] = 0

    def before_step(self, lanes: IntArray, actions: IntArray) -> None:
        """Before the (M,) lanes play: refuse (N,) actions, or draw what the step needs.

        An effect that refuses has changed nothing.
        """

    def after_step(self, lanes: IntArray, actions: IntArray, rewards: FloatArray) -> RewardsAndInfo:
        """Return (N,) rewards and the step's info, after the (M,) lanes have played."""
        self.steps[lanes] += 1
        return rewards, {}

    def change_ends(self, terminated: Any, truncated: Any) -> tuple[Any, Any]:
        """Return whether the episodes have ended, and whether they were cut off: (N,) each."""
        return terminated, truncated


def list_effects(env: Any) -> list[Effect]:
    """Return the effects of an environment's wrappers, or the first one's of several.

    The outermost come first.
    """
    effects = []
    while env is not None:
        effects.append(vars(env).get("effect"))
        env = next(iter(getattr(env, "envs", ())), getattr(env, "env", None))
    return [effect for effect in effects if isinstance(effect, Effect)]


def check_wrappable(env: Any, effect_class: type[Effect]) -> None:
    """Refuse a second effect of a kind, one in the wrong order, and rewards that would be seen.

    Rewards become 0 or 1 before they are delayed, as a sum of several may be any number. Around
    Gymnasium's `Autoreset` an effect would not see where an episode begins.

    Args:
        env: an environment of this package, with wrappers or without.
        effect_class: what is to go around it.
    """
    if not isinstance(getattr(env, "unwrapped", None), BanditLanes):
        remedy = "in a SyncVectorEnv wrap each environment"
        raise TypeError(message("env", "be an environment of bandit_gym's", env, remedy))
    inner = env
    while inner is not None:
        if isinstance(inner, gym.wrappers.Autoreset):
            remedy = "put Autoreset around the wrapper instead"
            raise ValueError(message("env", "not begin new episodes by itself", env, remedy))
        inner = getattr(inner, "env", None)
    kinds = {effect.kind for effect in list_effects(env)}
    if effect_class.kind in kinds:
        condition = f"have no other wrapper that changes its {effect_class.kind}"
        raise ValueError(message("env", condition, env))
    if effect_class.kind == "rewards" and "delays" in kinds:
        condition = "deliver each reward at once where rewards become 0 or 1"
        raise ValueError(message("env", condition, env, "delay the wrapper's rewards instead"))
    space = getattr(env, "single_observation_space", env.observation_space)
    shows_rewards = env.unwrapped.features is None and not isinstance(space, Discrete)
    if effect_class.kind in ("delays", "rewards") and shows_rewards:
        shown = "at once" if effect_class.kind == "delays" else "as they were"
        condition = f"have observation='constant', for others show rewards {shown}"
        raise ValueError(message("env", condition, space))


def put_around(
    env: Any, name: str, effect_class: type[Effect], **options: Any
) -> LaneWrapper | LaneVectorWrapper:
    """Return an environment, single or vector, under an effect.

    Args:
        env: of this package, with wrappers or without.
        name: of the function in `bandit_gym.wrappers` that was called.
        effect_class: the effect.
        **options: of the effect, and of that function.
    """
    check_wrappable(env, effect_class)
    effect = effect_class(env.unwrapped, **options)
    if isinstance(env, VectorEnv):
        return LaneVectorWrapper(env, name, effect)
    return LaneWrapper(env, name, effect, options)


class LaneWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """A single environment, one lane, under an effect.

    Args:
        env: the environment.
        name: of the function that makes it.
        effect: on its lane.
        options: of that function.
    """

    def __init__(self, env: Any, name: str, effect: Effect, options: dict[str, Any]) -> None:
        super().__init__(env)
        self.effect, self._name, self._options = effect, name, options
        self.problem = _find_problem(env, effect)

    def __str__(self) -> str:
        """Return the names of the wrapper and of what it wraps."""
        return f"<{self._name}{self.env}>"

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """What makes it again."""
        spec = deepcopy(self.env.spec)
        if spec is not None:
            entry_point = f"bandit_gym.wrappers:{self._name}"
            spec.additional_wrappers += (WrapperSpec(self._name, entry_point, self._options),)
        return spec

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


class LaneVectorWrapper(VectorWrapper):  # type: ignore[type-arg]
    """A vector environment under an effect; the arguments are those of `LaneWrapper`."""

    def __init__(self, env: Any, name: str, effect: Effect) -> None:
        super().__init__(env)
        self.effect, self._name = effect, name
        self.problem = _find_problem(env, effect)

    def __repr__(self) -> str:
        """Return the names of the wrapper and of what it wraps."""
        return f"<{self._name}, {self.env}>"

    def reset(  # type: ignore[override]  # lists of seeds, as SyncVectorEnv takes them
        self, *, seed: Any = None, options: Info | None = None
    ) -> tuple[Any, Info]:
        """Start new episodes in all lanes, or in those of `options["reset_mask"]`, (N,) bool."""
        mask = np.ones(self.num_envs, dtype=np.bool_)
        if isinstance(options, Mapping):  # which the environment may take the mask out of
            mask = options.get("reset_mask", mask)
        observation, info = self.env.reset(seed=seed, options=options)
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


def _find_problem(env: Any, effect: Effect) -> Any:
    """Return the problem of an environment under an effect; None where the inner one is unknown."""
    known = find_problem(env)
    return known and (effect.problem or known)
