"""One-dimensional posteriors as tables that follow the data, for any prior independent across arms.

A table holds the distribution function of one arm's mean at M + 1 points of the coordinate u of
`agents.mesh`. They lie between the two places beyond which the density is below e^-21 of its top,
at equal steps counted in cells of the prior's mesh: whatever the prior has there, be it spikes or
jumps, gets its points, and when the data have narrowed the posterior to a part of a cell, all
points lie in that part. Masses are by Simpson's rule; between points the density is a straight
line. What remains is an error of the distribution function of about 1e-4 at worst.

A draw inverts the distribution function: a uniform number, a guide that says where to look, and a
quadratic equation. As the coordinate is common to all arms, the best arm is the one of largest u.

A table is a function of the arm's prior and statistics alone, and is built anew when those have
changed since it was built: one table per lane and step.

Letters: K arms, N lanes, M + 1 points.

References:
    Devroye (1986), "Non-Uniform Random Variate Generation", III.2 (indexed search).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.random import Generator

from agents.mesh import LOG_REACH, Mesh
from agents.posteriors import BETA, GAMMA, INVERSE_GAMMA, NORMAL

FEWEST_POINTS = 64
MOST_POINTS = 4096
POINTS_PER_CELL = 4
NUM_SCOUTS = 17
MAX_ZOOMS = 60
MASS, PLACE, DENSITY = range(3)


class Likelihood(NamedTuple):
    """Attributes: `family` of the conjugate prior, `precision` of a reward if that is NORMAL."""

    family: int
    precision: float


class Tables(NamedTuple):
    """Room for the tables of N lanes.

    Attributes:
        keys: (N, K, 2) statistics that the tables were built for, NaN at first.
        points: (N, K, M + 1, 3) distribution function, u and density of u at each point.
        guides: (N, K, M) the last point with a distribution function of at most j / M.
    """

    keys: np.ndarray
    points: np.ndarray
    guides: np.ndarray


def make_tables(mesh: Mesh, num_lanes: int) -> Tables:
    """Return room for tables, none of them built, with enough points for the mesh."""
    shape = (num_lanes, len(mesh.sizes))
    num_points = count_points(mesh)
    return Tables(
        keys=np.full((*shape, 2), np.nan),
        points=np.zeros((*shape, num_points + 1, 3)),
        guides=np.zeros((*shape, num_points), dtype=np.uint16),
    )


def count_points(mesh: Mesh) -> int:
    """Return M: even, and POINTS_PER_CELL for each cell of the busiest arm with any mass.

    With four points to a cell, a jump has one on either side.
    """
    tops = mesh.heights.max(axis=1, keepdims=True)
    busiest = int((mesh.heights > tops - LOG_REACH).sum(axis=1).max()) + 2
    return min(max(POINTS_PER_CELL * busiest, FEWEST_POINTS), MOST_POINTS)


@njit(cache=True)
def share(u: float) -> float:
    """Return 1 / (1 + e^-u)."""
    return 1.0 / (1.0 + math.exp(-u))


@njit(cache=True)
def find_mean(ends: np.ndarray, u: float) -> tuple[float, float]:
    """Return x(u) and 1 - x(u), see `agents.panels.Coordinate`."""
    low, high, centre, scale = ends
    if low > -np.inf and high < np.inf:
        width = high - low
        part = share(u)
        return low + width * part, (1.0 - high) + width * (1.0 - part if u < 0.0 else share(-u))
    if low > -np.inf:
        x = low + scale * math.exp(u)
    elif high < np.inf:
        x = high - scale * math.exp(-u)
    else:
        x = centre + scale * math.sinh(u)
    return x, 1.0 - x


@njit(cache=True)
def find_place(mesh: Mesh, x: float) -> float:
    """Return u(x), within the limits."""
    low, high, centre, scale = mesh.ends
    if x <= low:
        return mesh.limits[0]
    if x >= high:
        return mesh.limits[1]
    if low > -np.inf and high < np.inf:
        u = math.log((x - low) / (high - x))
    elif low > -np.inf:
        u = math.log((x - low) / scale)
    elif high < np.inf:
        u = -math.log((high - x) / scale)
    else:
        u = math.asinh((x - centre) / scale)
    return min(max(u, mesh.limits[0]), mesh.limits[1])


@njit(cache=True)
def log_likelihood(
    likelihood: Likelihood, count: float, total: float, x: float, rest: float
) -> float:
    """Return the log-likelihood of the mean x = 1 - rest, up to a constant."""
    if count == 0.0:
        return 0.0
    if likelihood.family == NORMAL:
        gap = x - total / count
        return -0.5 * likelihood.precision * count * gap * gap
    if likelihood.family == INVERSE_GAMMA:
        return -count * math.log(x) - total / x
    value = total * math.log(x) if total > 0.0 else 0.0
    if likelihood.family == GAMMA:
        return value - count * x
    return value + (count - total) * math.log(rest) if count > total else value


@njit(cache=True)
def find_cell(edges: np.ndarray, size: int, u: float) -> int:
    """Return the cell that u lies in, by bisection."""
    low, high = 0, size
    while high - low > 1:
        middle = (low + high) // 2
        if edges[middle] <= u:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True)
def log_prior(mesh: Mesh, arm: int, cell: int, u: float) -> float:
    """Return the prior log-density of u in a cell."""
    start, end = mesh.edges[arm, cell], mesh.edges[arm, cell + 1]
    t = (u - start) / (end - start)
    c = mesh.coefficients[arm, cell]
    if mesh.is_jump[arm, cell]:
        return c[0] if t < 0.5 else c[1]
    return c[0] + t * (c[1] + t * (c[2] + t * c[3]))


@njit(cache=True)
def log_posterior(
    mesh: Mesh, likelihood: Likelihood, arm: int, cell: int, u: float, count: float, total: float
) -> float:
    """Return the posterior log-density of u in a cell, up to a constant."""
    x, rest = find_mean(mesh.ends, u)
    return log_prior(mesh, arm, cell, u) + log_likelihood(likelihood, count, total, x, rest)


@njit(cache=True)
def to_u(mesh: Mesh, arm: int, v: float) -> tuple[int, float]:
    """Return the cell and u at v cells from the low end of an arm's mesh."""
    cell = min(int(v), mesh.sizes[arm] - 1)
    start, end = mesh.edges[arm, cell], mesh.edges[arm, cell + 1]
    return cell, start + (v - cell) * (end - start)


