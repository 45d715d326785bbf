"""Compiled inner loops: drawing arm means, weighing them, racing them.

Each is an ordinary function of scalars, arrays and a NumPy Generator; `kernel.py_func` is the same
function uncompiled and gives the same result from the same generator. Importing this module
imports numba, so agents import it when first needed. Machine code is cached on disk.

Letters: K arms, R rows (races), m samples in a chunk. Families are those of
`agents.posteriors.conjugate`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from agents.numerics.compiled import inner, kernel
from agents.numerics.draw_tables import Tables, draw_from_table, find_table
from agents.numerics.families import BETA, GAMMA, NORMAL
from agents.numerics.variates import draw_gammas
from agents.numerics.vector_math import log_all

TINY = 1e-300
ALMOST_ONE = 1 - 2.0**-53
X, REST, X_REST = range(3)

BLOCK_SIZE = 400
"""Means drawn at a time, of one arm or of several: enough for loops to pay, and few enough for
their scratch space to stay in the nearest cache."""


@inner
def fill(out: np.ndarray, value: float) -> None:
    """Set all of `out` (m,), in a loop that compiles ten times as fast as `np.full`."""
    for j in range(out.size):
        out[j] = value


@inner
def draw_means(
    rng: Generator,
    family: int,
    first: np.ndarray,
    second: np.ndarray,
    out: np.ndarray,
    spare: np.ndarray,
    pending: np.ndarray,
) -> None:
    """Fill `out` (m,) with posterior draws of means.

    Args:
        rng: source of randomness.
        family: BETA, INVERSE_GAMMA, NORMAL or GAMMA.
        first: (m,) first posterior parameters, as `ConjugatePosterior.parameters` returns them.
        second: (m,) second posterior parameters.
        out: receives the draws, strictly inside the mean's support.
        spare: (at least 4, at least m) scratch space.
        pending: (at least m,) int64 scratch space.
    """
    if family == NORMAL:
        for j in range(out.size):
            out[j] = first[j] / second[j] + rng.standard_normal() / math.sqrt(second[j])
        return
    draw_gammas(rng, first, out)
    if family == BETA:
        draw_gammas(rng, second, spare[3])
        combine_gammas(rng, first, second, out, spare[3])
    elif family == GAMMA:
        for j in range(out.size):
            out[j] = max(out[j] / second[j], TINY)
    else:
        for j in range(out.size):
            out[j] = second[j] / max(out[j], TINY)


@inner
def combine_gammas(
    rng: Generator, alpha: np.ndarray, beta: np.ndarray, out: np.ndarray, other: np.ndarray
) -> None:
    """Turn Gamma(alpha) variates in `out` and Gamma(beta) in `other` into Beta ones in `out`.

    Where both are too small for a floating-point number, so is the mean or its distance from 1.
    """
    num_lost = 0
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
def draw_means_from_table(
    rng: Generator,
    first: float,
    second: float,
    out: np.ndarray,
    places: np.ndarray,
    pending: np.ndarray,
    tables: Tables,
    slot: int,
) -> bool:
    """Draw from one Beta posterior, or return False if its density suits no table."""
    if not find_table(tables, slot, first - 1.0, second - 1.0):
        return False
    numbers, cells, offsets = tables.numbers[slot], tables.cells[slot], tables.offsets[slot]
    draw_from_table(rng, numbers, cells, offsets, out, places, pending)
    return True


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
    family: int,
    first: np.ndarray,
    second: np.ndarray,
    rows: np.ndarray,
    tables: Tables,
    means: np.ndarray,
    winners: np.ndarray,
) -> None:
    """Draw the means of all arms, and find the best of each draw.

    Args:
        rng: source of randomness.
        family: law of a mean.
        first: (N, K) first posterior parameters.
        second: (N, K) second posterior parameters.
        rows: (R,) the lanes, of N, to draw for.
        tables: N * K, made, kept and remade as needed; or none, to draw without.
        means: (R, K, m) receives the draws, arm by arm.
        winners: (R, m) receives the arm with the largest mean, ties broken at random.
    """
    num_rows, num_arms, num_samples = means.shape
    has_tables = family == BETA and len(tables.keys) > 0
    step = 1 if has_tables else max(1, BLOCK_SIZE // num_samples)
    best, spare = np.empty(num_samples), np.empty((6, step * num_samples))
    pending = np.empty(step * num_samples, dtype=np.int64)
    for r in range(num_rows):
        a, b, x = first[rows[r]], second[rows[r]], means[r].reshape(num_arms * num_samples)
        fill(best, -np.inf)
        for start in range(0, num_arms, step):
            stop, slot = min(start + step, num_arms), rows[r] * num_arms + start
            out = x[start * num_samples : stop * num_samples]
            if not has_tables or not draw_means_from_table(
                rng, a[start], b[start], out, spare[0], pending, tables, slot
            ):
                draw_arms(rng, family, a[start:stop], b[start:stop], out, spare, pending)
            for i in range(start, stop):
                compare_means(rng, means[r], i, best, winners[r])


@inner
def draw_arms(
    rng: Generator,
    family: int,
    first: np.ndarray,
    second: np.ndarray,
    out: np.ndarray,
    spare: np.ndarray,
    pending: np.ndarray,
) -> None:
    """Fill `out` (A m,) with m posterior draws of each arm's mean; see `draw_means`.

    Args:
        rng: source of randomness.
        family: law of a mean.
        first: (A,) first posterior parameters.
        second: (A,) second posterior parameters.
        out: receives the draws, arm by arm.
        spare: (6, at least A m) scratch space.
        pending: (at least A m,) int64 scratch space.
    """
    num_samples = out.size // first.size
    for i in range(first.size):
        part = slice(i * num_samples, (i + 1) * num_samples)
        fill(spare[4, part], first[i])
        fill(spare[5, part], second[i])
    a, b = spare[4, : out.size], spare[5, : out.size]
    draw_means(rng, family, a, b, out, spare[:4, : out.size], pending)


@kernel
def draw_best(
    rng: Generator,
    family: int,
    prior: np.ndarray,
    weights: np.ndarray,
    counts: np.ndarray,
    sums: np.ndarray,
    actions: np.ndarray,
) -> None:
    """Draw every arm's mean once in each row, and find the best.

    Args:
        rng: source of randomness.
        family: law of a mean.
        prior: (K, 2) parameters of the prior, as in `ConjugatePosterior`.
        weights: (2, 2) what a pull and a unit of reward add to them.
        counts: (R, K) pulls of each arm.
        sums: (R, K) total reward of each arm; an arm without a posterior comes before all others.
        actions: (R,) receives the best arm, ties broken at random.
    """
    num_rows, num_arms = counts.shape
    for start in range(0, num_rows, BLOCK_SIZE):
        rows = slice(start, min(start + BLOCK_SIZE, num_rows))
        size = rows.stop - start
        means, spare = np.empty((num_arms, size)), np.empty((7, size))
        pending = np.empty(size, dtype=np.int64)
        fill(spare[6], -np.inf)
        for i in range(num_arms):
            find_parameters(prior[i], weights, counts[rows, i], sums[rows, i], spare[4], spare[5])
            draw_means(rng, family, spare[4], spare[5], means[i], spare, pending)
            if prior[i, 1] == 0.0:
                favour_missing(counts[rows, i], means[i])
            compare_means(rng, means, i, spare[6], actions[rows])


@inner
def find_parameters(
    prior: np.ndarray,
    weights: np.ndarray,
    counts: np.ndarray,
    sums: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    """Fill `first` and `second` (m,) with an arm's posterior parameters, given (m,) statistics."""
    for j in range(first.size):
        n, s = counts[j], sums[j]
        first[j] = prior[0] + weights[0, 0] * n + weights[0, 1] * s
        second[j] = prior[1] + weights[1, 0] * n + weights[1, 1] * s


