"""How likely each of K arms is the best, and what to expect of all arms if it is; compiled.

With densities f_i and distribution functions F_i of the coordinate u, and x(u) the mean,

    p_a      = int f_a(u) prod_{j != a} F_j(u) du,
    p_a M_aa = int x(u) f_a(u) prod_{j != a} F_j(u) du,
    p_a M_ai = int f_a(u) prod_{j != a} F_j(u) E(mean_i | mean_i <= x(u)) du,

as Russo and Van Roy (2018) have it for Bernoulli arms, by sums over a fixed grid. Here the steps
lie between points of the tables of all arms. From one even point of a table to the next the density
is a parabola through three points, as Simpson's rule has it, and so is the density times x.

Letters: K arms, N lanes, M + 1 points.
"""

from __future__ import annotations

import numpy as np

from agents.posteriors.coordinate import mean_at
from agents.posteriors.tables import DENSITY, MASS, PLACE
from bandit_gym.numerics.compiled import inner, kernel

_NODES, _WEIGHTS = (half / 2 for half in np.polynomial.legendre.leggauss(3))
_NODES = _NODES + 0.5

LEAST = 1e-12
"""Probability that the best mean is even lower, with which a lane is done."""

START, LENGTH, BELOW, LEFT, SLOPE, BEND, TOTAL, X_LEFT, X_SLOPE, X_BEND = range(10)
"""Columns of the stretch that an arm is in: where it starts, its length, F there, the parabola of
the density; the integral of x dF up to there, and the parabola of x times the density."""


@inner
def enter(points: np.ndarray, x: np.ndarray, totals: np.ndarray, pair: int, row: np.ndarray) -> None:
    """Set the (10,) columns for a stretch of one arm's table: (M + 1, 3) points, (M + 1,) means."""
    k = 2 * pair
    row[START], row[BELOW] = points[k, PLACE], points[k, MASS]
    row[LENGTH] = points[k + 2, PLACE] - points[k, PLACE]
    left, middle, right = points[k, DENSITY], points[k + 1, DENSITY], points[k + 2, DENSITY]
    row[LEFT], row[SLOPE] = left, -3.0 * left + 4.0 * middle - right
    row[BEND] = 2.0 * (left - 2.0 * middle + right)
    if x.size > 0:
        left, middle, right = left * x[k], middle * x[k + 1], right * x[k + 2]
        row[TOTAL], row[X_LEFT] = totals[pair], left
        row[X_SLOPE], row[X_BEND] = -3.0 * left + 4.0 * middle - right, 2.0 * (left - 2.0 * middle + right)


@inner
def sum_means(points: np.ndarray, x: np.ndarray, totals: np.ndarray) -> None:
    """Set totals (M / 2 + 1,) to the integrals of x dF up to every other point."""
    totals[0] = 0.0
    for pair in range(totals.size - 1):
        k = 2 * pair
        of_three = points[k, DENSITY] * x[k] + 4.0 * points[k + 1, DENSITY] * x[k + 1]
        of_three += points[k + 2, DENSITY] * x[k + 2]
        totals[pair + 1] = totals[pair] + (points[k + 2, PLACE] - points[k, PLACE]) * of_three / 6.0


