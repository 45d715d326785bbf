"""What an agent keeps of its data where arms have features: rows, and what it decided on last.

Notation: K arms, N lanes, R of them that are paid, d features.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.regression.rows import Rows
from bandit_gym.checks import check_features, message
from bandit_gym.checks.typing import BoolArray, FloatArray


class DecisionRows(Rows):
    """Rows, and the features of the last decision, of which each lane's serve one reward.

    Attributes:
        offered: (N, K, d) features of the arms at the last decision; K = 0 before the first.
        is_unused: (N,) True where no reward was observed for them.
    """

    state_names = ("offered", "is_unused")

    def start(self, num_lanes: int) -> None:
        """Prepare for so many lanes without data."""
        super().start(num_lanes)
        self.offered = np.zeros((num_lanes, 0, self._num_features))
        self.is_unused = np.zeros(num_lanes, dtype=bool)

    def restart(self, mask: np.ndarray) -> None:
        """Remove the data of the (N,) masked lanes, and what was offered there."""
        super().restart(mask)
        self.is_unused[mask] = False

    def offer(self, features: FloatArray) -> None:
        """Take the (N, K, d) features of the decision at hand."""
        self.offered = features
        self.is_unused[:] = True

    def find_offered(
        self, observation: Any, num_envs: int | None, mask: BoolArray | None
    ) -> FloatArray:
        """Return the features that rewards are for: (N, K, d), or (N, d) of the played arms.

        Args:
            observation: features, or None for those of the last decision, each lane's once.
            num_envs: N, or None for a single run.
            mask: (N,) lanes that are paid, or None for all.

        Raises:
            TypeError: if an observation is needed, or is made of no numbers.
            ValueError: if its shape is wrong, or a feature is NaN or infinite.
        """
        if observation is not None:
            taken: dict[str, Any] = {"mask": mask, "takes_played": True}
            return check_features(observation, self._num_features, num_envs, **taken)
        unused = self.is_unused if mask is None else self.is_unused[mask]
        if np.count_nonzero(unused) == unused.size:  # a third of the time of `all`
            is_first = not self.offered.size  # and no lane is paid
            return np.zeros((len(self.offered), self._num_features)) if is_first else self.offered
        condition = "be given where no act since the last reward has shown features"
        raise TypeError(message("observation", condition, None))

    def mark_used(self, lanes: np.ndarray) -> None:
        """Let the last decision of (R,) lanes have its reward."""
        self.is_unused[lanes] = False
