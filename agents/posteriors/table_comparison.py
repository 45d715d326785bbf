"""How likely each of K arms has the largest mean, when each has a table; compiled.

    P_i = int p_i(u) prod_{j != i} F_j(u) du

by Gauss-Legendre quadrature between any two neighbours among the points of all arms. There every
density is a straight line and every distribution function a parabola, as draws from the tables
have them: up to five arms the integrals are exact, and for more the intervals are short.

Letters: K arms, N lanes, M + 1 points.
"""

from __future__ import annotations

import numpy as np

from agents.numerics.compiled import inner, kernel
from agents.posteriors.tabulation import DENSITY, MASS, PLACE

NUM_NODES = 5
_NODES, _WEIGHTS = (half / 2 for half in np.polynomial.legendre.leggauss(NUM_NODES))
_NODES = _NODES + 0.5


@inner
def set_law(
    points: np.ndarray, cell: int, u: np.ndarray, density: np.ndarray, below: np.ndarray
) -> None:
    """Set density and distribution function of one arm at u (NUM_NODES,), all in one cell.

    Args:
        points: (M + 1, 3) of the arm's table.
        cell: index of the point before; M beyond the last one.
        u: the places.
        density: (NUM_NODES,) receives the density.
        below: (NUM_NODES,) receives the distribution function.
    """
    if cell == len(points) - 1:
        density[:], below[:] = 0.0, 1.0
        return
    left, right = points[cell, DENSITY], points[cell + 1, DENSITY]
    step = points[cell + 1, PLACE] - points[cell, PLACE]
    mass = points[cell + 1, MASS] - points[cell, MASS]
    share = mass / (left + right) if mass > 0.0 else 0.0
    for q in range(u.size):
        t = (u[q] - points[cell, PLACE]) / step
        density[q] = 2.0 * share * (left + t * (right - left)) / step
        below[q] = points[cell, MASS] + share * t * (2.0 * left + t * (right - left))


@inner
def add_interval(
    length: float, density: np.ndarray, below: np.ndarray, out: np.ndarray, product: np.ndarray
) -> None:
    """Add an interval's part of the integrals to `out` (K,); (K, NUM_NODES) laws are overwritten.

    Products over the other arms come from running products on either side: dividing by a factor
    would lose an arm whose distribution function is still 0.
    """
    product[:] = 1.0
    for i in range(out.size):
        for q in range(NUM_NODES):
            density[i, q] *= product[q]
            product[q] *= below[i, q]
    product[:] = length * _WEIGHTS
    for i in range(out.size - 1, -1, -1):
        for q in range(NUM_NODES):
            out[i] += density[i, q] * product[q]
            product[q] *= below[i, q]


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
    density, below = np.empty((num_arms, NUM_NODES)), np.empty((num_arms, NUM_NODES))
    product, cells, largest_miss = np.empty(NUM_NODES), np.empty(num_arms, dtype=np.int64), 0.0
    for lane in range(num_lanes):
        places = points[lane, :, :, PLACE].copy().reshape(num_arms * num_points)
        places.sort()
        first = points[lane, :, 0, PLACE].max()  # below, some arm's distribution function is 0
        cells[:], out[lane] = -1, 0.0
        for k in range(places.size - 1):
            length = places[k + 1] - places[k]
            if places[k] < first or length <= 0.0:
                continue
            u = places[k] + length * _NODES
            for i in range(num_arms):
                while (
                    cells[i] < num_points - 1 and points[lane, i, cells[i] + 1, PLACE] <= places[k]
                ):
                    cells[i] += 1
                set_law(points[lane, i], cells[i], u, density[i], below[i])
            add_interval(length, density, below, out[lane], product)
        total = out[lane].sum()
        miss = abs(total - 1.0)
        largest_miss = max(largest_miss, miss if miss >= 0.0 else np.inf)  # where it is NaN
        out[lane] /= total
    return largest_miss
