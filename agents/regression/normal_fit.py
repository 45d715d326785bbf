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

from agents.numerics.roots import (
    factor_precision,
    invert_root,
    is_ill_conditioned,
    rotate_row,
    solve_root,
    solve_transposed,
)
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
def find_rows(fit: Fit, lane: int, block: int) -> np.ndarray:
    """Return the rows of a lane's block, a view."""
    return fit.rows[lane, fit.row_starts[lane, block] : fit.row_starts[lane, block + 1]]


@inner
def find_columns(fit: Fit, block: int) -> np.ndarray:
    """Return the coefficients of a block, a view."""
    return fit.order[fit.starts[block] : fit.starts[block + 1]]


@inner
def read_prior(fit: Fit, columns: np.ndarray, a: int, out: np.ndarray) -> float:
    """Set `out` to row a of the prior of the coefficients `columns`; return what it is to be."""
    for c in range(columns.size):
        out[c] = fit.prior[columns[a], columns[c]]
    return fit.prior[columns[a], -1]


@inner
def log_prior_and_sites(fit: Fit, lane: int, columns: np.ndarray, theta: np.ndarray) -> float:
    """Return the log-density of some coefficients under prior and prior sites, to a constant."""
    total, row = 0.0, np.empty(columns.size)
    for a in range(columns.size):
        off = read_prior(fit, columns, a, row) - dot(row, theta)
        tau, nu = fit.prior_sites[lane, columns[a]]
        total += (nu - 0.5 * tau * theta[a]) * theta[a] - 0.5 * off * off
    return total


@inner
def rebuild_block(data: Data, fit: Fit, lane: int, block: int) -> None:
    """Set the root of a block to what prior and sites say, and all that follows from it.

    Sums of products take a tenth of the time of rotations, and serve where they keep their digits.
    """
    part = slice(fit.starts[block], fit.starts[block + 1])
    root, shift = fit.root[lane, part, part], fit.shift[lane, part]
    precision, right = sum_products(data, fit, lane, block)
    if not factor_precision(precision, right, root, shift, fit.errors[lane, part, part]):
        rotate_all_rows(data, fit, lane, block)
    describe_block(fit, lane, block)


@inner
def sum_products(data: Data, fit: Fit, lane: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper half of the precision matrix of a block, and its product with the mean."""
    columns = find_columns(fit, block)
    size = columns.size
    precision, right, x = np.zeros((size, size)), np.zeros(size), np.empty(size)
    for b in range(size):
        add_product(precision, right, x, 1.0, read_prior(fit, columns, b, x))
        tau, nu = fit.prior_sites[lane, columns[b]]
        precision[b, b] += tau
        right[b] += nu
    for row in find_rows(fit, lane, block):
        read_features(data, lane, row, columns, x)
        add_product(precision, right, x, fit.sites[lane, row, 0], fit.sites[lane, row, 1])
    return precision, right


@inner
def add_product(
    precision: np.ndarray, right: np.ndarray, x: np.ndarray, tau: float, nu: float
) -> None:
    """Add tau x x' to the upper half of a matrix, and nu x to a vector."""
    for a in range(x.size):
        right[a] += nu * x[a]
        scaled = tau * x[a]
        for c in range(a, x.size):
            precision[a, c] += scaled * x[c]


@inner
def rotate_all_rows(data: Data, fit: Fit, lane: int, block: int) -> None:
    """Set the root of a block by rotating the rows of prior and sites into it."""
    part = slice(fit.starts[block], fit.starts[block + 1])
    root, shift = fit.root[lane, part, part], fit.shift[lane, part]
    errors, own = fit.errors[lane, part, part], fit.order[part]
    x, slopes, has_slopes = np.empty(own.size), np.zeros(own.size), False
    for a in range(own.size):
        shift[a] = 0.0
        for c in range(own.size):
            root[a, c] = errors[a, c] = 0.0
    for b in range(own.size):
        value = read_prior(fit, own, b, x)
        rotate_row(root, shift, errors, x, value)
        tau, nu = fit.prior_sites[lane, own[b]]
        if tau > 0.0:
            for a in range(own.size):
                x[a] = math.sqrt(tau) if a == b else 0.0
            rotate_row(root, shift, errors, x, nu / x[b])
    for row in find_rows(fit, lane, block):
        read_features(data, lane, row, own, x)
        tau, nu = fit.sites[lane, row]
        if tau > MIN_TAU:
            scale_values(x, math.sqrt(tau))
            rotate_row(root, shift, errors, x, nu / math.sqrt(tau))
        else:
            has_slopes |= nu != 0.0
            add_multiple(nu, x, slopes)
    if has_slopes:
        solve_transposed(root, errors, slopes, x)
        add_multiple(1.0, x, shift)


@inner
def describe_block(fit: Fit, lane: int, block: int) -> None:
    """Set mean, factor and condition of a block to what its root says."""
    part = slice(fit.starts[block], fit.starts[block + 1])
    root, factor = fit.root[lane, part, part], fit.factor[lane, part, part]
    invert_root(root, factor)
    solve_root(root, fit.shift[lane, part], fit.mean[lane, part])
    errors = fit.errors[lane, part, part]
    fit.is_ill_conditioned[lane, block] = is_ill_conditioned(root, errors)


@inner
def find_decrement(fit: Fit, lane: int, block: int) -> float:
    """Return how far the mean of a block is from the point of expansion, in standard deviations."""
    part = slice(fit.starts[block], fit.starts[block + 1])
    root, mean, point = fit.root[lane, part, part], fit.mean[lane, part], fit.point[lane, part]
    square = 0.0
    for a in range(mean.size):
        image = 0.0
        for c in range(a, mean.size):
            image += root[a, c] * (mean[c] - point[c])
        square += image * image
    return math.sqrt(square)


@inner
def read_features(data: Data, lane: int, row: int, columns: np.ndarray, out: np.ndarray) -> None:
    """Set `out` to a row's features of some coefficients."""
    for a in range(columns.size):
        out[a] = data.columns[lane, columns[a], row]


@inner
def dot(x: np.ndarray, y: np.ndarray) -> float:
    """Return the sum of products, one added after the other on any processor."""
    total = 0.0
    for a in range(x.size):
        total += x[a] * y[a]
    return total


@inner
def scale_values(x: np.ndarray, scale: float) -> None:
    """Multiply numbers; as the next two, in a loop, which compiles ten times as fast as slices."""
    for a in range(x.size):
        x[a] *= scale


@inner
def add_multiple(scale: float, x: np.ndarray, out: np.ndarray) -> None:
    """Add a multiple of numbers to others."""
    for a in range(x.size):
        out[a] += scale * x[a]


@inner
def copy_values(values: np.ndarray, out: np.ndarray) -> None:
    """Set the first entries of `out` to values."""
    for a in range(values.size):
        out[a] = values[a]
