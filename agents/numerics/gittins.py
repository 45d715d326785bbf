"""Gittins indices of Bernoulli arms: for ever by calibration, for r pulls by optimal stopping.

Importing this module imports numba, so rules import it when first needed.

Letters: n pulls of an arm, s of them paid, D pulls looked at in all. Tables of (n, s) are flat: the
entry for s successes in n pulls is at n (n + 1) / 2 + s.
"""

from __future__ import annotations

import numpy as np

from bandit_gym.numerics.compiled import kernel

TOLERANCE = 1e-12
"""Of the gain over the payment, in units of reward."""

NUM_LEVELS = 1024
"""Known sums that are tried, over the range of the means; indices are interpolated in between."""


@kernel
def find_indices(
    means: np.ndarray, depth: int, discount: float, values: np.ndarray, indices: np.ndarray
) -> None:
    """Set `indices` to those of all (n, s) that it has room for.

    With one arm that pays a known `level` for ever, worth level / (1 - discount), the value of an
    arm in state (n, s) of mean m is

        V(n, s) = max(level / (1 - discount),
                      m (1 + discount V(n + 1, s + 1)) + (1 - m) discount V(n + 1, s)),

    and its index is the level at which both are equal, as Gittins, Glazebrook and Weber (2011)
    calibrate it. Values are kept times (1 - discount). After D pulls the arm's mean is taken as
    known, which leaves an index too low by about discount^(D - n) deviations of the posterior then.

    Args:
        means: posterior means of all (n, s) up to n = depth.
        depth: D.
        discount: of the next reward, in (0, 1).
        values: (D + 2,) is overwritten.
        indices: receives those of the first states, in the order of `means`.
    """
    step, gains = 1.0 / NUM_LEVELS, np.zeros_like(indices)
    indices[:] = 0.0
    for j in range(NUM_LEVELS + 1):
        level = j * step
        first = depth * (depth + 1) // 2
        for s in range(depth + 1):
            values[s] = max(level, means[first + s])
        for n in range(depth - 1, -1, -1):
            first = n * (n + 1) // 2
            for s in range(n + 1):
                m = means[first + s]
                ahead = m * values[s + 1] + (1.0 - m) * values[s]
                going_on = (1.0 - discount) * m + discount * ahead
                values[s] = max(level, going_on)
                place = first + s
                if place < indices.size:
                    gain = going_on - level
                    if gain <= 0.0 < gains[place]:
                        part = gains[place] / (gains[place] - gain)
                        indices[place] = level - step + part * step
                    gains[place] = gain


@kernel
def find_finite_indices(alpha: np.ndarray, beta: np.ndarray, left: int, out: np.ndarray) -> None:
    """Set `out` (M,) to the indices of M Beta posteriors with r pulls left.

    The index is the largest ratio of expected reward to expected pulls over all rules to stop. For
    a trial payment the best rule follows by recursion; its own ratio is the next trial, which
    converges from below in a few rounds (Dinkelbach 1967).
    """
    ahead, pulls = np.empty(left + 1), np.empty(left + 1)
    for k in range(alpha.size):
        size = alpha[k] + beta[k]
        payment, gain = alpha[k] / size, np.inf
        while gain > TOLERANCE:
            ahead[:], pulls[:] = 0.0, 0.0
            for n in range(left - 1, -1, -1):
                for s in range(n + 1):
                    m = (alpha[k] + s) / (size + n)
                    gain = m - payment + m * ahead[s + 1] + (1.0 - m) * ahead[s]
                    more = 1.0 + m * pulls[s + 1] + (1.0 - m) * pulls[s]
                    ahead[s] = max(gain, 0.0)
                    pulls[s] = more if gain > 0.0 or n == 0 else 0.0
            payment += gain / pulls[0]
        out[k] = payment
