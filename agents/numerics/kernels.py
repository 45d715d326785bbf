"""Compiled loops: draws from conjugate posteriors, upper bounds, and what future pulls may bring.

Each is an ordinary function of records, arrays and a NumPy Generator; `kernel.py_func` is the same
function uncompiled and gives the same result from the same generator. Importing this module
imports numba, so agents import it when first needed. Machine code is cached on disk.

Notation: K arms, N lanes, R of them drawn for, m samples. Families are those of
`agents.numerics.distributions`. Of a Bernoulli arm n pulls, s of them paid, D or m pulls of
lookahead; its tables of (n, s) are flat: the entry for s successes in n pulls is at n (n + 1) / 2 +
s. H pulls are left to all arms.

References:
    Marsaglia and Tsang (2000), "A simple method for generating gamma variables".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from agents.numerics.distributions import (
    BETA,
    GAMMA,
    INVERSE_GAMMA,
    NORMAL,
    TINY,
    MeanDistributions,
)
from bandit_gym.numerics.compiled import inner, kernel

MAX_NEWTON_STEPS = 60
PRECISION = 4 * 2.0**-53
NUM_LOG_STEPS = 4
LOG_2 = math.log(2.0)

MEANS_PER_BLOCK = 400
"""Means drawn at a time, of one arm or of several: enough for loops to pay, and few enough for
their scratch space to stay in the nearest cache."""


class ConjugatePrior(NamedTuple):
    """Conjugate distributions of K means without data, and what data add to them.

    Attributes:
        family: BETA, INVERSE_GAMMA, NORMAL or GAMMA.
        parameters: (K, 2) first and second, as in `ConjugatePosterior.prior`.
        update_matrix: (2, 2) what a pull and a unit of reward add to the first and to the second.
    """

    family: int
    parameters: np.ndarray
    update_matrix: np.ndarray


@inner
def fill_array(out: np.ndarray, value: float) -> None:
    """Set all of `out` (m,), in a loop that compiles ten times as fast as `np.full`."""
    for j in range(out.size):
        out[j] = value


@inner
def copy_array(values: np.ndarray, out: np.ndarray) -> None:
    """Set `out` (m,) to values; an assignment of slices takes seconds to compile."""
    for j in range(out.size):
        out[j] = values[j]


@inner
def draw_conjugate_means(
    rng: Generator, distributions: MeanDistributions, out: np.ndarray, workspace: np.ndarray
) -> None:
    """Fill `out` (m,) with a draw from each of m distributions, inside the means' support.

    `workspace` (m,) is overwritten.
    """
    first, second = distributions.first, distributions.second
    if distributions.family == NORMAL:
        for j in range(out.size):
            out[j] = first[j] / second[j] + rng.standard_normal() / math.sqrt(second[j])
        return
    draw_gammas(rng, first, out)
    if distributions.family == BETA:
        draw_gammas(rng, second, workspace)
        combine_gammas(rng, distributions, out, workspace)
    elif distributions.family == GAMMA:
        for j in range(out.size):
            out[j] = max(out[j] / second[j], TINY)
    else:
        for j in range(out.size):
            out[j] = second[j] / max(out[j], TINY)


ALMOST_ONE = 1 - 2.0**-53
"""Largest mean of a Beta distribution that is drawn."""


@inner
def combine_gammas(
    rng: Generator, distributions: MeanDistributions, out: np.ndarray, other: np.ndarray
) -> None:
    """Turn Gamma(alpha) variates in `out` and Gamma(beta) in `other` into Beta ones in `out`.

    Where both are too small for a floating-point number, so is the mean or its distance from 1.
    """
    alpha, beta, num_lost = distributions.first, distributions.second, 0
    for j in range(out.size):
        total = out[j] + other[j]
        num_lost += total == 0.0
        out[j] = min(max(out[j] / total, TINY), ALMOST_ONE)
    if num_lost > 0:
        for j in range(out.size):
            if np.isnan(out[j]):
                is_high = rng.random() * (alpha[j] + beta[j]) < alpha[j]
                out[j] = ALMOST_ONE if is_high else TINY


@inner
def draw_gammas(rng: Generator, shapes: np.ndarray, out: np.ndarray) -> None:
    """Fill `out` (m,) with Gamma(shape, 1) variates d (1 + y)^3, for normal x = y sqrt(9 d).

    With h = x^2 / 2 + d (1 - (1 + y)^3 + 3 log(1 + y)) such a draw is kept where log u < h. That is
    so if u < 1 + h, and h >= -3/4 d y^4 (1 + 0.8 z + 2 z^2), z = max(-y, 0), for y > -3/4, by the
    series of log(1 + y): a squeeze that settles more draws than Marsaglia and Tsang's, and nearly
    all where the shape is large. One u serves until a draw fails: as long as it is below the
    product of the chances to be kept so far, it is uniform below that product.

    Args:
        rng: source of randomness.
        shapes: (m,) shape of each, > 0; those below 1 are boosted to shape + 1.
        out: receives the variates.
    """
    u, chance = rng.random(), 1.0
    for j in range(out.size):
        shape = shapes[j]
        d = (shape + 1.0 if shape < 1.0 else shape) - 1.0 / 3.0
        x = rng.standard_normal()
        y = x / math.sqrt(9.0 * d)
        z = max(-y, 0.0)
        bound = 0.75 * d * (y * y) * (y * y) * (1.0 + z * (0.8 + 2.0 * z))
        rest = chance * (1.0 - bound) if y > -0.75 else 0.0
        if u < rest:
            out[j], chance = d * ((1.0 + y) * (1.0 + y) * (1.0 + y)), rest
        else:
            out[j] = reject_gamma(rng, d, x, u / chance)
            u, chance = rng.random(), 1.0
        if shape < 1.0:
            out[j] *= (1.0 - rng.random()) ** (1.0 / shape)


@inner
def reject_gamma(rng: Generator, d: float, x: float, u: float) -> float:
    """Return a Gamma(d + 1/3, 1) draw by the rejection itself, starting from these x and u."""
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        v = 1.0 + c * x
        v = v * v * v
        if v > 0.0 and math.log(max(u, TINY)) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return d * v
        x, u = rng.standard_normal(), rng.random()


@inner
def update_winners(
    rng: Generator, means: np.ndarray, arm: int, best: np.ndarray, winners: np.ndarray
) -> None:
    """Let an arm challenge the best of the arms before it, in each of m draws.

    Args:
        rng: breaks ties, so that all arms that share the largest mean are equally likely.
        means: (K, m) means, of this arm and those before it.
        arm: its index.
        best: (m,) largest mean before, then now.
        winners: (m,) whose that is.
    """
    x, num_ties = means[arm], 0
    for j in range(x.size):
        num_ties += x[j] == best[j]
        winners[j] = arm if x[j] > best[j] else winners[j]
        best[j] = max(best[j], x[j])
    if num_ties == 0:
        return
    for j in range(x.size):
        if x[j] == best[j] and winners[j] != arm:
            num_best = 0
            for i in range(arm + 1):
                num_best += means[i, j] == best[j]
            if rng.random() * num_best < 1.0:
                winners[j] = arm


@kernel
def draw_chunk(
    rng: Generator,
    distributions: MeanDistributions,
    lanes: np.ndarray,
    means: np.ndarray,
    winners: np.ndarray,
) -> None:
    """Draw the means of all arms, and find the best of each draw.

    Args:
        rng: source of randomness.
        distributions: (N, K) of them.
        lanes: (R,) the lanes, of N, to draw for.
        means: (R, K, m) receives the draws.
        winners: (R, m) receives the arm with the largest mean of each, ties broken at random.
    """
    (num_lanes, num_arms, num_samples), family = means.shape, distributions.family
    step = max(1, MEANS_PER_BLOCK // num_samples)
    best, workspace = np.empty(num_samples), np.empty((3, step * num_samples))
    for r in range(num_lanes):
        lane, flat = lanes[r], means[r].reshape(num_arms * num_samples)
        fill_array(best, -np.inf)
        for start in range(0, num_arms, step):
            arms = range(start, min(start + step, num_arms))
            size = len(arms) * num_samples
            for i in arms:
                part = slice((i - start) * num_samples, (i - start + 1) * num_samples)
                fill_array(workspace[0, part], distributions.first[lane, i])
                fill_array(workspace[1, part], distributions.second[lane, i])
            repeated = MeanDistributions(family, workspace[0, :size], workspace[1, :size])
            out = flat[start * num_samples : start * num_samples + size]
            draw_conjugate_means(rng, repeated, out, workspace[2, :size])
            for i in arms:
                update_winners(rng, means[r], i, best, winners[r])


@kernel
def draw_best_arms(
    rng: Generator, prior: ConjugatePrior, counts: np.ndarray, sums: np.ndarray, actions: np.ndarray
) -> None:
    """Draw every arm's mean once in each lane, and find the best.

    Args:
        rng: source of randomness.
        prior: of all lanes.
        counts: (N, K) pulls of each arm.
        sums: (N, K) total reward of each arm; an arm without a posterior comes before all others.
        actions: (N,) receives the best arm, ties broken at random.
    """
    num_lanes, num_arms = counts.shape
    for start in range(0, num_lanes, MEANS_PER_BLOCK):
        lanes = slice(start, min(start + MEANS_PER_BLOCK, num_lanes))
        size = lanes.stop - start
        means, best, workspace = np.empty((num_arms, size)), np.empty(size), np.empty((3, size))
        distributions = MeanDistributions(prior.family, workspace[0], workspace[1])
        fill_array(best, -np.inf)
        for i in range(num_arms):
            pulls, totals = counts[lanes, i], sums[lanes, i]
            for k in range(2):
                base, gains = prior.parameters[i, k], prior.update_matrix[k]
                for j in range(size):
                    workspace[k, j] = base + gains[0] * pulls[j] + gains[1] * totals[j]
            draw_conjugate_means(rng, distributions, means[i], workspace[2])
            if prior.parameters[i, 1] == 0.0:  # an arm without data, and without a posterior
                for j in range(size):
                    means[i, j] = np.inf if pulls[j] == 0 else means[i, j]
            update_winners(rng, means, i, best, actions[lanes])


@kernel
def find_upper_means(
    family: int, averages: np.ndarray, distances: np.ndarray, out: np.ndarray
) -> None:
    """Set `out` to the largest mean within a divergence of the average, to double precision.

    Args:
        family: code of the distribution conjugate to the rewards': BETA, INVERSE_GAMMA or GAMMA.
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
    """Do as `find_upper_means` for one arm: Newton's steps, kept between the nearest bounds.

    Far above an average of 1 steps are in y = log x, where the divergence of exponential rewards,

        y - 1 + e^-y = distance,

    is nearly straight: from y = distance + 1, which is above the root, they fall to it.
    """
    top = 1.0 if family == BETA else math.inf
    if distance == 0.0 or average >= top:
        return average
    if family == INVERSE_GAMMA and distance > 1.0:
        y = distance + 1.0
        for _ in range(NUM_LOG_STEPS):
            y -= (y - 1.0 - distance + math.exp(-y)) / (1.0 - math.exp(-y))
        return average * math.exp(y)
    if family == BETA:  # between 1 - 2^-53 and 1 there is no number
        off = 1.0 - average
        if off * (math.log(off) + 53.0 * LOG_2) + average * math.log(average) <= distance:
            return top
    low, high, root = average, top, math.sqrt(distance)
    x = average + root * math.sqrt(2.0 * reward_variance(family, average)) + distance
    for _ in range(MAX_NEWTON_STEPS):
        if not low < x < high:
            x = low + (high - low) / 2.0 if high < math.inf else 2.0 * low
        root_at_x = math.sqrt(max(divergence(family, average, x), 0.0))
        if root_at_x < root:
            low = x
        else:
            high = x
        step = 2.0 * root_at_x * (root_at_x - root) * reward_variance(family, x) / (x - average)
        if abs(step) <= PRECISION * x or high - low <= PRECISION * x:
            break
        x -= step
    return x


