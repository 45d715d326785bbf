"""Normal distributions near the posteriors of coefficients: prior times sites of rows.

A *site* is what stands for the likelihood of row i: a normal factor of its linear predictor
eta = x_i . theta, exp(nu_i eta - tau_i eta^2 / 2). With the rows [W | W m_0] of a normal prior, the
precision matrix A and the mean m are (Rasmussen and Williams 2006, equation 3.53)

    A = W'W + sum_i tau_i x_i x_i',    A m = W'W m_0 + sum_i nu_i x_i.

A is kept as a root, see `agents.numerics.roots`. Coefficients of a mixture have a site each
beside, or in place of, the normal prior. `agents.regression.sites` has the sites of expectation
propagation, `agents.regression.laplace` those of the Laplace approximation.

Coefficients are kept block by block: blocks share no row and are independent a priori, and the
covariance is 0 between them.

Notation: N lanes, n rows of a lane at most, d features, B blocks.

References:
    Rasmussen and Williams (2006), "Gaussian Processes for Machine Learning", section 3.6.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from agents.numerics.roots import factor_precision, rotate_row, solve_transposed
from bandit_gym.numerics.compiled import inner

MIN_TAU = 1e-300
"""Precision below which a site is a slope alone."""


class Data(NamedTuple):
    """The rows of all lanes; see `Rows`.

    Attributes:
        columns: (N, d, n).
        counts: (N, n).
        sums: (N, n).
    """

    columns: np.ndarray
    counts: np.ndarray
    sums: np.ndarray


class Components(NamedTuple):
    """A prior that is a mixture of C normal distributions, of each coefficient or of all at once.

    Attributes:
        weights: (d, C) their probabilities; C is 0 where the prior is no mixture.
        log_weights: (d, C).
        means: (d, C).
        precisions: (d, C).
        log_scales: (d, C) half the logarithms of precisions.
        is_shared: whether one component is that of all coefficients.
    """

    weights: np.ndarray
    log_weights: np.ndarray
    means: np.ndarray
    precisions: np.ndarray
    log_scales: np.ndarray
    is_shared: bool


class Fit(NamedTuple):
    """Normal distributions near the posteriors of all lanes.

    Attributes:
        order: (d,) coefficients, block by block; `mean` and `root` are in this order.
        starts: (B + 1,) where blocks begin in it.
        rows: (N, n) rows that have a feature other than 0, block by block.
        row_starts: (N, B + 1) where blocks begin in these.
        seen: (N, n) counts that the sites are of.
        sites: (N, n, 2) tau and nu of each row.
        prior: (d, d + 1) rows [W | W m_0] of a normal prior N(m_0, (W'W)^-1), or 0.
        prior_sites: (N, d, 2) tau and nu of each coefficient, for a mixture; else 0.
        point: (N, d) where likelihoods are expanded, for Laplace approximations; of EP the mean of
            the last sweep.
        root: (N, d, d) root of the precision matrix, see `agents.numerics.roots`.
        shift: (N, d) of the root.
        errors: (N, d, d) of the root.
        is_ill_conditioned: (N, B) where rounding may have decided.
        mean: (N, d).
        factor: (N, d, d) inverse of the root; times its transpose, it is the covariance.
    """

    order: np.ndarray
    starts: np.ndarray
    rows: np.ndarray
    row_starts: np.ndarray
    seen: np.ndarray
    sites: np.ndarray
    prior: np.ndarray
    prior_sites: np.ndarray
    point: np.ndarray
    root: np.ndarray
    shift: np.ndarray
    errors: np.ndarray
    is_ill_conditioned: np.ndarray
    mean: np.ndarray
    factor: np.ndarray


@inner
def read_prior(prior: np.ndarray, columns: np.ndarray, a: int, out: np.ndarray) -> float:
    """Set `out` to row a of the prior of the coefficients `columns`; return what it is to be."""
    for c in range(columns.size):
        out[c] = prior[columns[a], columns[c]]
    return prior[columns[a], prior.shape[0]]


@inner
def log_prior_and_sites(
    prior: np.ndarray,
    prior_sites: np.ndarray,
    columns: np.ndarray,
    theta: np.ndarray,
    row: np.ndarray,
) -> float:
    """Return the log-density of some coefficients under prior and prior sites, to a constant.

    (size,) `row` is overwritten.
    """
    total = 0.0
    for a in range(columns.size):
        off = read_prior(prior, columns, a, row) - dot(row, theta)
        tau, nu = prior_sites[columns[a], 0], prior_sites[columns[a], 1]
        total += (nu - 0.5 * tau * theta[a]) * theta[a] - 0.5 * off * off
    return total


@inner
def rebuild_root(
    columns: np.ndarray,
    rows: np.ndarray,
    features: np.ndarray,
    sites: np.ndarray,
    prior: np.ndarray,
    prior_sites: np.ndarray,
    root: np.ndarray,
    shift: np.ndarray,
    errors: np.ndarray,
) -> None:
    """Set the root of a block to what prior and sites say.

    First come rows of the prior, each followed by that of a coefficient's site; then the data's.

    Args:
        columns: (size,) coefficients of the block.
        rows: those of its lane that are the block's.
        features: (d, n) of all rows.
        sites: (n, 2) tau and nu of all rows.
        prior: (d, d + 1) rows.
        prior_sites: (d, 2) of all coefficients.
        root: (size, size) is set, as the next two.
        shift: (size,).
        errors: (size, size).
    """
    size = columns.size
    x, factors = np.empty((2 * size + rows.size, size)), np.empty((2 * size + rows.size, 2))
    for a in range(size):
        for c in range(size):
            x[2 * a, c] = prior[columns[a], columns[c]]
            x[2 * a + 1, c] = 1.0 if a == c else 0.0
        factors[2 * a, 0], factors[2 * a, 1] = 1.0, prior[columns[a], prior.shape[0]]
        factors[2 * a + 1, 0] = prior_sites[columns[a], 0]
        factors[2 * a + 1, 1] = prior_sites[columns[a], 1]
    for i in range(rows.size):
        for a in range(size):
            x[2 * size + i, a] = features[columns[a], rows[i]]
        factors[2 * size + i, 0] = sites[rows[i], 0]
        factors[2 * size + i, 1] = sites[rows[i], 1]
    if not sum_products(x, factors, root, shift, errors):
        rotate_all_rows(x, factors, root, shift, errors)


@inner
def sum_products(
    x: np.ndarray, factors: np.ndarray, root: np.ndarray, shift: np.ndarray, errors: np.ndarray
) -> bool:
    """Set a root by sums of products, and say whether they keep their digits.

    They take a tenth of the time of rotations.

    Args:
        x: (M, size) rows.
        factors: (M, 2) tau and nu of each.
        root: (size, size) is set, as the next two.
        shift: (size,).
        errors: (size, size).
    """
    size = shift.size
    precision, right = np.empty((size, size)), np.empty(size)
    for a in range(size):
        right[a] = 0.0
        for c in range(size):
            precision[a, c] = 0.0
    for i in range(len(x)):
        for a in range(size):
            if x[i, a] != 0.0:
                right[a] += factors[i, 1] * x[i, a]
                scaled = factors[i, 0] * x[i, a]
                for c in range(a, size):
                    precision[a, c] += scaled * x[i, c]
    return factor_precision(precision, right, root, shift, errors)


@inner
def rotate_all_rows(
    x: np.ndarray, factors: np.ndarray, root: np.ndarray, shift: np.ndarray, errors: np.ndarray
) -> None:
    """Set a root by rotations of (M, size) rows, which are overwritten; see `sum_products`."""
    size = shift.size
    slopes, has_slopes = np.zeros(size), False
    for a in range(size):
        shift[a] = 0.0
        for c in range(size):
            root[a, c] = errors[a, c] = 0.0
    for i in range(len(x)):
        tau, nu = factors[i, 0], factors[i, 1]
        is_slope = not tau > MIN_TAU
        has_slopes |= is_slope and nu != 0.0
        scale = 1.0 if is_slope else math.sqrt(tau)
        for a in range(size):
            slopes[a] += nu * x[i, a] if is_slope else 0.0
            x[i, a] *= scale
        if not is_slope:
            rotate_row(root, shift, errors, x[i], nu / scale)
    if has_slopes:
        solve_transposed(root, errors, slopes, x[0])
        for a in range(size):
            shift[a] += x[0, a]


@inner
def find_decrement(root: np.ndarray, mean: np.ndarray, point: np.ndarray) -> float:
    """Return how far a (size,) mean is from the point of expansion, in standard deviations."""
    square = 0.0
    for a in range(mean.size):
        image = 0.0
        for c in range(a, mean.size):
            image += root[a, c] * (mean[c] - point[c])
        square += image * image
    return math.sqrt(square)


@inner
def dot(x: np.ndarray, y: np.ndarray) -> float:
    """Return the sum of products, one added after the other on any processor."""
    total = 0.0
    for a in range(x.size):
        total += x[a] * y[a]
    return total
