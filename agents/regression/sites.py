"""Expectation propagation: sites that have the moments of likelihoods.

The site of a row, see `agents.regression.normal_fit`, is renewed so that, beside all other sites
(the *cavity*, N(c, 1 / p)), it gives the linear predictor eta the mean and the variance v that the
true likelihood gives it (Minka 2001, section 3.2):

    tau = 1 / v - p,    nu = mean / v - c p.

A new row gets its site when it comes, at the cost of d^2. All sites are matched again when rewards
have grown by a share, or when the fit has moved far.

Notation: N lanes, n rows of a lane at most, d features, B blocks.

References:
    Minka (2001), "Expectation propagation for approximate Bayesian inference".
"""

from __future__ import annotations

import math

import numpy as np

from agents.numerics.roots import (
    invert_root,
    is_ill_conditioned,
    remove_row,
    rotate_row,
    rotate_row_briefly,
    solve_root,
    solve_transposed,
)
from agents.regression.laplace import find_mode
from agents.regression.likelihoods import IDENTITY, LinkCode, find_peak, log_likelihood
from agents.regression.normal_fit import MIN_TAU, Data, Fit, dot, find_decrement, rebuild_root
from bandit_gym.numerics.compiled import inner, kernel

MAX_MODE_STEPS = 60
MODE_PRECISION = 1e-6
"""Of a mode, in standard deviations there."""

MAX_FINITE_PEAK = 100.0
"""Linear predictor beyond which a likelihood is at its largest in the limit alone."""

NODE_STEP, NODES_PER_SIDE = 0.5, 14
"""Standard deviations between nodes of the trapezoidal rule, and nodes on either side."""

MAX_MOVE = 2.0
"""Standard deviations by which one row may move its predictor before all sites are matched again.
Since the last sweep, the mean may move that far times the root of the number of coefficients."""

NEW_ROWS, ALL_ROWS, NO_ROWS = range(3)
"""Whose sites a step renews: of rows that have changed; of all, in a sweep; or, as sites were
scaled already, of none."""

MIN_SITE_CAVITY = 1e-6
"""Least precision of a cavity, as a share of the precision with the site."""

MIN_VARIANCE = 1e-280
"""Of a predictor, below which its precision may have no number: such a row says nothing."""


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
def read_features(features: np.ndarray, row: int, columns: np.ndarray) -> np.ndarray:
    """Return (size,) features of a row, for some coefficients."""
    x = np.empty(columns.size)
    for a in range(columns.size):
        x[a] = features[columns[a], row]
    return x


@inner
def update_site(
    link: LinkCode,
    n: float,
    s: float,
    x: np.ndarray,
    point: np.ndarray,
    site: np.ndarray,
    is_laplace: bool | None,
    is_sweep: bool,
    root: np.ndarray,
    shift: np.ndarray,
    errors: np.ndarray,
) -> tuple[float, bool]:
    """Renew the site of one row, and bring the root to it.

    Args:
        link: of the likelihood.
        n: rewards of the row.
        s: their sum.
        x: (size,) features, are overwritten.
        point: (size,) coefficients to expand at, for Laplace approximations.
        site: (2,) tau and nu, are changed.
        is_laplace: see `update_sites`.
        is_sweep: whether the root is built anew soon, so that its errors do not matter.
        root: (size, size) is changed, as the next two.
        shift: (size,).
        errors: (size, size).

    Returns:
        How far the mean of its predictor has moved, in standard deviations before; and whether
        the root is lost, as rounding leaves nothing of it.
    """
    image = np.empty(x.size)
    solve_transposed(root, errors, x, image)
    eta, variance = dot(image, shift), dot(image, image)
    old_tau, old_nu = site[0], site[1]
    if is_laplace is not None:
        at_point = dot(x, point)
        _, score, tau = log_likelihood(link, at_point, n, s)
        nu = score + tau * at_point
    elif link.kind == IDENTITY:  # is normal itself
        tau, nu = link.scale * n, link.scale * s
    elif variance < MIN_VARIANCE:
        tau, nu = 0.0, 0.0
    else:
        precision = max(1.0 / variance - old_tau, MIN_SITE_CAVITY / variance)
        centre = (eta / variance - old_nu) / precision
        tau, nu = match_site(link, n, s, centre, precision)
    site[0], site[1] = tau, nu
    change, slope, is_lost = tau - old_tau, nu - old_nu, False
    size = math.sqrt(abs(change))
    if abs(change) < MIN_TAU:
        for a in range(x.size):
            shift[a] += slope * image[a]
    elif change > 0.0:
        for a in range(x.size):
            x[a] *= size
        if is_sweep:
            rotate_row_briefly(root, shift, x, slope / size)
        else:
            rotate_row(root, shift, errors, x, slope / size)
    else:
        for a in range(x.size):
            image[a] *= size
        is_lost = not remove_row(root, shift, image, -slope / size)
    move = abs(slope - change * eta) / (1.0 + change * variance) * math.sqrt(variance)
    return move, is_lost


