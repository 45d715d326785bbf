"""What pulls of a Bernoulli arm may tell: the expected gain from choosing after m rewards.

Importing this module imports numba, so rules import it when first needed.

Letters: K arms, N lanes, m pulls looked ahead.
"""

from __future__ import annotations

import math

import numpy as np

from bandit_gym.numerics.compiled import inner, kernel

NEGLIGIBLE = 1e-14
"""Share of a sum at which terms that fall geometrically are left out."""


@inner
def log_beta(a: float, b: float) -> float:
    """Return the logarithm of the beta function."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@inner
def upper_gain(a: float, b: float, level: float, m: int) -> float:
    """Return E(M - level)^+, M = (a + S) / (a + b + m) the mean after S of m pulls paid.

    S is beta-binomial; its probabilities follow from each other, from the least S that counts.
    """
    total = a + b + m
    s = max(math.floor(level * total - a) + 1, 0)
    if s > m:
        return 0.0
    log_choose = math.lgamma(m + 1.0) - math.lgamma(s + 1.0) - math.lgamma(m - s + 1.0)
    probability = math.exp(log_choose + log_beta(a + s, b + m - s) - log_beta(a, b))
    gain = 0.0
    while s <= m:
        term = probability * ((a + s) / total - level)
        gain += term
        ratio = (m - s) / (s + 1.0) * (a + s) / (b + m - s - 1.0) if s < m else 0.0
        if ratio < 0.9 and term < NEGLIGIBLE * gain:
            break
        probability *= ratio
        s += 1
    return gain


@inner
def bernoulli_gain(a: float, b: float, level: float, m: int) -> float:
    """Return E max(M, level) - max(E M, level): what m pulls add to the better of two."""
    if level * (a + b) >= a:
        return upper_gain(a, b, level, m)
    return upper_gain(b, a, 1.0 - level, m)


@kernel
def best_gains(
    a: np.ndarray, b: np.ndarray, levels: np.ndarray, most: np.ndarray, gains: np.ndarray
) -> None:
    """Set `gains` to the largest gain per pull over m = 1, 2, 3, 4, 6, 8, 11, ... up to `most`.

    Args:
        a: (N, K) first parameter of the Beta law of each mean.
        b: (N, K) second parameter.
        levels: (N, K) the best of the other arms.
        most: (N,) largest m, 0 for no gain; it is tried as well.
        gains: (N, K) is written to.
    """
    for lane in range(a.shape[0]):
        for arm in range(a.shape[1]):
            best, m = 0.0, 1
            while m <= most[lane]:
                gain = bernoulli_gain(a[lane, arm], b[lane, arm], levels[lane, arm], m)
                best = max(best, gain / m)
                if m == most[lane]:
                    break
                m = min(max(m + 1, int(m * math.sqrt(2.0))), most[lane])
            gains[lane, arm] = best
