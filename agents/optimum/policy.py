"""The Bayes-optimal policy, kept exactly and compactly, and on disk for the next time.

Which arms are best in every state that can be reached is kept as rows of runs: 2 bytes a row, some
80 MB for two like arms and 1,000 pulls, 0.3 GB for different ones.

A policy is a function of predictive means and horizon, so its file is named for these, and for the
version of this code. A file appears whole or not at all; one that cannot be read, does not have the
checksums it was written with, or is another's, is made again. Files are in the folder that the
environment variable BANDIT_GYM_CACHE names, else in `bandit-gym` in the user's cache.

Rows are words, and words share their beginnings. Along a row, as the successes of the last arm
grow, the best arms seldom change: often once. A run begins where a row's choice becomes another. A
word is a chain of runs, each of which knows the one before it, and is told by the last of them.
Equal beginnings are kept once, so that all rows of a policy are made of some thousand runs, and a
row is two bytes that say with which of them it ends.

Letters: K arms, N states, T horizon, R runs.
"""

from __future__ import annotations

import os
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from agents.optimum.recursion import block_keys, make_stage, solve
from bandit_gym.files import replacing
from bandit_gym.numerics.compiled import inner, kernel

POLICY_VERSION = 1
"""Raised by hand whenever policies or the form of their files change."""

FIRST_ROOM = 1 << 13
EMPTY = -1
BEFORE_AT, START_AT = 24, 8
"""Bits of a run's key at which the run before it and its start begin; its choice comes first."""


