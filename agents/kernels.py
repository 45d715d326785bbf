"""Compiled inner loops: drawing arm means, weighing them, racing them.

Each is an ordinary function of scalars, arrays and a NumPy Generator; `kernel.py_func` is the same
function uncompiled and gives the same result from the same generator. Importing this module
imports numba, so agents import it when first needed. Machine code is cached on disk.

Letters: K arms, R rows (races), m samples in a chunk. Families are those of `agents.posteriors`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.random import Generator

from agents.posteriors import BETA, GAMMA, INVERSE_GAMMA, NORMAL
from agents.tables import Tables, draw_from_table, find_table
from agents.variates import draw_gammas, draw_normals

TINY = 1e-300
ALMOST_ONE = 1 - 2.0**-53
X, REST, X_REST = range(3)

BLOCK_SIZE = 640
"""Means that `draw_best` draws at a time; their scratch space then stays in the nearest cache."""


@njit(cache=True, error_model="numpy")
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
        spare: (4, m) scratch space.
        pending: (m,) int64 scratch space.
    """
    if family == NORMAL:
        draw_normals(rng, out, spare[0], pending)
        for j in range(out.size):
            out[j] = first[j] / second[j] + out[j] / math.sqrt(second[j])
        return
    draw_gammas(rng, first, out, spare[:3], pending)
    if family == BETA:
        draw_gammas(rng, second, spare[3], spare[:3], pending)
        combine_gammas(rng, first, second, out, spare[3])
    elif family == GAMMA:
        for j in range(out.size):
            out[j] = max(out[j] / second[j], TINY)
    else:
        for j in range(out.size):
            out[j] = second[j] / max(out[j], TINY)


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def draw_means_from_table(
    rng: Generator,
    family: int,
    first: float,
    second: float,
    out: np.ndarray,
    places: np.ndarray,
    pending: np.ndarray,
    tables: Tables,
    slot: int,
) -> bool:
    """Do as `draw_means`, five times faster, or return False if the density suits no table."""
    if family == NORMAL:
        return False
    c1, c2 = (second - 1.0, 0.0) if family == BETA else (0.0, -1.0)
    if not find_table(tables, slot, first - 1.0, c1, c2):
        return False
    numbers, cells, offsets = tables.numbers[slot], tables.cells[slot], tables.offsets[slot]
    draw_from_table(rng, numbers, cells, offsets, out, places, pending)
    if family == GAMMA:
        scale = 1.0 / second
        for j in range(out.size):
            out[j] *= scale
    elif family == INVERSE_GAMMA:
        for j in range(out.size):
            out[j] = second / out[j]
    return True


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
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
    best, spare = np.empty(num_samples), np.empty((4, num_samples))
    pending = np.empty(num_samples, dtype=np.int64)
    has_tables = len(tables.keys) > 0
    for r in range(num_rows):
        best[:] = -np.inf
        for i in range(num_arms):
            a, b, out = first[rows[r], i], second[rows[r], i], means[r, i]
            slot = rows[r] * num_arms + i
            if not has_tables or not draw_means_from_table(
                rng, family, a, b, out, spare[0], pending, tables, slot
            ):
                draw_means(
                    rng, family, np.full(num_samples, a), np.full(num_samples, b), out, spare,
                    pending,
                )  # fmt: skip
            compare_means(rng, means[r], i, best, winners[r])


@njit(cache=True, error_model="numpy")
def draw_best(
    rng: Generator,
    family: int,
    first: np.ndarray,
    second: np.ndarray,
    is_missing: np.ndarray,
    actions: np.ndarray,
) -> None:
    """Draw every arm's mean once in each row, and find the best.

    Args:
        rng: source of randomness.
        family: law of a mean.
        first: (R, K) first posterior parameters.
        second: (R, K) second posterior parameters.
        is_missing: (R, K) arms without a posterior, which come before all others.
        actions: (R,) receives the best arm, ties broken at random.
    """
    num_rows, num_arms = first.shape
    block = max(1, BLOCK_SIZE // num_arms)
    means, spare, pending = np.empty(0), np.empty((4, 0)), np.empty(0, dtype=np.int64)
    for start in range(0, num_rows, block):
        rows = slice(start, min(start + block, num_rows))
        missing = is_missing[rows].ravel()
        a, b = first[rows].ravel(), second[rows].ravel()
        if missing.any():
            a, b = np.where(missing, 1.0, a), np.where(missing, 1.0, b)
        if a.size != means.size:
            means, spare = np.empty(a.size), np.empty((4, a.size))
            pending = np.empty(a.size, dtype=np.int64)
        draw_means(rng, family, a, b, means, spare, pending)
        if missing.any():
            means[missing] = np.inf
        for r in range(rows.start, rows.stop):
            first_arm = (r - start) * num_arms
            actions[r] = find_best(rng, means[first_arm : first_arm + num_arms])


@njit(cache=True, error_model="numpy")
def find_best(rng: Generator, means: np.ndarray) -> int:
    """Return the arm with the largest of (K,) means, ties broken at random."""
    best, num_best, action = -np.inf, 0, 0
    for i in range(means.size):
        x = means[i]
        if x == best:
            num_best += 1
            if rng.random() * num_best < 1.0:
                action = i
        action = i if x > best else action
        num_best = 1 if x > best else num_best
        best = max(best, x)
    return action


@njit(cache=True, error_model="numpy")
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
    logs = np.zeros(3)
    products = np.ones((3, means.shape[2]))
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


@njit(cache=True, error_model="numpy")
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
        products: (3, m) products so far.
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


@njit(cache=True, error_model="numpy")
def factor(kind: int, x: float) -> float:
    """Return y of `multiply_logs`."""
    if kind == X:
        return x
    return 1.0 - x if kind == REST else x * (1.0 - x)


@njit(cache=True, error_model="numpy")
def flush_logs(kind: int, logs: np.ndarray, products: np.ndarray, out: np.ndarray) -> None:
    """Take the logarithms of the products of a kind to `out`, and start again from 1."""
    if logs[kind] != 0.0:
        for j in range(out.size):
            out[j] += logs[kind] * math.log(products[kind, j])
        products[kind] = 1.0
        logs[kind] = 0.0


@njit(cache=True, error_model="numpy")
def add_rational(c2: float, c3: float, c4: float, x: np.ndarray, out: np.ndarray) -> None:
    """Add c2 x + c3 x^2 + c4 / x."""
    if c2 != 0.0 or c3 != 0.0:
        for j in range(x.size):
            out[j] += (c2 + c3 * x[j]) * x[j]
    if c4 != 0.0:
        for j in range(x.size):
            out[j] += c4 / x[j]


@njit(cache=True, error_model="numpy")
def cut_support(low: float, high: float, x: np.ndarray, out: np.ndarray) -> None:
    """Put -inf where x is outside [low, high]."""
    if low > -np.inf or high < np.inf:
        for j in range(x.size):
            out[j] = -np.inf if x[j] < low or x[j] > high else out[j]
