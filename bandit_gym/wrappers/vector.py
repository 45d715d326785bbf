"""The wrappers, around vector environments; `single` is their manual.

They equal `gymnasium.vector.SyncVectorEnv` of the wrapped single environments to the last bit:
rewards and infos, in every autoreset mode.

Letters: N lanes, K arms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from bandit_gym.checks import check_actions, message
from bandit_gym.envs import BanditVectorEnv
from bandit_gym.typing import BoolArray
from bandit_gym.wrappers.arms import ComingAndGoing
from bandit_gym.wrappers.delays import Batches, Delay
from bandit_gym.wrappers.drifting import Moving
from bandit_gym.wrappers.effects import Effect, Told
from bandit_gym.wrappers.rules import check_place

if TYPE_CHECKING:
    Wrapper = VectorWrapper[Any, Any, Any, Any, Any]
else:  # which is generic since a later Gymnasium than the lowest
    Wrapper = VectorWrapper


class VectorLaneWrapper(Wrapper, RecordConstructorArgs):
    """A vector environment under an effect; a subclass names the effect."""

    effect_class: ClassVar[type[Effect]]

    def __init__(self, env: VectorEnv[Any, Any, Any], **options: Any) -> None:
        RecordConstructorArgs.__init__(self, **options)
        if not isinstance(getattr(env, "unwrapped", None), BanditVectorEnv):
            remedy = "wrap each environment, if they are stepped one by one"
            raise TypeError(message("env", "be a vector environment of bandit_gym's", env, remedy))
        check_place(env, self.effect_class)
        super().__init__(env)
        self.effect = self.effect_class(cast(Any, env.unwrapped), **options)
        self._mode = env.metadata["autoreset_mode"]
        self._has_begun = False
        self._has_ended = np.zeros(env.num_envs, dtype=np.bool_)  # and waits for a reset

    def reset(  # type: ignore[override]  # lists of seeds, as SyncVectorEnv takes them
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start new episodes in all lanes, or in those of `options["reset_mask"]`, (N,) bool."""
        observation, info = self.env.reset(seed=seed, options=options)
        mask = np.ones(self.num_envs, dtype=np.bool_)
        mask &= (options or {}).get("reset_mask", mask)
        self._has_begun = True
        self._has_ended &= ~mask
        tell(info, mask, self.effect.restart(np.flatnonzero(mask)))
        return observation, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Pull one arm per lane: (N,) actions, ignored where this step is the lane's autoreset."""
        must_wait = self._mode is AutoresetMode.DISABLED and self._has_ended.any()
        if must_wait or not self._has_begun:
            return self.env.step(actions)  # which asks for a reset
        played = ~self._has_ended
        lanes, num_arms = np.flatnonzero(played), self.effect.num_arms
        arms = check_actions(actions, num_arms, self.num_envs, mask=played)
        self.effect.begin(lanes, arms)
        observation, rewards, terminated, truncated, info = self.env.step(actions)
        rewards, told = self.effect.follow(lanes, arms, rewards)
        self._tell_all(info, played, terminated | truncated, told)
        return observation, rewards, terminated, truncated, info

    def _tell_all(
        self, info: dict[str, Any], played: BoolArray, has_ended: BoolArray, told: Told
    ) -> None:
        """Put into `info` what the step, and resets in it, tell of the (N,) lanes."""
        restarted, going = ~played, played
        self._has_ended = has_ended
        if self._mode is AutoresetMode.SAME_STEP:
            if has_ended.any():
                tell(info["final_info"], has_ended, told)
            restarted, going = has_ended, ~has_ended
            self._has_ended = np.zeros_like(has_ended)
        tell(info, going, told)
        if restarted.any():
            tell(info, restarted, self.effect.restart(np.flatnonzero(restarted)))


def tell(info: dict[str, Any], mask: BoolArray, told: Told) -> None:
    """Add (N, ...) values to `info` for the (N,) masked lanes, batched as `SyncVectorEnv` does.

    They are 0 where a lane has none, and there is no key where no lane has one.
    """
    if not mask.any():
        return
    for name, values in told.items():
        kept, has = values.copy(), mask.copy()
        kept[~mask] = info[name][~mask] if name in info else 0
        if name in info:
            has |= info[f"_{name}"]
        info |= {name: kept, f"_{name}": has}


class DelayedReward(VectorLaneWrapper):
    """See `bandit_gym.wrappers.single.DelayedReward`."""

    effect_class = Delay

    def __init__(self, env: VectorEnv[Any, Any, Any], delay: int | Mapping[str, Any] = 10) -> None:
        super().__init__(env, delay=delay)


class BatchedFeedback(VectorLaneWrapper):
    """See `bandit_gym.wrappers.single.BatchedFeedback`."""

    effect_class = Batches

    def __init__(self, env: VectorEnv[Any, Any, Any], size: int = 10) -> None:
        super().__init__(env, size=size)


class AvailableArms(VectorLaneWrapper):
    """See `bandit_gym.wrappers.single.AvailableArms`."""

    effect_class = ComingAndGoing
    effect: ComingAndGoing

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        leaving: float | None = None,
        returning: float | None = None,
        masks: Sequence[Sequence[bool]] | None = None,
    ) -> None:
        super().__init__(env, leaving=leaving, returning=returning, masks=masks)

    def action_masks(self) -> BoolArray:
        """Return (N, K) True for the arms that can be pulled next."""
        return self.effect.available.copy()


class Drift(VectorLaneWrapper):
    """See `bandit_gym.wrappers.single.Drift`."""

    effect_class = Moving

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        std: float | None = None,
        period: int | None = None,
        probability: float | None = None,
    ) -> None:
        super().__init__(env, std=std, period=period, probability=probability)
