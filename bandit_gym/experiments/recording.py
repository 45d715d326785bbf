"""What is kept of an episode: sums over all its steps so far, at some of its steps.

Memory is O(N S) for N lanes and S recorded steps, whatever the horizon T.
"""

from __future__ import annotations

import numpy as np

from bandit_gym.checks import message
from bandit_gym.checks.typing import IntArray
from bandit_gym.experiments.blocks import COLUMNS, DIAGNOSTICS, DOUBTED, DOUBTS, State
from bandit_gym.rollout import Step

CHUNK = 32
_ADDED = {name: column.adds for name, column in COLUMNS.items() if column.adds}
_SHOWN = {name: column for name, column in COLUMNS.items() if column.shows}


class Recorder:
    """Adds up the steps of N lanes and keeps the sums at the recorded steps.

    Sums of a lane stay as they are once its episode has ended. A step is only put aside at first:
    adding up to `CHUNK` of them in one go is some four times as fast.

    Args:
        steps: (S,) recorded steps, sorted.
    """

    def __init__(self, steps: IntArray) -> None:
        self._steps = steps.tolist()
        self._rows: dict[str, np.ndarray] = {}  # (S, N), so that a step writes to one place
        self._state: State | None = None
        self._pending: list[Step] = []
        self._elapsed = 0
        self._num_kept = 0

    def add(self, step: Step) -> None:
        """Take in one step of every lane."""
        self._state = self._state or State(step)
        self._elapsed += 1
        self._pending.append(step)
        is_recorded = self._elapsed == self._steps[self._num_kept]
        if is_recorded or len(self._pending) == CHUNK:
            self._add_up(self._state)
        if is_recorded:
            self._keep(self._state)

    @property
    def num_decisions(self) -> int:
        """Number of actions taken in episodes that had not ended."""
        taken = 0 if self._state is None else self._state.lengths.sum()
        return int(taken + sum(step.is_alive.sum() for step in self._pending))

    def finish(self) -> dict[str, np.ndarray]:
        """Return name -> (N, S) value after each recorded step, as `COLUMNS` tells.

        Where all episodes ended before the horizon the last sums are repeated.
        """
        state = self._state
        if self._num_kept < len(self._steps) and state is not None:
            if self._pending:
                self._add_up(state)
            state.step = state.step._replace(is_alive=np.zeros_like(state.step.is_alive))
            self._keep(state)
        for rows in self._rows.values():
            rows[self._num_kept :] = rows[self._num_kept - 1]
        return {name: rows.T for name, rows in self._rows.items()}

    def _add_up(self, state: State) -> None:
        """Take the pending steps in."""
        state.take_in(self._pending, _addends(self._pending))
        self._pending = []

    def _keep(self, state: State) -> None:
        shown = {
            name: column.shows(state)
            for name, column in _SHOWN.items()
            if column.shows and (state.knows_means or not column.needs_means)
        }
        for name, values in (state.sums | shown).items():
            if values is not None:
                self._put(name, values)
        self._num_kept += 1

    def _put(self, name: str, values: np.ndarray) -> None:
        if name not in self._rows:
            self._rows[name] = np.zeros((len(self._steps), len(values)), dtype=values.dtype)
        self._rows[name][self._num_kept] = values


def _addends(steps: list[Step]) -> dict[str, np.ndarray]:
    """Return (C, N) values that C steps add, by name; nothing of what the environment hides."""
    addends = {name: _told(steps, name) for name in steps[0].diagnostics}
    if DOUBTS in addends:
        addends |= _count_doubts(steps, addends.pop(DOUBTS))
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
    return values.astype(np.float64)


def _count_doubts(steps: list[Step], doubts: np.ndarray) -> dict[str, np.ndarray]:
    """Return whether each decision was flagged, and for each doubt whether that was a reason."""
    is_alive = np.array([step.is_alive for step in steps])
    numbers = np.where(is_alive, doubts, 0).astype(np.int64)
    reasons = {name: numbers & doubt != 0 for name, doubt in DOUBTED.items()}
    return {"is_unreliable": numbers != 0} | reasons
