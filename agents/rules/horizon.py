"""What rules that know the horizon share: a clock of their decisions, and how many are left.

Notation: K arms, N lanes, T pulls in an episode, t of them decided.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from agents.base import Agent
from agents.base.threads import atomic
from bandit_gym.checks import check_integer
from bandit_gym.problem import BanditProblem

DEFAULT_HORIZON = 1000
"""Pulls in an episode of the project's environments, unless stated otherwise."""


MAX_HORIZON = 2**62
"""Pulls of an episode that can be counted."""


class HorizonRule(Agent):
    """An agent that knows its horizon T and counts its own decisions.

    Each `act` is a decision, with a `size` as many, whenever its reward arrives. Data that come
    without an `act` (`warm_start`, logged rewards) are no decisions, and a copy counts its own.

    Next-step autoreset ignores the `act` after an episode's end. It is no decision either: call
    `reset_lanes` at the end, and let the next `observe` leave the lane out; `deliver` does.

    Arguments:
        problem: likelihood and prior.
        horizon: T, decisions in an episode.
        options: of the other class that a rule is built on.

    Attributes:
        lane_decisions: (N,) decisions t of each lane since it was reset.
    """

    state_names: ClassVar[tuple[str, ...]] = ("lane_decisions", "_is_new")
    lane_decisions: np.ndarray
    _is_new: np.ndarray  # (N,) reset since the last `observe`

    def __init__(self, problem: BanditProblem, *, horizon: int, **options: Any) -> None:
        self.horizon = check_integer("horizon", horizon, minimum=1, maximum=MAX_HORIZON)
        super().__init__(problem, **options)

    @atomic
    def reset_lanes(self, mask: np.ndarray) -> None:
        """Forget the lanes where `mask` is True; their next decision is the first."""
        super().reset_lanes(mask)
        self._is_new = self._is_new | mask

    def act(
        self, observation: Any = None, *, size: int | None = None, floor: float = 0.0, **others: Any
    ) -> Any:
        """Choose an arm in every lane, which is a decision in each; a size is as many."""
        with self._lock:
            actions = super().act(observation, size=size, floor=floor, **others)
            if not floor:  # `decide` has counted them
                self._count_decisions(size or 1)
            return actions

    def observe(
        self, action: Any, reward: Any, mask: np.ndarray | None = None, **options: Any
    ) -> None:
        """Learn what each lane's pulled arm paid, in the lanes where `mask` is True."""
        with self._lock:
            super().observe(action, reward, mask, **options)
            if mask is not None and self._is_new.any():
                is_first = self._is_new & (self.lane_decisions == 1)
                # `deliver` gives the action -1 to a lane that has acted, but whose reward is late.
                is_ignored = is_first & ~np.asarray(mask) & (np.asarray(action) >= 0)
                self.lane_decisions = np.where(is_ignored, 0, self.lane_decisions)
            self._is_new = np.zeros_like(self._is_new)

    def _find_size(self, observation: Any, size: Any) -> int | None:
        """Return how many decisions are asked for, and refuse more than are left."""
        size = super()._find_size(observation, size)
        if size is not None:
            left = self.horizon - self.lane_decisions.item(0)
            check_integer("size", size, minimum=1, maximum=max(left, 1))
        return size

    def _count_decisions(self, num_decisions: int) -> None:
        self.lane_decisions = self.lane_decisions + num_decisions  # anew: copies share the array

    def _start(self) -> None:
        self.lane_decisions = np.zeros(self.num_lanes, dtype=np.int64)
        self._is_new = np.zeros(self.num_lanes, dtype=bool)
        super()._start()

    def _restart(self, mask: np.ndarray) -> None:
        super()._restart(mask)
        self.lane_decisions = np.where(mask, 0, self.lane_decisions)


def remaining_pulls(agent: HorizonRule) -> np.ndarray:
    """Return the (N, 1) pulls T - t that are left, the one to be chosen now included.

    Raises:
        ValueError: if there is none left.
    """
    done = agent.lane_decisions[:, None]
    if done.max() >= agent.horizon:
        raise ValueError(
            f"horizon must be more than the {done.max()} decisions already made, got "
            f"{agent.horizon}; build {type(agent).__name__} with the horizon of the run, or "
            "reset it where an episode has ended."
        )
    return agent.horizon - done
