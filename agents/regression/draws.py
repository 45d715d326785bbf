"""Weighted draws of the coefficients, and the choice of one among them.

Draws come from a Student t distribution around the normal fit of each block, as the tails of a
normal one would leave weights of infinite variance where data say little:

    log w(theta) = log prior + sum_i log p(y_i | x_i . theta) - log q.

Blocks are independent a posteriori, so each has its own draws, and a decision takes one of each.

Notation: N lanes, d features, B blocks, K arms, m draws of a block.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from agents.regression.likelihoods import TILE_ROWS, LinkCode, sum_log_likelihoods
from agents.regression.sites import Components, Data, Fit, factorise, invert
from bandit_gym.numerics.compiled import inner, kernel

MANY_FEATURES = 10
FEW_DEGREES, MANY_DEGREES = 8.0, 30.0
"""Degrees of freedom of proposals, in blocks of fewer features than the above and of others: with
few degrees, draws in many dimensions are all far out or all close by."""

PRIOR_SHARE = 0.1
"""Of the components of a mixture drawn by their prior probabilities, regardless of data."""

MIN_CAVITY = 1e-3
"""Least precision of a coefficient's cavity, as a share of that with the site."""


@inner
def draw_noise(rng: Generator, out: np.ndarray, degrees: float) -> float:
    """Draw (size,) standard t variables; return their log-density, to a constant."""
    square, size = 0.0, out.size
    stretch = math.sqrt(degrees / rng.chisquare(degrees))
    for a in range(size):
        out[a] = stretch * rng.standard_normal()
        square += out[a] * out[a]
    return -0.5 * (degrees + size) * math.log1p(square / degrees)


@inner
def draw_block(
    rng: Generator, fit: Fit, index: tuple[int, int], theta: np.ndarray, out: np.ndarray
) -> None:
    """Draw (m, size) coefficients of a block; set (m,) values to minus their log-densities."""
    lane, block = index
    first, size = fit.starts[block], theta.shape[1]
    noise = np.empty(size)
    degrees = FEW_DEGREES if size < MANY_FEATURES else MANY_DEGREES
    for j in range(len(theta)):
        out[j] = -draw_noise(rng, noise, degrees)
        for a in range(size):
            value = fit.mean[lane, first + a]
            for c in range(a + 1):
                value += fit.factor[lane, first + a, first + c] * noise[c]
            theta[j, a] = value


@inner
def draw_mixture(
    rng: Generator,
    prior: Components,
    fit: Fit,
    index: tuple[int, int],
    theta: np.ndarray,
    out: np.ndarray,
) -> None:
    """Draw as `draw_block` does, but first the components of a mixture, and given these the rest.

    Sites of rows, exp(r . theta - theta . R theta / 2), times normal components of the prior are
    normal. For components c drawn with probabilities q(c), and P and Q the density of the mixture
    and that of theta given c, the values are

        log prior(c) + log prior(theta | c) - log q(c) - log Q(theta) - log P(theta).
    """
    lane, block = index
    size, own = theta.shape[1], fit.order[fit.starts[block] : fit.starts[block + 1]]
    rest, right = np.empty((size, size)), np.empty(size)
    find_row_sites(fit, index, rest, right)
    choices = np.empty((size, prior.weights.shape[1]))
    find_choices(prior, fit, index, rest, right, choices)
    degrees = FEW_DEGREES if size < MANY_FEATURES else MANY_DEGREES
    matrix, factor = np.empty((size, size)), np.empty((size, size))
    noise, shift, chosen = np.empty(size), np.empty(size), np.empty(size, dtype=np.int64)
    for j in range(len(theta)):
        out[j] = choose_components(rng, prior, choices, own, chosen)
        for a in range(size):
            precision = prior.precisions[own[a], chosen[a]]
            shift[a] = right[a] + precision * prior.means[own[a], chosen[a]]
            for c in range(a):
                matrix[a, c] = rest[a, c]
            matrix[a, a] = rest[a, a] + precision
        factorise(matrix, factor)
        out[j] -= draw_noise(rng, noise, degrees)
        for a in range(size):
            out[j] -= math.log(factor[a, a])
        solve_with_noise(factor, shift, noise, theta[j])
        out[j] += compare_components(prior, own, chosen, theta[j])


