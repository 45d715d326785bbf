"""The best split of T pulls between arms whose pulls are worth what they are in any order.

Letters: K arms, T horizon.
"""

from __future__ import annotations

import numpy as np

from bandit_gym.numerics.compiled import inner, kernel


@kernel
def worths(sums, means, gains):  # type: ignore[no-untyped-def]
    """Return the (K, T + 1) worth of the first n pulls of each arm, its penalty taken off.

    Args:
        sums: (K, T) successes of the first n pulls.
        means: (K, T, T) predictive means, or (1, T, T).
        gains: likewise what a success is charged more than a failure, 0 in the last row.
    """
    num_arms, horizon = sums.shape
    found = np.zeros((num_arms, horizon + 1))
    for arm in range(num_arms):
        kind = arm % len(means)
        for n in range(horizon):
            s = sums[arm, n]
            mean, worth = means[kind, n, s], means[kind, n, s]
            if n < horizon - 1:
                worth -= gains[kind, n, s] * (sums[arm, n + 1] - s - mean)
            found[arm, n + 1] = found[arm, n] + worth
    return found


@inner
def _raise_to(best, before, worth):  # type: ignore[no-untyped-def]
    """Raise values to those before with some pulls of another arm on top."""
    for m in range(len(best)):
        value = before[m] + worth
        best[m] = value if value > best[m] else best[m]


@kernel
def split_pulls(found):  # type: ignore[no-untyped-def]
    """Return the largest sum of (K, T + 1) worths over splits of T pulls, and the (K,) split."""
    num_arms, horizon = found.shape[0], found.shape[1] - 1
    best = np.full(found.shape, -np.inf)  # of the arms so far, for each number of pulls
    best[0] = found[0]
    for arm in range(1, num_arms):
        for n in range(horizon + 1):
            _raise_to(best[arm, n:], best[arm - 1, : horizon + 1 - n], found[arm, n])
    split, left = np.zeros(num_arms, dtype=np.int64), horizon
    for arm in range(num_arms - 1, 0, -1):
        while best[arm - 1, left - split[arm]] + found[arm, split[arm]] < best[arm, left]:
            split[arm] += 1
        left -= split[arm]
    split[0] = left
    return best[num_arms - 1, horizon], split