class Policy:
    """The best arms in every state with fewer than T pulls.

    Attributes:
        horizon: T.
        num_arms: K.
        is_symmetric: whether arms are alike, so that only states in order of their pulls are kept.
        value: expected total reward.
        words: the last run of every row, stage by stage.
        runs: what words are made of.
    """

    def __init__(
        self, shape: tuple[int, int, bool], value: float, words: np.ndarray, runs: Runs
    ) -> None:
        self.horizon, self.num_arms, self.is_symmetric = shape
        self.value, self.words, self.runs = value, words, runs

    def best_arms(self, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return the (N,) lowest of the best arms.

        Args:
            counts: (N, K) pulls, fewer than T in a state.
            sums: (N, K) successes.
        """
        order = np.broadcast_to(np.arange(self.num_arms), counts.shape)
        if self.is_symmetric:
            order = np.argsort(counts, axis=1, kind="stable")
        n = np.take_along_axis(counts, order, axis=1)
        s = np.take_along_axis(sums, order, axis=1).astype(np.int64)
        choices = self.runs.choice_at(self.words[self._rows(n, s)], s[:, -1])
        is_best = (choices[:, None] >> np.arange(self.num_arms)) & 1
        return np.where(is_best, order, self.num_arms).min(axis=1)

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
    """Return the policy from its file, or solve for it and write the file.

    Args:
        means: as `solve` takes them.
        horizon: T.
        num_arms: K.
    """
    shape = horizon, num_arms, len(means) == 1
    path = _folder() / f"policy-{_key(means, horizon, num_arms)}.npz"
    policy = _read(path, shape)
    if policy is None:
        policy = solve_policy(means, horizon, num_arms)
        _write(path, policy)
    return policy


def solve_policy(means: np.ndarray, horizon: int, num_arms: int) -> Policy:
    """Return the policy by backward recursion; see `solve`."""
    dictionary, words, value = Dictionary(), [], 0.0
    for stage, values, choices in solve(means, horizon, num_arms, with_choices=True):
        words.append(dictionary.spell(choices, stage.offsets, stage.counts[:, -1] + 1))
        value = float(values[0])
    shape = horizon, num_arms, len(means) == 1
    return Policy(shape, value, np.concatenate(words[::-1]), dictionary.runs)


def _folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("BANDIT_GYM_CACHE") or Path(home) / "bandit-gym")


def _key(means: np.ndarray, horizon: int, num_arms: int) -> str:
    reachable = np.tril(np.ones(means.shape[1:], dtype=bool))
    digest = sha256(repr((POLICY_VERSION, horizon, num_arms, means.shape)).encode())
    digest.update(np.ascontiguousarray(means[:, reachable]).tobytes())
    return digest.hexdigest()[:32]


def _read(path: Path, shape: tuple[int, int, bool]) -> Policy | None:
    """Return what a file holds; None if it is not there, damaged, or anything else."""
    try:
        with open(path, "rb") as data, np.load(data) as file:  # which compares checksums
            found = {name: file[name] for name in file.files}
        runs = Runs(found["before"], found["starts"], found["choices"])
        return Policy(shape, float(found["value"]), found["words"], runs)
    except Exception:  # whatever may be wrong with a file, solving again is right
        return None


def _write(path: Path, policy: Policy) -> None:
    """Write a policy; where there is no room for it, this process goes on with what it has."""
    try:
        with replacing(path) as file:
            np.savez(file, value=policy.value, words=policy.words, **policy.runs._asdict())
    except OSError:
        return


class Runs(NamedTuple):
    """All runs, in the order in which they were first met.

    Attributes:
        before: (R,) the run before it in its row, -1 if it begins the row.
        starts: (R,) successes of the last arm at which it begins.
        choices: (R,) uint8, bit i set where arm i is as good as any.
    """

    before: np.ndarray
    starts: np.ndarray
    choices: np.ndarray

    def choice_at(self, last: np.ndarray, successes: np.ndarray) -> np.ndarray:
        """Return the choices in rows that end with runs `last`, at these successes."""
        while (is_later := self.starts[last] > successes).any():
            last = np.where(is_later, self.before[last], last)
        return np.asarray(self.choices[last])


class Table(NamedTuple):
    """A hash table of runs, at most half full.

    Attributes:
        keys: (C,) what each run is, in the order in which they were met.
        slots: (2 C,) numbers of runs, where the hash of their keys says; a power of two of them.
        num_runs: (1,) how many there are.
    """

    keys: np.ndarray
    slots: np.ndarray
    num_runs: np.ndarray


class Dictionary:
    """Runs as they are met, found again by a hash of what they are."""

    def __init__(self) -> None:
        self._num_runs = np.zeros(1, dtype=np.int64)
        self._keys = np.zeros(0, dtype=np.int64)
        self._make_room(FIRST_ROOM)

    @property
    def runs(self) -> Runs:
        """All that were met."""
        keys = self._keys[: self._num_runs[0]]
        before, starts = (keys >> BEFORE_AT) - 1, (keys >> START_AT) & 0xFFFF
        return Runs(before.astype(np.int32), starts.astype(np.int32), keys.astype(np.uint8))

    def spell(self, choices: np.ndarray, offsets: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the last run of every row, in the smallest type that holds it.

        Args:
            choices: (S,) uint8 of all states of a stage.
            offsets: (B + 1,) where each block begins.
            lengths: (B,) of the rows of each block.
        """
        words = np.empty((np.diff(offsets) // lengths).sum(), dtype=np.int32)
        at = np.zeros(3, dtype=np.int64)  # the block, state and row that comes next
        while not _spell((choices, offsets, lengths), at, self._table, words):
            self._make_room(2 * len(self._keys))
        return words.astype(np.min_scalar_type(int(self._num_runs[0])))

    def _make_room(self, most: int) -> None:
        self._keys = np.resize(self._keys, most) if len(self._keys) else np.zeros(most, np.int64)
        self._slots = np.full(2 * most, EMPTY, dtype=np.int32)
        _fill_slots(self._table)

    @property
    def _table(self) -> Table:
        return Table(self._keys, self._slots, self._num_runs)


@inner
def _find_slot(key, table):  # type: ignore[no-untyped-def]
    """Return the slot where a key is, or the empty one where it belongs."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    mask = len(table.slots) - 1
    slot = np.int64(mixed >> np.uint64(32)) & mask
    while table.slots[slot] != EMPTY and table.keys[table.slots[slot]] != key:
        slot = (slot + 1) & mask
    return slot


@inner
def _find_run(before, start, choice, table):  # type: ignore[no-untyped-def]
    """Return the number of a run, which is a new one if it was not met before."""
    key = ((before + 1) << BEFORE_AT) | (start << START_AT) | np.int64(choice)
    slot = _find_slot(key, table)
    if table.slots[slot] == EMPTY:
        table.keys[table.num_runs[0]] = key
        table.slots[slot] = table.num_runs[0]
        table.num_runs[0] += 1
    return np.int64(table.slots[slot])


@inner
def _spell_row(row, table):  # type: ignore[no-untyped-def]
    """Return a row's last run; the only change of a row is found by bisection."""
    num_changes = 0
    for s in range(1, len(row)):
        num_changes += row[s] != row[s - 1]
    run = _find_run(-1, 0, row[0], table)
    if num_changes == 1:
        low, high = 0, len(row) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if row[middle] == row[0]:
                low = middle
            else:
                high = middle
        run = _find_run(run, high, row[high], table)
    elif num_changes:
        for s in range(1, len(row)):
            if row[s] != row[s - 1]:
                run = _find_run(run, s, row[s], table)
    return run


@kernel
def _spell(stage, at, table, words):  # type: ignore[no-untyped-def]
    """Spell rows from where `at` says; return False when there may be too little room for one."""
    choices, offsets, lengths = stage
    for block in range(at[0], len(lengths)):
        at[0], length = block, lengths[block]
        while at[1] < offsets[block + 1]:
            if table.num_runs[0] + length > len(table.keys):
                return False
            words[at[2]] = _spell_row(choices[at[1] : at[1] + length], table)
            at[1] += length
            at[2] += 1
    return True


@kernel
def _fill_slots(table):  # type: ignore[no-untyped-def]
    for run in range(table.num_runs[0]):
        table.slots[_find_slot(table.keys[run], table)] = run
