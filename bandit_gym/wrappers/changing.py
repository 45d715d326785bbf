"""Arms that come and go, and means that move while the episode goes on.

Letters: N lanes, M of them, K arms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import InvalidAction
from gymnasium.spaces import Discrete
from scipy import special

from bandit_gym.checks import check_available, check_integer, check_real, message
from bandit_gym.envs.bandit import World
from bandit_gym.envs.dynamics import draw_means
from bandit_gym.numerics.streams import ARMS, MOVES, SWITCHES
from bandit_gym.typing import BoolArray, FloatArray, IntArray
from bandit_gym.wrappers.effects import Effect, Told

WAYS = "std, period and probability"
LARGEST_STD = 1e100
"""Of a step, so that no walk leaves the means that an environment takes."""


class ComingAndGoing(Effect):
    """Some arms cannot be pulled now; see `AvailableArms`.

    Attributes:
        available: (N, K) True for the arms that can be pulled next.
    """

    kind = "arms"

    def __init__(
        self,
        world: World,
        leaving: float,
        returning: float,
        masks: Sequence[Sequence[bool]] | None,
    ) -> None:
        super().__init__(world)
        self._leaving = check_real("leaving", leaving, minimum=0.0, maximum=1.0)
        self._returning = check_real("returning", returning, minimum=0.0, maximum=1.0)
        self._masks = None if masks is None else check_masks(masks, self.num_arms)
        self.available = np.ones((self.num_lanes, self.num_arms), dtype=np.bool_)
        self._next = self.available.copy()

    def restart(self, lanes: IntArray) -> Told:
        """Let all arms be there, or those of the first mask."""
        self.available[lanes] = True if self._masks is None else self._masks[0]
        self._tell_world()
        return super().restart(lanes) | self._told()

    def begin(self, lanes: IntArray, actions: IntArray) -> None:
        """Refuse arms that cannot be pulled, and find which can be next."""
        is_wrong = ~self.available[lanes, actions[lanes]]
        if is_wrong.any():
            lane = lanes[np.argmax(is_wrong)]
            there = np.flatnonzero(self.available[lane]).tolist()
            text = message("action", f"be an available arm, one of {there}", int(actions[lane]))
            where = f" in lane {lane}" if self.num_lanes > 1 else ""
            raise InvalidAction(f"{text[:-1]}{where}.")
        now = self.steps[lanes]
        if self._masks is not None:
            self._next[lanes] = self._masks[(now + 1) % len(self._masks)]
            return
        uniforms = self.world.streams.uniforms(ARMS, lanes, now * self.num_arms, self.num_arms).T
        self._next[lanes] = self._come_and_go(self.available[lanes], uniforms)

    def follow(
        self, lanes: IntArray, actions: IntArray, rewards: FloatArray
    ) -> tuple[FloatArray, Told]:
        """Let arms come and go."""
        self.available[lanes] = self._next[lanes]
        self._tell_world()
        return super().follow(lanes, actions, rewards)[0], self._told()

    def _come_and_go(self, available: BoolArray, uniforms: FloatArray) -> BoolArray:
        """Return the (M, K) arms that come after `available`, of which one stays in any case."""
        stays = uniforms >= self._leaving
        found = np.where(available, stays, uniforms < self._returning)
        is_empty = ~found.any(axis=1)
        last = np.where(available, uniforms, -1.0).argmax(axis=1)
        found[is_empty, last[is_empty]] = True
        return found

    def _told(self) -> Told:
        return {"action_mask": self.available.astype(np.int8)}

    def _tell_world(self) -> None:
        self.world.change(available=self.available)


class AvailableDiscrete(Discrete):
    """Actions of which random ones are drawn among the available.

    Copies and pickles are plain spaces, which know of no environment.

    Args:
        num_arms: K.
        effect: tells the arms of a single environment that can be pulled now.
    """

    def __init__(self, num_arms: int, effect: ComingAndGoing) -> None:
        super().__init__(num_arms)
        self._effect = effect

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw an arm: among the available ones, unless a mask or probabilities are given."""
        if mask is None and probability is None:
            mask = self._effect.available[0].astype(np.int8)
        return super().sample(mask, probability)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the environment out."""
        return Discrete, (int(self.n),)


def check_masks(masks: Any, num_arms: int) -> BoolArray:
    """Return the (T, K) masks of a schedule, each of which leaves an arm."""
    if not isinstance(masks, Sequence | np.ndarray) or len(masks) == 0:
        raise TypeError(message("masks", "be a list of masks, one truth value per arm each", masks))
    return np.stack([_check_row(number, row, num_arms) for number, row in enumerate(masks)])


def _check_row(number: int, row: Any, num_arms: int) -> BoolArray:
    try:
        return check_available(row, (1, num_arms), None)[0]  # type: ignore[no-any-return]
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("available", f"masks[{number}]", 1)) from None


class Moving(Effect):
    """Means move before each pull but the first; see `Drift`."""

    kind = "means"

    def __init__(
        self,
        world: World,
        std: float | None,
        period: int | None,
        probability: float | None,
    ) -> None:
        super().__init__(world)
        given = std, period, probability
        if sum(value is None for value in given) != 2:  # an array equals nothing at once
            raise ValueError(message(WAYS, "be a number and None twice", given))
        self._std = self._period = self._probability = None
        if std is not None:
            self._std = check_real("std", std, above=0.0, maximum=LARGEST_STD)
        if period is not None:
            self._period = check_integer("period", period, minimum=1, maximum=2**62)
        if probability is not None:
            self._probability = check_real("probability", probability, above=0.0, maximum=1.0)
        self._low, self._high = world.problem.arm_support().T
        self._shown = np.zeros((self.num_lanes, self.num_arms))
        self._rngs: dict[int, np.random.Generator] = {}

    def restart(self, lanes: IntArray) -> Told:
        """Begin at the means that the episode begins with."""
        if self._std is None:
            fresh = self.world.streams.generators(SWITCHES, lanes)
            self._rngs |= dict(zip(lanes.tolist(), fresh, strict=True))
        return super().restart(lanes)

    def begin(self, lanes: IntArray, actions: IntArray) -> None:
        """Move the means of the lanes that have played before."""
        movers = lanes[self.steps[lanes] > 0]
        means = self.world.means
        if self._std is not None:
            means[movers] = self._walk(means[movers], movers)
        else:
            for lane in movers[self._is_switching(movers)].tolist():
                means[lane] = draw_means(self.world.problem.prior, self._rngs[lane], self.num_arms)
        if len(movers):
            self.world.change(means=means)
        self._shown = means

    def follow(
        self, lanes: IntArray, actions: IntArray, rewards: FloatArray
    ) -> tuple[FloatArray, Told]:
        """Tell the means that were played on."""
        return super().follow(lanes, actions, rewards)[0], {"means": self._shown}

    def _walk(self, means: FloatArray, lanes: IntArray) -> FloatArray:
        """Return (M, K) means after a step, turned back at the ends of what the prior allows."""
        first = (self.steps[lanes] - 1) * self.num_arms
        uniforms = self.world.streams.uniforms(MOVES, lanes, first, self.num_arms).T
        steps = special.ndtri(np.maximum(uniforms, np.finfo(float).tiny))
        return reflect(means + self._std * steps, self._low, self._high)

    def _is_switching(self, lanes: IntArray) -> BoolArray:
        now = self.steps[lanes]
        if self._period is not None:
            return now % self._period == 0  # type: ignore[no-any-return]
        return self.world.streams.uniforms(MOVES, lanes, now, 1)[0] < self._probability


def reflect(x: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return (M, K) numbers turned back at the (K,) ends, as often as it takes, into [low, high].

    Ends may be infinite.
    """
    with np.errstate(invalid="ignore"):  # of what is not chosen
        above = np.where(np.isfinite(low), low + np.abs(x - low), x)
        below = np.where(np.isfinite(high), high - np.abs(high - x), x)
        width = high - low
        folded = low + (width - np.abs(width - np.mod(x - low, 2 * width)))
    found = np.where(np.isfinite(low), above, below)
    return np.where(np.isfinite(width), np.clip(folded, low, high), found)
