"""Arms by their scores, the largest of them with ties shared, or by their probabilities.

Notation: K arms, N lanes.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from bandit_gym.checks import check_scores
from bandit_gym.numerics.variates import MAX_FLOAT

MAX_LISTED_ARMS = 64
"""Arms of one lane up to which a list of Python is searched in half the time that arrays take."""


def random_argmax(rng: Generator, scores: np.ndarray, name: str = "arms") -> np.ndarray:
    """Return the (N,) index of the largest of (N, K) scores, ties broken uniformly at random.

    Taking the first of equals would make low arms look better in every published curve.

    Args:
        rng: breaks ties.
        scores: (N, K), of which some may be infinite.
        name: whose scores they are.

    Raises:
        ValueError: if a score is NaN.
    """
    if scores.shape[0] == 1 and scores.shape[1] <= MAX_LISTED_ARMS:
        row = scores[0].tolist()
        total, best = sum(row), max(row)
        if row.count(best) == 1 and total == total:  # NaN is no maximum, wherever it stands
            return np.array([row.index(best)])
    is_best = _is_maximum(scores, name)
    if np.count_nonzero(is_best) > len(scores):
        return np.argmax(np.where(is_best, rng.random(scores.shape), -1.0), axis=1)
    return is_best.argmax(axis=1)


def hide_arms(values: np.ndarray, available: np.ndarray | None = None) -> np.ndarray:
    """Return values, arms last, of which those of arms that are not available are lowest: -inf.

    Those of available arms are raised to the least finite number, so that no tie is with others.
    None stands for all arms, whose values stay as they are.
    """
    if available is None:
        return values
    return np.where(available, np.maximum(values, -MAX_FLOAT), -np.inf)


def draw_arms(rng: Generator, probabilities: np.ndarray) -> np.ndarray:
    """Return (N,) arms drawn from (N, K) probabilities, by one uniform a lane."""
    below = probabilities.cumsum(axis=1)
    return (below <= rng.random((len(probabilities), 1)) * below[:, -1:]).sum(axis=1)


def argmax_probabilities(scores: np.ndarray, name: str = "arms") -> np.ndarray:
    """Return the (N, K) probabilities of what `random_argmax` returns."""
    return share_evenly(_is_maximum(scores, name))


def _is_maximum(scores: np.ndarray, name: str) -> np.ndarray:
    """Return (N, K) which scores are the largest of their lanes, once none is NaN."""
    maxima = scores.max(axis=1)
    if np.count_nonzero(maxima != maxima):  # a third of the time of isnan and any
        check_scores(name, scores)
    return scores == maxima[:, None]


def share_evenly(is_chosen: np.ndarray) -> np.ndarray:
    """Return (N, K) shares of the chosen arms in each lane; none where no arm is chosen."""
    return is_chosen / np.maximum(is_chosen.sum(axis=1, keepdims=True), 1)