@inner
def find_row_sites(fit: Fit, index: tuple[int, int], rest: np.ndarray, right: np.ndarray) -> None:
    """Set the precision (size, size) and shift (size,) of all sites of a block's rows."""
    lane, block = index
    part = slice(fit.starts[block], fit.starts[block + 1])
    own, mean = fit.order[part], fit.mean[lane, part]
    invert(fit.covariance[lane, part, part], rest)
    for a in range(own.size):
        right[a] = -fit.prior[own[a], -1] - fit.prior_sites[lane, own[a], 1]
        for c in range(own.size):
            right[a] += rest[a, c] * mean[c]
    for a in range(own.size):
        rest[a, a] -= fit.prior_sites[lane, own[a], 0]
        for c in range(own.size):
            rest[a, c] -= fit.prior[own[a], own[c]]


@inner
def solve_with_noise(
    factor: np.ndarray, shift: np.ndarray, noise: np.ndarray, out: np.ndarray
) -> None:
    """Set `out` to A^-1 shift + L^-T noise, for A = L L' and the factor L."""
    for a in range(out.size):
        value = shift[a]
        for c in range(a):
            value -= factor[a, c] * out[c]
        out[a] = value / factor[a, a]
    for a in range(out.size - 1, -1, -1):
        value = out[a] + noise[a]
        for c in range(a + 1, out.size):
            value -= factor[c, a] * out[c]
        out[a] = value / factor[a, a]


@inner
def find_choices(
    prior: Components,
    fit: Fit,
    index: tuple[int, int],
    rest: np.ndarray,
    right: np.ndarray,
    out: np.ndarray,
) -> None:
    """Set (size, C) probabilities by which to draw components: nearly those given the data.

    Of one coefficient, by the density of its cavity under each; of all at once, by the evidence of
    the sites of rows, and in the first line.
    """
    size, num_components = out.shape
    own = fit.order[fit.starts[index[1]] : fit.starts[index[1] + 1]]
    for a in range(1 if prior.is_shared else size):
        i = own[a]
        for c in range(num_components):
            out[a, c] = prior.log_weights[i, c]
            if prior.is_shared:
                out[a, c] += find_shared_evidence(prior, own, (rest, right), c)
            else:
                out[a, c] += find_evidence(prior, fit, index, a, c)
        top, total = out[a].max(), 0.0
        for c in range(num_components):
            out[a, c] = math.exp(out[a, c] - top)
            total += out[a, c]
        for c in range(num_components):
            share = (1.0 - PRIOR_SHARE) * out[a, c] / total
            out[a, c] = share + PRIOR_SHARE * prior.weights[i, c]


@inner
def find_evidence(prior: Components, fit: Fit, index: tuple[int, int], a: int, c: int) -> float:
    """Return the log-density of the cavity of a block's coefficient a under its component c."""
    lane, first = index[0], fit.starts[index[1]]
    tau, nu = fit.prior_sites[lane, fit.order[first + a]]
    variance = fit.covariance[lane, first + a, first + a]
    cavity = max(1.0 / variance - tau, MIN_CAVITY / variance)
    i = fit.order[first + a]
    off = (fit.mean[lane, first + a] / variance - nu) / cavity - prior.means[i, c]
    joint = 1.0 / (1.0 / cavity + 1.0 / prior.precisions[i, c])
    return 0.5 * (math.log(joint) - joint * off * off)


@inner
def find_shared_evidence(
    prior: Components, own: np.ndarray, sites: tuple[np.ndarray, np.ndarray], c: int
) -> float:
    """Return the log-evidence of the sites of rows, precision and shift, under component c."""
    value, matrix, shift = 0.0, sites[0].copy(), sites[1].copy()
    for a in range(own.size):
        mean, precision = prior.means[own[a], c], prior.precisions[own[a], c]
        matrix[a, a] += precision
        shift[a] += precision * mean
        value += prior.log_scales[own[a], c] - 0.5 * precision * mean * mean
    factor, solved = np.empty(matrix.shape), np.empty(own.size)
    factorise(matrix, factor)
    solve_with_noise(factor, shift, np.zeros(own.size), solved)
    for a in range(own.size):
        value += 0.5 * shift[a] * solved[a] - math.log(factor[a, a])
    return value