@njit(cache=True)
def scout_mesh(
    mesh: Mesh, likelihood: Likelihood, arm: int, count: float, total: float, heights: np.ndarray
) -> tuple[float, float, bool]:
    """Return the ends, in cells, of where the posterior has mass, and whether that is all there is.

    Looks at the ends of all cells, and at the mean that the data favour: a posterior too narrow
    to be felt at any end of a cell is there, or near the end of a cell next to it.
    """
    size, edges = mesh.sizes[arm], mesh.edges[arm]
    top = -np.inf
    for j in range(size + 1):
        x, rest = find_mean(mesh.ends, edges[j])
        heights[j] = mesh.heights[arm, j] + log_likelihood(likelihood, count, total, x, rest)
        top = max(top, heights[j])
    first, last = size, 0
    if count > 0.0:
        u = find_place(mesh, total / count)
        cell = find_cell(edges, size, u)
        height = log_posterior(mesh, likelihood, arm, cell, u, count, total)
        if height > top - LOG_REACH:
            first, last = cell, cell + 1
        top = max(top, height)
    for j in range(size + 1):
        if heights[j] > top - LOG_REACH:
            first, last = min(first, j), max(last, j)
    is_resolved = last - first >= 6
    return float(max(first - 1, 0)), float(min(last + 1, size)), is_resolved and top > -np.inf


@njit(cache=True)
def zoom(
    mesh: Mesh,
    likelihood: Likelihood,
    arm: int,
    count: float,
    total: float,
    low: float,
    high: float,
    heights: np.ndarray,
) -> tuple[float, float]:
    """Return the part of [low, high], in cells, in which the posterior has mass."""
    for _ in range(MAX_ZOOMS):
        step = (high - low) / (NUM_SCOUTS - 1)
        top = -np.inf
        for j in range(NUM_SCOUTS):
            cell, u = to_u(mesh, arm, low + j * step)
            heights[j] = log_posterior(mesh, likelihood, arm, cell, u, count, total)
            top = max(top, heights[j])
        first, last = NUM_SCOUTS, 0
        for j in range(NUM_SCOUTS):
            if heights[j] > top - LOG_REACH:
                first, last = min(first, j), max(last, j)
        first, last = max(first - 1, 0), min(last + 1, NUM_SCOUTS - 1)
        low, high = low + first * step, low + last * step
        if last - first > 7 or first > last:
            break
    return low, high


@njit(cache=True)
def place_points(
    mesh: Mesh,
    likelihood: Likelihood,
    arm: int,
    count: float,
    total: float,
    low: float,
    high: float,
    points: np.ndarray,
) -> float:
    """Set the places of the points, and their log-densities, the largest of which is returned.

    Every other point is at equal steps in cells, and the others halfway between them in u.
    """
    num_pairs = (len(points) - 1) // 2
    for k in range(num_pairs + 1):
        v = low + (high - low) * (k / num_pairs)
        cell, u = to_u(mesh, arm, v)
        points[2 * k, PLACE] = u
        points[2 * k, DENSITY] = log_posterior(mesh, likelihood, arm, cell, u, count, total)
    top = points[0, DENSITY]
    cell, _ = to_u(mesh, arm, low)
    for k in range(1, 2 * num_pairs, 2):
        u = 0.5 * (points[k - 1, PLACE] + points[k + 1, PLACE])
        while cell < mesh.sizes[arm] - 1 and mesh.edges[arm, cell + 1] <= u:
            cell += 1
        points[k, PLACE] = u
        points[k, DENSITY] = log_posterior(mesh, likelihood, arm, cell, u, count, total)
        top = max(top, points[k, DENSITY], points[k + 1, DENSITY])
    return top


