"""How likely each of K arms has the largest mean, when each has a table; compiled.

    P_i = int p_i(u) prod_{j != i} F_j(u) du

by Gauss-Legendre quadrature between any two neighbours among the points of all arms. There every
density is a straight line and every distribution function a parabola, as draws from the tables
have them: up to five arms the integrals are exact, and for more the intervals are short.

Letters: K arms, N lanes, M + 1 points.
"""

from __future__ import annotations

import numpy as np

from agents.posteriors.points import DENSITY, MASS, PLACE
from bandit_gym.numerics.compiled import inner, kernel

NUM_NODES = 5
_NODES, _WEIGHTS = (half / 2 for half in np.polynomial.legendre.leggauss(NUM_NODES))
_NODES = _NODES + 0.5


LEAST = 1e-12
"""Probability that the best mean is even lower, with which a lane is done."""

START, BELOW, LEVEL, SLOPE = range(4)
"""Columns of the cell that an arm is in: where it starts, the distribution function there, and the
straight line of its density."""


@inner
def enter_cell(points: np.ndarray, cell: int, law: np.ndarray) -> None:
    """Set the columns (4,) for one cell of an arm's table, (M + 1, 3) points."""
    left, right = points[cell, DENSITY], points[cell + 1, DENSITY]
    step = points[cell + 1, PLACE] - points[cell, PLACE]
    mass = points[cell + 1, MASS] - points[cell, MASS]
    share = 2.0 * mass / ((left + right) * step) if mass > 0.0 else 0.0
    law[START], law[BELOW] = points[cell, PLACE], points[cell, MASS]
    law[LEVEL], law[SLOPE] = share * left, share * (right - left) / step


@inner
def add_interval(
    laws: np.ndarray, start: float, length: float, out: np.ndarray, spare: np.ndarray
) -> float:
    """Add an interval's part of the integrals to `out` (K,).

    Products over the other arms come from running products on either side: dividing by a factor
    would lose an arm whose distribution function is still 0.

    Args:
        laws: (K, 4) columns of the cells that hold the interval.
        start: where it starts.
        length: of it.
        out: (K,) added to.
        spare: (2 K + 1, NUM_NODES) overwritten.

    Returns:
        the probability that all means are below the first node.
    """
    num_arms = out.size
    product = spare[2 * num_arms]
    product[:] = 1.0
    for i in range(num_arms):
        density, below = spare[i], spare[num_arms + i]
        origin, level, slope = start - laws[i, START], laws[i, LEVEL], laws[i, SLOPE]
        for q in range(NUM_NODES):
            off = origin + length * _NODES[q]
            density[q] = (level + slope * off) * product[q]
            below[q] = laws[i, BELOW] + off * (level + 0.5 * slope * off)
            product[q] *= below[q]
    rest = product[0]
    for q in range(NUM_NODES):
        product[q] = length * _WEIGHTS[q]
    for i in range(num_arms - 1, -1, -1):
        density, below, total = spare[i], spare[num_arms + i], 0.0
        for q in range(NUM_NODES):
            total += density[q] * product[q]
            product[q] *= below[q]
        out[i] += total
    return float(rest)


@kernel
def compare_tables(points: np.ndarray, out: np.ndarray) -> float:
    """Set `out` (N, K) to the probabilities that each arm's mean is the largest.

    Args:
        points: (N, K, M + 1, 3) of the tables.
        out: receives the probabilities; each row sums to one.

    Returns:
        what a row missed of one, at most, before it was made to sum to that.
    """
    num_lanes, num_arms, num_points = points.shape[:3]
    laws, spare = np.empty((num_arms, 4)), np.empty((2 * num_arms + 1, NUM_NODES))
    cells, largest_miss = np.empty(num_arms, dtype=np.int64), 0.0
    for lane in range(num_lanes):
        places = points[lane, :, :, PLACE].copy().reshape(num_arms * num_points)
        places.sort()
        lowest = points[lane, :, 0, PLACE].max()  # below, some distribution function is 0
        cells[:], laws[:], out[lane], rest = num_points - 1, 0.0, 0.0, 1.0
        laws[:, BELOW] = 1.0
        k = places.size - 2
        while k >= 0 and places[k] >= lowest and rest > LEAST:
            length = places[k + 1] - places[k]
            if length > 0.0:
                for i in range(num_arms):
                    arm = points[lane, i]
                    if arm[cells[i], PLACE] > places[k]:
                        while arm[cells[i], PLACE] > places[k]:
                            cells[i] -= 1
                        enter_cell(arm, cells[i], laws[i])
                rest = add_interval(laws, places[k], length, out[lane], spare)
            k -= 1
        total = out[lane].sum()
        miss = abs(total - 1.0)
        largest_miss = max(largest_miss, miss if miss >= 0.0 else np.inf)  # where it is NaN
        out[lane] /= total
    return largest_miss
