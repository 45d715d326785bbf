"""Weighted draws of the coefficients, and the choice of one among them.

Draws come from a Student t distribution around the normal fit of each block: the posterior may
keep the prior's tails, and weights under a narrower normal one would have infinite variance. The
weight of a draw is

    log w(theta) = log prior + sum_i log p(y_i | x_i . theta) - log q.

Blocks are independent a posteriori, so each has its own draws, and a decision takes one of each.

Notation: N lanes, d features, B blocks, K arms, m draws of a block.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from agents.regression.likelihoods import TILE_ROWS, LinkCode, sum_log_likelihoods
from agents.regression.normal_fit import (
    Components,
    Data,
    Fit,
    add_product,
    copy_values,
    dot,
    find_columns,
    find_rows,
    log_prior_and_sites,
    read_prior,
)
from bandit_gym.numerics.compiled import inner, kernel

MANY_FEATURES = 10
FEW_DEGREES, MANY_DEGREES = 8.0, 30.0
"""Degrees of freedom of proposals, in blocks of fewer features than the above and of others: with
few degrees, draws in many dimensions are all far out or all close by."""

PRIOR_SHARE = 0.1
"""Of the draws under a mixture that are from the prior, regardless of data."""

LEAD_ROUNDING = 1e-12
"""Of an arm's lead, beside its parts, what the order of additions may change."""

PIVOT_ROUNDING = 2.0**-50
"""Of a diagonal entry, what rounding may leave of its pivot."""

MIN_CAVITY = 1e-3
"""Least precision of a coefficient's cavity, as a share of that with the site."""


@inner
def cholesky_factor(matrix: np.ndarray, out: np.ndarray) -> None:
    """Set the lower triangle of `out` to the Cholesky factor of a matrix's.

    Where a prior is so vague that rounding leaves a pivot below 0, it is what rounding may leave.
    """
    for a in range(len(matrix)):
        for c in range(a + 1):
            value = matrix[a, c]
            for k in range(c):
                value -= out[a, k] * out[c, k]
            if a == c:
                value = math.sqrt(max(value, PIVOT_ROUNDING * abs(matrix[a, a]), 1e-300))
            out[a, c] = value if a == c else value / out[c, c]


@inner
def solve_lower(factor: np.ndarray, x: np.ndarray) -> None:
    """Replace x by L^-1 x for a lower triangular factor L."""
    for a in range(x.size):
        for c in range(a):
            x[a] -= factor[a, c] * x[c]
        x[a] /= factor[a, a]


@inner
def draw_noise(rng: Generator, out: np.ndarray) -> None:
    """Draw (size,) standard t variables."""
    degrees = FEW_DEGREES if out.size < MANY_FEATURES else MANY_DEGREES
    stretch = math.sqrt(degrees / rng.chisquare(degrees))
    for a in range(out.size):
        out[a] = stretch * rng.standard_normal()


@inner
def log_noise(noise: np.ndarray) -> float:
    """Return the log-density of (size,) standard t variables, to a constant."""
    degrees = FEW_DEGREES if noise.size < MANY_FEATURES else MANY_DEGREES
    return -0.5 * (degrees + noise.size) * math.log1p(dot(noise, noise) / degrees)


@inner
def draw_block(
    rng: Generator, fit: Fit, index: tuple[int, int], theta: np.ndarray, out: np.ndarray
) -> None:
    """Draw (m, size) coefficients of a block; set (m,) values to minus their log-densities."""
    lane, part = index[0], slice(fit.starts[index[1]], fit.starts[index[1] + 1])
    mean, factor = fit.mean[lane, part], fit.factor[lane, part, part]
    noise = np.empty(mean.size)
    for j in range(len(theta)):
        draw_noise(rng, noise)
        out[j] = -log_noise(noise)
        for a in range(mean.size):
            theta[j, a] = mean[a]
            for c in range(a, mean.size):
                theta[j, a] += factor[a, c] * noise[c]


