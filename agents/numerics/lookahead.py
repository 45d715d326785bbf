"""What future pulls may bring: Gittins indices, expected gains, and pulls if rewards were known.

Importing this module imports numba, so rules import it when first needed.

Notation: K arms, N lanes. Of a Bernoulli arm n pulls, s of them paid, D or m pulls of lookahead;
its tables of (n, s) are flat: the entry for s successes in n pulls is at n (n + 1) / 2 + s. H pulls
are left to all arms.
"""

from __future__ import annotations

import math

import numpy as np

from bandit_gym.numerics.compiled import inner, kernel

GAIN_TOLERANCE = 1e-12
"""Of the gain over the payment, in units of reward."""

NUM_LEVELS = 1024
"""Known sums that are tried, over the range of the means; indices are interpolated in between."""

NEGLIGIBLE_TERM = 1e-14
"""Share of a sum at which terms that fall geometrically are left out."""


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
                continuation = (1.0 - discount) * m + discount * ahead
                values[s] = max(level, continuation)
                index = first + s
                if index < indices.size:
                    gain = continuation - level
                    if gain <= 0.0 < gains[index]:
                        part = gains[index] / (gains[index] - gain)
                        indices[index] = level - step + part * step
                    gains[index] = gain


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
        while gain > GAIN_TOLERANCE:
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
        if ratio < 0.9 and term < NEGLIGIBLE_TERM * gain:
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
def find_best_gains(
    a: np.ndarray, b: np.ndarray, levels: np.ndarray, ahead: np.ndarray, gains: np.ndarray
) -> None:
    """Set `gains` to the largest gain per pull over some numbers of pulls.

    Args:
        a: (N, K) first parameter of the Beta distribution of each mean.
        b: (N, K) second parameter.
        levels: (N, K) the best of the other arms.
        ahead: (M, N) the m to try, nondecreasing; 0 for no gain.
        gains: (N, K) is written to.
    """
    for lane in range(a.shape[0]):
        for arm in range(a.shape[1]):
            best, last = 0.0, 0
            for m in ahead[:, lane]:
                if m > last:
                    gain = bernoulli_gain(a[lane, arm], b[lane, arm], levels[lane, arm], m)
                    best = max(best, gain / m)
                last = m
            gains[lane, arm] = best


@inner
def raise_values(best: np.ndarray, before: np.ndarray, added: float) -> None:
    """Raise (m,) values to those before with some pulls of another arm on top."""
    for m in range(len(best)):
        value = before[m] + added
        best[m] = value if value > best[m] else best[m]


@kernel
def split_pulls(pull_values: np.ndarray) -> tuple[float, np.ndarray]:
    """Share H pulls among arms, so that what they are worth in sum is largest.

    Args:
        pull_values: (K, H + 1) of the first 0, 1, ..., H pulls of an arm.

    Returns:
        the sum, and the (K,) pulls of each arm; of equal splits, with few of the last arms.
    """
    num_arms, max_pulls = pull_values.shape[0], pull_values.shape[1] - 1
    best = np.full(pull_values.shape, -np.inf)  # of the arms so far, for each number of pulls
    best[0] = pull_values[0]
    for arm in range(1, num_arms):
        for n in range(max_pulls + 1):
            raise_values(best[arm, n:], best[arm - 1, : max_pulls + 1 - n], pull_values[arm, n])
    split, left = np.zeros(num_arms, dtype=np.int64), max_pulls
    for arm in range(num_arms - 1, 0, -1):
        while best[arm - 1, left - split[arm]] + pull_values[arm, split[arm]] < best[arm, left]:
            split[arm] += 1
        left -= split[arm]
    split[0] = left
    return best[num_arms - 1, max_pulls], split
