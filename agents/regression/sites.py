"""Expectation propagation: a normal distribution near the posterior of the coefficients.

The likelihood of row i is replaced by a normal factor of its linear predictor eta = x_i . theta,
its *site*, exp(nu_i eta - tau_i eta^2 / 2). All sites times the normal prior are a normal
distribution. A site is renewed so that, beside all other sites (the *cavity*), the site gives eta
the mean and variance that the true likelihood gives it.

For Laplace approximations a site is the second-order expansion of the likelihood at a point near
the mode instead. Then the mean is where one step of Newton's leads from the point, and the normal
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

from agents.regression.likelihoods import IDENTITY, LinkCode, find_peak, log_likelihood
from agents.regression.roots import (
    factor_precision,
    invert_root,
    is_ill_conditioned,
    remove_row,
    rotate_row,
    rotate_row_briefly,
    solve_root,
    solve_transposed,
)
from bandit_gym.numerics.compiled import inner, kernel

MIN_TAU = 1e-300
"""Precision below which a site is a slope alone."""

MAX_MODE_STEPS = 60
MODE_PRECISION = 1e-6
"""Of a mode, in standard deviations there."""

MAX_FINITE_PEAK = 100.0
"""Linear predictor beyond which a likelihood is at its largest in the limit alone."""

NODE_STEP, NODES_PER_SIDE = 0.5, 14
"""Standard deviations between nodes of the trapezoidal rule, and nodes on either side."""

MAX_STEPS, MAX_DECREMENT, MIN_DECREMENT = 50, 0.1, 1e-5
"""Newton's steps at most; how far the mean may be from the point of expansion, in standard
deviations, before it is moved, and how near it then is."""

MIN_STEP_SHARE = 1e-12
"""Of a step of Newton's: with features in large units, curvatures far from the mode say little."""

MAX_MOVE = 2.0
"""Standard deviations by which one row may move its predictor before all sites are matched again.
Since the last sweep, the mean may move that far times the root of the number of coefficients."""

MIN_SITE_CAVITY = 1e-6
"""Least precision of a cavity, as a share of the precision with the site."""


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
        root: (N, d, d) root of the precision matrix, see `agents.regression.roots`.
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
    # From a peak that is finite, Newton's steps under a log link are not of 1.
    is_finite = abs(peak + centre) < MAX_FINITE_PEAK
    x = min(max(peak if is_finite else score / (information + precision), low), high)
    last = high - low
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
        # Far out under a log link all of Newton's steps are of 1.
        if not low < x + step < high or abs(step) > 0.5 * last:
            step = 0.5 * (low + high) - x
        x, last = x + step, abs(step)
    top, _, information = log_likelihood(link, centre + x, n, s)
    top -= 0.5 * precision * x * x
    step = NODE_STEP / math.sqrt(information + precision)
    total, first, second = 0.0, 0.0, 0.0
    for i in range(-NODES_PER_SIDE, NODES_PER_SIDE + 1):
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
def find_rows(fit: Fit, lane: int, block: int) -> np.ndarray:
    """Return the rows of a lane's block, a view."""
    return fit.rows[lane, fit.row_starts[lane, block] : fit.row_starts[lane, block + 1]]


@inner
def read_prior(fit: Fit, own: np.ndarray, a: int, out: np.ndarray) -> float:
    """Set `out` to row a of the prior of the coefficients `own`; return what it is to be."""
    for c in range(own.size):
        out[c] = fit.prior[own[a], own[c]]
    return fit.prior[own[a], -1]


@inner
def log_prior_and_sites(fit: Fit, lane: int, own: np.ndarray, theta: np.ndarray) -> float:
    """Return the log-density of coefficients `own` under prior and prior sites, to a constant."""
    total, row = 0.0, np.empty(own.size)
    for a in range(own.size):
        off = read_prior(fit, own, a, row) - dot(row, theta)
        tau, nu = fit.prior_sites[lane, own[a]]
        total += (nu - 0.5 * tau * theta[a]) * theta[a] - 0.5 * off * off
    return total