@inner
def place_rows(
    order: np.ndarray,
    starts: np.ndarray,
    features: np.ndarray,
    counts: np.ndarray,
    seen: np.ndarray,
    rows: np.ndarray,
    row_starts: np.ndarray,
    num_rewards: np.ndarray,
) -> None:
    """Put a lane's new rows into their blocks, and count rewards since the last time.

    Args:
        order: of `Fit`, as the next.
        starts: (B + 1,).
        features: (d, n) of the lane's rows.
        counts: (n,).
        seen: (n,) counts the last time.
        rows: (n,) is changed, as the next two.
        row_starts: (B + 1,).
        num_rewards: (B,).
    """
    num_blocks = num_rewards.size
    is_sorted = row_starts[num_blocks] > 0  # else there are no data, or blocks have joined
    for row in range(seen.size):
        change = counts[row] - seen[row] if is_sorted else counts[row]
        a, block = 0 if change != 0 else order.size, 0
        while a < order.size and features[order[a], row] == 0.0:
            a += 1
            block += a == starts[block + 1]
        if a < order.size:  # else nothing is new, or all features are 0
            num_rewards[block] += change
            if seen[row] == 0 or not is_sorted:
                for i in range(row_starts[num_blocks], row_starts[block + 1], -1):
                    rows[i] = rows[i - 1]
                rows[row_starts[block + 1]] = row
                for later in range(block + 1, num_blocks + 1):
                    row_starts[later] += 1


@kernel
def update_sites(
    link: LinkCode,
    data: Data,
    fit: Fit,
    num_rewards: np.ndarray,
    due: np.ndarray,
    is_laplace: bool | None,
    lanes: np.ndarray,
    blocks: np.ndarray,
    step: int,
) -> None:
    """Bring blocks to their data, to all sites anew, or to sites that were scaled.

    The root of a block is built anew before the first site, unless there are few to renew; where
    it is lost; and after a sweep, whose rotations do without a look at rounding. A block whose
    sites no longer serve is due at once.

    Args:
        link: of the likelihood.
        data: all rows.
        fit: is changed.
        num_rewards: (N, B) of each block, to which those of new rows are added.
        due: (N, B) rewards at which all sites are matched again, 0 of a new block, or at once.
        is_laplace: True for Laplace approximations, None for EP: of both, only that is compiled
            which is asked for.
        lanes: (J,) of the blocks.
        blocks: (J,) of these lanes; all of a lane, in their order, with NEW_ROWS.
        step: NEW_ROWS, ALL_ROWS or NO_ROWS, whose sites are renewed.
    """
    is_sweep = step == ALL_ROWS and is_laplace is None
    for j in range(lanes.size):
        lane, block = lanes[j], blocks[j]
        features, counts, sums = data.columns[lane], data.counts[lane], data.sums[lane]
        seen, sites, prior_sites = fit.seen[lane], fit.sites[lane], fit.prior_sites[lane]
        all_rows, row_starts = fit.rows[lane], fit.row_starts[lane]
        if step == NEW_ROWS and block == 0:
            rewards = num_rewards[lane]
            place_rows(fit.order, fit.starts, features, counts, seen, all_rows, row_starts, rewards)
        part = slice(fit.starts[block], fit.starts[block + 1])
        columns, rows = fit.order[part], all_rows[row_starts[block] : row_starts[block + 1]]
        root, shift = fit.root[lane, part, part], fit.shift[lane, part]
        errors, prior = fit.errors[lane, part, part], fit.prior
        mean, point = fit.mean[lane, part], fit.point[lane, part]
        is_stale, serves = step != NEW_ROWS or due[lane, block] == 0, True
        is_changed = is_stale
        num_rows = rows.size if step == NEW_ROWS or is_sweep else 0
        for i in range(num_rows + 1):
            if is_stale or (is_sweep and i == num_rows):
                rebuild_root(
                    columns, rows, features, sites, prior, prior_sites, root, shift, errors
                )
                is_stale = False
            if i < num_rows and (is_sweep or counts[rows[i]] != seen[rows[i]]):
                row, is_changed = rows[i], True
                n, s, site = float(counts[row]), sums[row], sites[row]
                x = read_features(features, row, columns)
                move, is_stale = update_site(
                    link, n, s, x, point, site, is_laplace, is_sweep, root, shift, errors
                )
                serves &= move <= MAX_MOVE
        if is_changed:
            solve_root(root, shift, mean)
            off = find_decrement(root, mean, point)
            if is_laplace is not None:
                of_rows, of_prior = (features, counts, sums), (prior, prior_sites)
                roots = root, shift, errors
                find_mode(link, columns, rows, of_rows, sites, of_prior, roots, mean, point)
            elif not (is_sweep or (serves and off <= MAX_MOVE * math.sqrt(mean.size))):
                due[lane, block] = 0  # many small moves in one direction are as bad as one
            for a in range(mean.size):
                point[a] = mean[a] if is_sweep else point[a]
            invert_root(root, fit.factor[lane, part, part])
            fit.is_ill_conditioned[lane, block] = is_ill_conditioned(root, errors)
