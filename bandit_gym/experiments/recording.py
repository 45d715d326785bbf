"""What is kept of an episode: sums over all its steps so far, at some of its steps.

Memory is O(N S) for N lanes and S recorded steps, whatever the horizon T.
"""

from __future__ import annotations

import numpy as np

from bandit_gym.checks import message
from bandit_gym.experiments.blocks import COLUMNS, DIAGNOSTICS, Chunk, Standing, World
from bandit_gym.rollout import Step
from bandit_gym.typing import IntArray

CHUNK = 32
_ADDED = {name: column.adds for name, column in COLUMNS.items() if column.adds}
_FOLLOWING = {name: column.follows for name, column in COLUMNS.items() if column.follows}
_SHOWN = {name: column.shows for name, column in COLUMNS.items() if column.shows}
_OF_MEANS = {name: column.of_means for name, column in COLUMNS.items() if column.of_means}


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
        self._kept: dict[str, np.ndarray] = {}
        self._before = np.full(num_lanes, -1)
        self._lengths = np.zeros(num_lanes, dtype=np.int64)
        self._world: World | None = None
        self._pending: list[Step] = []
        self._last: Step | None = None
        self._elapsed = 0
        self._num_kept = 0

    def add(self, step: Step) -> None:
        """Take in one step of every lane."""
        if step.means is not None and self._world is None:
            self._world = World(step.means)
        self._elapsed += 1
        self._last = step
        self._pending.append(step)
        is_recorded = self._elapsed == self._steps[self._num_kept]
        if is_recorded or len(self._pending) == CHUNK:
            self._add_up()
        if is_recorded:
            self._keep(step)

    @property
    def num_decisions(self) -> int:
        """Number of actions taken in episodes that had not ended."""
        return int(self._lengths.sum() + sum(step.is_alive.sum() for step in self._pending))

    def finish(self) -> dict[str, np.ndarray]:
        """Return name -> (N, S) value after each recorded step, as `COLUMNS` tells.

        Where all episodes ended before the horizon the last sums are repeated.
        """
        if self._num_kept < len(self._steps) and self._last is not None:
            if self._pending:
                self._add_up()
            self._keep(self._last._replace(is_alive=np.zeros_like(self._last.is_alive)))
        for rows in self._rows.values():
            rows[self._num_kept :] = rows[self._num_kept - 1]
        return {name: rows.T for name, rows in self._rows.items()}

    def _add_up(self) -> None:
        """Take the pending steps in."""
        steps, self._pending = self._pending, []
        is_alive = np.array([step.is_alive for step in steps])
        actions = np.array([step.actions for step in steps])
        counted = True if is_alive.all() else is_alive
        self._lengths += is_alive.sum(axis=0)
        for name, addends in _addends(steps).items():
            self._kept[name] = self._kept.get(name, 0.0) + addends.sum(axis=0, where=counted)
        numbers = np.arange(self._elapsed - len(steps), self._elapsed) + 1
        chunk = Chunk(numbers, actions, self._before, is_alive, steps)
        for name, follows in _FOLLOWING.items():
            self._kept[name] = follows(self._kept.get(name), chunk)
        self._before = actions[-1]
        if self._world is not None:
            np.add.at(self._world.counts, (np.nonzero(is_alive)[1], actions[is_alive]), 1)

    def _keep(self, step: Step) -> None:
        now = Standing(step, self._lengths, self._kept, self._world)
        shown = {name: shows(now) for name, shows in _SHOWN.items()}
        if self._world is not None:
            shown |= {name: of_means(now, self._world) for name, of_means in _OF_MEANS.items()}
        for name, values in (self._kept | shown).items():
            if values is not None:
                self._put(name, values)
        self._num_kept += 1

    def _put(self, name: str, values: np.ndarray) -> None:
        if name not in self._rows:
            self._rows[name] = np.zeros((len(self._steps), len(self._lengths)), dtype=values.dtype)
        self._rows[name][self._num_kept] = values


def _addends(steps: list[Step]) -> dict[str, np.ndarray]:
    """Return (C, N) values that C steps add, by name; nothing of what the environment hides."""
    names = [name for name in steps[0].diagnostics if name != "doubts"]  # flags add up to nothing
    addends = {name: _told(steps, name) for name in names}
    for name, adds in _ADDED.items():
        values = [adds(step) for step in steps]
        if values[0] is not None:
            addends[name] = np.array(values, dtype=np.float64)
    return addends


def _told(steps: list[Step], name: str) -> np.ndarray:
    """Return the (C, N) values of an agent's diagnostic; refuse what no column can hold."""
    if not isinstance(name, str) or (name in COLUMNS and name not in DIAGNOSTICS):
        condition = "have no names of recorded columns"
        raise ValueError(message("diagnostics()", condition, name, "choose another name"))
    shape = steps[0].is_alive.shape
    try:
        values = np.array([step.diagnostics[name] for step in steps])
    except (KeyError, ValueError):  # not in every step, or of several shapes
        values = np.array(None)
    if values.shape != (len(steps), *shape) or values.dtype.kind not in "biuf":
        condition = f"have real numbers of shape {shape} as its {name!r} at every step"
        raise ValueError(message("diagnostics()", condition, steps[0].diagnostics[name]))
    values = values.astype(np.float64)
    if name in DIAGNOSTICS:
        is_alive = np.array([step.is_alive for step in steps])
        wrong = values[((values < 0) | np.isinf(values)) & is_alive]
        if wrong.size:
            condition = f"have finite numbers of at least 0 as its {name!r}"
            raise ValueError(message("diagnostics()", condition, wrong[0]))
    return values
