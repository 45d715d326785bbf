"""The Bayes-optimal value by backward recursion, and the policy, kept on disk for the next time.

    V_t(n, s) = max_i m_i (1 + V_{t+1}(n + e_i, s + e_i)) + (1 - m_i) V_{t+1}(n + e_i, s)

with m_i = m(n_i, s_i) the predictive mean of arm i, and V_T = 0. Two stages of V are kept.

Arms whose pulls are worth the same are equally good, and an agent takes the lowest of them.
Rounding must not choose in its place, so values count as the same that rounding could have made
different. One stage adds at most 4 (h + 1) units of 1.1e-16 to the error of a value of h more
pulls, hence `rounding_margin`: 4e-10 at h = 1,000. All that it costs is below T times as much.

States. Pulls n and successes s of each arm are all there is to know. After t pulls the count
vectors n with sum t are *blocks*; a block holds the states 0 <= s_i <= n_i as an array of n_1 + 1
by ... by n_K + 1, the last arm's successes along its rows. Arms of one prior may be exchanged: then
only nondecreasing n are kept. A pull of arm i moves it behind the arms of as many pulls, so that
the axes of its successor's block are in another order; strides say which.

Loops. Arms are processed one after the other along a row. Places are flat and unsigned, which
spares the loops a test of each.

Policy. Along a row, as the successes of the last arm grow, the best arms seldom change: often once.
So the best arms of every state are kept as rows of *runs*, which begin where they change, some 8
bytes a row: 0.34 GB for two like arms and 1,000 pulls. A policy is a function of predictive means
and horizon, and joblib keeps it by these. A file that cannot be read is made again. Files are in
the folder that the environment variable BANDIT_GYM_CACHE names, else in `bandit-gym` in the user's
cache. Like Numba's they are pickles, of this user's own.

Notation: K arms, N states asked for, T horizon, S states of a stage, B blocks, R runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from math import comb, factorial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from agents.oracle.predictive import check_solvable, predictive_means
from bandit_gym.checks import message
from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray
from bandit_gym.numerics.compiled import inner, kernel
from bandit_gym.problem import BanditProblem

POLICY_VERSION = 3
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
        runs: what is best in every row, stage by stage.
    """

    def __init__(self, horizon: int, num_arms: int, is_symmetric: bool, runs: Runs) -> None:
        self.horizon, self.num_arms, self.is_symmetric = horizon, num_arms, is_symmetric
        self.runs = runs
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
        sizes = np.concatenate([np.prod(stage.counts[:, :-1] + 1, axis=1) for stage in stages])
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
    stages = solve_recursion(means, horizon, num_arms, with_choices=True)
    parts = [find_runs(choices, stage) for stage, _, choices in stages]
    runs = Runs(*map(np.concatenate, zip(*parts[::-1], strict=True)))
    return Policy(horizon, num_arms, len(means) == 1, runs)


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


def solvable_means(problem: BanditProblem, horizon: int) -> FloatArray:
    """Return the predictive means, if the recursion has room for the problem."""
    check_solvable(problem, horizon)
    check_memory(horizon, problem.num_arms, is_symmetric=True)  # before long tables are made
    means = predictive_means(problem, horizon)
    check_memory(horizon, problem.num_arms, len(means) == 1)
    return means


def optimal_actions(
    problem: BanditProblem, counts: IntArray, sums: FloatArray, horizon: int
) -> BoolArray | None:
    """Return (N, K) True for the arms that the best policy for T pulls may pull, all ties marked.

    Args:
        problem: likelihood and prior.
        counts: (N, K) pulls of each arm, fewer than T in a state.
        sums: (N, K) total rewards.
        horizon: T.

    Returns:
        None where the recursion does not reach: `agents.bayes_optimal.optimal_value` says where.
    """
    try:
        means = solvable_means(problem, horizon)
    except ValueError:
        return None
    return find_policy(means, horizon, problem.num_arms).best_arms(counts, sums)


MAX_RECURSION_ARMS = 5
BYTES_PER_STATE = 8 + 8 + 1 + 9
MAX_RECURSION_BYTES = 7e9
"""Memory that two stages of values, one of choices and the stored policy may take."""

UNIT_ROUNDOFF = 2.0**-53


class Stage(NamedTuple):
    """Blocks in lexicographic order of their counts.

    Attributes:
        counts: (B, K) pulls of each arm.
        offsets: (B + 1,) where each block begins among the states, and their number.
    """

    counts: np.ndarray
    offsets: np.ndarray


