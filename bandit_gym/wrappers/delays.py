"""Rewards that arrive later than the pulls that earned them, and agents that learn from them.

Letters: N lanes, M of them, R places for rewards on their way, W of which may arrive in one step.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandit_gym.checks import check_integer, check_mask, make_named, message
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.envs.bandit import World
from bandit_gym.numerics.streams import DELAYS
from bandit_gym.wrappers.effects import Effect, Told

LONGEST = 10**6
"""Steps that a reward may take."""

NEVER = np.iinfo(np.int64).max

FEEDBACK = "feedback_step", "feedback_action", "feedback_reward"
"""What a step tells of the rewards that arrive in it."""


@dataclass(frozen=True)
class Uniform:
    """Delays from `low` to `high`, both included, all alike."""

    low: int
    high: int

    def __post_init__(self) -> None:
        check_integer("low", self.low, minimum=0)
        check_integer("high", self.high, minimum=self.low, maximum=LONGEST)

    def draw(self, uniforms: FloatArray) -> IntArray:
        """Return (M,) delays made of (M,) uniform numbers."""
        drawn = self.low + (uniforms * (self.high - self.low + 1)).astype(np.int64)
        return np.minimum(drawn, self.high)


class Post(Effect):
    """Keeps the rewards of N lanes until they are due.

    Arguments:
        world: the environment.
        num_places: R, more than the steps that a reward takes at most.
        width: W.
    """

    kind = "delays"

    def __init__(self, world: World, num_places: int, width: int) -> None:
        super().__init__(world)
        shape = self.num_lanes, num_places
        self._width = width
        self._due, self._pulled = np.full(shape, -1), np.zeros(shape, dtype=np.int64)
        self._actions, self._rewards = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        self._arrivals = np.zeros(self.num_lanes, dtype=np.int64)  # of the rewards to come

    @abstractmethod
    def arrivals(self, lanes: IntArray) -> IntArray:
        """Return the (M,) steps in which the rewards of the next step of the lanes arrive."""

    def restart(self, lanes: IntArray) -> Told:
        """Lose what is on its way."""
        self._due[lanes] = -1
        return super().restart(lanes)

    def begin(self, lanes: IntArray, actions: IntArray) -> None:
        """Draw when the rewards of this step will arrive."""
        self._arrivals[lanes] = self.arrivals(lanes)

    def follow(
        self, lanes: IntArray, actions: IntArray, rewards: FloatArray
    ) -> tuple[FloatArray, Told]:
        """Send the rewards of this step on their way, and hand out those that are due."""
        now = self.steps[lanes]
        cells = lanes, now % self._due.shape[1]
        self._due[cells], self._pulled[cells] = self._arrivals[lanes], now
        self._actions[cells], self._rewards[cells] = actions[lanes], rewards[lanes]
        is_due = self._due[lanes] == now[:, None]
        order = np.argsort(np.where(is_due, self._pulled[lanes], NEVER), axis=1, kind="stable")
        rows, chosen = lanes[:, None], order[:, : self._width]
        is_real = np.take_along_axis(is_due, chosen, axis=1)
        shape = self.num_lanes, self._width
        told = {"pull_reward": np.array(rewards, dtype=np.float64)}
        kept = (self._pulled, -1), (self._actions, -1), (self._rewards, 0)
        for name, (values, blank) in zip(FEEDBACK, kept, strict=True):
            told[name] = np.full(shape, blank, dtype=values.dtype)
            told[name][lanes] = np.where(is_real, values[rows, chosen], blank)
        handed = np.array(rewards, dtype=np.float64)
        handed[lanes] = told["feedback_reward"][lanes].sum(axis=1)
        super().follow(lanes, actions, rewards)
        return handed, told


class Delay(Post):
    """Each reward takes a number of steps, fixed or random; see `DelayedReward`."""

    def __init__(self, world: World, delay: int | Mapping[str, Any]) -> None:
        if isinstance(delay, Mapping):
            self._law: Uniform = make_named("delay", delay, {"uniform": Uniform})
        else:
            steps = check_integer("delay", delay, minimum=0, maximum=LONGEST)
            self._law = Uniform(steps, steps)
        longest = self._law.high
        self._is_fixed = not isinstance(delay, Mapping)
        super().__init__(world, longest + 1, 1 if self._is_fixed else longest + 1)

    def arrivals(self, lanes: IntArray) -> IntArray:
        """Return the steps of arrival; the delay of step t is made of number t of its stream."""
        now = self.steps[lanes]
        if self._is_fixed:
            return now + self._law.high
        return now + self._law.draw(self.world.streams.uniforms(DELAYS, lanes, now, 1)[0])


class Batches(Post):
    """The rewards of B steps arrive together at the last of them; see `BatchedFeedback`."""

    def __init__(self, world: World, size: int) -> None:
        self._size = check_integer("size", size, minimum=1, maximum=LONGEST)
        super().__init__(world, size, size)

    def arrivals(self, lanes: IntArray) -> IntArray:
        """Return the last steps of the batches that the lanes are in."""
        return (self.steps[lanes] // self._size + 1) * self._size - 1


def deliver(agent: Any, info: Mapping[str, Any], *, mask: Any = None) -> None:
    """Let an agent observe the rewards that have arrived, for the actions they belong to.

    `bandit_gym.wrappers.DelayedReward` says what `info` holds.

    Args:
        agent: the learner.
        info: what a step of a world of delayed rewards told.
        mask: (N,) bool, the lanes in which to observe; None means all.

    Raises:
        TypeError, ValueError: if `info` tells no late rewards; the agent is then unchanged.
    """
    if not isinstance(info, Mapping):
        raise TypeError(message("info", "be a dict, as a step tells it", info))
    if "regret" not in info and "feedback_step" not in info:  # all lanes were reset
        _observe_nothing(agent)
        return
    if not {*FEEDBACK} <= {*info}:
        condition = f"tell {' and '.join(FEEDBACK)}, as worlds of late rewards do"
        raise ValueError(message("info", condition, sorted(info)))
    steps, actions, rewards = (np.atleast_2d(info[name]) for name in FEEDBACK)
    is_here = np.ones(steps.shape, dtype=bool)
    for name, lanes in (("_feedback_step", info.get("_feedback_step")), ("mask", mask)):
        if lanes is not None:
            is_here &= check_mask(name, lanes, len(steps))[:, None]
    has_reset = not is_here.all()
    is_here &= steps >= 0
    for arrived, arms, paid in zip(is_here.T, actions.T, rewards.T, strict=True):
        if np.ndim(info["feedback_step"]) == 1:  # a single run
            if arrived[0]:
                agent.observe(int(arms[0]), float(paid[0]))
        elif arrived.any() or has_reset:
            agent.observe(arms, paid, mask=arrived)


def _observe_nothing(agent: Any) -> None:
    """Let an agent of lanes that counts its acts know that autoreset ignored the last."""
    if num_envs := getattr(agent, "num_envs", None):
        none = np.zeros(num_envs, dtype=bool)
        agent.observe(none.astype(np.int64), none.astype(np.float64), mask=none)
