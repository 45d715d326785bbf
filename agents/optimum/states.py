"""The states of a stage, and where each of them and its successors lie in one flat array.

With Bernoulli arms that are independent a priori, pulls n and successes s of each arm are all there
is to know. After t pulls the count vectors n with sum t are *blocks*; a block holds the states
0 <= s_i <= n_i as an array of n_1 + 1 by ... by n_K + 1, the last arm's successes along its rows.

Arms of one prior may be exchanged: then only nondecreasing n are kept. A pull of arm i moves it
behind the arms of as many pulls, so that the axes of its successor's block are in another order;
strides say which.

Letters: K arms, T horizon, B blocks.
"""

from __future__ import annotations

from math import comb, factorial
from typing import NamedTuple

import numpy as np

from bandit_gym.checks import message

MOST_ARMS = 5
BYTES_PER_STATE = 8 + 8 + 1 + 2
MOST_BYTES = 7e9
"""Memory that two stages of values, one of choices and the stored policy may take."""


class Stage(NamedTuple):
    """Blocks in lexicographic order of their counts.

    Attributes:
        counts: (B, K) pulls of each arm.
        offsets: (B + 1,) where each block begins among the states, and their number.
    """

    counts: np.ndarray
    offsets: np.ndarray

    @property
    def num_states(self) -> int:
        """States in all."""
        return int(self.offsets[-1])

    @property
    def row_offsets(self) -> np.ndarray:
        """(B + 1,) where each block begins among the rows, and their number."""
        return _offsets(self.counts[:, :-1])


class Successors(NamedTuple):
    """Where the states of each block lead when an arm is pulled and fails.

    State s leads to `origins[b, i] + s . strides[b, i]`; a success is `strides[b, i, i]` further.

    Attributes:
        origins: (B, K) for arm i of block b.
        strides: (B, K, K) for arm i of block b, along each of the block's own axes.
    """

    origins: np.ndarray
    strides: np.ndarray


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
    return Stage(counts, _offsets(counts))


def make_successors(stage: Stage, later: Stage, is_symmetric: bool) -> Successors:
    """Return where the states of a stage lie in the stage after one more pull."""
    counts, num_arms = stage.counts, stage.counts.shape[1]
    axes, keys = np.arange(num_arms), block_keys(later.counts)
    origins = np.empty_like(counts)
    strides = np.empty((*counts.shape, num_arms), dtype=np.int64)
    for arm in axes:
        # The place that the arm moves to: behind the last arm of as many pulls.
        place = np.full(len(counts), arm)
        if is_symmetric:
            place = (counts <= counts[:, arm : arm + 1]).sum(axis=1) - 1
        moved = np.where((axes > arm) & (axes <= place[:, None]), axes - 1, axes)
        moved[:, arm] = place
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

    Raises:
        ValueError: if it would take more than `MOST_BYTES`, and says how much, or if K > 5.
    """
    remedy = "optimal_bracket bounds it from both sides"
    if num_arms > MOST_ARMS:
        condition = f"have at most {MOST_ARMS} arms for the recursion"
        raise ValueError(message("problem", condition, num_arms, remedy))
    needed = bytes_needed(horizon, num_arms, is_symmetric)
    if needed > MOST_BYTES:
        condition = f"need at most {MOST_BYTES / 1e9:g} GB with {num_arms} arms, not "
        condition += f"{needed / 1e9:.3g} GB"
        raise ValueError(message("horizon", condition, horizon, remedy))


def bytes_needed(horizon: int, num_arms: int, is_symmetric: bool) -> float:
    """Return the bytes of two stages of values, one of choices and the policy's rows.

    There are about as many rows in all stages as states in the last. Where it is far out of reach,
    what symmetry saves is taken to be K!, which it comes to in the limit.
    """
    states = comb(horizon + 2 * num_arms - 2, 2 * num_arms - 1)
    if is_symmetric:
        states //= factorial(num_arms)
        if BYTES_PER_STATE * states < MOST_BYTES:
            states = make_stage(horizon - 1, num_arms, True).num_states
    return float(BYTES_PER_STATE * states)


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.prod(counts + 1, axis=1))])
