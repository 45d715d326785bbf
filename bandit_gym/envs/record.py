"""What was played in the episode so far, in all lanes, and what an agent sees of it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandit_gym.envs.observations import OBSERVATIONS, Observer, Plays
from bandit_gym.typing import BoolArray, FloatArray, IntArray


class PlayRecord:
    """The pulls and rewards of every lane's episode so far, and what an agent sees of them.

    Observations are made from this record, which never holds the means, so they cannot leak them.
    They are kept and changed where something was played, as most of a long one never changes.

    Args:
        num_envs: N.
        observer: says what is seen.
    """

    def __init__(self, num_envs: int, observer: Observer) -> None:
        shape = num_envs, observer.num_arms
        self.plays = Plays(
            pulls=np.zeros(shape, dtype=np.int64),
            reward_sums=np.zeros(shape),
            lengths=np.zeros(num_envs, dtype=np.int64),
            last_actions=np.full(num_envs, -1, dtype=np.int64),
        )
        self._rule, self._blank = observer.rule, observer.blank
        self._shown = np.tile(self._blank, (num_envs, 1))

    def add(self, actions: IntArray, rewards: FloatArray) -> None:
        """Add one pull per lane: (N,) actions and (N,) rewards."""
        from bandit_gym.envs.plays import add_plays  # compiled: only where something is recorded

        paid = np.ascontiguousarray(rewards, dtype=np.float64)
        add_plays(self.plays, self._rule, actions, paid, self._shown)

    def forget(self, lanes: BoolArray) -> None:
        """Start the lanes of the (N,) mask afresh."""
        for values in self.plays[:-1]:
            values[lanes] = 0
        self.plays.last_actions[lanes] = -1
        self._shown[lanes] = self._blank

    def observe(self) -> NDArray[Any]:
        """Return what is seen: (N,) int64 zeros in the constant mode, else (N, size) float32."""
        if self._rule.mode == OBSERVATIONS.index("constant"):
            return np.zeros(len(self._shown), dtype=np.int64)
        return self._shown.copy()


def split(observations: NDArray[Any]) -> list[Any]:
    """Turn a batch into the list of what each lane's single environment would return."""
    return observations.tolist() if observations.ndim == 1 else list(observations)
