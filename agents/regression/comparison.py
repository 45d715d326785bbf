"""Which arm is best, by one pool of weighted draws of the coefficients.

Where no two arms use a block in common, their predictors are independent, and all combinations of
the arms' draws count: with weights w_ij and values v_ij of arm i,

    P_i = sum_j w_ij prod_{k != i} F_k(v_ij),    F_k(v) = sum_j w_kj 1{v_kj < v}.

Predictors are counted in bins, as if uniform in each, which takes a tenth of the time of sorting.
Where the arms' predictors are normal and independent, no draws are needed.

Notation: n visitors of a lane, K arms, A of them compared, d features, B blocks, m draws.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from agents.numerics.distributions import NORMAL, MeanDistributions
from agents.numerics.march import conjugate_best_arms
from agents.posteriors.weighted_draws import normalise_weights
from agents.regression.draws import predict_linearly
from bandit_gym.numerics.compiled import inner, kernel

MIN_BINS, MAX_BINS = 64, 4096
BIN_WIDTH = 0.05
"""Of the least standard deviation of an arm that may be best; where bins would be too many for
that, predictors are sorted."""


class Pool(NamedTuple):
    """Weighted draws of a lane's coefficients.

    Attributes:
        theta: (d, m) draws.
        log_weights: (B, m) of each block.
        order: (d,) coefficients, block by block.
        starts: (B + 1,) where blocks begin in it.
        parts: what was last taken of it, by the blocks that arms used.
    """

    theta: np.ndarray
    log_weights: np.ndarray
    order: np.ndarray
    starts: np.ndarray
    parts: dict[bytes, Part]


class Part(NamedTuple):
    """What arms use of a pool: A of them if they are independent, else one for all.

    Attributes:
        columns: A arrays of coefficients.
        theta: (A, c, m) draws of these, 0 beyond an arm's own.
        weights: (A, m), which sum to 1.
        covariances: (A, c, c) of the draws, as if their weights were equal.
    """

    columns: list[np.ndarray]
    theta: np.ndarray
    weights: np.ndarray
    covariances: np.ndarray


def find_uses(
    order: np.ndarray, starts: np.ndarray, features: np.ndarray, available: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, K, B) which blocks available arms use, and (n,) whether arms are independent.

    They are where each of them uses blocks, and none that another one uses.
    """
    is_used = (features != 0)[..., order]
    uses = np.logical_or.reduceat(is_used, starts[:-1], axis=2) & available[..., None]
    is_apart = (uses.sum(axis=1) <= 1).all(axis=1)
    return uses, is_apart & (uses.any(axis=2) == available).all(axis=1)


def compare_in_pool(pool: Pool, features: np.ndarray, available: np.ndarray) -> np.ndarray:
    """Return (n, K) probabilities that arms are best, by a lane's pool.

    Visitors whose arms use the same blocks share weights.

    Args:
        pool: of the lane.
        features: (n, K, d).
        available: (n, K) arms that may be best.
    """
    uses, is_independent = find_uses(pool.order, pool.starts, features, available)
    keys = np.concatenate([available, uses.reshape(len(uses), -1)], axis=1)
    groups = [np.arange(len(keys))]
    if (keys != keys[:1]).any():
        _, which = np.unique(np.packbits(keys, axis=1), axis=0, return_inverse=True)
        groups = np.split(np.argsort(which, kind="stable"), np.bincount(which).cumsum()[:-1])
    out = np.zeros(available.shape)
    for rows in groups:
        arms, is_apart = np.flatnonzero(available[rows[0]]), is_independent[rows[0]]
        blocks = uses[rows[0], arms]
        part = find_part(pool, blocks if is_apart else blocks.any(axis=0, keepdims=True))
        x = features[np.ix_(rows, arms)]
        if is_apart:
            out[np.ix_(rows, arms)] = compare_independent(x, part)
        else:
            for row, visitor in zip(rows, x[..., part.columns[0]], strict=True):
                values = predict_draws(visitor, part.theta[0])
                out[row, arms] = count_best(values, part.weights[0])
    return out / out.sum(axis=1, keepdims=True)


