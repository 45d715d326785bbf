"""Weighted draws of the coefficients, and the choice of one among them.

The weight of a draw from the density q, see `agents.regression.proposals`, is

    log w(theta) = log prior + sum_i log p(y_i | x_i . theta) - log q.

Blocks are independent a posteriori, so each has its own draws, and a decision takes one of each.

Notation: N lanes, d features, B blocks, K arms, m draws; a block has `size` coefficients.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from agents.regression.likelihoods import TILE_ROWS, LinkCode, sum_log_likelihoods
from agents.regression.normal_fit import Components, Data, Fit, dot, log_prior_and_sites
from agents.regression.proposals import draw_block, draw_mixture
from bandit_gym.numerics.compiled import inner, kernel

LEAD_ROUNDING = 1e-12
"""Of an arm's lead, beside its parts, what the order of additions may change."""


@inner
def add_normal_prior(
    prior: np.ndarray,
    prior_sites: np.ndarray,
    columns: np.ndarray,
    draws: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add the log-density of the normal prior, to a constant, of m draws of a block."""
    theta, row = np.empty(columns.size), np.empty(columns.size)
    for j in range(out.size):
        for a in range(columns.size):
            theta[a] = draws[columns[a], j]
        out[j] += log_prior_and_sites(prior, prior_sites, columns, theta, row)


@inner
def fill_tile(
    data: Data, lane: int, rows: np.ndarray, columns: np.ndarray, tile: np.ndarray
) -> bool:
    """Copy features, counts and sums of some rows; say whether all counts are 1.

    Args:
        data: all rows.
        lane: whose.
        rows: (R,) of them.
        columns: (size,) coefficients.
        tile: (size + 2, at least R) receives features, and then counts and sums.
    """
    size, num_single = columns.size, 0
    for a in range(size):
        for j in range(rows.size):
            tile[a, j] = data.columns[lane, columns[a], rows[j]]
    for j in range(rows.size):
        tile[size, j], tile[size + 1, j] = data.counts[lane, rows[j]], data.sums[lane, rows[j]]
        num_single += tile[size, j] == 1.0
    return num_single == rows.size


@inner
def predict_linearly(tile: np.ndarray, theta: np.ndarray, eta: np.ndarray) -> None:
    """Set (R,) linear predictors of a tile, four features at a time."""
    size = theta.size
    for j in range(eta.size):
        eta[j] = 0.0
    for a in range(0, size - 3, 4):
        x, y, z, w = theta[a], theta[a + 1], theta[a + 2], theta[a + 3]
        for j in range(eta.size):
            eta[j] += x * tile[a, j] + y * tile[a + 1, j] + z * tile[a + 2, j] + w * tile[a + 3, j]
    for a in range(size - size % 4, size):
        for j in range(eta.size):
            eta[j] += theta[a] * tile[a, j]


@inner
def add_likelihood(
    link: LinkCode,
    data: Data,
    lane: int,
    rows: np.ndarray,
    columns: np.ndarray,
    draws: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add the log-likelihoods of a lane's rows to m values, of draws of some coefficients.

    Args:
        link: of the likelihood.
        data: all rows.
        lane: whose.
        rows: those of them.
        columns: (size,) coefficients.
        draws: (d, at least m) of all coefficients.
        out: (m,) values.
    """
    size, theta = columns.size, np.empty(columns.size)
    tile, work = np.empty((size + 2, TILE_ROWS)), np.empty((3, TILE_ROWS))
    for low in range(0, rows.size, TILE_ROWS):
        of_tile = rows[low : low + TILE_ROWS]
        is_single = fill_tile(data, lane, of_tile, columns, tile)
        eta = work[2, : of_tile.size]  # contiguous, for vector instructions
        for j in range(out.size):
            for a in range(size):
                theta[a] = draws[columns[a], j]
            predict_linearly(tile, theta, eta)
            out[j] += sum_log_likelihoods(link, eta, tile[size:], is_single, work)


@inner
def is_decisive(
    order: np.ndarray,
    starts: np.ndarray,
    features: np.ndarray,
    draws: np.ndarray,
    ranges: np.ndarray,
    asked: int,
) -> bool:
    """Say whether it matters at a decision which of its draws a block takes.

    An arm that leads is better than another whatever draws are combined if the least values that
    its lead has in each block sum to more than 0. Of blocks in which it differs from no other arm,
    any draw will do.

    Args:
        order: (d,) coefficients, block by block.
        starts: (B + 1,) where blocks begin in it.
        features: (K, d) of the arms, NaN of those that are not available.
        draws: (d, m).
        ranges: (B, 2) first draw that each block may take, and the one after its last.
        asked: the block.
    """
    gap = np.empty(order.size)
    for block in range(len(ranges)):
        for i in range(starts[block], starts[block + 1]):
            gap[order[i]] = draws[order[i], ranges[block, 0]]
    leader = find_leader(features, gap)
    for arm in range(len(features)):
        for a in range(gap.size):
            gap[a] = features[leader, a] - features[arm, a]
        if has_gap(gap, order, starts[asked], starts[asked + 1]):
            lead, size = 0.0, 0.0
            for block in range(len(ranges)):
                if has_gap(gap, order, starts[block], starts[block + 1]):
                    columns = order[starts[block] : starts[block + 1]]
                    least = find_least(gap, columns, draws, ranges[block])
                    lead, size = lead + least, size + abs(least)
            if lead <= LEAD_ROUNDING * size:
                return True
    return False


@inner
def find_leader(features: np.ndarray, theta: np.ndarray) -> int:
    """Return the arm of (K, d) features, the first of equal ones, that is best under a draw."""
    leader, highest = 0, -np.inf
    for arm in range(len(features)):
        value = dot(features[arm], theta)
        if value > highest:
            leader, highest = arm, value
    return leader


@inner
def find_least(gap: np.ndarray, columns: np.ndarray, draws: np.ndarray, ends: np.ndarray) -> float:
    """Return the least that a block adds to a lead under (d, m) draws between two ends."""
    least = np.inf
    for j in range(ends[0], ends[1]):
        value = 0.0
        for a in columns:
            value += gap[a] * draws[a, j]
        least = min(least, value)
    return least


@inner
def has_gap(gap: np.ndarray, order: np.ndarray, first: int, last: int) -> bool:
    """Say whether (d,) differences of features are other than 0 in a block; NaN are not."""
    for i in range(first, last):
        if abs(gap[order[i]]) > 0.0:
            return True
    return False


@inner
def sum_weights(log_weights: np.ndarray, below: np.ndarray) -> None:
    """Set (m,) `below` to the sums of weights up to each."""
    top, total = -np.inf, 0.0
    for j in range(below.size):
        top = max(top, log_weights[j])
    for j in range(below.size):
        total += math.exp(log_weights[j] - top)
        below[j] = total


@inner
def choose_draw(rng: Generator, below: np.ndarray) -> int:
    """Return a draw that is taken by its weight, given the (m,) sums of weights up to each."""
    level, low, high = rng.random() * below[below.size - 1], 0, below.size - 1
    while low < high:
        middle = (low + high) // 2
        if below[middle] <= level:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def copy_draw(draws: np.ndarray, winner: int, columns: np.ndarray, out: np.ndarray) -> None:
    """Set some of (d,) coefficients to those of one of (d, m) draws."""
    for a in columns:
        out[a] = draws[a, winner]


@inner
def find_best_arm(rng: Generator, features: np.ndarray, theta: np.ndarray) -> int:
    """Return the arm of (K, d) features with the largest predictor, ties at random."""
    winner, best, num_best = 0, -np.inf, 0
    for arm in range(len(features)):
        value = dot(features[arm], theta)
        if value > best:
            best, num_best, winner = value, 1, arm
        elif value == best:
            num_best += 1
            if rng.random() * num_best < 1.0:
                winner = arm
    return winner


@inner
def draw_blocks(
    rng: Generator,
    fit: Fit,
    prior: Components | None,
    lengths: np.ndarray,
    draws: np.ndarray,
    log_weights: np.ndarray,
) -> None:
    """Draw coefficients of all blocks, and set log-weights to minus their log-densities."""
    for lane in range(len(lengths)):
        for block in range(lengths.shape[1]):
            out = log_weights[lane, block, : lengths[lane, block]]
            if prior is not None:
                draw_mixture(rng, prior, fit, (lane, block), draws[lane], out)
            else:
                part = slice(fit.starts[block], fit.starts[block + 1])
                mean, factor = fit.mean[lane, part], fit.factor[lane, part, part]
                draw_block(rng, mean, factor, fit.order[part], draws[lane], out)


@kernel
def draw_weigh_and_compare(
    rng: Generator,
    link: LinkCode,
    data: Data,
    fit: Fit,
    prior: Components | None,
    lengths: np.ndarray,
    has_normal_prior: bool,
    is_given: bool,
    features: np.ndarray,
    draws: np.ndarray,
    log_weights: np.ndarray,
    arms: np.ndarray,
) -> None:
    """Draw coefficients, weigh them, and find the best arms under one draw, in one call.

    A call costs as much as 3,000 logarithms, and a second function would be compiled as long as
    this. Where arms are compared, blocks take their draws one after the other; where it does not
    matter which, draws are not weighed by prior and data.

    Args:
        rng: source of randomness.
        link: of the likelihood.
        data: all rows.
        fit: to draw from.
        prior: components of one that is a mixture, else None: what serves these is then not even
            compiled.
        lengths: (N, B) draws of each block.
        has_normal_prior: whether weights are to have the normal prior's density, or none.
        is_given: whether draws are given, and minus their log-densities, else drawn.
        features: (N, K, d) of arms to compare; of size 0 for none.
        draws: (N, d, m) in the original order of coefficients.
        log_weights: (N, B, m), -inf beyond a block's length.
        arms: (N,) receives the best ones.
    """
    num_lanes, num_blocks = lengths.shape
    if not is_given:
        draw_blocks(rng, fit, prior, lengths, draws, log_weights)
    is_race, ranges = features.size > 0, np.empty((num_blocks, 2), dtype=np.int64)
    chosen, below = np.empty((num_lanes, fit.order.size)), np.empty(draws.shape[2])
    for lane in range(num_lanes):
        for block in range(num_blocks):
            ranges[block, 0], ranges[block, 1] = 0, lengths[lane, block]
        for block in range(num_blocks):
            out = log_weights[lane, block, : lengths[lane, block]]
            columns = fit.order[fit.starts[block] : fit.starts[block + 1]]
            ends = fit.row_starts[lane]
            rows, matters = fit.rows[lane, ends[block] : ends[block + 1]], out.size > 0
            # Arms are compared where that takes less time than weights.
            if is_race and features.shape[1] * features.shape[2] <= rows.size * columns.size:
                order, starts, x = fit.order, fit.starts, features[lane]
                matters = is_decisive(order, starts, x, draws[lane], ranges, block)
            if matters and has_normal_prior:
                add_normal_prior(fit.prior, fit.prior_sites[lane], columns, draws[lane], out)
            if matters:
                add_likelihood(link, data, lane, rows, columns, draws[lane], out)
            if is_race:
                sum_weights(log_weights[lane, block], below)
                winner = choose_draw(rng, below)
                ranges[block, 0], ranges[block, 1] = winner, winner + 1
                copy_draw(draws[lane], winner, columns, chosen[lane])
    for lane in range(arms.size):
        arms[lane] = find_best_arm(rng, features[lane], chosen[lane])


def make_room(fit: Fit, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (N, d, m) zeros for draws of (N, B) lengths, and (N, B, m) log-weights of -inf."""
    num_draws = lengths.max()
    draws = np.zeros((len(lengths), fit.order.size, num_draws))
    return draws, np.full((*lengths.shape, num_draws), -np.inf)


@kernel
def choose_coefficients(
    rng: Generator, fit: Fit, draws: np.ndarray, log_weights: np.ndarray, size: int
) -> np.ndarray:
    """Return (N, size, d) coefficients, of each block one draw that is taken by its weight.

    Args:
        rng: source of randomness.
        fit: with the blocks.
        draws: (N, d, m) to choose from.
        log_weights: (N, B, m) of each block's.
        size: how often to choose, independently.
    """
    num_lanes, num_blocks, num_draws = log_weights.shape
    chosen, below = np.empty((num_lanes, size, fit.order.size)), np.empty(num_draws)
    for lane in range(num_lanes):
        for block in range(num_blocks):
            sum_weights(log_weights[lane, block], below)
            columns = fit.order[fit.starts[block] : fit.starts[block + 1]]
            for i in range(size):
                copy_draw(draws[lane], choose_draw(rng, below), columns, chosen[lane, i])
    return chosen


@kernel
def find_best_arms(rng: Generator, features: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Return the (N,) arms of (N, K, d) features with the largest predictor, ties at random."""
    arms = np.empty(len(features), dtype=np.int64)
    for lane in range(len(features)):
        arms[lane] = find_best_arm(rng, features[lane], coefficients[lane])
    return arms
