"""Proposals: the distributions that coefficients are drawn from, and their densities.

A block's draws come from a Student t distribution around its normal fit: the posterior may keep the
prior's tails, and weights under a narrower normal one would have infinite variance. Where the prior
is a mixture, its components are drawn first, and given these the coefficients.

Notation: N lanes, d features, B blocks, C components, m draws; a block has `size` coefficients.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from agents.numerics.kernels import reject_gamma
from agents.regression.normal_fit import Components, Fit, dot, read_prior
from bandit_gym.numerics.compiled import inner

MANY_FEATURES = 10
FEW_DEGREES, MANY_DEGREES = 8.0, 30.0
"""Degrees of freedom of proposals, in blocks of fewer features than the above and of others: with
few degrees, draws in many dimensions are all far out or all close by."""

PRIOR_SHARE = 0.1
"""Of the draws under a mixture that are from the prior, regardless of data."""

PIVOT_ROUNDING = 2.0**-50
"""Of a diagonal entry, what rounding may leave of its pivot."""

MIN_CAVITY = 1e-3
"""Least precision of a coefficient's cavity, as a share of that with the site."""


@inner
def find_degrees(size: int) -> float:
    """Return the degrees of freedom of a block's proposal."""
    return FEW_DEGREES if size < MANY_FEATURES else MANY_DEGREES


@inner
def draw_noise(rng: Generator, out: np.ndarray) -> None:
    """Draw (size,) standard t variables."""
    degrees = find_degrees(out.size)
    gamma = reject_gamma(rng, 0.5 * degrees - 1.0 / 3.0, rng.standard_normal(), rng.random())
    stretch = math.sqrt(degrees / (2.0 * gamma))
    for a in range(out.size):
        out[a] = stretch * rng.standard_normal()


@inner
def log_noise(noise: np.ndarray) -> float:
    """Return the log-density of (size,) standard t variables, to a constant."""
    degrees = find_degrees(noise.size)
    return -0.5 * (degrees + noise.size) * math.log1p(dot(noise, noise) / degrees)


def log_noises(noise: np.ndarray) -> np.ndarray:
    """Return the (m,) log-densities of (m, size) standard t variables, to a constant."""
    size = noise.shape[1]
    degrees = find_degrees(size)
    return np.asarray(-0.5 * (degrees + size) * np.log1p(np.square(noise).sum(axis=1) / degrees))


@inner
def draw_block(
    rng: Generator,
    mean: np.ndarray,
    factor: np.ndarray,
    columns: np.ndarray,
    draws: np.ndarray,
    out: np.ndarray,
) -> None:
    """Draw coefficients of a block around its (size,) mean, by the factor of its covariance.

    Args:
        rng: source of randomness.
        mean: in the order of `columns`, as the next.
        factor: (size, size), upper triangular.
        columns: (size,) coefficients of the block.
        draws: (d, at least m) receives them.
        out: (m,) receives minus their log-densities.
    """
    noise = np.empty(mean.size)
    for j in range(out.size):
        draw_noise(rng, noise)
        out[j] = -log_noise(noise)
        for a in range(mean.size):
            value = mean[a]
            for c in range(a, mean.size):
                value += factor[a, c] * noise[c]
            draws[columns[a], j] = value


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
def find_row_sites(fit: Fit, lane: int, part: slice) -> tuple[np.ndarray, np.ndarray]:
    """Return the precision matrix and the shift of the sites of all rows of a block.

    They are what the fit has beside prior and prior sites,

        sum_i tau_i x_i x_i' = R'R - W'W - diag(tau),    sum_i nu_i x_i = R'z - W'W m_0 - nu.
    """
    root, columns, size = fit.root[lane, part, part], fit.order[part], part.stop - part.start
    precision, right, row = np.zeros((size, size)), np.zeros(size), np.empty(size)
    for i in range(2 * size):
        if i < size:
            sign, value = 1.0, fit.shift[lane, part.start + i]
            for a in range(size):
                row[a] = root[i, a]
        else:
            sign, value = -1.0, -read_prior(fit.prior, columns, i - size, row)
        for a in range(size):
            right[a] += value * row[a]
            for c in range(a, size):
                precision[a, c] += sign * row[a] * row[c]
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
    draws: np.ndarray,
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
    centre, theta = np.empty(columns.size), np.empty(columns.size)
    constant = find_constant(columns.size)
    for j in range(out.size):
        is_prior_draw = rng.random() < PRIOR_SHARE
        choose_components(rng, prior, probabilities, columns, is_prior_draw, chosen)
        factor_components(prior, columns, chosen, rest.copy(), factor, shift, centre)
        if is_prior_draw:
            draw_components(rng, prior, columns, chosen, theta)
            for a in range(columns.size):
                noise[a] = -centre[a]
                for c in range(a, columns.size):
                    noise[a] += factor[c, a] * theta[c]
        else:  # theta = L'^-1 (L^-1 shift + noise)
            draw_noise(rng, noise)
            for a in range(columns.size - 1, -1, -1):
                theta[a] = centre[a] + noise[a]
                for c in range(a + 1, columns.size):
                    theta[a] -= factor[c, a] * theta[c]
                theta[a] /= factor[a, a]
        both, alone = log_components(prior, columns, chosen, theta, terms)
        ratio = log_noise(noise) + constant - both
        for a in range(columns.size):
            ratio += math.log(factor[a, a])
            if a == 0 or not prior.is_shared:
                ratio += math.log(probabilities[a, chosen[a]])
        top = max(ratio, 0.0)
        density = (1.0 - PRIOR_SHARE) * math.exp(ratio - top) + PRIOR_SHARE * math.exp(-top)
        out[j] = -alone - top - math.log(density)
        for a in range(columns.size):
            draws[columns[a], j] = theta[a]


@inner
def factor_components(
    prior: Components,
    columns: np.ndarray,
    chosen: np.ndarray,
    matrix: np.ndarray,
    factor: np.ndarray,
    shift: np.ndarray,
    centre: np.ndarray,
) -> None:
    """Set the factor L of the precision under chosen components, and (size,) L^-1 of its shift.

    Those of the sites of rows are `matrix`, which is overwritten, and `shift`.
    """
    for a in range(columns.size):
        precision = prior.precisions[columns[a], chosen[a]]
        matrix[a, a] += precision
        centre[a] = shift[a] + precision * prior.means[columns[a], chosen[a]]
    cholesky_factor(matrix, factor)
    solve_lower(factor, centre)


@inner
def find_constant(size: int) -> float:
    """Return what `log_noise` lacks, beside the log-density of normal variables without theirs."""
    degrees = find_degrees(size)
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
        total = values.sum()
        for c in range(values.size):
            out[a, c] = values[c] / total
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