def predict_in_pool(
    pool: Pool, features: np.ndarray, available: np.ndarray
) -> tuple[Part, np.ndarray]:
    """Return what a visitor's A arms use of a pool, and the (A, m) predictors of its draws.

    Args:
        pool: of the lane.
        features: (K, d).
        available: (K,) the A arms that may be best.
    """
    uses, is_independent = find_uses(pool.order, pool.starts, features[None], available[None])
    uses, arms = uses[0, available], features[available]
    part = find_part(pool, uses if is_independent[0] else uses.any(axis=0, keepdims=True))
    if not is_independent[0]:
        return part, predict_draws(arms[:, part.columns[0]], part.theta[0])
    pairs = zip(arms, part.columns, part.theta, strict=True)
    return part, np.array([x[columns] @ theta[: columns.size] for x, columns, theta in pairs])


def find_part(pool: Pool, uses: np.ndarray) -> Part:
    """Return what arms use of a pool, given (A, B) blocks of each; the last one is kept."""
    key = np.packbits(uses).tobytes()
    if key not in pool.parts:
        pool.parts.clear()
        pool.parts[key] = take_part(pool, uses)
    return pool.parts[key]


def take_part(pool: Pool, uses: np.ndarray) -> Part:
    """Return what arms use of a pool, given (A, B) blocks of each."""
    sizes = np.diff(pool.starts)
    columns = [pool.order[np.repeat(each, sizes)] for each in uses]
    shape = len(columns), max(each.size for each in columns)
    theta = np.zeros((*shape, pool.theta.shape[1]))
    for draws, each in zip(theta, columns, strict=True):
        draws[: each.size] = pool.theta[each]
    off = theta - theta.mean(axis=2, keepdims=True)
    covariances = off @ off.swapaxes(1, 2) / theta.shape[2]
    log_weights = np.array([pool.log_weights[each].sum(axis=0) for each in uses])
    return Part(columns, theta, normalise_weights(log_weights)[0], covariances)


