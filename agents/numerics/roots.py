"""Square roots of precision matrices, updated a row at a time.

A normal posterior with rows x_i, rewards y_i and weights w_i has the precision matrix A and, with
its mean m, the shift b = A m:

    A = sum_i w_i x_i x_i' = R'R,    b = sum_i w_i y_i x_i = R'z.

R is upper triangular, and (R, z) is what the QR factorization leaves of the rows
sqrt(w_i) [x_i | y_i]. A prior N(m_0, S_0) is d rows more, those of [W | W m_0] with
W'W = S_0^-1. A new row [x | y] is rotated into the root, one feature after the other (Givens):

    (r, x) -> (c r + s x, c x - s r)    with c = r_aa / h, s = x_a / h, h^2 = r_aa^2 + x_a^2.

What the rotations leave of y is orthogonal to all features: its squares add up to the residual,
the least sum of w_i (y_i - x_i . theta)^2.

Of columns that depend on each other up to a share 1 / k, sums of products lose 2 log10(k) digits
and rotations log10(k); two time stamps have k = 1e7. The units of columns do not matter to
rotations, nor do rows of very different sizes, as those of a vague prior are.

Beside R are the variances of its rounding errors. What rotations leave of a feature is taken as 0
where it is no larger than these explain: of a column that is the sum of others nothing is left but
rounding, which a vague prior would take for data.

Notation: N lanes, d features.

References:
    Bierman (1977), "Factorization methods for discrete sequential estimation", chapter V.
    Higham (2002), "Accuracy and stability of numerical algorithms", sections 19.6 and 20.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bandit_gym.numerics.compiled import inner, kernel

ROUNDING = 2.0**-52
"""Of a rotated entry, as a share of its terms: one standard deviation."""

NEGLIGIBLE = 4.0**2
"""Variances of rounding below which the square of a feature says nothing."""

MIN_LEFT = 1e-8
"""Of the precision in the direction of a row that is removed, as a share."""

MIN_PIVOT = 1e-6
"""Pivot of a sum of products, as a share of its diagonal entry, that has kept ten digits."""

MAX_CONDITION = 1e12
"""Of columns of length 1, beyond which rounding may decide."""

MAX_PIVOT_ERROR = 1e-5
"""Of a diagonal entry, as a share, where it may."""


class Roots(NamedTuple):
    """Roots of the precision matrices of all lanes.

    Attributes:
        root: (N, d, d) R, upper triangular.
        shift: (N, d) z.
        errors: (N, d, d) variances of the rounding errors of R.
        residual: (N,) least weighted sums of squares.
    """

    root: np.ndarray
    shift: np.ndarray
    errors: np.ndarray
    residual: np.ndarray


def make_roots(num_lanes: int, num_features: int) -> Roots:
    """Return roots of no rows."""
    shape = num_lanes, num_features, num_features
    return Roots(np.zeros(shape), np.zeros(shape[:2]), np.zeros(shape), np.zeros(num_lanes))


@inner
def rotate_row(
    root: np.ndarray, shift: np.ndarray, errors: np.ndarray, row: np.ndarray, value: float
) -> float:
    """Rotate a row [x | y] into a (d, d) root and its (d,) shift, and return what is left of y.

    Args:
        root: R; is changed, as are `shift` and `errors`.
        shift: z.
        errors: (d, d) variances.
        row: (d,) x, overwritten.
        value: y.
    """
    row_errors = np.zeros(row.size)
    for a in range(row.size):
        if row[a] == 0.0 or row[a] * row[a] < NEGLIGIBLE * row_errors[a]:
            if root[a, a] == 0.0:
                errors[a, a] += row_errors[a]
            else:
                rounding = 0.5 * row_errors[a] / root[a, a]
                errors[a, a] += rounding * rounding
            continue
        length, error = math.hypot(root[a, a], row[a]), errors[a, a]
        c, s = root[a, a] / length, row[a] / length
        root[a, a] = length
        # With r = 0 an error of r has an effect of the second order.
        rounding = 0.5 * error / length
        errors[a, a] = c * c * error + s * s * row_errors[a] + rounding * rounding
        for k in range(a + 1, row.size):
            above, below = c * root[a, k], s * row[k]
            kept, left = c * row[k], s * root[a, k]
            error, row_error = errors[a, k], row_errors[k]
            root[a, k], row[k] = above + below, kept - left
            rounding = ROUNDING * (abs(above) + abs(below))
            errors[a, k] = c * c * error + s * s * row_error + rounding * rounding
            rounding = ROUNDING * (abs(kept) + abs(left))
            row_errors[k] = c * c * row_error + s * s * error + rounding * rounding
        shift[a], value = c * shift[a] + s * value, c * value - s * shift[a]
    return value


@inner
def rotate_row_briefly(root: np.ndarray, shift: np.ndarray, row: np.ndarray, value: float) -> None:
    """Rotate a row as `rotate_row` does, in a third of the time, without a look at errors."""
    for a in range(row.size):
        if row[a] != 0.0:
            length = math.hypot(root[a, a], row[a])
            c, s = root[a, a] / length, row[a] / length
            root[a, a] = length
            for k in range(a + 1, row.size):
                entry = root[a, k]
                root[a, k], row[k] = c * entry + s * row[k], c * row[k] - s * entry
            shift[a], value = c * shift[a] + s * value, c * value - s * shift[a]


@inner
def factor_precision(
    precision: np.ndarray,
    right: np.ndarray,
    root: np.ndarray,
    shift: np.ndarray,
    errors: np.ndarray,
) -> bool:
    """Set a (d, d) root, its (d,) shift and errors from A and b = A m, by Cholesky's factorization.

    Args:
        precision: A, of which the upper half is read.
        right: b.
        root: receives R.
        shift: receives z.
        errors: receives variances.

    Returns:
        Whether A has digits enough: no pivot is a smaller share of its diagonal entry than
        MIN_PIVOT. Otherwise what was set means nothing.
    """
    size = right.size
    for a in range(size):
        pivot, value = precision[a, a], right[a]
        for b in range(a):
            pivot -= root[b, a] * root[b, a]
            value -= root[b, a] * shift[b]
        if not pivot > MIN_PIVOT * precision[a, a]:
            return False
        root[a, a] = math.sqrt(pivot)
        shift[a] = value / root[a, a]
        for k in range(a + 1, size):
            entry = precision[a, k]
            for b in range(a):
                entry -= root[b, a] * root[b, k]
            root[a, k], root[k, a] = entry / root[a, a], 0.0
        rounding = ROUNDING / root[a, a]
        for k in range(a, size):
            errors[a, k] = precision[a, a] * precision[k, k] * (rounding * rounding)
    return True


@inner
def solve_root(root: np.ndarray, shift: np.ndarray, out: np.ndarray) -> None:
    """Set `out` to the (d,) mean R^-1 z."""
    for a in range(shift.size - 1, -1, -1):
        value = shift[a]
        for b in range(a + 1, shift.size):
            value -= root[a, b] * out[b]
        out[a] = value / root[a, a]


@inner
def solve_transposed(
    root: np.ndarray, errors: np.ndarray, row: np.ndarray, out: np.ndarray
) -> None:
    """Set `out` to the (d,) u = R'^-1 x of a row x, whose x . theta is N(u . z, u . u).

    What is no larger than rounding explains is 0 here too: a vague prior would magnify it.
    """
    for a in range(row.size):
        value, error = row[a], 0.0
        for b in range(a):
            value -= root[b, a] * out[b]
            rounding = ROUNDING * root[b, a]
            error += (errors[b, a] + rounding * rounding) * (out[b] * out[b])
        out[a] = 0.0 if value * value < NEGLIGIBLE * error else value / root[a, a]


@inner
def remove_row(root: np.ndarray, shift: np.ndarray, row: np.ndarray, value: float) -> bool:
    """Take a row [x | y] out of a (d, d) root and its (d,) shift, if rounding leaves anything.

    The rotations that turn (p, sqrt(1 - p'p)) with p = R'^-1 x into (0, 1) turn R and a row of 0
    into what was before the row, and the row.

    Args:
        root: R; is changed, as is `shift`, unless False is returned.
        shift: z.
        row: (d,) R'^-1 x, overwritten.
        value: y.
    """
    left = 1.0
    for a in range(row.size):
        left -= row[a] * row[a]
    if not left > MIN_LEFT:
        return False
    length = math.sqrt(left)
    sines, cosines = row, np.empty(row.size)
    for a in range(row.size - 1, -1, -1):
        longer = math.hypot(length, row[a])
        cosines[a], sines[a], length = length / longer, row[a] / longer, longer
    for k in range(row.size):
        below = 0.0
        for a in range(k, -1, -1):
            entry = root[a, k]
            root[a, k] = cosines[a] * entry - sines[a] * below
            below = cosines[a] * below + sines[a] * entry
    for a in range(row.size):
        shift[a] = (shift[a] - sines[a] * value) / cosines[a]
        value = cosines[a] * value - sines[a] * shift[a]
    return True


@inner
def invert_root(root: np.ndarray, out: np.ndarray) -> None:
    """Set `out` to the inverse of a (d, d) root, upper triangular too."""
    size = len(root)
    for k in range(size):
        for a in range(size):
            out[a, k] = 0.0
        out[k, k] = 1.0 / root[k, k]
        for a in range(k - 1, -1, -1):
            value = 0.0
            for b in range(a + 1, k + 1):
                value -= root[a, b] * out[b, k]
            out[a, k] = value / root[a, a]


@inner
def is_ill_conditioned(root: np.ndarray, errors: np.ndarray) -> bool:
    """Say whether rounding may have decided a diagonal entry of a (d, d) root.

    With columns of length 1 the condition number is no less than 1 over a diagonal entry. It is as
    large under a vague prior, which alone is no reason to doubt: its rows are not rounded.
    """
    for a in range(len(root)):
        square = 0.0
        for b in range(a + 1):
            square += root[b, a] * root[b, a]
        is_small = not math.sqrt(square) <= MAX_CONDITION * root[a, a]
        max_error = MAX_PIVOT_ERROR * root[a, a]
        if is_small and not errors[a, a] <= max_error * max_error:
            return True
    return False


@kernel
def add_rows_to_roots(
    roots: Roots, lanes: np.ndarray, features: np.ndarray, rewards: np.ndarray, counts: np.ndarray
) -> None:
    """Add rows of a count of rewards each.

    Args:
        roots: are changed.
        lanes: (R,) lane of each row; one may come again.
        features: (R, d).
        rewards: (R,) average reward of each row.
        counts: (R,) weights of the rows.
    """
    row = np.empty(features.shape[1])
    for i in range(lanes.size):
        lane, scale = lanes[i], math.sqrt(counts[i])
        for a in range(row.size):
            row[a] = scale * features[i, a]
        root, shift, errors = roots.root[lane], roots.shift[lane], roots.errors[lane]
        left = rotate_row(root, shift, errors, row, scale * rewards[i])
        roots.residual[lane] += left * left


@kernel
def join_prior(roots: Roots, std: float, prior_rows: np.ndarray) -> Roots:
    """Return the roots of normal posteriors.

    Args:
        roots: of the rows.
        std: deviation of the rewards.
        prior_rows: (d, d + 1) [W | W m_0].
    """
    root, shift, errors = roots.root / std, roots.shift / std, roots.errors / std / std
    size, residual = shift.shape[1], roots.residual / std / std
    for lane in range(len(root)):
        for a in range(size):
            row, value = prior_rows[a, :size].copy(), prior_rows[a, size]
            left = rotate_row(root[lane], shift[lane], errors[lane], row, value)
            residual[lane] += left * left
    return Roots(root, shift, errors, residual)


@kernel
def describe_arms(roots: Roots, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what normal posteriors say of x . theta for (N, K, d) features x.

    Returns:
        (N, K) means; (N, K, d) U with U U' the covariances; and (N,) where the root is
        ill-conditioned.
    """
    means, spread = np.zeros(features.shape[:2]), np.empty(features.shape)
    is_ill = np.empty(len(features), dtype=np.bool_)
    for row in range(len(features)):
        lane = row % len(roots.root)  # a single run has many rows when many decisions are asked
        root, errors = roots.root[lane], roots.errors[lane]
        for arm in range(features.shape[1]):
            out = spread[row, arm]
            solve_transposed(root, errors, features[row, arm], out)
            for a in range(out.size):
                means[row, arm] += out[a] * roots.shift[lane, a]
        is_ill[row] = is_ill_conditioned(root, errors)
    return means, spread, is_ill
