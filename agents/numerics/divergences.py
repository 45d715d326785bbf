"""How far laws of rewards are from each other, and the largest mean within a given distance.

For a law with mean p and one with mean q of a natural exponential family, the Kullback-Leibler
divergence kl(p, q) has the slope (q - p) / V(q) in q, where V is the variance of a reward. Its root
is nearly a straight line, on which Newton's steps need four or five evaluations where bisection
needs sixty. Importing this module imports numba, so rules import it when first needed.

Letters: K arms, N lanes.
"""

from __future__ import annotations

import math

import numpy as np

from agents.numerics.families import BETA, GAMMA, INVERSE_GAMMA
from bandit_gym.numerics.compiled import inner, kernel

MOST_STEPS = 60
PRECISION = 4 * 2.0**-53


@kernel
def find_upper_means(
    family: int, averages: np.ndarray, distances: np.ndarray, out: np.ndarray
) -> None:
    """Set `out` to the largest mean within a divergence of the average, to double precision.

    Args:
        family: code of the law conjugate to the rewards': BETA, INVERSE_GAMMA or GAMMA.
        averages: (N, K) possible means, above 0.
        distances: (N, K) largest divergences, at least 0.
        out: (N, K) receives means.
    """
    for lane in range(averages.shape[0]):
        for arm in range(averages.shape[1]):
            average, distance = averages[lane, arm], distances[lane, arm]
            if family == INVERSE_GAMMA:  # of which the mean is the scale
                out[lane, arm] = average * find_upper_mean(family, 1.0, distance)
            else:
                out[lane, arm] = find_upper_mean(family, average, distance)


@inner
def find_upper_mean(family: int, average: float, distance: float) -> float:
    """Do as `find_upper_means` for one arm: Newton's steps, kept between the nearest bounds."""
    top = 1.0 if family == BETA else math.inf
    if distance == 0.0 or average >= top:
        return average
    low, high, root = average, top, math.sqrt(distance)
    x = average + root * math.sqrt(2.0 * variance(family, average)) + distance
    for _ in range(MOST_STEPS):
        if not low < x < high:
            x = low + (high - low) / 2.0 if high < math.inf else 2.0 * low
        found = math.sqrt(max(divergence(family, average, x), 0.0))
        if found < root:
            low = x
        else:
            high = x
        step = 2.0 * found * (found - root) * variance(family, x) / (x - average)
        if abs(step) <= PRECISION * x or high - low <= PRECISION * x:
            break
        x -= step
    return x


@inner
def variance(family: int, mean: float) -> float:
    """Return the variance of a reward."""
    if family == BETA:
        return mean * (1.0 - mean)
    return mean if family == GAMMA else mean * mean


@inner
def divergence(family: int, p: float, q: float) -> float:
    """Return kl(p, q) between rewards with these means, q > p > 0, in terms that vanish at p."""
    step = q - p
    above = math.log1p(step / p)
    if family == BETA:
        return -(1.0 - p) * math.log1p(-step / (1.0 - p)) - p * above
    return step - p * above if family == GAMMA else above - step / q
