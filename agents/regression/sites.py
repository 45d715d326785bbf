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
    remove_row,
    rotate_row,
    rotate_row_briefly,
    solve_transposed,
)
from agents.regression.laplace import MAX_DECREMENT, find_mode
from agents.regression.likelihoods import IDENTITY, LinkCode, find_peak, log_likelihood
from agents.regression.normal_fit import (
    MIN_TAU,
    Data,
    Fit,
    add_multiple,
    copy_values,
    describe_block,
    dot,
    find_columns,
    find_decrement,
    find_rows,
    read_features,
    rebuild_block,
    scale_values,
)
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

MIN_SITE_CAVITY = 1e-6
"""Least precision of a cavity, as a share of the precision with the site."""


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
        add_multiple(slope, image, shift)
    elif change > 0.0:
        scale_values(x, math.sqrt(change))
        value = slope / math.sqrt(change)
        if is_sweep:
            rotate_row_briefly(root, shift, x, value)
        else:
            rotate_row(root, shift, errors, x, value)
    else:
        scale_values(image, math.sqrt(-change))
        if not remove_row(root, shift, image, -slope / math.sqrt(-change)):
            rebuild_block(data, fit, lane, block)
    return abs(slope - change * eta) / (1.0 + change * variance) * math.sqrt(variance)


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
                        has_changed |= low < high
                        for c in range(labels.size):
                            labels[c] = low if labels[c] == high else labels[c]
    return has_changed


@inner
def find_block(data: Data, fit: Fit, lane: int, row: int) -> int:
    """Return the block of a row, -1 if all its features are 0."""
    for block in range(fit.starts.size - 1):
        for a in find_columns(fit, block):
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


@inner
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
        still_serves = np.ones(num_blocks, dtype=np.bool_)
        for row in range(fit.seen.shape[1]):
            change = data.counts[lane, row] - fit.seen[lane, row]
            block = find_block(data, fit, lane, row) if change != 0 else -1
            if block >= 0:
                if fit.seen[lane, row] == 0:
                    insert_row(fit, lane, block, row)
                move = update_site(link, data, fit, (lane, block, row), point, False)
                still_serves[block] &= move <= MAX_MOVE
                num_rewards[lane, block] += change
                has_changed[block] = True
            fit.seen[lane, row] = data.counts[lane, row]
        for block in range(num_blocks):
            # A block whose sites no longer serve is due at once.
            if has_changed[block] and not (
                renew_factor(link, data, fit, (lane, block), point) and still_serves[block]
            ):
                due[lane, block] = 0
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
        find_mode(link, data, fit, lane, block)
    return True


@kernel
def rebuild_lanes(
    link: LinkCode,
    data: Data,
    fit: Fit,
    due: np.ndarray,
    lanes: np.ndarray,
    point: np.ndarray | None,
) -> None:
    """Bring the blocks of (L,) lanes to sites that have been scaled, and find which are due."""
    for lane in lanes:
        for block in range(due.shape[1]):
            if due[lane, block] != 0:
                rebuild_block(data, fit, lane, block)
                if not renew_factor(link, data, fit, (lane, block), point):
                    due[lane, block] = 0


@kernel
def update_sites(
    link: LinkCode,
    data: Data,
    fit: Fit,
    num_rewards: np.ndarray,
    due: np.ndarray,
    point: np.ndarray | None,
    is_due: np.ndarray,
) -> bool:
    """Do as `add_rows`; or, of (N, B) blocks that are due where N > 0, as `refine_blocks`.

    What these share is most of both, and compiled once.
    """
    if len(is_due) == 0:
        return add_rows(link, data, fit, num_rewards, due, point)
    refine_blocks(link, data, fit, is_due, point)
    return False


@inner
def refine_blocks(
    link: LinkCode, data: Data, fit: Fit, is_due: np.ndarray, point: np.ndarray | None
) -> None:
    """Match all sites of the (N, B) due blocks; of Laplace approximations, rebuild them alone."""
    for lane in range(len(is_due)):
        for block in range(is_due.shape[1]):
            if is_due[lane, block]:
                rebuild_block(data, fit, lane, block)
                if point is None:
                    for row in find_rows(fit, lane, block):
                        update_site(link, data, fit, (lane, block, row), point, True)
                    rebuild_block(data, fit, lane, block)
                    part = slice(fit.starts[block], fit.starts[block + 1])
                    copy_values(fit.mean[lane, part], fit.point[lane, part])
                elif not find_decrement(fit, lane, block) <= MAX_DECREMENT:  # by the prior's sites
                    find_mode(link, data, fit, lane, block)
