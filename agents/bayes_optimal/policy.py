"""The Bayes-optimal policy, kept exactly and compactly, and on disk for the next time.

Which arms are best in every state that can be reached is kept as rows of runs, some 8 bytes a row:
0.34 GB for two like arms and 1,000 pulls.

A policy is a function of predictive means and horizon, and joblib keeps it by these. A file that
cannot be read is made again. Files are in the folder that the environment variable BANDIT_GYM_CACHE
names, else in `bandit-gym` in the user's cache. Like Numba's they are pickles, of this user's own.

Along a row, as the successes of the last arm grow, the best arms seldom change: often once. A run
begins where they do.

Notation: K arms, N states, T horizon, R runs.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from agents.bayes_optimal.recursion import Stage, block_keys, make_stage, solve_recursion

POLICY_VERSION = 2
"""Raised by hand whenever policies change."""


class Runs(NamedTuple):
    """The runs of all R rows, one row after the other.

    Attributes:
        sizes: (R,) uint16 number of runs of a row.
        starts: uint16 successes of the last arm at which each run begins; 0 for the first of a row.
        choices: uint8 of each run, bit i set where arm i is as good as any.
    """

    sizes: np.ndarray
    starts: np.ndarray
    choices: np.ndarray


class Policy:
    """The best arms in every state with fewer than T pulls.

    Attributes:
        horizon: T.
        num_arms: K.
        is_symmetric: whether arms are alike, so that only states in order of their pulls are kept.
        value: expected total reward.
        runs: what is best in every row, stage by stage.
    """

    def __init__(self, shape: tuple[int, int, bool], value: float, runs: Runs) -> None:
        self.horizon, self.num_arms, self.is_symmetric = shape
        self.value, self.runs = value, runs
        self._ends = np.cumsum(runs.sizes, dtype=np.uint32)

    def best_arms(self, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return (N, K) True for the best arms.

        Args:
            counts: (N, K) pulls, fewer than T in a state.
            sums: (N, K) successes.
        """
        order = np.broadcast_to(np.arange(self.num_arms), counts.shape)
        if self.is_symmetric:
            order = np.argsort(counts, axis=1, kind="stable")
        n = np.take_along_axis(counts, order, axis=1)
        s = np.take_along_axis(sums, order, axis=1).astype(np.int64)
        run = self._ends[self._rows(n, s)].astype(np.int64) - 1
        while (is_later := self.runs.starts[run] > s[:, -1]).any():
            run -= is_later
        is_best = np.empty(counts.shape, dtype=bool)
        in_order = (self.runs.choices[run, None] >> np.arange(self.num_arms)) & 1
        np.put_along_axis(is_best, order, in_order.astype(bool), axis=1)
        return is_best

    def _rows(self, n: np.ndarray, s: np.ndarray) -> np.ndarray:
        keys, offsets = self._blocks
        rows = np.zeros(len(n), dtype=np.int64)
        for arm in range(self.num_arms - 1):
            rows = rows * (n[:, arm] + 1) + s[:, arm]
        return rows + offsets[np.searchsorted(keys, block_keys(n))]

    @cached_property
    def _blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys of all blocks, in order, and where each begins among all rows."""
        stages = [make_stage(t, self.num_arms, self.is_symmetric) for t in range(self.horizon)]
        sizes = np.concatenate([np.diff(stage.row_offsets) for stage in stages])
        keys = np.concatenate([block_keys(stage.counts) for stage in stages])
        return keys, np.cumsum(sizes) - sizes


def find_policy(means: np.ndarray, horizon: int, num_arms: int) -> Policy:
    """Return the policy from its file, or solve for it and write the file; see `solve_policy`."""
    from joblib import Memory  # slow to start

    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("BANDIT_GYM_CACHE") or Path(home) / "bandit-gym")
    try:
        # Compressed data have a checksum.
        memory = Memory(folder / f"policy-{POLICY_VERSION}", compress=True, verbose=0)
    except OSError:  # no room for a folder
        return solve_policy(means, horizon, num_arms)
    policy: Policy = memory.cache(solve_policy)(means, horizon, num_arms)
    return policy


def solve_policy(means: np.ndarray, horizon: int, num_arms: int) -> Policy:
    """Return the policy by backward recursion.

    Args:
        means: as `solve_recursion` takes them.
        horizon: T.
        num_arms: K.
    """
    parts, value = [], 0.0
    for stage, values, choices in solve_recursion(means, horizon, num_arms, with_choices=True):
        parts.append(find_runs(choices, stage))
        value = float(values[0])
    shape = horizon, num_arms, len(means) == 1
    return Policy(shape, value, Runs(*map(np.concatenate, zip(*parts[::-1], strict=True))))


def find_runs(choices: np.ndarray, stage: Stage) -> Runs:
    """Return the runs of a stage's rows, whose (S,) choices are given."""
    lengths = stage.counts[:, -1] + 1
    rows = np.repeat(lengths, np.diff(stage.offsets) // lengths)
    ends = np.cumsum(rows)
    begins_run = np.empty(len(choices), dtype=bool)
    begins_run[1:] = choices[1:] != choices[:-1]
    begins_run[ends - rows] = True
    run_indices = np.flatnonzero(begins_run)
    sizes = np.diff(np.searchsorted(run_indices, ends), prepend=0)
    starts = run_indices - np.repeat(ends - rows, sizes)
    return Runs(sizes.astype(np.uint16), starts.astype(np.uint16), choices[run_indices])
