"""Reward noise for many lanes, drawn ahead in blocks from one generator per lane."""

from collections.abc import Sequence

import numpy as np

from bandit_gym.typing import FloatArray, IntArray

_MOST_ROWS = 512
_MOST_UNIFORMS = 2**20  # 8 MiB
_TILE = 64
"""Lanes drawn at a time, so that turning lanes into columns happens within the cache.

A row per lane, without turning, makes a step of 2,000 Bernoulli lanes half as long again.
"""


class LaneNoise:
    """Hands out one uniform per lane and step, each lane's from its own generator, in its order.

    Asking N generators for one number each would take most of a step's time, and asking them for a
    block takes hardly longer. So blocks are kept, a row per step and a column per lane. All lanes
    share the row that comes next: a lane that restarts overwrites its column from there on.

    Args:
        num_envs: N.
        max_rows: no lane needs more rows than this before it restarts; None if nobody knows.
    """

    def __init__(self, num_envs: int, max_rows: int | None) -> None:
        rows = max(1, min(_MOST_ROWS, _MOST_UNIFORMS // num_envs, max_rows or _MOST_ROWS))
        self._uniforms: FloatArray = np.empty((rows, num_envs))
        self._next_row = rows
        self._generators: list[np.random.Generator] = []

    def restart(self, lanes: IntArray, generators: Sequence[np.random.Generator]) -> None:
        """Give the listed lanes new generators; what was drawn ahead for them is thrown away."""
        rows, num_envs = self._uniforms.shape
        if len(lanes) == num_envs:
            self._generators = list(generators)
            self._next_row = rows
            return
        for lane, generator in zip(lanes.tolist(), generators, strict=True):
            self._generators[lane] = generator
            self._uniforms[self._next_row :, lane] = generator.random(rows - self._next_row)

    def take(self) -> FloatArray:
        """Return the (N,) uniforms of the next step."""
        if self._next_row == len(self._uniforms):
            self._refill()
        row: FloatArray = self._uniforms[self._next_row]
        self._next_row += 1
        return row

    def _refill(self) -> None:
        rows, num_envs = self._uniforms.shape
        drawn = np.empty((_TILE, rows))
        for first in range(0, num_envs, _TILE):
            generators = self._generators[first : first + _TILE]
            for row, generator in zip(drawn, generators, strict=False):
                generator.random(out=row)
            self._uniforms[:, first : first + _TILE] = drawn[: len(generators)].T
        self._next_row = 0
