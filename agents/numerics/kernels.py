"""Compiled inner loops that draw arm means from conjugate laws and find the best arm of a draw.

Each is an ordinary function of records, arrays and a NumPy Generator; `kernel.py_func` is the same
function uncompiled and gives the same result from the same generator. Importing this module
imports numba, so agents import it when first needed. Machine code is cached on disk.

Letters: K arms, N lanes, R of them drawn for, m samples. Families are those of
`agents.numerics.families`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from agents.numerics.draw_tables import DrawTables, draw_from_table, keep_draw_table
from agents.numerics.families import BETA, GAMMA, NORMAL
from agents.numerics.variates import draw_gammas
from bandit_gym.numerics.compiled import inner, inner_maker, kernel, threaded_kernel

TINY = 1e-300
ALMOST_ONE = 1 - 2.0**-53

BLOCK_SIZE = 400
"""Means drawn at a time, of one arm or of several: enough for loops to pay, and few enough for
their scratch space to stay in the nearest cache."""


class MeanLaws(NamedTuple):
    """Conjugate laws of means: rows of Table 1, the data added.

    Attributes:
        family: BETA, INVERSE_GAMMA, NORMAL or GAMMA.
        first: first parameter of each law, as `ConjugatePosterior.parameters` returns it.
        second: second parameter of each, in an array of the same shape.
    """

    family: int
    first: np.ndarray
    second: np.ndarray


class ConjugatePrior(NamedTuple):
    """Conjugate laws of K means without data, and what data add to them.

    Attributes:
        family: BETA, INVERSE_GAMMA, NORMAL or GAMMA.
        parameters: (K, 2) first and second, as in `ConjugatePosterior.prior`.
        weights: (2, 2) what a pull and a unit of reward add to the first and to the second.
    """

    family: int
    parameters: np.ndarray
    weights: np.ndarray


class Draws(NamedTuple):
    """Vectors of means for R lanes, and what they weigh.

    Attributes:
        means: (R, K, m) means.
        log_weights: (R, m) log w of each draw, up to a constant.
        winners: (R, m) int64 arm with the largest mean of each draw, ties broken at random.
    """

    means: np.ndarray
    log_weights: np.ndarray
    winners: np.ndarray


@inner_maker
def make_draws(num_lanes: int, num_arms: int, num_samples: int) -> Draws:
    """Return room for draws, all of weight 1."""
    means = np.empty((num_lanes, num_arms, num_samples))
    winners = np.empty((num_lanes, num_samples), dtype=np.int64)
    return Draws(means, np.zeros(winners.shape), winners)


@inner
def fill(out: np.ndarray, value: float) -> None:
    """Set all of `out` (m,), in a loop that compiles ten times as fast as `np.full`."""
    for j in range(out.size):
        out[j] = value


@inner
def draw_means(rng: Generator, laws: MeanLaws, out: np.ndarray, spare: np.ndarray) -> None:
    """Fill `out` (m,) with one draw from each of m laws, strictly inside the means' support.

    `spare` (m,) is overwritten.
    """
    first, second = laws.first, laws.second
    if laws.family == NORMAL:
        for j in range(out.size):
            out[j] = first[j] / second[j] + rng.standard_normal() / math.sqrt(second[j])
        return
    draw_gammas(rng, first, out)
    if laws.family == BETA:
        draw_gammas(rng, second, spare)
        combine_gammas(rng, laws, out, spare)
    elif laws.family == GAMMA:
        for j in range(out.size):
            out[j] = max(out[j] / second[j], TINY)
    else:
        for j in range(out.size):
            out[j] = second[j] / max(out[j], TINY)


@inner
def combine_gammas(rng: Generator, laws: MeanLaws, out: np.ndarray, other: np.ndarray) -> None:
    """Turn Gamma(alpha) variates in `out` and Gamma(beta) in `other` into Beta ones in `out`.

    Where both are too small for a floating-point number, so is the mean or its distance from 1.
    """
    alpha, beta, num_lost = laws.first, laws.second, 0
    for j in range(out.size):
        total = out[j] + other[j]
        num_lost += total == 0.0
        out[j] = min(max(out[j] / total, TINY), ALMOST_ONE)
    if num_lost > 0:
        for j in range(out.size):
            if np.isnan(out[j]):
                is_high = rng.random() * (alpha[j] + beta[j]) < alpha[j]
                out[j] = ALMOST_ONE if is_high else TINY


@inner_maker
def draw_from_kept_table(
    rng: Generator,
    law: MeanLaws,
    tables: DrawTables,
    slot: int,
    out: np.ndarray,
    places: np.ndarray,
) -> bool:
    """Do as `draw_arms` for one Beta law, or return False if it suits no table."""
    if not keep_draw_table(tables, slot, law.first[0] - 1.0, law.second[0] - 1.0):
        return False
    numbers, cells, offsets = tables.numbers[slot], tables.cells[slot], tables.offsets[slot]
    draw_from_table(rng, numbers, cells, offsets, out, places, np.empty(out.size, dtype=np.int64))
    return True


@inner
def draw_arms(rng: Generator, laws: MeanLaws, out: np.ndarray, spare: np.ndarray) -> None:
    """Fill `out` (A m,) with m draws from each of A laws, one law after the other.

    `spare` (3, at least A m) is overwritten.
    """
    first, second = spare[0, : out.size], spare[1, : out.size]
    num_samples = out.size // laws.first.size
    for i in range(laws.first.size):
        part = slice(i * num_samples, (i + 1) * num_samples)
        fill(first[part], laws.first[i])
        fill(second[part], laws.second[i])
    draw_means(rng, MeanLaws(laws.family, first, second), out, spare[2, : out.size])


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
    rng: Generator, laws: MeanLaws, tables: DrawTables, lanes: np.ndarray, draws: Draws
) -> None:
    """Draw the means of all arms, and find the best of each draw; weights stay as they are.

    Args:
        rng: source of randomness.
        laws: (N, K) of them.
        tables: N * K, made, kept and remade as needed; or none, to draw without.
        lanes: (R,) the lanes, of N, to draw for.
        draws: receives means and winners.
    """
    num_lanes, num_arms, num_samples = draws.means.shape
    has_tables = laws.family == BETA and len(tables.keys) > 0
    step = 1 if has_tables else max(1, BLOCK_SIZE // num_samples)
    best, spare = np.empty(num_samples), np.empty((3, step * num_samples))
    for r in range(num_lanes):
        lane, means, winners = lanes[r], draws.means[r], draws.winners[r]
        flat = means.reshape(num_arms * num_samples)
        fill(best, -np.inf)
        for start in range(0, num_arms, step):
            stop, slot = min(start + step, num_arms), lane * num_arms + start
            first, second = laws.first[lane, start:stop], laws.second[lane, start:stop]
            arms = MeanLaws(laws.family, first, second)
            out = flat[start * num_samples : stop * num_samples]
            if not has_tables or not draw_from_kept_table(rng, arms, tables, slot, out, spare[0]):
                draw_arms(rng, arms, out, spare)
            for i in range(start, stop):
                compare_means(rng, means, i, best, winners)


@threaded_kernel
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
    for start in range(0, num_lanes, BLOCK_SIZE):
        lanes = slice(start, min(start + BLOCK_SIZE, num_lanes))
        size = lanes.stop - start
        means, best, spare = np.empty((num_arms, size)), np.empty(size), np.empty((3, size))
        laws = MeanLaws(prior.family, spare[0], spare[1])
        fill(best, -np.inf)
        for i in range(num_arms):
            add_data(prior, i, counts[lanes, i], sums[lanes, i], laws)
            draw_means(rng, laws, means[i], spare[2])
            if prior.parameters[i, 1] == 0.0:
                favour_missing(counts[lanes, i], means[i])
            compare_means(rng, means, i, best, actions[lanes])


@inner
def add_data(
    prior: ConjugatePrior, arm: int, counts: np.ndarray, sums: np.ndarray, laws: MeanLaws
) -> None:
    """Set `laws` (m,) to an arm's posterior laws, given (m,) statistics."""
    parameters, weights = prior.parameters[arm], prior.weights
    for j in range(counts.size):
        n, s = counts[j], sums[j]
        laws.first[j] = parameters[0] + weights[0, 0] * n + weights[0, 1] * s
        laws.second[j] = parameters[1] + weights[1, 0] * n + weights[1, 1] * s


@inner
def favour_missing(counts: np.ndarray, means: np.ndarray) -> None:
    """Raise the (m,) draws of an arm without data, and without a proper prior, above all others."""
    for j in range(means.size):
        if counts[j] == 0:
            means[j] = np.inf
