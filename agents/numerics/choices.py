"""Arms by their scores, the largest of them with ties shared, or by a law.

Letters: K arms, N lanes.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

MOST_LISTED = 64
"""Arms of one lane up to which a list of Python is searched in half the time that arrays take."""


def random_argmax(rng: Generator, scores: np.ndarray) -> np.ndarray:
    """Return the (N,) index of the largest of (N, K) scores, ties broken uniformly at random.

    Taking the first of equals would make low arms look better in every published curve.
    """
    if scores.shape[0] == 1 and scores.shape[1] <= MOST_LISTED:
        row = scores[0].tolist()
        best = max(row)
        if row.count(best) == 1:
            return np.array([row.index(best)])
    is_best = scores == scores.max(axis=1, keepdims=True)
    if np.count_nonzero(is_best) > len(scores):
        return np.argmax(np.where(is_best, rng.random(scores.shape), -1.0), axis=1)
    return is_best.argmax(axis=1)


def draw_arms(rng: Generator, law: np.ndarray) -> np.ndarray:
    """Return (N,) draws of (N, K) laws: the arms at which their sums first exceed one uniform."""
    below = law.cumsum(axis=1)
    return (below <= rng.random((len(law), 1)) * below[:, -1:]).sum(axis=1)


def share_evenly(is_chosen: np.ndarray) -> np.ndarray:
    """Return (N, K) shares of the chosen arms in each lane; none where no arm is chosen."""
    return is_chosen / np.maximum(is_chosen.sum(axis=1, keepdims=True), 1)