@inner
def update_site(
    link: LinkCode,
    data: Data,
    fit: Fit,
    index: tuple[int, int, int],
    point: np.ndarray | None,
    is_sweep: bool,
) -> float:
    """Renew the site of one row, and bring the root to it.

    Return how far the mean of its predictor has moved, in standard deviations before.

    Args:
        link: of the likelihood.
        data: all rows.
        fit: is changed.
        index: lane, block and row.
        point: (N, d) where to expand, for Laplace approximations; None matches moments.
        is_sweep: whether the root is built anew soon, so that its errors do not matter.
    """
    lane, block, row = index
    part = slice(fit.starts[block], fit.starts[block + 1])
    root, shift = fit.root[lane, part, part], fit.shift[lane, part]
    errors, x, image = fit.errors[lane, part, part], np.empty(shift.size), np.empty(shift.size)
    read_features(data, lane, row, fit.order[part], x)
    solve_transposed(root, errors, x, image)
    eta, variance = dot(image, shift), dot(image, image)
    n, s = float(data.counts[lane, row]), data.sums[lane, row]
    old_tau, old_nu = fit.sites[lane, row]
    if point is not None:
        at_point = dot(x, point[lane, part])
        _, score, tau = log_likelihood(link, at_point, n, s)
        nu = score + tau * at_point
    elif link.kind == IDENTITY:  # is normal itself
        tau, nu = link.scale * n, link.scale * s
    else:
        precision = max(1.0 / variance - old_tau, MIN_SITE_CAVITY / variance)
        centre = (eta / variance - old_nu) / precision
        tau, nu = match_site(link, n, s, centre, precision)
    fit.sites[lane, row, 0], fit.sites[lane, row, 1] = tau, nu
    change, slope = tau - old_tau, nu - old_nu
    if abs(change) < MIN_TAU:
        shift += slope * image
    elif change > 0.0:
        x *= math.sqrt(change)
        value = slope / math.sqrt(change)
        if is_sweep:
            rotate_row_briefly(root, shift, x, value)
        else:
            rotate_row(root, shift, errors, x, value)
    else:
        image *= math.sqrt(-change)
        if not remove_row(root, shift, image, -slope / math.sqrt(-change)):
            rebuild_block(data, fit, lane, block)
    return abs(slope - change * eta) / (1.0 + change * variance) * math.sqrt(variance)


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
    own = fit.order[fit.starts[block] : fit.starts[block + 1]]
    precision, right, x = np.zeros((own.size, own.size)), np.zeros(own.size), np.empty(own.size)
    for b in range(own.size):
        add_product(precision, right, x, 1.0, read_prior(fit, own, b, x))
        tau, nu = fit.prior_sites[lane, own[b]]
        precision[b, b] += tau
        right[b] += nu
    for row in find_rows(fit, lane, block):
        read_features(data, lane, row, own, x)
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
    root[:], shift[:], errors[:] = 0.0, 0.0, 0.0
    x, slopes = np.empty(own.size), np.zeros(own.size)
    for b in range(own.size):
        value = read_prior(fit, own, b, x)
        rotate_row(root, shift, errors, x, value)
        tau, nu = fit.prior_sites[lane, own[b]]
        if tau > 0.0:
            x[:] = 0.0
            x[b] = math.sqrt(tau)
            rotate_row(root, shift, errors, x, nu / x[b])
    for row in find_rows(fit, lane, block):
        read_features(data, lane, row, own, x)
        tau, nu = fit.sites[lane, row]
        if tau > MIN_TAU:
            x *= math.sqrt(tau)
            rotate_row(root, shift, errors, x, nu / math.sqrt(tau))
        else:
            slopes += nu * x
    if slopes.any():
        solve_transposed(root, errors, slopes, x)
        shift += x


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
def read_features(data: Data, lane: int, row: int, own: np.ndarray, out: np.ndarray) -> None:
    """Set `out` to a row's features of some coefficients."""
    for a in range(own.size):
        out[a] = data.columns[lane, own[a], row]


@inner
def dot(x: np.ndarray, y: np.ndarray) -> float:
    """Return the sum of products, one added after the other on any processor."""
    total = 0.0
    for a in range(x.size):
        total += x[a] * y[a]
    return total


@inner
def copy_values(values: np.ndarray, out: np.ndarray) -> None:
    """Set the first entries of `out` to values; slices of arrays take seconds to compile."""
    for a in range(values.size):
        out[a] = values[a]


@inner
def find_decrement(fit: Fit, lane: int, block: int) -> float:
    """Return how far the mean of a block is from the point of expansion, in standard deviations."""
    part = slice(fit.starts[block], fit.starts[block + 1])
    root, off, square = (
        fit.root[lane, part, part],
        fit.mean[lane, part] - fit.point[lane, part],
        0.0,
    )
    for a in range(off.size):
        image = 0.0
        for c in range(a, off.size):
            image += root[a, c] * off[c]
        square += image * image
    return math.sqrt(square)


@inner
def expand_block(link: LinkCode, data: Data, fit: Fit, lane: int, block: int) -> float:
    """Expand all likelihoods of a block at its point; return the log-density there."""
    part = slice(fit.starts[block], fit.starts[block + 1])
    point, x = fit.point[lane, part], np.empty(part.stop - part.start)
    total = log_prior_and_sites(fit, lane, fit.order[part], point)
    for row in find_rows(fit, lane, block):
        read_features(data, lane, row, fit.order[part], x)
        eta, n, s = dot(x, point), float(data.counts[lane, row]), data.sums[lane, row]
        value, score, tau = log_likelihood(link, eta, n, s)
        total += value
        fit.sites[lane, row, 0], fit.sites[lane, row, 1] = tau, score + tau * eta
    return total