@inner
def reward_variance(family: int, mean: float) -> float:
    """Return the variance of a reward of this mean; of normal ones it is known otherwise."""
    if family == BETA:
        return mean * (1.0 - mean)
    if family == GAMMA:
        return mean
    return mean * mean


@inner
def divergence(family: int, p: float, q: float) -> float:
    """Return kl(p, q) between rewards with these means, q > p > 0, in terms that vanish at p."""
    step = q - p
    above = math.log1p(step / p)
    if family == BETA:
        return -(1.0 - p) * math.log1p(-step / (1.0 - p)) - p * above
    if family == GAMMA:
        return step - p * above
    return above - step / q


GAIN_TOLERANCE = 1e-12
"""Of the gain over the payment, in units of reward."""

NUM_LEVELS = 1280
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
    low, high, gains = means.min(), means.max(), np.zeros_like(indices)
    level, indices[:] = low, low
    for j in range(NUM_LEVELS + 1):  # closer at both ends, where indices are closer to means
        before, level = level, low + (high - low) * math.sin(0.5 * math.pi * j / NUM_LEVELS) ** 2
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
                        indices[index] = before + part * (level - before)
                    gains[index] = gain


@kernel
def find_finite_indices(alpha: np.ndarray, beta: np.ndarray, left: int, out: np.ndarray) -> None:
    """Set `out` (M,) to the indices of M Beta posteriors with r pulls left.

    The index is the largest ratio of expected reward to expected pulls over all rules to stop. For
    a trial payment the best rule follows by recursion; its own ratio is the next trial, which
    converges from below in a few rounds (Dinkelbach 1967).
    """
    value, pulls = np.empty(left + 1), np.empty(left + 1)  # of going on, in each state
    for k in range(alpha.size):
        size = alpha[k] + beta[k]
        payment, gain = alpha[k] / size, np.inf
        while gain > GAIN_TOLERANCE:
            value[:], pulls[:] = 0.0, 0.0
            for n in range(left - 1, -1, -1):
                for s in range(n + 1):
                    m = (alpha[k] + s) / (size + n)
                    gain = m - payment + m * value[s + 1] + (1.0 - m) * value[s]
                    if_pulled = 1.0 + m * pulls[s + 1] + (1.0 - m) * pulls[s]
                    value[s] = max(gain, 0.0)
                    pulls[s] = if_pulled if gain > 0.0 or n == 0 else 0.0
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
