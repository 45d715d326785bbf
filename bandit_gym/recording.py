"""What is kept of an episode: sums over all its steps so far, at some of its steps.

Memory is O(N S) for N lanes and S recorded steps, whatever the horizon T.
"""

from __future__ import annotations

import numpy as np

from bandit_gym.rollout import Step
from bandit_gym.typing import BoolArray, FloatArray, IntArray

NUM_LOG_STEPS = 200


def recorded_steps(horizon: int, recording: str) -> IntArray:
    """Return the sorted steps t in 1 .. T at which sums are kept; T is always one of them.

    Args:
        horizon: T.
        recording: "every", or "log" for at most `NUM_LOG_STEPS` of them, evenly spaced in log t.
    """
    if recording == "every" or horizon <= NUM_LOG_STEPS:
        return np.arange(1, horizon + 1)
    spaced = np.geomspace(1, horizon, NUM_LOG_STEPS)
    return np.unique(np.rint(spaced).astype(np.int64))


class Recorder:
    """Adds up the steps of N lanes and keeps the sums at the recorded steps.

    Sums of a lane stay as they are once its episode has ended.

    Args:
        steps: (S,) recorded steps, sorted.
        num_lanes: N.
    """

    def __init__(self, steps: IntArray, num_lanes: int) -> None:
        self._steps = steps
        self._rows: dict[str, np.ndarray] = {}  # (S, N), so that a step writes to one place
        self._lanes = np.arange(num_lanes)
        self._sums: dict[str, np.ndarray] = {}
        self._lengths = np.zeros(num_lanes, dtype=np.int64)
        self._counts: IntArray | None = None
        self._elapsed = 0
        self._num_kept = 0

    def add(self, step: Step) -> None:
        """Take in one step of every lane."""
        self._elapsed += 1
        self._lengths += step.is_alive
        # NumPy adds everywhere in less than half the time that it takes where a mask is True.
        lanes = True if step.is_alive.all() else step.is_alive
        self._sum("reward", step.rewards, lanes)
        for name, values in step.diagnostics.items():
            self._sum(name, values, lanes)
        if step.pseudo_regrets is not None:
            self._sum("pseudo_regret", step.pseudo_regrets, lanes)
            self._sum("optimal_pulls", step.pseudo_regrets == 0, lanes)
        if step.means is not None:
            self._count_pulls(step, step.means.shape)
        if self._elapsed == self._steps[self._num_kept]:
            self._keep(step)

    @property
    def num_decisions(self) -> int:
        """Number of actions taken in episodes that had not ended."""
        return int(self._lengths.sum())

    def finish(self) -> dict[str, np.ndarray]:
        """Return name -> (N, S) value after each recorded step, as `tables.DESCRIPTIONS` tells.

        Where all episodes ended before the horizon the last sums are repeated.
        """
        for name, rows in self._rows.items():
            last = rows[self._num_kept - 1]
            rows[self._num_kept :] = -1 if name.startswith("action") else last
        return {name: rows.T for name, rows in self._rows.items()}

    def _sum(self, name: str, values: np.ndarray, lanes: BoolArray | bool) -> None:
        if name not in self._sums:
            self._sums[name] = np.zeros(len(self._lanes))
        np.add(self._sums[name], values, out=self._sums[name], where=lanes)

    def _count_pulls(self, step: Step, shape: tuple[int, ...]) -> None:
        if self._counts is None:
            self._counts = np.zeros(shape, dtype=np.int64)
        self._counts[self._lanes, step.actions] += step.is_alive

    def _keep(self, step: Step) -> None:
        for name, values in self._sums.items():
            self._put(name, values)
        self._put("action", np.where(step.is_alive, step.actions, -1))
        if step.means is not None and self._counts is not None:
            self._keep_standing(step, step.means, self._counts)
        self._num_kept += 1

    def _keep_standing(self, step: Step, means: FloatArray, counts: IntArray) -> None:
        """Keep what needs the true means: regret of the rewards, rank of the arm, best guess."""
        best = means.max(axis=1)
        gaps = best[:, None] - means
        is_favourite = counts == counts.max(axis=1, keepdims=True)
        share = is_favourite / is_favourite.sum(axis=1, keepdims=True)
        rank = (gaps < gaps[self._lanes, step.actions][:, None]).sum(axis=1)
        self._put("uniform_regret", gaps.mean(axis=1) * self._lengths)
        self._put("realised_regret", best * self._lengths - self._sums["reward"])
        self._put("simple_regret", (gaps * share).sum(axis=1))
        self._put("best_arm_found", ((gaps == 0) * share).sum(axis=1))
        self._put("action_rank", np.where(step.is_alive, rank, -1))

    def _put(self, name: str, values: np.ndarray) -> None:
        if name not in self._rows:
            self._rows[name] = np.zeros((len(self._steps), len(self._lanes)), dtype=values.dtype)
        self._rows[name][self._num_kept] = values