class Successors(NamedTuple):
    """Where the states of each block lead when an arm is pulled and fails.

    State s leads to `origins[b, i] + s . strides[b, i]`; a success is `strides[b, i, i]` further.

    Attributes:
        origins: (B, K) for arm i of block b.
        strides: (B, K, K) for arm i of block b, along each of the block's own axes.
    """

    origins: np.ndarray
    strides: np.ndarray


def rounding_margin(pulls_left: int) -> float:
    """Return the difference that rounding can make between two values of so many pulls."""
    return 4 * UNIT_ROUNDOFF * pulls_left * (pulls_left + 3)


def solve_recursion(
    means: np.ndarray, horizon: int, num_arms: int, *, with_choices: bool
) -> Iterator[tuple[Stage, np.ndarray, np.ndarray]]:
    """Yield the stages from the last to the first; each is lost when the next is asked for.

    With each come the (S,) expected rewards from there on, and (S,) uint8 choices, bit i set where
    arm i is as good as any; none if they are not asked for.

    Args:
        means: (K, T, T) predictive means m(n, s) of each arm, or (1, T, T) of arms that are alike.
        horizon: T >= 1.
        num_arms: K.
        with_choices: whether to say which arms are best.
    """
    means = np.ascontiguousarray(means)
    is_symmetric = len(means) == 1
    later = make_stage(horizon, num_arms, is_symmetric)
    later_values, buffer = np.zeros(later.offsets[-1]), np.empty(0)
    for num_pulls in reversed(range(horizon)):
        stage = make_stage(num_pulls, num_arms, is_symmetric)
        successors = make_successors(stage, later, is_symmetric)
        num_states = int(stage.offsets[-1])
        if len(buffer) < num_states:
            buffer = np.empty(num_states)
        values, choices = buffer[:num_states], np.zeros(num_states * with_choices, dtype=np.uint8)
        margin = rounding_margin(horizon - num_pulls)
        fill_stage(stage, values, choices, successors, means, later_values, margin)
        yield stage, values, choices
        later, later_values, buffer = stage, values, later_values