@njit(cache=True)
def accumulate(points: np.ndarray, top: float) -> None:
    """Turn log-densities into densities and masses from the left, which end with 1.

    The mass of a pair of intervals is Simpson's, and is shared between them as by the trapezoidal
    rule, so that no share is negative however steep the density.
    """
    for k in range(len(points)):
        points[k, DENSITY] = math.exp(points[k, DENSITY] - top)
    mass = 0.0
    for k in range(1, len(points), 2):
        left, middle, right = points[k - 1, DENSITY], points[k, DENSITY], points[k + 1, DENSITY]
        pair = (points[k, PLACE] - points[k - 1, PLACE]) * (left + 4.0 * middle + right) / 3.0
        trapezoids = left + 2.0 * middle + right
        part = (left + middle) / trapezoids if trapezoids > 0.0 else 0.0
        points[k - 1, MASS] = mass
        points[k, MASS] = mass + pair * part
        mass += pair
    points[-1, MASS] = mass
    for k in range(len(points)):
        points[k, MASS] /= mass


@njit(cache=True)
def fill_guide(points: np.ndarray, guide: np.ndarray) -> None:
    """Set the last point with a mass of at most j / M before it, for each j."""
    k = 0
    for j in range(len(guide)):
        while points[k + 1, MASS] * len(guide) <= j:
            k += 1
        guide[j] = k


@njit(cache=True)
def build_table(
    mesh: Mesh,
    likelihood: Likelihood,
    arm: int,
    count: float,
    total: float,
    heights: np.ndarray,
    points: np.ndarray,
    guide: np.ndarray,
) -> bool:
    """Fill the table of one posterior, or return False if that is 0 everywhere."""
    low, high, is_resolved = scout_mesh(mesh, likelihood, arm, count, total, heights)
    if low >= high:
        return False
    if not is_resolved:
        low, high = zoom(mesh, likelihood, arm, count, total, low, high, heights)
    top = place_points(mesh, likelihood, arm, count, total, low, high, points)
    if not -np.inf < top < np.inf:
        return False
    accumulate(points, top)
    fill_guide(points, guide)
    return True


@njit(cache=True)
def draw_from_table(rng: Generator, points: np.ndarray, guide: np.ndarray) -> float:
    """Return a draw of u by inverting the distribution function."""
    uniform = rng.random()
    k = int(guide[int(uniform * len(guide))])
    while points[k + 1, MASS] <= uniform:
        k += 1
    mass = points[k + 1, MASS] - points[k, MASS]
    part = (uniform - points[k, MASS]) / mass
    left, right = points[k, DENSITY], points[k + 1, DENSITY]
    root = math.sqrt(left * left + part * (right * right - left * left))
    along = part * (left + right) / (left + root)
    return points[k, PLACE] + along * (points[k + 1, PLACE] - points[k, PLACE])


@njit(cache=True)
def update_tables(
    mesh: Mesh, likelihood: Likelihood, tables: Tables, counts: np.ndarray, sums: np.ndarray
) -> int:
    """Build the tables whose (N, K) statistics have changed.

    Returns:
        -1, or lane * K + arm of the first posterior that is 0 everywhere.
    """
    num_lanes, num_arms = counts.shape
    heights = np.empty(max(mesh.edges.shape[1], NUM_SCOUTS))
    for lane in range(num_lanes):
        for arm in range(num_arms):
            key, count, total = tables.keys[lane, arm], float(counts[lane, arm]), sums[lane, arm]
            if key[0] == count and key[1] == total:
                continue
            key[0] = np.nan
            points, guide = tables.points[lane, arm], tables.guides[lane, arm]
            if not build_table(mesh, likelihood, arm, count, total, heights, points, guide):
                return lane * num_arms + arm
            key[0], key[1] = count, total
    return -1


@njit(cache=True)
def draw_best(rng: Generator, tables: Tables, actions: np.ndarray) -> None:
    """Draw every arm's mean once in each lane, and find the best, ties broken at random."""
    num_lanes, num_arms = tables.keys.shape[:2]
    for lane in range(num_lanes):
        best, num_best = -np.inf, 0.0
        for arm in range(num_arms):
            u = draw_from_table(rng, tables.points[lane, arm], tables.guides[lane, arm])
            if u > best:
                best, num_best = u, 1.0
                actions[lane] = arm
            elif u == best:
                num_best += 1.0
                if rng.random() * num_best < 1.0:
                    actions[lane] = arm