@inner
def find_row_sites(fit: Fit, lane: int, part: slice) -> tuple[np.ndarray, np.ndarray]:
    """Return the precision matrix and the shift of the sites of all rows of a block.

    They are what the fit has beside prior and prior sites,

        sum_i tau_i x_i x_i' = R'R - W'W - diag(tau),    sum_i nu_i x_i = R'z - W'W m_0 - nu.
    """
    root, columns, size = fit.root[lane, part, part], fit.order[part], part.stop - part.start
    precision, right, row = np.zeros((size, size)), np.zeros(size), np.empty(size)
    for a in range(size):
        copy_values(root[a], row)
        add_product(precision, right, row, 1.0, fit.shift[lane, part.start + a])
    for a in range(size):
        value = read_prior(fit, columns, a, row)
        add_product(precision, right, row, -1.0, -value)
    for a in range(size):
        tau, nu = fit.prior_sites[lane, columns[a]]
        precision[a, a] -= tau
        right[a] -= nu
        for c in range(a):
            precision[a, c] = precision[c, a]
    return precision, right


@inner
def draw_mixture(
    rng: Generator,
    prior: Components,
    fit: Fit,
    index: tuple[int, int],
    theta: np.ndarray,
    out: np.ndarray,
) -> None:
    """Draw as `draw_block` does, but first the components c of a mixture, and given these the rest.

    Sites of rows, exp(r . theta - theta . R theta / 2), times normal components of the prior are
    normal. As one site serves all components, a share of the draws is from the prior, regardless
    of data. For densities Q of the others, p of components and coefficients under the prior, and P
    of coefficients alone, the values are

        log p(c, theta) - log P(theta) - log((1 - share) Q(c, theta) + share p(c, theta)).
    """
    lane, part = index[0], slice(fit.starts[index[1]], fit.starts[index[1] + 1])
    columns = fit.order[part]
    rest, shift = find_row_sites(fit, lane, part)
    factor = np.empty(rest.shape)
    probabilities = find_component_probabilities(prior, fit, index, rest, shift)
    noise = np.empty(columns.size)
    chosen, terms = np.empty(columns.size, dtype=np.int64), np.empty(probabilities.shape[1])
    centre, constant = np.empty(columns.size), find_constant(columns.size)
    for j in range(len(theta)):
        is_prior_draw = rng.random() < PRIOR_SHARE
        choose_components(rng, prior, probabilities, columns, is_prior_draw, chosen)
        copy_values(shift, centre)
        matrix = rest.copy()
        for a in range(columns.size):
            precision = prior.precisions[columns[a], chosen[a]]
            matrix[a, a] += precision
            centre[a] += precision * prior.means[columns[a], chosen[a]]
        cholesky_factor(matrix, factor)
        solve_lower(factor, centre)
        if is_prior_draw:
            draw_components(rng, prior, columns, chosen, theta[j])
            for a in range(columns.size):
                noise[a] = -centre[a]
                for c in range(a, columns.size):
                    noise[a] += factor[c, a] * theta[j, c]
        else:  # theta = L'^-1 (L^-1 shift + noise)
            draw_noise(rng, noise)
            for a in range(columns.size - 1, -1, -1):
                theta[j, a] = centre[a] + noise[a]
                for c in range(a + 1, columns.size):
                    theta[j, a] -= factor[c, a] * theta[j, c]
                theta[j, a] /= factor[a, a]
        both, alone = log_components(prior, columns, chosen, theta[j], terms)
        ratio = log_noise(noise) + constant - both
        for a in range(columns.size):
            ratio += math.log(factor[a, a])
            if a == 0 or not prior.is_shared:
                ratio += math.log(probabilities[a, chosen[a]])
        top = max(ratio, 0.0)
        density = (1.0 - PRIOR_SHARE) * math.exp(ratio - top) + PRIOR_SHARE * math.exp(-top)
        out[j] = -alone - top - math.log(density)


@inner
def find_constant(size: int) -> float:
    """Return what `log_noise` lacks, beside the log-density of normal variables without theirs."""
    degrees = FEW_DEGREES if size < MANY_FEATURES else MANY_DEGREES
    total = math.lgamma(0.5 * (degrees + size)) - math.lgamma(0.5 * degrees)
    return total - 0.5 * size * math.log(0.5 * degrees)


@inner
def draw_components(
    rng: Generator, prior: Components, columns: np.ndarray, chosen: np.ndarray, theta: np.ndarray
) -> None:
    """Draw (size,) coefficients from chosen components of the prior."""
    for a in range(columns.size):
        scale = math.exp(-prior.log_scales[columns[a], chosen[a]])
        theta[a] = prior.means[columns[a], chosen[a]] + scale * rng.standard_normal()


