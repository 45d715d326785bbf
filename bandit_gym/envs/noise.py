"""Reward noise for many lanes, drawn ahead in blocks."""

import numpy as np

from bandit_gym.numerics.streams import NOISE, LaneStreams
from bandit_gym.typing import FloatArray, IntArray

_MOST_ROWS = 512
_FEWEST_ROWS = 4
_MOST_UNIFORMS = 2**15
"""256 KiB, unless the fewest rows are more: larger blocks are no faster, and lanes that restart one
by one throw more of them away."""


class LaneNoise:
    """Hands out one uniform per lane and step, each lane's from its own stream, in its order.

    A block has a row per step and a column per lane. All lanes share the row that comes next: a
    lane that restarts overwrites its column from there on.

    Args:
        streams: of the lanes.
        max_rows: no lane needs more rows than this before it restarts; None if nobody knows.
    """

    def __init__(self, streams: LaneStreams, max_rows: int | None) -> None:
        num_lanes = len(streams.seeds)
        rows = max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_UNIFORMS // num_lanes))
        self._streams = streams
        self._lanes = np.arange(num_lanes)
        self._steps = np.zeros(num_lanes, dtype=np.int64)  # done by a lane before the block began
        self._uniforms: FloatArray = np.empty((min(rows, max_rows or rows), num_lanes))
        self._next_row = 0

    def restart(self, lanes: IntArray) -> None:
        """Begin at the streams of new episodes in the listed lanes."""
        rows, num_lanes = self._uniforms.shape
        if len(lanes) == num_lanes:
            self._next_row = rows
        self._steps[lanes] = -self._next_row
        rest = rows - self._next_row
        if rest:
            drawn = self._streams.uniforms(NOISE, lanes, np.zeros_like(lanes), rest)
            self._uniforms[self._next_row :, lanes] = drawn

    def take(self) -> FloatArray:
        """Return the (N,) uniforms of the next step."""
        if self._next_row == len(self._uniforms):
            self._refill()
        row: FloatArray = self._uniforms[self._next_row]
        self._next_row += 1
        return row

    def _refill(self) -> None:
        rows = len(self._uniforms)
        self._steps, self._next_row = self._steps + rows, 0
        self._uniforms = self._streams.uniforms(NOISE, self._lanes, self._steps, rows)
