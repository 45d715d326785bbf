"""Agents whose data may fade, for worlds that change.

Letters: K arms, N lanes.
"""

from __future__ import annotations

import numpy as np

from agents.base.agent import Agent
from bandit_gym.checks import check_real


class Forgetful(Agent):
    """An agent that follows statistics which fade, or leave again, as well as those that grow.

    A subclass calls `_set_discount` when all of it is built, and says in `_let_forget` what has to
    be prepared.

    Attributes:
        discount: in (0, 1]; with each reward of a lane, its earlier counts and sums are multiplied
            by it.
    """

    discount: float = 1.0

    def _set_discount(self, discount: float) -> None:
        self.discount = check_real("discount", discount, above=0.0, maximum=1.0)
        if self.discount < 1.0:
            self._count_type = np.float64
            self._let_forget()

    def _let_forget(self) -> None:
        """Prepare, or refuse; nothing where the statistics are all there is."""

    def _count(self, lanes: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        """Let the earlier data of the lanes fade, and count; all of it or nothing."""
        if self.discount == 1.0:
            super()._count(lanes, actions, rewards)
            return
        before = self.lane_counts[lanes], self.lane_sums[lanes]
        self.lane_counts[lanes] *= self.discount
        self.lane_sums[lanes] *= self.discount
        try:
            super()._count(lanes, actions, rewards)
        except ValueError:
            self.lane_counts[lanes], self.lane_sums[lanes] = before
            raise