@inner
def add_node(
    ends: np.ndarray, rows: np.ndarray, u: float, weight: float, spare: np.ndarray, sums: np.ndarray
) -> float:
    """Add what a node adds to the integrals; return the probability that all means are below.

    Products over the other arms come from running products on either side: dividing by a factor
    would lose an arm whose distribution function is still 0.

    Args:
        ends: (4,) of the coordinate.
        rows: (K, 10) stretches that hold the node.
        u: where it is.
        weight: of it.
        spare: (4, K) overwritten.
        sums: (K, K + 1) or (K, 1): p_a is added to [a, 0], and p_a M_ai to [a, i + 1].
    """
    num_arms, product = rows.shape[0], 1.0
    density, below, before, average = spare[0], spare[1], spare[2], spare[3]
    for i in range(num_arms):
        row = rows[i]
        length = row[LENGTH]
        t = (u - row[START]) / length if length > 0.0 else 0.0
        density[i] = row[LEFT] + t * (row[SLOPE] + t * row[BEND])
        part = t * (row[LEFT] + t * (row[SLOPE] / 2.0 + t * row[BEND] / 3.0))
        below[i] = max(row[BELOW] + length * part, 0.0)
        before[i] = product
        product *= below[i]
        if sums.shape[1] > 1:
            part = t * (row[X_LEFT] + t * (row[X_SLOPE] / 2.0 + t * row[X_BEND] / 3.0))
            average[i] = (row[TOTAL] + length * part) / max(below[i], 1e-300)
    rest = product
    product = weight
    for a in range(num_arms - 1, -1, -1):
        share = before[a] * product * density[a]
        product *= below[a]
        sums[a, 0] += share
        if sums.shape[1] > 1 and share != 0.0:
            x = mean_at(ends, u)
            for i in range(num_arms):
                sums[a, i + 1] += share * (x if i == a else min(average[i], x))
    return rest


@kernel
def compare_tables(
    ends: np.ndarray, points: np.ndarray, x: np.ndarray, found: np.ndarray, means: np.ndarray
) -> float:
    """Find which arm is the best, and what to expect of all if it is.

    Args:
        ends: (4,) of the coordinate.
        points: (N, K, M + 1, 3) of the tables.
        x: (N, K, M + 1) means at the points; (N, K, 0) if `means` are not asked for.
        found: (N, K) receives p_a; each row sums to one.
        means: (N, K, K) receives M_ai at [lane, a, i]; or (N, 0, 0).

    Returns:
        what a row missed of one, at most, before it was made to sum to that.
    """
    num_lanes, num_arms, num_points = points.shape[:3]
    num_pairs = num_points // 2
    rows, spare = np.empty((num_arms, 10)), np.empty((4, num_arms))
    sums = np.empty((num_arms, 1 + means.shape[1]))
    totals = np.zeros((num_arms, num_pairs + 1))
    pairs, largest_miss = np.empty(num_arms, dtype=np.int64), 0.0
    for lane in range(num_lanes):
        for i in range(num_arms):
            if means.shape[1] > 0:
                sum_means(points[lane, i], x[lane, i], totals[i])
            rows[i] = 0.0
            rows[i, BELOW], rows[i, TOTAL] = 1.0, totals[i, num_pairs]
        places = points[lane, :, ::2, PLACE].copy().reshape(num_arms * (num_pairs + 1))
        places.sort()
        lowest = points[lane, :, 0, PLACE].max()  # below, some distribution function is 0
        pairs[:], sums[:], rest = num_pairs, 0.0, 1.0
        k = places.size - 2
        while k >= 0 and places[k] >= lowest and rest > LEAST:
            length = places[k + 1] - places[k]
            if length > 0.0:
                for i in range(num_arms):
                    arm = points[lane, i]
                    if arm[2 * pairs[i], PLACE] > places[k]:
                        while arm[2 * pairs[i], PLACE] > places[k]:
                            pairs[i] -= 1
                        enter(arm, x[lane, i], totals[i], pairs[i], rows[i])
                for q in range(2, -1, -1):
                    u = places[k] + length * _NODES[q]
                    rest = add_node(ends, rows, u, length * _WEIGHTS[q], spare, sums)
            k -= 1
        total = sums[:, 0].sum()
        miss = abs(total - 1.0)
        largest_miss = max(largest_miss, miss if miss >= 0.0 else np.inf)  # where it is NaN
        for a in range(num_arms):
            p = sums[a, 0]
            found[lane, a] = max(p / total, 0.0)
            for i in range(means.shape[1]):
                means[lane, a, i] = sums[a, i + 1] / p if p > 0.0 else totals[i, num_pairs]
    return largest_miss
