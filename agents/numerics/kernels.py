"""Compiled loops that draw arm means from conjugate posteriors and find the best arm.

Each is an ordinary function of records, arrays and a NumPy Generator; `kernel.py_func` is the same
function uncompiled and gives the same result from the same generator. Importing this module
imports numba, so agents import it when first needed. Machine code is cached on disk.

Notation: K arms, N lanes, R of them drawn for, m samples. Families are those of
`agents.numerics.distributions`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from agents.numerics.distributions import (
    BETA,
    COMPILED,
    INVERSE_GAMMA,
    MeanDistributions,
    divergence,
    draw_conjugate_means,
    reward_variance,
)
from bandit_gym.numerics.compiled import inner, kernel

for _function in COMPILED:
    inner(_function)

MAX_NEWTON_STEPS = 60
PRECISION = 4 * 2.0**-53

MEANS_PER_BLOCK = 400
"""Means drawn at a time, of one arm or of several: enough for loops to pay, and few enough for
their scratch space to stay in the nearest cache."""


class ConjugatePrior(NamedTuple):
    """Conjugate distributions of K means without data, and what data add to them.

    Attributes:
        family: BETA, INVERSE_GAMMA, NORMAL or GAMMA.
        parameters: (K, 2) first and second, as in `ConjugatePosterior.prior`.
        weights: (2, 2) what a pull and a unit of reward add to the first and to the second.
    """

    family: int
    parameters: np.ndarray
    weights: np.ndarray


@inner
def fill_array(out: np.ndarray, value: float) -> None:
    """Set all of `out` (m,), in a loop that compiles ten times as fast as `np.full`."""
    for j in range(out.size):
        out[j] = value


@inner
def draw_arm_means(
    rng: Generator, distributions: MeanDistributions, out: np.ndarray, workspace: np.ndarray
) -> None:
    """Fill `out` (A m,) with m draws from each of A distributions in turn.

    `workspace` (3, at least A m) is overwritten.
    """
    first, second = workspace[0, : out.size], workspace[1, : out.size]
    num_samples = out.size // distributions.first.size
    for i in range(distributions.first.size):
        part = slice(i * num_samples, (i + 1) * num_samples)
        fill_array(first[part], distributions.first[i])
        fill_array(second[part], distributions.second[i])
    draw_conjugate_means(
        rng, MeanDistributions(distributions.family, first, second), out, workspace[2, : out.size]
    )


@inner
def compare_means(
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
    num_lanes, num_arms, num_samples = means.shape
    step = max(1, MEANS_PER_BLOCK // num_samples)
    best, workspace = np.empty(num_samples), np.empty((3, step * num_samples))
    for r in range(num_lanes):
        lane, flat = lanes[r], means[r].reshape(num_arms * num_samples)
        fill_array(best, -np.inf)
        for start in range(0, num_arms, step):
            stop = min(start + step, num_arms)
            first, second = (
                distributions.first[lane, start:stop],
                distributions.second[lane, start:stop],
            )
            out = flat[start * num_samples : stop * num_samples]
            draw_arm_means(
                rng, MeanDistributions(distributions.family, first, second), out, workspace
            )
            for i in range(start, stop):
                compare_means(rng, means[r], i, best, winners[r])


@kernel
def draw_best_arms(
    rng: Generator,
    prior: ConjugatePrior,
    counts: np.ndarray,
    sums: np.ndarray,
    actions: np.ndarray,
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
            add_data(prior, i, counts[lanes, i], sums[lanes, i], distributions)
            draw_conjugate_means(rng, distributions, means[i], workspace[2])
            if prior.parameters[i, 1] == 0.0:
                favour_missing(counts[lanes, i], means[i])
            compare_means(rng, means, i, best, actions[lanes])


@inner
def add_data(
    prior: ConjugatePrior,
    arm: int,
    counts: np.ndarray,
    sums: np.ndarray,
    distributions: MeanDistributions,
) -> None:
    """Set `distributions` (m,) to an arm's posterior distributions, given (m,) statistics."""
    parameters, weights = prior.parameters[arm], prior.weights
    for j in range(counts.size):
        n, s = counts[j], sums[j]
        distributions.first[j] = parameters[0] + weights[0, 0] * n + weights[0, 1] * s
        distributions.second[j] = parameters[1] + weights[1, 0] * n + weights[1, 1] * s


@inner
def favour_missing(counts: np.ndarray, means: np.ndarray) -> None:
    """Raise the (m,) draws of an arm without data, and without a proper prior, above all others."""
    for j in range(means.size):
        if counts[j] == 0:
            means[j] = np.inf


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
    """Do as `find_upper_means` for one arm: Newton's steps, kept between the nearest bounds."""
    top = 1.0 if family == BETA else math.inf
    if distance == 0.0 or average >= top:
        return average
    low, high, root = average, top, math.sqrt(distance)
    x = average + root * math.sqrt(2.0 * reward_variance(family, average)) + distance
    for _ in range(MAX_NEWTON_STEPS):
        if not low < x < high:
            x = low + (high - low) / 2.0 if high < math.inf else 2.0 * low
        found = math.sqrt(max(divergence(family, average, x), 0.0))
        if found < root:
            low = x
        else:
            high = x
        step = 2.0 * found * (found - root) * reward_variance(family, x) / (x - average)
        if abs(step) <= PRECISION * x or high - low <= PRECISION * x:
            break
        x -= step
    return x
