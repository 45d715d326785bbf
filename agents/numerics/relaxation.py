"""The best sequences of pulls when future rewards are known, for information relaxations.

Importing this module imports numba, so rules import it when first needed.

Letters: K arms, N lanes, H pulls left.
"""

from __future__ import annotations

import numpy as np

from bandit_gym.numerics.compiled import kernel


@kernel
def allocate(gains: np.ndarray, pulls: np.ndarray) -> None:
    """Share H pulls among arms, so that what they gain in sum is largest.

    Args:
        gains: (N, K, H + 1) what the first 0, 1, ..., H pulls of an arm gain.
        pulls: (N, K) receives the pulls of each arm.
    """
    num_lanes, num_arms, size = gains.shape
    best, taken = np.empty((num_arms, size)), np.zeros((num_arms, size), dtype=np.int64)
    for lane in range(num_lanes):
        best[0] = gains[lane, 0]
        taken[0] = np.arange(size)
        for arm in range(1, num_arms):
            for total in range(size):
                top, at = -np.inf, 0
                for own in range(total + 1):
                    value = best[arm - 1, total - own] + gains[lane, arm, own]
                    if value > top:
                        top, at = value, own
                best[arm, total], taken[arm, total] = top, at
        left = size - 1
        for arm in range(num_arms - 1, -1, -1):
            pulls[lane, arm] = taken[arm, left]
            left -= taken[arm, left]


@kernel
def find_first_pull(means: np.ndarray, maxima: np.ndarray, num_pulls: int) -> int:
    """Return the first arm of the best sequence of H pulls of up to three arms.

    The state is the vector n of pulls of each arm. Pulling arm k leads from n to n + e_k and pays

        means[k, n_k] + maxima[0] - maxima[n + e_k],

    the last pull means[k, n_k] alone.

    Args:
        means: (3, H) posterior mean of each arm after 0, ..., H - 1 of its pulls.
        maxima: (H + 1, H + 1, H + 1) expected best mean at each n; (H + 1, H + 1, 1) for two arms.
        num_pulls: H.
    """
    best = np.full(maxima.shape, -np.inf)
    first = np.zeros(maxima.shape, dtype=np.int8)
    best[0, 0, 0], deepest = 0.0, maxima.shape[2] - 1
    top, chosen = -np.inf, 0
    for i in range(num_pulls + 1):
        for j in range(num_pulls + 1 - i):
            for k in range(min(num_pulls - i - j, deepest) + 1):
                done = i + j + k
                if done == 0:
                    continue
                value, start = -np.inf, 0
                for arm in range(3):
                    own = i if arm == 0 else (j if arm == 1 else k)
                    if own == 0:
                        continue
                    before = i - (arm == 0), j - (arm == 1), k - (arm == 2)
                    paid = best[before] + means[arm, own - 1]
                    if paid > value:
                        value, start = paid, first[before] if done > 1 else arm
                if done < num_pulls:
                    best[i, j, k] = value + maxima[0, 0, 0] - maxima[i, j, k]
                    first[i, j, k] = start
                elif value > top:
                    top, chosen = value, start
    return chosen