@inner
def favour_missing(counts: np.ndarray, means: np.ndarray) -> None:
    """Raise the (m,) draws of an arm without data, and without a proper prior, above all others."""
    for j in range(means.size):
        if counts[j] == 0:
            means[j] = np.inf


@kernel
def add_log_densities(
    means: np.ndarray,
    coefficients: np.ndarray,
    sets: np.ndarray,
    rows: np.ndarray,
    support: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add the log-densities of independent arms, up to a constant, to `out`.

    Args:
        means: (R, K, m) means, in the open support of the likelihood's mean.
        coefficients: (L, K, 5) of the features log x, log(1 - x), x, x^2, 1/x.
        sets: (N, K) which of the L sets of coefficients holds for an arm of a lane.
        rows: (R,) the lanes, of N, that the means are of.
        support: (K, 2) interval outside which the density is 0.
        out: (R, m) receives the sum over arms.
    """
    logs, products = np.empty(3), np.empty((4, means.shape[2]))
    fill(logs, 0.0)
    for kind in range(3):
        fill(products[kind], 1.0)
    for r in range(means.shape[0]):
        for i in range(means.shape[1]):
            c0, c1, c2, c3, c4 = coefficients[sets[rows[r], i], i]
            if c0 == c1:
                multiply_logs(X_REST, c0, means[r, i], logs, products, out[r])
            else:
                multiply_logs(X, c0, means[r, i], logs, products, out[r])
                multiply_logs(REST, c1, means[r, i], logs, products, out[r])
            add_rational(c2, c3, c4, means[r, i], out[r])
            cut_support(support[i, 0], support[i, 1], means[r, i], out[r])
        for kind in range(3):
            flush_logs(kind, logs, products, out[r])


@inner
def multiply_logs(
    kind: int,
    coefficient: float,
    x: np.ndarray,
    logs: np.ndarray,
    products: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add coefficient * log(y) to `out`, later: with one logarithm for all arms of a coefficient.

    The sum of the logarithms of y = x, 1 - x or x (1 - x), by kind, is that of their product,
    which is taken to `out` when the coefficient changes or before it could leave the range of
    floating-point numbers.

    Args:
        kind: X, REST or X_REST.
        coefficient: of log(y).
        x: (m,) means.
        logs: (3,) coefficient of the products so far, of each kind.
        products: (4, m) products so far, and scratch space.
        out: (m,) receives the logarithms of the products done with.
    """
    if coefficient == 0.0:
        return
    if coefficient != logs[kind]:
        flush_logs(kind, logs, products, out)
        logs[kind] = coefficient
    product, num_extreme = products[kind], 0
    for j in range(x.size):
        num_extreme += not 1e-250 < product[j] * factor(kind, x[j]) < 1e250
    if num_extreme > 0:
        flush_logs(kind, logs, products, out)
        logs[kind] = coefficient
    for j in range(x.size):
        product[j] *= factor(kind, x[j])


@inner
def factor(kind: int, x: float) -> float:
    """Return y of `multiply_logs`."""
    if kind == X:
        return x
    return 1.0 - x if kind == REST else x * (1.0 - x)


@inner
def flush_logs(kind: int, logs: np.ndarray, products: np.ndarray, out: np.ndarray) -> None:
    """Take the logarithms of the products of a kind to `out`, and start again from 1."""
    if logs[kind] != 0.0:
        log_all(products[kind], products[3])
        for j in range(out.size):
            out[j] += logs[kind] * products[kind, j]
        fill(products[kind], 1.0)
        logs[kind] = 0.0


@inner
def add_rational(c2: float, c3: float, c4: float, x: np.ndarray, out: np.ndarray) -> None:
    """Add c2 x + c3 x^2 + c4 / x."""
    if c2 != 0.0 or c3 != 0.0:
        for j in range(x.size):
            out[j] += (c2 + c3 * x[j]) * x[j]
    if c4 != 0.0:
        for j in range(x.size):
            out[j] += c4 / x[j]


@inner
def cut_support(low: float, high: float, x: np.ndarray, out: np.ndarray) -> None:
    """Put -inf where x is outside [low, high]."""
    if low > -np.inf or high < np.inf:
        for j in range(x.size):
            out[j] = -np.inf if x[j] < low or x[j] > high else out[j]
