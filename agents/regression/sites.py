"""Expectation propagation: a normal distribution near the posterior of the coefficients.

The likelihood of row i is replaced by a normal factor of its linear predictor eta = x_i . theta,
its *site*, exp(nu_i eta - tau_i eta^2 / 2). All sites times the normal prior are a normal
distribution. A site is renewed so that, beside all other sites (the *cavity*), the site gives eta
the mean and variance that the true likelihood gives it.

With `is_laplace` a site is the second-order expansion of the likelihood at a point near the mode
instead. Then the mean is where one step of Newton's leads from the point, and the normal
distribution is the Laplace approximation; the point is moved when the mean is too far from it.

A new row gets its site when it comes, at the cost of d^2. Coefficients are kept block by block:
blocks share no row and are independent a priori, and the covariance is 0 between them.

Notation: N lanes, n rows of a lane at most, d features, B blocks.

References:
    Minka (2001), "Expectation propagation for approximate Bayesian inference".
    Rasmussen and Williams (2006), "Gaussian Processes for Machine Learning", section 3.6.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from agents.regression.likelihoods import LinkCode, find_peak, log_likelihood
from bandit_gym.numerics.compiled import inner, kernel

MAX_MODE_STEPS = 60
MODE_PRECISION = 1e-6
"""Of a mode, in standard deviations there."""

MAX_FINITE_PEAK = 100.0
"""Linear predictor beyond which a likelihood is at its largest in the limit alone."""

NODE_STEP, NUM_NODES = 0.5, 14
"""Standard deviations between nodes of the trapezoidal rule, and nodes on either side."""

MAX_STEPS, MAX_DECREMENT, MIN_DECREMENT = 50, 0.1, 1e-5
"""Newton's steps at most; how far the mean may be from the point of expansion, in standard
deviations, before it is moved, and how near it then is."""

MIN_SITE_CAVITY = 1e-6
"""Least precision of a cavity, as a share of the precision with the site."""


class Data(NamedTuple):
    """The rows of all lanes; see `Rows`.

    Attributes:
        columns: (N, d, n).
        counts: (N, n).
        sums: (N, n).
        sizes: (N,).
    """

    columns: np.ndarray
    counts: np.ndarray
    sums: np.ndarray
    sizes: np.ndarray


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
        order: (d,) coefficients, block by block; `mean` and `covariance` are in this order.
        starts: (B + 1,) where blocks begin in it.
        rows: (N, n) rows that have a feature other than 0, block by block.
        row_starts: (N, B + 1) where blocks begin in these.
        seen: (N, n) counts that the sites are of.
        sites: (N, n, 2) tau and nu of each row.
        prior: (d, d + 1) precision matrix of a normal prior, and the precision times the mean.
        prior_sites: (N, d, 2) tau and nu of each coefficient, for a mixture; else 0.
        point: (N, d) where likelihoods are expanded, for Laplace approximations.
        mean: (N, d).
        covariance: (N, d, d).
        factor: (N, d, d) its lower Cholesky factor.
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
    mean: np.ndarray
    covariance: np.ndarray
    factor: np.ndarray


@inner
def match_site(
    link: LinkCode, n: float, s: float, centre: float, precision: float
) -> tuple[float, float]:
    """Return the site that has the moments of a likelihood times a normal cavity.

    Args:
        link: of the likelihood, which is log-concave.
        n: rewards of the row.
        s: their sum.
        centre: mean of the cavity.
        precision: of the cavity.
    """
    _, score, information = log_likelihood(link, centre, n, s)
    # The mode is between the centre and where the likelihood is largest, less the centre here.
    peak = find_peak(link, n, s) - centre
    low = max(min(0.0, score / precision), min(0.0, peak))
    high = min(max(0.0, score / precision), max(0.0, peak))
    x = min(max(score / (information + precision), low), high)
    if (
        abs(peak + centre) < MAX_FINITE_PEAK
    ):  # from there Newton's steps under a log link are not of 1
        x = min(max(peak, low), high)
    for _ in range(MAX_MODE_STEPS):
        _, score, information = log_likelihood(link, centre + x, n, s)
        slope, curvature = score - precision * x, information + precision
        if slope > 0.0:
            low = x
        else:
            high = x
        step = slope / curvature
        if abs(step) * math.sqrt(curvature) < MODE_PRECISION:
            break
        x = x + step if low < x + step < high else 0.5 * (low + high)
    top, _, information = log_likelihood(link, centre + x, n, s)
    top -= 0.5 * precision * x * x
    step = NODE_STEP / math.sqrt(information + precision)
    total, first, second = 0.0, 0.0, 0.0
    for i in range(-NUM_NODES, NUM_NODES + 1):
        y = x + i * step
        value = log_likelihood(link, centre + y, n, s)[0] - 0.5 * precision * y * y
        weight = math.exp(value - top)
        total += weight
        first += weight * i
        second += weight * i * i
    average = first / total
    variance = (second / total - average * average) * step * step
    tau = max(1.0 / variance - precision, 0.0)
    return tau, (x + average * step) * (tau + precision) + centre * tau


@inner
def update_site(
    link: LinkCode, data: Data, fit: Fit, index: tuple[int, int, int], is_laplace: bool
) -> None:
    """Renew the site of one row, and bring mean and covariance to it.

    With H = H + (tau' - tau) x x', by the formula of Sherman and Morrison.

    Args:
        link: of the likelihood.
        data: all rows.
        fit: is changed.
        index: lane, block and row.
        is_laplace: whether to expand at the point in index of matching moments.
    """
    lane, block, row = index
    first, last = fit.starts[block], fit.starts[block + 1]
    size = last - first
    x, image = np.empty(size), np.zeros(size)
    mean, covariance = fit.mean[lane, first:last], fit.covariance[lane, first:last, first:last]
    eta, variance, at_point = 0.0, 0.0, 0.0
    for a in range(size):
        x[a] = data.columns[lane, fit.order[first + a], row]
        eta += x[a] * mean[a]
        at_point += x[a] * fit.point[lane, first + a]
    for a in range(size):
        for c in range(size):
            image[c] += x[a] * covariance[a, c]
    for a in range(size):
        variance += x[a] * image[a]
    n, s = float(data.counts[lane, row]), data.sums[lane, row]
    old_tau, old_nu = fit.sites[lane, row]
    if is_laplace:
        _, score, tau = log_likelihood(link, at_point, n, s)
        nu = score + tau * at_point
    else:
        precision = max(1.0 / variance - old_tau, MIN_SITE_CAVITY / variance)
        centre = (eta / variance - old_nu) / precision
        tau, nu = match_site(link, n, s, centre, precision)
    fit.sites[lane, row, 0], fit.sites[lane, row, 1] = tau, nu
    change = tau - old_tau
    scale = 1.0 / (1.0 + change * variance)
    shift = scale * (nu - old_nu - change * eta)
    for a in range(size):
        mean[a] += shift * image[a]
        weight = scale * change * image[a]
        for c in range(size):
            covariance[a, c] -= weight * image[c]


@inner
def rebuild(data: Data, fit: Fit, lane: int, block: int) -> None:
    """Set mean, covariance and factor of a block to what prior and sites say."""
    first, last = fit.starts[block], fit.starts[block + 1]
    size = last - first
    precision, right = np.empty((size, size)), np.empty(size)
    for a in range(size):
        own, (tau, nu) = fit.order[first + a], fit.prior_sites[lane, fit.order[first + a]]
        right[a] = fit.prior[own, -1] + nu
        for c in range(size):
            precision[a, c] = fit.prior[own, fit.order[first + c]]
        precision[a, a] += tau
    x = np.empty(size)
    for i in range(fit.row_starts[lane, block], fit.row_starts[lane, block + 1]):
        row = fit.rows[lane, i]
        tau, nu = fit.sites[lane, row]
        for a in range(size):
            x[a] = data.columns[lane, fit.order[first + a], row]
        for a in range(size):
            right[a] += nu * x[a]
            weight = tau * x[a]
            for c in range(a + 1):
                precision[a, c] += weight * x[c]
    covariance = fit.covariance[lane, first:last, first:last]
    invert(precision, covariance)
    for a in range(size):
        value = 0.0
        for c in range(size):
            value += covariance[a, c] * right[c]
        fit.mean[lane, first + a] = value
    factorise(covariance, fit.factor[lane, first:last, first:last])


@inner
def factorise(matrix: np.ndarray, out: np.ndarray) -> None:
    """Set the lower triangle of `out` to the Cholesky factor of a matrix's; 0 above."""
    size = len(matrix)
    for a in range(size):
        for c in range(a + 1):
            value = matrix[a, c]
            for k in range(c):
                value -= out[a, k] * out[c, k]
            out[a, c] = math.sqrt(value) if a == c else value / out[c, c]
        for c in range(a + 1, size):
            out[a, c] = 0.0


@inner
def invert(matrix: np.ndarray, out: np.ndarray) -> None:
    """Set `out` to the inverse of a positive definite matrix, of which the lower half is read."""
    size = len(matrix)
    factor, inverse = np.empty((size, size)), np.zeros((size, size))
    factorise(matrix, factor)
    for c in range(size):
        inverse[c, c] = 1.0 / factor[c, c]
        for a in range(c + 1, size):
            value = 0.0
            for k in range(c, a):
                value -= factor[a, k] * inverse[k, c]
            inverse[a, c] = value / factor[a, a]
    for a in range(size):
        for c in range(a + 1):
            value = 0.0
            for k in range(a, size):
                value += inverse[k, a] * inverse[k, c]
            out[a, c] = out[c, a] = value


@inner
def find_decrement(fit: Fit, lane: int, block: int) -> float:
    """Return how far the mean of a block is from the point of expansion, in standard deviations."""
    total, solved = 0.0, np.empty(fit.starts[block + 1] - fit.starts[block])
    for a in range(solved.size):
        own = fit.starts[block] + a
        value = fit.mean[lane, own] - fit.point[lane, own]
        for c in range(a):
            value -= fit.factor[lane, own, fit.starts[block] + c] * solved[c]
        solved[a] = value / fit.factor[lane, own, own]
        total += solved[a] * solved[a]
    return math.sqrt(total)


@inner
def expand(link: LinkCode, data: Data, fit: Fit, lane: int, block: int) -> float:
    """Expand all likelihoods of a block at its point; return the log-density there."""
    first, last = fit.starts[block], fit.starts[block + 1]
    total, point, own = 0.0, fit.point[lane, first:last], fit.order[first:last]
    for a in range(point.size):
        tau, nu = fit.prior_sites[lane, own[a]]
        image = tau * point[a]
        for c in range(point.size):
            image += fit.prior[own[a], own[c]] * point[c]
        total += point[a] * (fit.prior[own[a], -1] + nu - 0.5 * image)
    for i in range(fit.row_starts[lane, block], fit.row_starts[lane, block + 1]):
        row, eta = fit.rows[lane, i], 0.0
        for a in range(point.size):
            eta += data.columns[lane, own[a], row] * point[a]
        n, s = float(data.counts[lane, row]), data.sums[lane, row]
        value, score, tau = log_likelihood(link, eta, n, s)
        total += value
        fit.sites[lane, row, 0], fit.sites[lane, row, 1] = tau, score + tau * eta
    return total


@inner
def find_site_mode(link: LinkCode, data: Data, fit: Fit, lane: int, block: int) -> None:
    """Move the point of a block to the mode by Newton's steps, halved while they lead down."""
    part = slice(fit.starts[block], fit.starts[block + 1])
    point, value = fit.point[lane, part], expand(link, data, fit, lane, block)
    for _ in range(MAX_STEPS):
        rebuild(data, fit, lane, block)
        if find_decrement(fit, lane, block) < MIN_DECREMENT:
            return
        start, step, share = point.copy(), fit.mean[lane, part] - point, 1.0
        trial = -np.inf
        while trial < value and share > MIN_DECREMENT:
            point[:] = start + share * step
            trial, share = expand(link, data, fit, lane, block), 0.5 * share
        value = trial


@kernel
def join_blocks(data: Data, seen: np.ndarray, labels: np.ndarray) -> bool:
    """Give the coefficients of each new row one label; say whether any label has changed.

    Args:
        data: all rows.
        seen: (N, n) counts of each row before.
        labels: (d,) block of each coefficient, the lowest coefficient in it.
    """
    has_changed = False
    for lane in range(len(data.sizes)):
        for row in range(data.sizes[lane]):
            if seen[lane, row] == 0:
                lead = -1
                for a in range(labels.size):
                    if data.columns[lane, a, row] != 0.0:
                        lead = a if lead < 0 else lead
                        low, high = min(labels[a], labels[lead]), max(labels[a], labels[lead])
                        if low < high:
                            has_changed = True
                            for c in range(labels.size):
                                labels[c] = low if labels[c] == high else labels[c]
    return has_changed


@inner
def find_block(data: Data, fit: Fit, lane: int, row: int) -> int:
    """Return the block of a row, -1 if all its features are 0."""
    for block in range(fit.starts.size - 1):
        for a in fit.order[fit.starts[block] : fit.starts[block + 1]]:
            if data.columns[lane, a, row] != 0.0:
                return block
    return -1


@inner
def insert_row(fit: Fit, lane: int, block: int, row: int) -> None:
    """Put a new row beside those of its block."""
    starts, rows, num_blocks = fit.row_starts[lane], fit.rows[lane], fit.starts.size - 1
    for i in range(starts[num_blocks], starts[block + 1], -1):
        rows[i] = rows[i - 1]
    rows[starts[block + 1]] = row
    for later in range(block + 1, num_blocks + 1):
        starts[later] += 1


@kernel
def sort_rows(data: Data, fit: Fit, num_rewards: np.ndarray) -> None:
    """Sort all rows that have sites into blocks that are new, and count (N, B) rewards."""
    for lane in range(len(data.sizes)):
        for row in range(data.sizes[lane]):
            if fit.seen[lane, row] > 0:
                block = find_block(data, fit, lane, row)
                if block >= 0:
                    insert_row(fit, lane, block, row)
                    num_rewards[lane, block] += fit.seen[lane, row]


@kernel
def add_rows(
    link: LinkCode,
    data: Data,
    fit: Fit,
    num_rewards: np.ndarray,
    due: np.ndarray,
    is_laplace: bool,
) -> bool:
    """Renew the sites of all rows whose counts have changed, and count (N, B) rewards.

    Return whether a block is due: has as many rewards as (N, B) say, which is 0 of a new one.
    """
    touched, is_due = np.empty(fit.starts.size - 1, dtype=np.bool_), False
    for lane in range(len(data.sizes)):
        touched[:] = False
        for block in np.flatnonzero(due[lane] == 0):
            rebuild(data, fit, lane, block)
        for row in range(data.sizes[lane]):
            change = data.counts[lane, row] - fit.seen[lane, row]
            if change == 0:
                continue
            block, is_new = find_block(data, fit, lane, row), fit.seen[lane, row] == 0
            fit.seen[lane, row] += change
            if block >= 0:
                if is_new:
                    insert_row(fit, lane, block, row)
                update_site(link, data, fit, (lane, block, row), is_laplace)
                num_rewards[lane, block] += change
                touched[block] = True
        for block in np.flatnonzero(touched):
            part = slice(fit.starts[block], fit.starts[block + 1])
            factor = fit.factor[lane, part, part]
            factorise(fit.covariance[lane, part, part], factor)
            if not factor[-1, -1] > 0.0:  # what was subtracted has cancelled
                rebuild(data, fit, lane, block)
            if is_laplace and find_decrement(fit, lane, block) > MAX_DECREMENT:
                find_site_mode(link, data, fit, lane, block)
        is_due |= (num_rewards[lane] >= due[lane]).any()
    return is_due


@kernel
def refine(link: LinkCode, data: Data, fit: Fit, due: np.ndarray, num_sweeps: int) -> None:
    """Match all sites of the (N, B) due blocks, so many times over."""
    for lane in range(len(data.sizes)):
        for block in np.flatnonzero(due[lane]):
            rebuild(data, fit, lane, block)
            for _ in range(num_sweeps):
                for i in range(fit.row_starts[lane, block], fit.row_starts[lane, block + 1]):
                    index = lane, block, fit.rows[lane, i]
                    update_site(link, data, fit, index, False)
                rebuild(data, fit, lane, block)