@inner
def find_site_mode(link: LinkCode, data: Data, fit: Fit, lane: int, block: int) -> None:
    """Move the point of a block to the mode by Newton's steps, halved while they lead down.

    Curvatures beyond rounding, as of features in large units, are left for a new start from 0.
    """
    part = slice(fit.starts[block], fit.starts[block + 1])
    point, value = fit.point[lane, part], expand_block(link, data, fit, lane, block)
    for _ in range(MAX_STEPS):
        rebuild_block(data, fit, lane, block)
        decrement = find_decrement(fit, lane, block)
        if decrement < MIN_DECREMENT:
            return
        start, step, share = point.copy(), fit.mean[lane, part] - point, 1.0
        if math.isnan(decrement):
            start, step, value = np.zeros(point.size), np.zeros(point.size), -np.inf
        trial = np.nan
        while not trial >= value and share > MIN_STEP_SHARE:  # NaN leads down, too
            point[:] = start + share * step
            trial, share = expand_block(link, data, fit, lane, block), 0.5 * share
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
    for lane in range(len(seen)):
        for row in range(seen.shape[1]):
            if data.counts[lane, row] > 0 and seen[lane, row] == 0:
                lead = -1
                for a in range(labels.size):
                    if data.columns[lane, a, row] != 0.0:
                        lead = a if lead < 0 else lead
                        low, high = min(labels[a], labels[lead]), max(labels[a], labels[lead])
                        if low < high:
                            labels[labels == high], has_changed = low, True
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
    starts, rows = fit.row_starts[lane], fit.rows[lane]
    for i in range(starts[-1], starts[block + 1], -1):
        rows[i] = rows[i - 1]
    rows[starts[block + 1]] = row
    for later in range(block + 1, starts.size):
        starts[later] += 1


@inner
def sort_rows(data: Data, fit: Fit, lane: int, num_rewards: np.ndarray) -> None:
    """Sort a lane's rows that have sites into blocks that are new, and count (N, B) rewards."""
    for row in range(fit.seen.shape[1]):
        block = find_block(data, fit, lane, row) if fit.seen[lane, row] != 0 else -1
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
    point: np.ndarray | None,
) -> bool:
    """Renew the sites of all rows whose counts have changed, and count (N, B) rewards.

    Return whether a block is due: has as many rewards as (N, B) say, which is 0 of a new one. Of
    Laplace approximations and EP, only that is compiled which `point` asks for, see `update_site`.
    """
    is_any_due, num_blocks = False, due.shape[1]
    for lane in range(len(due)):
        if fit.row_starts[lane, -1] == 0:  # no data, or blocks have joined
            sort_rows(data, fit, lane, num_rewards)
        for block in range(num_blocks):
            if due[lane, block] == 0:
                rebuild_block(data, fit, lane, block)
        has_changed = np.zeros(num_blocks, dtype=np.bool_)
        for row in range(fit.seen.shape[1]):
            change = data.counts[lane, row] - fit.seen[lane, row]
            block = find_block(data, fit, lane, row) if change != 0 else -1
            if block >= 0:
                if fit.seen[lane, row] == 0:
                    insert_row(fit, lane, block, row)
                move = update_site(link, data, fit, (lane, block, row), point, False)
                due[lane, block] *= move <= MAX_MOVE
                num_rewards[lane, block] += change
                has_changed[block] = True
            fit.seen[lane, row] += change
        for block in range(num_blocks):
            if has_changed[block]:
                due[lane, block] *= renew_factor(link, data, fit, (lane, block), point)
            is_any_due |= num_rewards[lane, block] >= due[lane, block]
    return is_any_due


@inner
def renew_factor(
    link: LinkCode, data: Data, fit: Fit, index: tuple[int, int], point: np.ndarray | None
) -> bool:
    """Bring mean and factor to a root that has changed; move the point that is too far off.

    Return whether EP's sites still serve: many small moves in one direction are as bad as one.
    """
    lane, block = index
    describe_block(fit, lane, block)
    size = fit.starts[block + 1] - fit.starts[block]
    off = find_decrement(fit, lane, block)
    if point is None:
        return off <= MAX_MOVE * math.sqrt(size)
    if not off <= MAX_DECREMENT:
        find_site_mode(link, data, fit, lane, block)
    return True


@kernel
def refine_blocks(
    link: LinkCode, data: Data, fit: Fit, due: np.ndarray, point: np.ndarray | None
) -> None:
    """Match all sites of the (N, B) due blocks; of Laplace approximations, rebuild them alone."""
    for lane in range(len(due)):
        for block in range(due.shape[1]):
            if due[lane, block]:
                rebuild_block(data, fit, lane, block)
                if point is None:
                    for row in find_rows(fit, lane, block):
                        update_site(link, data, fit, (lane, block, row), point, True)
                    rebuild_block(data, fit, lane, block)
                    part = slice(fit.starts[block], fit.starts[block + 1])
                    copy_values(fit.mean[lane, part], fit.point[lane, part])
                elif not find_decrement(fit, lane, block) <= MAX_DECREMENT:  # by the prior's sites
                    find_site_mode(link, data, fit, lane, block)
