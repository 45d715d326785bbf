"""What is kept of an episode: sums over all its steps so far, at some of its steps.

Memory is O(N S) for N lanes and S recorded steps, whatever the horizon T.
"""

from __future__ import annotations

import numpy as np

from bandit_gym.experiments.columns import COLUMNS, Standing, World
from bandit_gym.rollout import Step
from bandit_gym.typing import FloatArray, IntArray

CHUNK = 32
_ADDED = {name: column.adds for name, column in COLUMNS.items() if column.adds}
_SHOWN = {name: column.shows for name, column in COLUMNS.items() if column.shows}
_FOLLOWING = {name: column.follows for name, column in COLUMNS.items() if column.follows}


class Recorder:
    """Adds up the steps of N lanes and keeps the sums at the recorded steps.

    Sums of a lane stay as they are once its episode has ended. A step is only put aside at first:
    adding up to `CHUNK` of them in one go is some four times as fast.

    Args:
        steps: (S,) recorded steps, sorted.
        num_lanes: N.
    """

    def __init__(self, steps: IntArray, num_lanes: int) -> None:
        self._steps = steps.tolist()
        self._rows: dict[str, np.ndarray] = {}  # (S, N), so that a step writes to one place
        self._lanes = np.arange(num_lanes)
        self._sums: dict[str, FloatArray] = {}
        self._lengths = np.zeros(num_lanes, dtype=np.int64)
        self._world: World | None = None  # and the (N, K) pulls, once the means are told
        self._counts = np.zeros((num_lanes, 0), dtype=np.int64)
        self._last: Step | None = None
        self._elapsed = 0
        self._num_kept = 0
        self._num_pending = 0
        self._pending: dict[str, FloatArray] = {}  # (CHUNK, N), zeros beyond the pending steps
        self._is_alive = np.ones((CHUNK, num_lanes), dtype=bool)
        self._actions = np.zeros((CHUNK, num_lanes), dtype=np.int64)

    def add(self, step: Step) -> None:
        """Take in one step of every lane."""
        self._elapsed += 1
        self._last = step
        self._is_alive[self._num_pending] = step.is_alive
        self._actions[self._num_pending] = step.actions
        for name, values in step.diagnostics.items():
            self._put_aside(name, values)
        for name, adds in _ADDED.items():
            addend = adds(step)
            if addend is not None:
                self._put_aside(name, addend)
        if step.means is not None and self._world is None:
            self._world = World(step.means)
            self._counts = np.zeros(step.means.shape, dtype=np.int64)
        self._num_pending += 1
        is_recorded = self._elapsed == self._steps[self._num_kept]
        if is_recorded or self._num_pending == CHUNK:
            self._add_up()
        if is_recorded:
            self._keep(step)

    @property
    def num_decisions(self) -> int:
        """Number of actions taken in episodes that had not ended."""
        return int(self._lengths.sum() + self._is_alive[: self._num_pending].sum())

    def finish(self) -> dict[str, np.ndarray]:
        """Return name -> (N, S) value after each recorded step, as `COLUMNS` tells.

        Where all episodes ended before the horizon the last sums are repeated.
        """
        if self._num_kept < len(self._steps) and self._last is not None:
            self._add_up()
            self._keep(self._last._replace(is_alive=np.zeros(len(self._lanes), dtype=bool)))
        for rows in self._rows.values():
            rows[self._num_kept :] = rows[self._num_kept - 1]
        return {name: rows.T for name, rows in self._rows.items()}

    def _put_aside(self, name: str, values: np.ndarray) -> None:
        if name not in self._pending:
            self._pending[name] = np.zeros((CHUNK, len(self._lanes)))
            self._sums[name] = np.zeros(len(self._lanes))
        self._pending[name][self._num_pending] = values

    def _add_up(self) -> None:
        """Add the pending steps to the sums."""
        count, self._num_pending = self._num_pending, 0
        is_alive = self._is_alive[:count]
        everywhere = bool(is_alive.all())
        self._lengths += is_alive.sum(axis=0)
        for name, pending in self._pending.items():
            values = pending[:count] if everywhere else np.where(is_alive, pending[:count], 0.0)
            self._sums[name] += values[0] if count == 1 else values.sum(axis=0)
            pending[:count] = 0.0
        if self._world is not None:
            lanes = np.broadcast_to(self._lanes, is_alive.shape)[is_alive]
            np.add.at(self._counts, (lanes, self._actions[:count][is_alive]), 1)

    def _keep(self, step: Step) -> None:
        for name, values in self._sums.items():
            self._put(name, values)
        for name, shows in _SHOWN.items():
            self._put(name, shows(step))
        if self._world is not None:
            now = Standing(step, self._world, self._lengths, self._sums, self._counts)
            for name, follows in _FOLLOWING.items():
                self._put(name, follows(now))
        self._num_kept += 1

    def _put(self, name: str, values: np.ndarray) -> None:
        if name not in self._rows:
            self._rows[name] = np.zeros((len(self._steps), len(self._lanes)), dtype=values.dtype)
        self._rows[name][self._num_kept] = values