@inner
def find_component_probabilities(
    prior: Components, fit: Fit, index: tuple[int, int], rest: np.ndarray, shift: np.ndarray
) -> np.ndarray:
    """Return (size, C) probabilities by which to draw components: nearly those given the data.

    Of one coefficient, they are in proportion to the weights w_c times the density of the centre of
    its cavity N(centre, 1 / p) under each component N(m_c, 1 / p_c),

        w_c N(centre; m_c, 1 / p + 1 / p_c).

    Of all at once they are by the evidence of the sites of rows, with their precision `rest` and
    `shift`, and in the first line.
    """
    lane, first, columns = index[0], fit.starts[index[1]], fit.order[fit.starts[index[1]] :]
    out = np.empty((shift.size, prior.weights.shape[1]))
    for a in range(1 if prior.is_shared else shift.size):
        if prior.is_shared:
            values = find_shared_evidence(prior, columns[: shift.size], rest, shift)
        else:
            tau, nu = fit.prior_sites[lane, columns[a]]
            row = fit.factor[lane, first + a, first : first + shift.size]
            variance = dot(row, row)
            cavity = max(1.0 / variance - tau, MIN_CAVITY / variance)
            off = (fit.mean[lane, first + a] / variance - nu) / cavity - prior.means[columns[a]]
            joint = 1.0 / (1.0 / cavity + 1.0 / prior.precisions[columns[a]])
            values = 0.5 * (np.log(joint) - joint * off * off)
        values += prior.log_weights[columns[a]]
        values = np.exp(values - values.max())
        copy_values(values / values.sum(), out[a])
    return out


@inner
def find_shared_evidence(
    prior: Components, columns: np.ndarray, rest: np.ndarray, shift: np.ndarray
) -> np.ndarray:
    """Return the (C,) log-evidences of the sites of rows under components of all coefficients."""
    out, factor = np.zeros(prior.weights.shape[1]), np.empty(rest.shape)
    for c in range(out.size):
        solved, matrix = shift.copy(), rest.copy()
        for a in range(columns.size):
            mean, precision = prior.means[columns[a], c], prior.precisions[columns[a], c]
            matrix[a, a] += precision
            solved[a] += precision * mean
            out[c] += prior.log_scales[columns[a], c] - 0.5 * precision * mean * mean
        cholesky_factor(matrix, factor)
        solve_lower(factor, solved)
        for a in range(columns.size):
            out[c] += 0.5 * solved[a] * solved[a] - math.log(factor[a, a])
    return out


@inner
def choose_components(
    rng: Generator,
    prior: Components,
    probabilities: np.ndarray,
    columns: np.ndarray,
    is_prior_draw: bool,
    chosen: np.ndarray,
) -> None:
    """Choose a component of each coefficient, or one of all, by prior or given probabilities."""
    c = 0
    for a in range(chosen.size):
        if a == 0 or not prior.is_shared:
            choices = prior.weights[columns[a]] if is_prior_draw else probabilities[a]
            level, c = rng.random(), 0
            while c < choices.size - 1 and level >= choices[c]:
                level -= choices[c]
                c += 1
        chosen[a] = c


@inner
def log_components(
    prior: Components, columns: np.ndarray, chosen: np.ndarray, theta: np.ndarray, terms: np.ndarray
) -> tuple[float, float]:
    """Return the prior's log-density of chosen components and coefficients, and of these alone.

    To a constant, for one coefficient after the other, unless they share a component; (C,) `terms`
    are overwritten.
    """
    both, alone = 0.0, 0.0
    for a in range(columns.size):
        i = columns[a]
        for c in range(terms.size):
            before = terms[c] if prior.is_shared and a > 0 else prior.log_weights[i, c]
            off = theta[a] - prior.means[i, c]
            terms[c] = before + prior.log_scales[i, c] - 0.5 * prior.precisions[i, c] * off * off
        if not prior.is_shared or a == columns.size - 1:
            top = terms.max()
            both += terms[chosen[a]]
            alone += top + math.log(np.exp(terms - top).sum())
    return both, alone


