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

from typing import NamedTuple

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
def enter(
    points: np.ndarray, x: np.ndarray, totals: np.ndarray, pair: int, row: np.ndarray
) -> None:
    """Set the (10,) columns for a stretch of one arm's table: (M + 1, 3) points, (M + 1,) means."""
    k = 2 * pair
    row[START], row[BELOW] = points[k, PLACE], points[k, MASS]
    row[LENGTH] = points[k + 2, PLACE] - points[k, PLACE]
    left, middle, right = points[k, DENSITY], points[k + 1, DENSITY], points[k + 2, DENSITY]
    set_parabola(left, middle, right, row[LEFT:])
    if x.size > 0:
        row[TOTAL] = totals[pair]
        set_parabola(left * x[k], middle * x[k + 1], right * x[k + 2], row[X_LEFT:])


@inner
def set_parabola(left: float, middle: float, right: float, row: np.ndarray) -> None:
    """Set the first three of a row to the coefficients of a parabola through three values."""
    row[0], row[1] = left, -3.0 * left + 4.0 * middle - right
    row[2] = 2.0 * (left - 2.0 * middle + right)


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


class LaneTables(NamedTuple):
    """The tables of a lane, and in which stretch of each the integrals are.

    Attributes:
        points: (K, M + 1, 3).
        x: (K, M + 1) means at the points, or (K, 0).
        totals: (K, M / 2 + 1) integrals of x dF.
        pairs: (K,) stretches.
    """

    points: np.ndarray
    x: np.ndarray
    totals: np.ndarray
    pairs: np.ndarray


@inner
def integrate(
    ends: np.ndarray,
    tables: LaneTables,
    places: np.ndarray,
    rows: np.ndarray,
    spare: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Add up the integrals between sorted places, from above, until the best is surely higher."""
    points, pairs = tables.points, tables.pairs
    lowest, rest = -np.inf, 1.0  # below, some distribution function is 0
    for i in range(len(pairs)):
        lowest = max(lowest, points[i, 0, PLACE])
    for k in range(places.size - 2, -1, -1):
        length = places[k + 1] - places[k]
        if places[k] < lowest or not rest > LEAST:
            return
        if not length > 0.0:
            continue
        for i in range(len(pairs)):
            if points[i, 2 * pairs[i], PLACE] > places[k]:
                while points[i, 2 * pairs[i], PLACE] > places[k]:
                    pairs[i] -= 1
                enter(points[i], tables.x[i], tables.totals[i], pairs[i], rows[i])
        for q in range(2, -1, -1):
            u = places[k] + length * _NODES[q]
            rest = add_node(ends, rows, u, length * _WEIGHTS[q], spare, sums)


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
        pairs[:], sums[:] = num_pairs, 0.0
        tables = LaneTables(points[lane], x[lane], totals, pairs)
        integrate(ends, tables, places, rows, spare, sums)
        total = sums[:, 0].sum()
        miss = abs(total - 1.0)
        largest_miss = max(largest_miss, miss if miss >= 0.0 else np.inf)  # where it is NaN
        for a in range(num_arms):
            p = sums[a, 0]
            found[lane, a] = max(p / total, 0.0)
            for i in range(means.shape[1]):
                means[lane, a, i] = sums[a, i + 1] / p if p > 0.0 else totals[i, num_pairs]
    return largest_miss


def find_best_arms(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Return (N, K) best-arm probabilities, and what a row missed of one before it summed to that.

    Args:
        points: (N, K, M + 1, 3) of the tables.
    """
    found = np.empty(points.shape[:2])
    x, means = np.empty((*found.shape, 0)), np.empty((len(found), 0, 0))
    return found, compare_tables(np.zeros(4), points, x, found, means)