def predict_draws(features: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return (K, m) predictors of arms with (K, c) features, of (c, m) draws; of equal arms, equal.

    Products of matrices may round equal arms differently, and wait for a second core: 8 ms in place
    of 0.1 where others use it.
    """
    return np.asarray(np.einsum("kc,cm->km", features, theta))


def count_best(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return (K,) weights of the m draws in which an arm's value is the largest; ties share them.

    Args:
        values: (K, m).
        weights: (m,).
    """
    is_best = values == values.max(axis=0)
    if np.count_nonzero(is_best) > weights.size:
        weights = weights / is_best.sum(axis=0)
    return np.asarray(is_best @ weights)


def compare_independent(features: np.ndarray, part: Part) -> np.ndarray:
    """Return (n, K) probabilities that an arm of (n, K, d) features is best, of independent arms.

    A part of a pool has the draws of each.
    """
    x = np.zeros((*features.shape[:2], part.theta.shape[1]))
    for k, each in enumerate(part.columns):
        x[:, k, : each.size] = features[:, k, each]
    variances = np.einsum("nka,kab,nkb->nk", x, part.covariances, x, optimize=True)
    spreads = np.ascontiguousarray(np.sqrt(variances))  # of one layout, for one kernel
    out, needs_order = np.zeros(spreads.shape), np.zeros(len(x), dtype=np.bool_)
    compare_in_bins(x, part.theta, part.weights, spreads, out, needs_order)
    for i in np.flatnonzero(needs_order):
        out[i] = compare_ordered(np.einsum("kc,kcm->km", x[i], part.theta), part.weights)
    return out


def compare_ordered(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return (K,) probabilities that an arm is best, over all combinations of (K, m) draws.

    Arms with equal values share them: within a tie, values are as if uniform, as in a bin.
    """
    order = np.argsort(values, axis=1)
    below = np.take_along_axis(weights, order, axis=1).cumsum(axis=1)
    below = np.concatenate([np.zeros((len(below), 1)), below], axis=1)
    ordered, out = np.take_along_axis(values, order, axis=1), np.zeros(len(values))
    nodes, node_weights = np.zeros(1), np.ones(1)
    if has_ties := np.unique(values).size < values.size:
        nodes, node_weights = np.polynomial.legendre.leggauss(len(values) // 2 + 1)
        nodes, node_weights = (nodes + 1) / 2, node_weights / 2
    for k, drawn in enumerate(values):
        pairs = [*zip(below, ordered, strict=True)]
        low = high = np.array([b[np.searchsorted(o, drawn)] for b, o in pairs])
        if has_ties:
            high = np.array([b[np.searchsorted(o, drawn, side="right")] for b, o in pairs])
        for node, node_weight in zip(nodes, node_weights, strict=True):
            others = low + node * (high - low)
            others[k] = weights[k]
            out[k] += node_weight * np.prod(others, axis=0).sum()
    return out


@kernel
def compare_in_bins(
    x: np.ndarray,
    theta: np.ndarray,
    weights: np.ndarray,
    spreads: np.ndarray,
    out: np.ndarray,
    needs_order: np.ndarray,
) -> None:
    """Set (n, K) probabilities that arms are best, in bins; say where these are too many.

    In a bin, values are as if uniform, and Gauss's three nodes integrate products over it. Bins
    begin at the largest of the arms' least values, below which none is best.

    Args:
        x: (n, K, c) features.
        theta: (K, c, m) draws of their coefficients.
        weights: (K, m).
        spreads: (n, K) standard deviations of predictors.
        out: (n, K).
        needs_order: (n,) is set where the narrowest arm has less than a bin, of the most.
    """
    num_arms = len(weights)
    values, before = np.empty(weights.shape), np.empty(num_arms)
    masses, below, top = np.empty((num_arms, MAX_BINS)), np.empty(num_arms), np.empty(num_arms)
    for i in range(len(x)):
        low, high, spread = -np.inf, -np.inf, np.inf
        for k in range(num_arms):
            predict_linearly(theta[k], x[i, k], values[k])
            least, top[k] = find_range(values[k])
            low = max(low, least)
        for k in range(num_arms):
            high = max(high, top[k])
            if top[k] >= low:
                spread = min(spread, spreads[i, k])
        wanted = (high - low) / (BIN_WIDTH * spread)
        needs_order[i] = not wanted < MAX_BINS
        if not needs_order[i]:
            num_bins = max(MIN_BINS, int(wanted) + 1)
            scale = num_bins / max(high - low, 1e-300)
            for k in range(num_arms):
                below[k] = fill_bins(values[k], weights[k], low, scale, masses[k, :num_bins])
            integrate_bins(masses[:, :num_bins], below, before, out[i])


@inner
def find_range(values: np.ndarray) -> tuple[float, float]:
    """Return the least and the largest of (m,) numbers, in a third of the time of NumPy's."""
    least = largest = values[0]
    for j in range(values.size):
        value = values[j]
        least = value if value < least else least
        largest = value if value > largest else largest
    return least, largest


@inner
def fill_bins(
    values: np.ndarray, weights: np.ndarray, low: float, scale: float, out: np.ndarray
) -> float:
    """Set the weight in each bin above `low`, of which `scale` are a unit long; return the rest."""
    below = 0.0
    for g in range(out.size):
        out[g] = 0.0
    for j in range(values.size):
        if values[j] < low:
            below += weights[j]
        else:
            out[min(int((values[j] - low) * scale), out.size - 1)] += weights[j]
    return below


@inner
def integrate_bins(
    masses: np.ndarray, below: np.ndarray, before: np.ndarray, out: np.ndarray
) -> None:
    """Add to (K,) the probabilities that arms are largest, of which (K,) have values below."""
    nodes = (0.5 - math.sqrt(0.15), 0.5, 0.5 + math.sqrt(0.15))
    node_weights = (5.0 / 18.0, 8.0 / 18.0, 5.0 / 18.0)
    for g in range(masses.shape[1]):
        for q in range(3):
            product = node_weights[q]
            for k in range(below.size):
                before[k] = product
                product *= below[k] + nodes[q] * masses[k, g]
            product = 1.0
            for k in range(below.size - 1, -1, -1):
                out[k] += masses[k, g] * before[k] * product
                product *= below[k] + nodes[q] * masses[k, g]
        for k in range(below.size):
            below[k] += masses[k, g]


def compare_normals(mean: np.ndarray, std: np.ndarray, available: np.ndarray) -> np.ndarray:
    """Return (n, K) probabilities that an arm is best, of independent normal predictors.

    Args:
        mean: (n, K).
        std: (n, K), above 0 of available arms.
        available: (n, K) arms that may be best.
    """
    precision = np.square(1 / np.where(available, std, 1.0))
    return conjugate_best_arms(MeanDistributions(NORMAL, mean * precision, precision), available)