@inner
def add_normal_prior(fit: Fit, index: tuple[int, int], theta: np.ndarray, out: np.ndarray) -> None:
    """Add the log-density of the normal prior, to a constant, of (m, size) draws of a block."""
    lane, columns = index[0], find_columns(fit, index[1])
    for j in range(len(theta)):
        out[j] += log_prior_and_sites(fit, lane, columns, theta[j])


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
    for a in range(columns.size):
        gather_values(data.columns[lane, columns[a]], rows, tile[a])
    gather_values(data.counts[lane], rows, tile[columns.size])
    gather_values(data.sums[lane], rows, tile[columns.size + 1])
    num_single = 0
    for j in range(rows.size):
        num_single += tile[columns.size, j] == 1.0
    return num_single == rows.size


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
    link: LinkCode,
    data: Data,
    lane: int,
    all_rows: np.ndarray,
    own: np.ndarray,
    theta: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add to (m,) values the log-likelihoods of (m, size) coefficients `own` over some rows."""
    tile, work = np.empty((own.size + 2, TILE_ROWS)), np.empty((3, TILE_ROWS))
    for low in range(0, all_rows.size, TILE_ROWS):
        rows = all_rows[low : low + TILE_ROWS]
        is_single = fill_tile(data, lane, rows, own, tile)
        eta, buffer = work[0][: rows.size], work[1:]  # contiguous, for vector instructions
        for j in range(len(theta)):
            predict_linearly(tile, theta[j], eta)
            out[j] += sum_log_likelihoods(link, eta, tile[own.size :], is_single, buffer)


@inner
def is_decisive(
    fit: Fit, features: np.ndarray, draws: np.ndarray, ranges: np.ndarray, asked: int
) -> bool:
    """Say whether it matters at a decision which of its draws a block takes.

    An arm that leads is better than another whatever draws are combined if the least values that
    its lead has in each block sum to more than 0. Of blocks in which it differs from no other arm,
    any draw will do.

    Args:
        fit: with the blocks.
        features: (K, d) of the arms, NaN of those that are not available.
        draws: (d, m).
        ranges: (B, 2) first draw that each block may take, and the one after its last.
        asked: the block.
    """
    num_blocks = len(ranges)
    theta = np.empty(fit.order.size)
    for block in range(num_blocks):
        for a in fit.order[fit.starts[block] : fit.starts[block + 1]]:
            theta[a] = draws[a, ranges[block, 0]]
    leader, gap = find_leader(features, theta), theta  # which is not needed any more
    for arm in range(len(features)):
        for a in range(gap.size):
            gap[a] = features[leader, a] - features[arm, a]
        if has_gap(fit, asked, gap):
            lead, size = 0.0, 0.0
            for block in range(num_blocks):
                if has_gap(fit, block, gap):
                    least = find_least(fit, block, gap, draws, ranges[block])
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
def has_gap(fit: Fit, block: int, gap: np.ndarray) -> bool:
    """Say whether (d,) differences of features are other than 0 in a block; NaN are not."""
    for a in fit.order[fit.starts[block] : fit.starts[block + 1]]:
        if abs(gap[a]) > 0.0:
            return True
    return False


@inner
def find_least(fit: Fit, block: int, gap: np.ndarray, draws: np.ndarray, ends: np.ndarray) -> float:
    """Return the least that a block adds to a lead under (d, m) draws between two ends."""
    least = np.inf
    for j in range(ends[0], ends[1]):
        value = 0.0
        for a in fit.order[fit.starts[block] : fit.starts[block + 1]]:
            value += gap[a] * draws[a, j]
        least = min(least, value)
    return least


@inner
def propose_draws(
    rng: Generator, fit: Fit, prior: Components | None, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws as `weigh_draws`, and of their log-weights what is not of prior and data."""
    num_lanes, num_blocks = lengths.shape
    num_draws = lengths.max()
    draws = np.zeros((num_lanes, fit.order.size, num_draws))
    log_weights = np.full((num_lanes, num_blocks, num_draws), -np.inf)
    for lane in range(num_lanes):
        for block in range(num_blocks):
            length, own = lengths[lane, block], fit.order[fit.starts[block] : fit.starts[block + 1]]
            theta = np.empty((length, own.size))
            values = log_weights[lane, block, :length]
            if prior is not None:
                draw_mixture(rng, prior, fit, (lane, block), theta, values)
            else:
                draw_block(rng, fit, (lane, block), theta, values)
            for a in range(own.size):
                copy_values(theta[:, a], draws[lane, own[a]])
    return draws, log_weights