@inner
def choose_components(
    rng: Generator, prior: Components, choices: np.ndarray, own: np.ndarray, chosen: np.ndarray
) -> float:
    """Choose a component of each coefficient, or one of all; return log prior(c) - log q(c)."""
    total = 0.0
    for a in range(own.size):
        if a > 0 and prior.is_shared:
            chosen[a] = chosen[0]
            continue
        level, c = rng.random(), 0
        while c < choices.shape[1] - 1 and level >= choices[a, c]:
            level -= choices[a, c]
            c += 1
        chosen[a] = c
        total += prior.log_weights[own[a], c] - math.log(choices[a, c])
    return total


@inner
def compare_components(
    prior: Components, own: np.ndarray, chosen: np.ndarray, theta: np.ndarray
) -> float:
    """Return the log-density of coefficients under their components, less that of the mixture.

    For one coefficient after the other, unless they share a component.
    """
    num_components, total, terms = prior.weights.shape[1], 0.0, np.empty(prior.weights.shape[1])
    for c in range(num_components):
        terms[c] = prior.log_weights[own[0], c]
    for a in range(own.size):
        i = own[a]
        for c in range(num_components):
            before = terms[c] if prior.is_shared else prior.log_weights[i, c]
            off = theta[a] - prior.means[i, c]
            terms[c] = before + prior.log_scales[i, c] - 0.5 * prior.precisions[i, c] * off * off
        if not prior.is_shared or a == own.size - 1:
            base, top, weight = terms[chosen[a]], terms.max(), 0.0
            for c in range(num_components):
                weight += math.exp(terms[c] - top)
            total += base - prior.log_weights[i, chosen[a]] - top - math.log(weight)
    return total


@inner
def add_normal_prior(fit: Fit, block: int, theta: np.ndarray, out: np.ndarray) -> None:
    """Add the log-density of the normal prior, to a constant, of (m, size) draws of a block."""
    own = fit.order[fit.starts[block] : fit.starts[block + 1]]
    for j in range(len(theta)):
        value = 0.0
        for a in range(own.size):
            row, image = fit.prior[own[a]], 0.0
            for c in range(own.size):
                image += row[own[c]] * theta[j, c]
            value += theta[j, a] * (row[-1] - 0.5 * image)
        out[j] += value


@inner
def fill_tile(data: Data, lane: int, rows: np.ndarray, own: np.ndarray, tile: np.ndarray) -> bool:
    """Copy features, counts and sums of some rows; say whether all counts are 1.

    Args:
        data: all rows.
        lane: whose.
        rows: (R,) in ascending order.
        own: (size,) coefficients.
        tile: (size + 2, at least R) receives features, and then counts and sums.
    """
    size, first, total = own.size, rows[0], 0
    if rows[-1] - first == rows.size - 1:  # side by side: three times as fast
        part = slice(first, first + rows.size)
        for a in range(size):
            copy_values(data.columns[lane, own[a]][part], tile[a])
        copy_values(data.counts[lane][part], tile[size])
        copy_values(data.sums[lane][part], tile[size + 1])
    else:
        for a in range(size):
            gather_values(data.columns[lane, own[a]], rows, tile[a])
        gather_values(data.counts[lane], rows, tile[size])
        gather_values(data.sums[lane], rows, tile[size + 1])
    for row in rows:
        total += data.counts[lane, row]
    return total == rows.size


@inner
def copy_values(values: np.ndarray, out: np.ndarray) -> None:
    """Set the first entries of `out` to (R,) values."""
    for j in range(values.size):
        out[j] = values[j]


