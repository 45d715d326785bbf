"""Reward noise for many lanes, drawn ahead in blocks from one generator per lane."""

from collections.abc import Sequence

import numpy as np

from bandit_gym.typing import FloatArray, IntArray

_MOST_ROWS = 512
_MOST_UNIFORMS = 2**20  # 8 MiB


class LaneNoise:
    """Hands out one uniform per lane and step, each lane's from its own generator, in its order.

    Asking 2,000 generators for one number each takes a millisecond; asking each of them for a block
    takes hardly longer, so blocks are kept with a row per step and a column per lane. All lanes
    share the row that comes next: a lane that restarts overwrites its column from there on.

    Args:
        num_envs: N.
        max_rows: no lane needs more rows than this before it restarts; None if nobody knows.
    """

    def __init__(self, num_envs: int, max_rows: int | None) -> None:
        rows = max(1, min(_MOST_ROWS, _MOST_UNIFORMS // num_envs, max_rows or _MOST_ROWS))
        self._uniforms = np.empty((rows, num_envs))
        self._next_row = rows
        self._generators: dict[int, np.random.Generator] = {}

    def restart(self, lanes: IntArray, generators: Sequence[np.random.Generator]) -> None:
        """Give the listed lanes new generators; what was drawn ahead for them is thrown away."""
        rows, num_envs = self._uniforms.shape
        self._generators.update(zip(lanes.tolist(), generators, strict=True))
        if len(lanes) == num_envs:
            self._next_row = rows
            return
        for lane, generator in zip(lanes, generators, strict=True):
            self._uniforms[self._next_row :, lane] = generator.random(rows - self._next_row)

    def take(self) -> FloatArray:
        """Return the (N,) uniforms of the next step."""
        if self._next_row == len(self._uniforms):
            self._refill()
        self._next_row += 1
        return self._uniforms[self._next_row - 1]

    def _refill(self) -> None:
        rows, num_envs = self._uniforms.shape
        drawn = np.empty((num_envs, rows))
        for lane in range(num_envs):
            self._generators[lane].random(out=drawn[lane])
        self._uniforms[:] = drawn.T
        self._next_row = 0