@inner
def weigh_block(
    link: LinkCode,
    data: Data,
    fit: Fit,
    index: tuple[int, int],
    has_normal_prior: bool,
    draws: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add to (m,) log-weights of (d, m) draws what prior and data say of a block."""
    lane, block = index
    own = fit.order[fit.starts[block] : fit.starts[block + 1]]
    theta = np.empty((out.size, own.size))
    for j in range(out.size):
        for a in range(own.size):
            theta[j, a] = draws[own[a], j]
    if has_normal_prior:
        add_normal_prior(fit, index, theta, out)
    add_likelihood(link, data, lane, find_rows(fit, lane, block), own, theta, out)


@kernel
def weigh_draws(
    rng: Generator,
    link: LinkCode,
    data: Data,
    fit: Fit,
    prior: Components | None,
    lengths: np.ndarray,
    has_normal_prior: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw and weigh coefficients of the blocks that have a length.

    Args:
        rng: source of randomness.
        link: of the likelihood.
        data: all rows.
        fit: to draw from.
        prior: components of one that is a mixture, else None: what serves these is then not even
            compiled, which would take as long as all the rest.
        lengths: (N, B) draws of each block.
        has_normal_prior: whether weights are to have the normal prior's density, or none.

    Returns:
        (N, d, m) draws, in the original order of coefficients, and (N, B, m) log-weights, -inf
        beyond a block's length.
    """
    draws, log_weights = propose_draws(rng, fit, prior, lengths)
    for lane in range(len(lengths)):
        for block in range(lengths.shape[1]):
            if lengths[lane, block] > 0:
                out = log_weights[lane, block, : lengths[lane, block]]
                index = lane, block
                weigh_block(link, data, fit, index, has_normal_prior, draws[lane], out)
    return draws, log_weights


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
    winner = np.searchsorted(below, rng.random() * below[-1], side="right")
    return min(winner, below.size - 1)  # rounding may lead beyond it


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
            for i in range(size):
                winner = choose_draw(rng, below)
                for a in fit.order[fit.starts[block] : fit.starts[block + 1]]:
                    chosen[lane, i, a] = draws[lane, a, winner]
    return chosen


@kernel
def find_best_arms(rng: Generator, features: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Return the (N,) arms of (N, K, d) features with the largest predictor, ties at random."""
    num_lanes, num_arms, _ = features.shape
    arms = np.zeros(num_lanes, dtype=np.int64)
    for lane in range(num_lanes):
        best, num_best = -np.inf, 0
        for arm in range(num_arms):
            value = dot(features[lane, arm], coefficients[lane])
            if value > best:
                best, num_best, arms[lane] = value, 1, arm
            elif value == best:
                num_best += 1
                if rng.random() * num_best < 1.0:
                    arms[lane] = arm
    return arms


@kernel
def race_blocks(
    rng: Generator,
    link: LinkCode,
    data: Data,
    fit: Fit,
    lengths: np.ndarray,
    has_normal_prior: bool,
    features: np.ndarray,
) -> np.ndarray:
    """Return the (N,) best arms of (N, K, d) features under one draw, for a normal prior.

    The steps above in one call, as each call costs as much as 3,000 logarithms. Blocks take their
    draws one after the other; where it does not matter which, draws are not weighed by prior and
    data. `True` in place of the argument that can have no other value would be compiled once more.
    """
    draws, log_weights = propose_draws(rng, fit, None, lengths)
    num_lanes, num_blocks, num_draws = log_weights.shape
    chosen, below = np.empty((num_lanes, fit.order.size)), np.empty(num_draws)
    ranges = np.zeros((num_blocks, 2), dtype=np.int64)
    for lane in range(num_lanes):
        for block in range(num_blocks):
            ranges[block, 0], ranges[block, 1] = 0, lengths[lane, block]
        for block in range(num_blocks):
            own = fit.order[fit.starts[block] : fit.starts[block + 1]]
            # Arms are compared where that takes less time than weights.
            is_costly = features[lane].size > find_rows(fit, lane, block).size * own.size
            if is_costly or is_decisive(fit, features[lane], draws[lane], ranges, block):
                out, index = log_weights[lane, block, : lengths[lane, block]], (lane, block)
                weigh_block(link, data, fit, index, has_normal_prior, draws[lane], out)
            sum_weights(log_weights[lane, block], below)
            winner = choose_draw(rng, below)
            ranges[block, 0], ranges[block, 1] = winner, winner + 1
            for a in own:
                chosen[lane, a] = draws[lane, a, winner]
    return find_best_arms(rng, features, chosen)