def make_stage(num_pulls: int, num_arms: int, is_symmetric: bool) -> Stage:
    """Return the stage after `num_pulls` pulls."""
    counts, left = np.zeros((1, 0), dtype=np.int64), np.array([num_pulls])
    for arm in range(num_arms - 1):
        low = counts[:, -1] if is_symmetric and arm else np.zeros_like(left)
        high = left // (num_arms - arm) if is_symmetric else left
        sizes = high - low + 1
        parent = np.repeat(np.arange(len(left)), sizes)
        chosen = np.arange(len(parent)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + low[parent]
        counts, left = np.column_stack([counts[parent], chosen]), left[parent] - chosen
    counts = np.column_stack([counts, left])
    return Stage(counts, np.append(0, np.cumsum(np.prod(counts + 1, axis=1))))


def make_successors(stage: Stage, later: Stage, is_symmetric: bool) -> Successors:
    """Return where the states of a stage lie in the stage after one more pull."""
    counts, num_arms = stage.counts, stage.counts.shape[1]
    axes, keys = np.arange(num_arms), block_keys(later.counts)
    origins = np.empty_like(counts)
    strides = np.empty((*counts.shape, num_arms), dtype=np.int64)
    for arm in axes:
        # The place that the arm moves to: behind the last arm of as many pulls.
        position = np.full(len(counts), arm)
        if is_symmetric:
            position = (counts <= counts[:, arm : arm + 1]).sum(axis=1) - 1
        moved = np.where((axes > arm) & (axes <= position[:, None]), axes - 1, axes)
        moved[:, arm] = position
        reached = np.empty_like(counts)
        np.put_along_axis(reached, moved, counts + (axes == arm), axis=1)
        steps = np.cumprod(np.column_stack([reached[:, :0:-1] + 1]), axis=1)[:, ::-1]
        steps = np.column_stack([steps, np.ones(len(counts), dtype=np.int64)])
        origins[:, arm] = later.offsets[np.searchsorted(keys, block_keys(reached))]
        strides[:, arm] = np.take_along_axis(steps, moved, axis=1)
    return Successors(origins, strides)


def block_keys(counts: np.ndarray) -> np.ndarray:
    """Return (...) integers that order (..., K) counts by their sum, then as words."""
    keys = counts.sum(axis=-1)
    for arm in range(counts.shape[-1] - 1):
        keys = (keys << 12) | counts[..., arm]
    return np.asarray(keys)


def check_memory(horizon: int, num_arms: int, is_symmetric: bool) -> None:
    """Refuse what the recursion has no room for.

    It keeps two stages of values, one of choices and the policy's rows, of which there are about as
    many in all stages as states in the last. Where that is far out of reach, what symmetry saves is
    taken to be K!, which it comes to in the limit.

    Raises:
        ValueError: if it would take more than `MAX_RECURSION_BYTES`, and says how much, or if K >
            5.
    """
    remedy = "optimal_bracket bounds it from both sides"
    if num_arms > MAX_RECURSION_ARMS:
        condition = f"have at most {MAX_RECURSION_ARMS} arms for the recursion"
        raise ValueError(message("problem", condition, num_arms, remedy))
    needed = BYTES_PER_STATE * comb(horizon + 2 * num_arms - 2, 2 * num_arms - 1)
    if is_symmetric:
        needed //= factorial(num_arms)
        if needed < MAX_RECURSION_BYTES:
            needed = BYTES_PER_STATE * int(make_stage(horizon - 1, num_arms, True).offsets[-1])
    if needed > MAX_RECURSION_BYTES:
        condition = f"need at most {MAX_RECURSION_BYTES / 1e9:g} GB with {num_arms} arms, not "
        condition += f"{needed / 1e9:.3g} GB"
        raise ValueError(message("horizon", condition, horizon, remedy))


@inner
def _set_action_values(action_values, table, after, begins, steps):  # type: ignore[no-untyped-def]
    """Set (L,) what an arm is worth along a row of states.

    Args:
        action_values: is set.
        table: flat, of the means.
        after: flat values of the stage after.
        begins: where the row begins in the table, and in the values after a failure and a success.
        steps: from state to state in the table and in the values.
    """
    (mean_at, failure_at, success_at), (mean_step, step) = begins, steps
    for j in range(action_values.size):
        mean = table[np.uintp(mean_at + j * mean_step)]
        at_fail = after[np.uintp(failure_at + j * step)]
        action_values[j] = at_fail + mean * (
            1.0 + (after[np.uintp(success_at + j * step)] - at_fail)
        )


@inner
def _set_choices(action_values, values, choices, tolerance):  # type: ignore[no-untyped-def]
    """Set the (L,) values of a row, and its (L,) choices: the arms that are worth as much."""
    for j in range(values.size):
        values[j] = action_values[0, j]
    for arm in range(1, len(action_values)):
        for j in range(values.size):
            values[j] = action_values[arm, j] if action_values[arm, j] > values[j] else values[j]
    for arm in range(len(action_values)):
        for j in range(choices.size):
            choices[j] |= np.uint8(action_values[arm, j] >= values[j] - tolerance) << np.uint8(arm)


@kernel
def fill_stage(stage, values, choices, successors, means, later, tolerance):  # type: ignore[no-untyped-def]
    """Fill a stage with values and, where there is room, choices, which are 0 before."""
    table = means.reshape(means.size)
    last, horizon = stage.counts.shape[1] - 1, means.shape[1]
    action_values, s = np.empty((last + 1, horizon)), np.zeros(last, dtype=np.int64)
    for block in range(len(stage.counts)):
        counts, first, end = stage.counts[block], stage.offsets[block], stage.offsets[block + 1]
        length = counts[last] + 1
        for row in range((end - first) // length):
            rest = row  # its digits, of which arm i has n_i + 1, are the other arms' successes
            for axis in range(last - 1, -1, -1):
                s[axis], rest = rest % (counts[axis] + 1), rest // (counts[axis] + 1)
            for arm in range(last + 1):
                strides, failure_at = successors.strides[block, arm], successors.origins[block, arm]
                for axis in range(last):
                    failure_at += s[axis] * strides[axis]
                mean_at = ((arm % len(means)) * horizon + counts[arm]) * horizon
                mean_at += s[arm] if arm < last else 0
                begins = mean_at, failure_at, failure_at + strides[arm]
                steps = int(arm == last), strides[last]
                _set_action_values(action_values[arm, :length], table, later, begins, steps)
            states = slice(first + row * length, first + (row + 1) * length)
            _set_choices(action_values, values[states], choices[states], tolerance)
