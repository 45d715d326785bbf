"""What figures show of a run over time, whoever draws them."""

from __future__ import annotations

import numpy as np

from bandit_gym.results.results import RunResults
from bandit_gym.typing import FloatArray, IntArray

NUM_TIME_BINS = 40
RANK_NAMES = ("best", "second", "third", "fourth", "others")


def rates(steps: IntArray, sums: FloatArray) -> FloatArray:
    """Turn (R, S) sums over all steps into means per step between recorded ones."""
    padded = np.pad(sums, ((0, 0), (1, 0)))
    return np.diff(padded, axis=1) / np.diff(steps, prepend=0)


def rank_shares(found: RunResults) -> tuple[FloatArray, FloatArray]:
    """Return (B,) times and (5, B) shares of pulls by rank, averaged over spans of steps."""
    ranks = found.curves("action_rank")
    spans = np.array_split(np.arange(len(found.steps)), min(NUM_TIME_BINS, len(found.steps)))
    times = np.array([np.exp(np.log(found.steps[span]).mean()) for span in spans])
    others = len(RANK_NAMES) - 1
    shares = [
        [np.mean(np.minimum(ranks[:, span], others) == rank) for span in spans]
        for rank in range(others + 1)
    ]
    return times, np.array(shares)
