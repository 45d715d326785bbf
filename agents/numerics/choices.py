"""Arms by their scores, the largest of them with ties shared, or by their probabilities.

Notation: K arms, N lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from bandit_gym.checks import check_real, check_scores
from bandit_gym.numerics.variates import MAX_FLOAT

MIN_NORMAL = 1e-300

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


def check_floor(floor: Any, num_arms: int, available: np.ndarray | None = None) -> None:
    """Refuse a floor that is not from 0 to 1 by the number of arms, or of available ones."""
    if type(floor) is float and floor == 0.0:  # a tenth of the time of one propensity
        return
    most = num_arms if available is None else available.sum(axis=1).max()
    check_real("floor", floor, minimum=0.0, maximum=1 / most)


def raise_to_floor(
    probabilities: np.ndarray, floor: float, available: np.ndarray | None = None
) -> np.ndarray:
    """Return (N, K) probabilities max(s p, floor), with the one s of a lane that sums them to 1.

    Args:
        probabilities: (N, K) p.
        floor: least probability of an available arm.
        available: (N, K) arms that have it, the others stay at 0; None for all.

    Raises:
        ValueError: if the floor is not from 0 to 1 by the number of available arms.
    """
    check_floor(floor, probabilities.shape[1], available)
    if floor == 0:
        return probabilities
    mask = np.ones(probabilities.shape, dtype=bool) if available is None else available
    is_low = np.zeros(mask.shape, dtype=bool)
    while True:
        rest = np.where(is_low | ~mask, 0.0, probabilities)
        left = 1 - floor * is_low.sum(axis=1, keepdims=True)
        raised = rest * (left / np.maximum(rest.sum(axis=1, keepdims=True), MIN_NORMAL))
        below = mask & ~is_low & (raised < floor)
        if not below.any():
            return np.where(is_low, floor, raised)
        is_low |= below


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