@inner
def gather_values(values: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
    """Set the first entries of `out` to the values of (R,) rows."""
    for j in range(rows.size):
        out[j] = values[rows[j]]


@inner
def predict_linearly(tile: np.ndarray, theta: np.ndarray, eta: np.ndarray) -> None:
    """Set (R,) linear predictors of a tile, four features at a time."""
    size = theta.size
    for j in range(eta.size):
        eta[j] = 0.0
    for a in range(0, size - 3, 4):
        x, y, z, w = theta[a], theta[a + 1], theta[a + 2], theta[a + 3]
        p, q, r, s = tile[a], tile[a + 1], tile[a + 2], tile[a + 3]
        for j in range(eta.size):
            eta[j] += x * p[j] + y * q[j] + z * r[j] + w * s[j]
    for a in range(size - size % 4, size):
        x, p = theta[a], tile[a]
        for j in range(eta.size):
            eta[j] += x * p[j]


@inner
def add_likelihood(
    link: LinkCode, data: Data, fit: Fit, index: tuple[int, int], theta: np.ndarray, out: np.ndarray
) -> None:
    """Add to (m,) values the log-likelihoods of (m, size) draws of a block over all its rows."""
    lane, block = index
    own = fit.order[fit.starts[block] : fit.starts[block + 1]]
    start, stop = fit.row_starts[lane, block], fit.row_starts[lane, block + 1]
    tile, work = np.empty((own.size + 2, TILE_ROWS)), np.empty((3, TILE_ROWS))
    for low in range(start, stop, TILE_ROWS):
        rows = fit.rows[lane, low : min(low + TILE_ROWS, stop)]
        is_single = fill_tile(data, lane, rows, own, tile)
        eta, buffer = work[0][: rows.size], work[1:]  # contiguous, for vector instructions
        for j in range(len(theta)):
            predict_linearly(tile, theta[j], eta)
            out[j] += sum_log_likelihoods(link, eta, tile[own.size :], is_single, buffer)


@kernel
def weigh_draws(
    rng: Generator,
    link: LinkCode,
    data: Data,
    fit: Fit,
    prior: Components,
    lengths: np.ndarray,
    has_normal_prior: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw and weigh coefficients of the blocks that have a length.

    Args:
        rng: source of randomness.
        link: of the likelihood.
        data: all rows.
        fit: to draw from.
        prior: components of one that is a mixture.
        lengths: (N, B) draws of each block.
        has_normal_prior: whether weights are to have the normal prior's density, or none.

    Returns:
        (N, d, m) draws, in the original order of coefficients, and (N, B, m) log-weights, -inf
        beyond a block's length.
    """
    num_lanes, num_blocks = lengths.shape
    num_draws = lengths.max()
    draws = np.zeros((num_lanes, fit.order.size, num_draws))
    log_weights = np.full((num_lanes, num_blocks, num_draws), -np.inf)
    for lane in range(num_lanes):
        for block in range(num_blocks):
            length, first = lengths[lane, block], fit.starts[block]
            if length == 0:
                continue
            theta = np.empty((length, fit.starts[block + 1] - first))
            values = log_weights[lane, block, :length]
            if prior.weights.shape[1] > 0:
                draw_mixture(rng, prior, fit, (lane, block), theta, values)
            else:
                draw_block(rng, fit, (lane, block), theta, values)
            if has_normal_prior:
                add_normal_prior(fit, block, theta, values)
            add_likelihood(link, data, fit, (lane, block), theta, values)
            for a in range(theta.shape[1]):
                for j in range(length):
                    draws[lane, fit.order[first + a], j] = theta[j, a]
    return draws, log_weights


@kernel
def choose_coefficients(
    rng: Generator,
    blocks: tuple[np.ndarray, np.ndarray],
    draws: np.ndarray,
    log_weights: np.ndarray,
    size: int,
) -> np.ndarray:
    """Return (N, size, d) coefficients, of each block one draw that is taken by its weight.

    Args:
        rng: source of randomness.
        blocks: (d,) coefficients, block by block, and (B + 1,) where blocks begin.
        draws: (N, d, m) to choose from.
        log_weights: (N, B, m) of each block's.
        size: how often to choose, independently.
    """
    num_lanes, num_blocks, num_draws = log_weights.shape
    order, starts = blocks
    chosen = np.empty((num_lanes, size, order.size))
    below = np.empty(num_draws)
    for lane in range(num_lanes):
        for block in range(num_blocks):
            top, total = log_weights[lane, block].max(), 0.0
            for j in range(num_draws):
                total += math.exp(log_weights[lane, block, j] - top)
                below[j] = total
            for i in range(size):
                winner = np.searchsorted(below, rng.random() * total, side="right")
                winner = min(winner, num_draws - 1)  # rounding may lead beyond it
                for a in order[starts[block] : starts[block + 1]]:
                    chosen[lane, i, a] = draws[lane, a, winner]
    return chosen
