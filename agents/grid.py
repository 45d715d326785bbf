"""One-dimensional posteriors as tables that follow the data, for any prior independent across arms.

A table holds the distribution function of one arm's mean at M + 1 points of the coordinate u of
`agents.mesh`. They lie between the two places beyond which the density is below e^-21 of its top,
at equal steps counted in cells of the prior's mesh: whatever the prior has there, be it spikes or
jumps, gets its points, and when the data have narrowed the posterior to a part of a cell, all
points lie in that part. Where much of the mass still lies between two points, they are placed
again. Masses are by Simpson's rule; between points the density is a straight line. What remains is
an error of the distribution function of 1e-3 at most, 2e-3 for a prior of many spikes.

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
from agents.vector_math import exp_all, log_all

FEWEST_POINTS = 64
MOST_POINTS = 4096
POINTS_PER_CELL, POINTS_PER_JUMPY_CELL = 2, 8
NUM_SCOUTS = 17
MAX_ZOOMS = 60
MAX_SPREADS = 8
LARGEST_MASS = 0.25
"""Of two neighbouring intervals; more calls for points closer to where the mass is."""
ENOUGH_CELLS, ENOUGH_SCOUTS = 6, 7
"""A posterior that is felt at so many points, one after the other, needs no closer look."""
MASS, PLACE, DENSITY = range(3)


class Data(NamedTuple):
    """What an arm paid.

    Attributes:
        family: law of a mean under a conjugate prior, which tells the likelihood.
        precision: of a reward, if the family is NORMAL.
        count: number of pulls.
        total: sum of their rewards.
    """

    family: int
    precision: float
    count: float
    total: float


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
    """Return M: even, and some for each cell, with any mass, of the arm with most of them.

    With eight points to a cell, of which every other is at equal steps, a jump keeps one of those
    on either side, even when `spread` has taken half of them elsewhere.
    """
    has_mass = mesh.heights > mesh.heights.max(axis=1, keepdims=True) - LOG_REACH
    is_jumpy = (mesh.is_jump & (has_mass[:, 1:] | has_mass[:, :-1])).any()
    per_cell = POINTS_PER_JUMPY_CELL if is_jumpy else POINTS_PER_CELL
    num_cells = int(has_mass.sum(axis=1).max()) + 2
    return min(max(per_cell * num_cells, FEWEST_POINTS), MOST_POINTS)


@njit(cache=True, error_model="numpy")
def find_place(mesh: Mesh, x: float) -> float:
    """Return u(x), see `agents.panels.Coordinate`, within the limits."""
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


@njit(cache=True, error_model="numpy")
def find_means(
    ends: np.ndarray, u: np.ndarray, x: np.ndarray, rest: np.ndarray, spare: np.ndarray
) -> None:
    """Set x (m,) to x(u) and rest (m,) to 1 - x(u)."""
    low, high, centre, scale = ends[0], ends[1], ends[2], ends[3]
    if low > -np.inf and high < np.inf:
        for j in range(u.size):
            x[j] = -u[j]
        exp_all(x, spare)
        for j in range(u.size):
            part = 1.0 / (1.0 + x[j])
            rest[j] = (1.0 - high) + (high - low) * (x[j] * part)
            x[j] = low + (high - low) * part
        return
    if low > -np.inf:
        for j in range(u.size):
            x[j] = low + scale * math.exp(u[j])
    elif high < np.inf:
        for j in range(u.size):
            x[j] = high - scale * math.exp(-u[j])
    else:
        for j in range(u.size):
            x[j] = centre + scale * math.sinh(u[j])


@njit(cache=True, error_model="numpy")
def add_log_likelihood(
    data: Data, x: np.ndarray, rest: np.ndarray, spare: np.ndarray, out: np.ndarray
) -> None:
    """Add the log-likelihood, up to a constant, to `out` (m,); x and rest are overwritten.

    Args:
        data: what was seen.
        x: (m,) means.
        rest: (m,) 1 - x, read for Bernoulli rewards only.
        spare: (m,) overwritten.
        out: (m,) added to.
    """
    count, total = data.count, data.total
    if count == 0.0:
        return
    if data.family == NORMAL:
        average, factor = total / count, -0.5 * count * data.precision
        for j in range(x.size):
            out[j] += factor * (x[j] - average) ** 2
        return
    if data.family == BETA:
        add_multiple(count - total, rest, True, spare, out)
    elif data.family == GAMMA:
        add_multiple(-count, x, False, spare, out)
    else:
        for j in range(x.size):
            out[j] -= total / x[j]
    add_multiple(-count if data.family == INVERSE_GAMMA else total, x, True, spare, out)


@njit(cache=True, error_model="numpy")
def add_multiple(
    factor: float, x: np.ndarray, is_log: bool, spare: np.ndarray, out: np.ndarray
) -> None:
    """Add factor * x, or factor * log(x), to `out`; in the latter case x is overwritten."""
    if factor == 0.0:
        return
    if is_log:
        log_all(x, spare)
    for j in range(x.size):
        out[j] += factor * x[j]


@njit(cache=True, error_model="numpy")
def weigh(mesh: Mesh, data: Data, u: np.ndarray, out: np.ndarray, spare: np.ndarray) -> float:
    """Add the log-likelihood at u (m,) to `out` and return the largest sum; spare is (3, m)."""
    if data.count > 0.0:
        x, rest, more = spare[0, : u.size], spare[1, : u.size], spare[2, : u.size]
        find_means(mesh.ends, u, x, rest, more)
        add_log_likelihood(data, x, rest, more, out)
    top = -np.inf
    for j in range(u.size):
        top = max(top, out[j])
    return top


@njit(cache=True, error_model="numpy")
def scout_mesh(mesh: Mesh, arm: int, data: Data, out: np.ndarray, spare: np.ndarray) -> float:
    """Set `out` to the posterior log-density at the ends of all cells; return the largest."""
    size = mesh.sizes[arm] + 1
    x, rest, more = spare[0, :size], spare[1, :size], spare[2, :size]
    for j in range(size):
        out[j] = mesh.heights[arm, j]
        x[j] = mesh.means[arm, j]
        rest[j] = mesh.rests[arm, j]
    add_log_likelihood(data, x, rest, more, out)
    top = -np.inf
    for j in range(size):
        top = max(top, out[j])
    return top


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def evaluate_prior(
    edges: np.ndarray, c: np.ndarray, is_jump: np.ndarray, cell: int, u: float
) -> float:
    """Return one arm's prior log-density of u in a cell, from its (C, 4) coefficients c."""
    start, end = edges[cell], edges[cell + 1]
    t = (u - start) / (end - start)
    if is_jump[cell]:
        return c[cell, 0] if t < 0.5 else c[cell, 1]
    return c[cell, 0] + t * (c[cell, 1] + t * (c[cell, 2] + t * c[cell, 3]))


@njit(cache=True, error_model="numpy")
def place_steps(mesh: Mesh, arm: int, v: np.ndarray, u: np.ndarray, out: np.ndarray) -> None:
    """Set u (m,) at v (m,) cells from the low end, and `out` to the prior log-density there."""
    edges, size = mesh.edges[arm], mesh.sizes[arm]
    c, is_jump = mesh.coefficients[arm], mesh.is_jump[arm]
    for j in range(u.size):
        cell = min(int(v[j]), size - 1)
        u[j] = edges[cell] + (v[j] - cell) * (edges[cell + 1] - edges[cell])
        out[j] = evaluate_prior(edges, c, is_jump, cell, u[j])


@njit(cache=True, error_model="numpy")
def find_peak(
    mesh: Mesh, arm: int, data: Data, u: np.ndarray, out: np.ndarray, spare: np.ndarray
) -> tuple[int, float]:
    """Return the cell of the mean that the data favour, and the log-density there."""
    edges = mesh.edges[arm]
    u[0] = find_place(mesh, data.total / data.count)
    cell = find_cell(edges, mesh.sizes[arm], u[0])
    c, is_jump = mesh.coefficients[arm], mesh.is_jump[arm]
    out[0] = evaluate_prior(edges, c, is_jump, cell, u[0])
    return cell, weigh(mesh, data, u[:1], out[:1], spare)


@njit(cache=True, error_model="numpy")
def find_span(heights: np.ndarray, threshold: float) -> tuple[int, int]:
    """Return the first and the last index above the threshold."""
    first, last = 0, heights.size - 1
    while first <= last and heights[first] <= threshold:
        first += 1
    while last > first and heights[last] <= threshold:
        last -= 1
    return first, last


@njit(cache=True, error_model="numpy")
def set_steps(low: float, high: float, v: np.ndarray) -> None:
    """Set v (m,) to equal steps from low to high."""
    step = (high - low) / (v.size - 1)
    for j in range(v.size):
        v[j] = low + j * step
    v[v.size - 1] = high


@njit(cache=True, error_model="numpy")
def spread(points: np.ndarray, v: np.ndarray, new: np.ndarray) -> None:
    """Move v (m,) so that steps share what each has now: half by number, half by mass."""
    num_steps = v.size - 1
    k, before, after = 0, 0.0, 0.0
    for j in range(num_steps + 1):
        new[j] = v[num_steps]
        while k < num_steps:
            after = 0.5 * ((k + 1) / num_steps + points[2 * k + 2, MASS])
            if after * num_steps > j:
                new[j] = v[k] + (v[k + 1] - v[k]) * ((j / num_steps - before) / (after - before))
                break
            before = after
            k += 1
    v[:] = new


@njit(cache=True, error_model="numpy")
def find_bulk(
    mesh: Mesh,
    arm: int,
    data: Data,
    v: np.ndarray,
    u: np.ndarray,
    out: np.ndarray,
    spare: np.ndarray,
) -> tuple[float, float]:
    """Return the ends, in cells, of where the posterior has mass; equal if nowhere.

    Looks at the ends of all cells, and at the mean that the data favour: a posterior too narrow
    to be felt at any end of a cell is there, or near the end of a cell next to it. If it is felt
    at few, scouts look closer and closer.
    """
    size = mesh.sizes[arm]
    top, height, peak = scout_mesh(mesh, arm, data, out, spare), -np.inf, 0
    first, last = find_span(out[: size + 1], top - LOG_REACH)
    if data.count > 0.0 and last - first < ENOUGH_CELLS:
        peak, height = find_peak(mesh, arm, data, u, out[size + 1 :], spare)
        first, last = find_span(out[: size + 1], max(top, height) - LOG_REACH)
    if height > top - LOG_REACH:
        is_all = first > last
        first, last = (peak if is_all else min(first, peak)), max(0 if is_all else last, peak + 1)
    if first > last:
        return 0.0, 0.0
    low, high = float(max(first - 1, 0)), float(min(last + 1, size))
    if last - first >= ENOUGH_CELLS:
        return low, high
    v, u, out = v[:NUM_SCOUTS], u[:NUM_SCOUTS], out[:NUM_SCOUTS]
    return zoom(mesh, arm, data, low, high, v, u, out, spare)


@njit(cache=True, error_model="numpy")
def zoom(
    mesh: Mesh,
    arm: int,
    data: Data,
    low: float,
    high: float,
    v: np.ndarray,
    u: np.ndarray,
    out: np.ndarray,
    spare: np.ndarray,
) -> tuple[float, float]:
    """Return the part of [low, high], in cells, in which the posterior has mass."""
    for _ in range(MAX_ZOOMS):
        set_steps(low, high, v)
        place_steps(mesh, arm, v, u, out)
        top = weigh(mesh, data, u, out, spare)
        first, last = find_span(out, top - LOG_REACH)
        first, last = max(first - 1, 0), min(last + 1, out.size - 1)
        low, high = v[first], v[last]
        if last - first > ENOUGH_SCOUTS:
            break
    return low, high


@njit(cache=True, error_model="numpy")
def place_points(mesh: Mesh, arm: int, v: np.ndarray, u: np.ndarray, out: np.ndarray) -> None:
    """Set u (M + 1,), and `out` to the prior log-density there.

    Every other point is at v (M / 2 + 1,) cells, and the others halfway between them in u.
    """
    edges, size = mesh.edges[arm], mesh.sizes[arm]
    c, is_jump = mesh.coefficients[arm], mesh.is_jump[arm]
    place_steps(mesh, arm, v, u[::2], out[::2])
    cell = min(int(v[0]), size - 1)
    for k in range(1, u.size, 2):
        u[k] = 0.5 * (u[k - 1] + u[k + 1])
        while cell < size - 1 and edges[cell + 1] <= u[k]:
            cell += 1
        out[k] = evaluate_prior(edges, c, is_jump, cell, u[k])


@njit(cache=True, error_model="numpy")
def accumulate(u: np.ndarray, density: np.ndarray, points: np.ndarray) -> float:
    """Write the points of a table, with masses from the left; return the largest mass of a pair.

    The mass of a pair of intervals is Simpson's, and is shared between them as by the trapezoidal
    rule, so that no share is negative however steep the density.
    """
    mass, largest = 0.0, 0.0
    points[0, MASS] = 0.0
    for k in range(1, u.size, 2):
        left, middle, right = density[k - 1], density[k], density[k + 1]
        pair = (u[k] - u[k - 1]) * (left + 4.0 * middle + right)
        part = (left + middle) / (left + 2.0 * middle + right)
        points[k, MASS] = mass + pair * part
        mass += pair
        points[k + 1, MASS] = mass
        largest = max(largest, pair)
    scale = 1.0 / mass
    for k in range(u.size):
        points[k, MASS] *= scale
        points[k, PLACE] = u[k]
        points[k, DENSITY] = density[k]
    points[u.size - 1, MASS] = 1.0
    return largest * scale


@njit(cache=True, error_model="numpy")
def fill_guide(points: np.ndarray, guide: np.ndarray) -> None:
    """Set the last point with a mass of at most j / M before it, for each j."""
    k = 0
    for j in range(len(guide)):
        while points[k + 1, MASS] * len(guide) <= j:
            k += 1
        guide[j] = k


@njit(cache=True, error_model="numpy")
def build_table(
    mesh: Mesh, arm: int, data: Data, spare: np.ndarray, points: np.ndarray, guide: np.ndarray
) -> bool:
    """Fill the table of one posterior, or return False if that is 0 everywhere.

    Args:
        mesh: of all arms' priors.
        arm: whose posterior.
        data: what it paid.
        spare: (6, at least the number of points and of edges plus one) overwritten.
        points: (M + 1, 3) receives the points.
        guide: (M,) receives the guide.
    """
    v, u, out, rest = spare[0], spare[1], spare[2], spare[3:]
    low, high = find_bulk(mesh, arm, data, v, u, out, rest)
    if low >= high:
        return False
    v, u, out = v[: len(points) // 2 + 1], u[: len(points)], out[: len(points)]
    set_steps(low, high, v)
    for _ in range(MAX_SPREADS):
        place_points(mesh, arm, v, u, out)
        top = weigh(mesh, data, u, out, rest)
        if not -np.inf < top < np.inf:
            return False
        for j in range(out.size):
            out[j] -= top
        exp_all(out, rest[0, : out.size])
        if accumulate(u, out, points) < LARGEST_MASS:
            break
        spread(points, v, rest[0, : v.size])
    fill_guide(points, guide)
    return True


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def update_tables(
    mesh: Mesh,
    family: int,
    precision: float,
    tables: Tables,
    counts: np.ndarray,
    sums: np.ndarray,
) -> int:
    """Build the tables whose (N, K) statistics have changed.

    Returns:
        -1, or lane * K + arm of the first posterior that is 0 everywhere.
    """
    num_lanes, num_arms = counts.shape
    spare = np.empty((6, max(mesh.edges.shape[1] + 1, tables.points.shape[2], NUM_SCOUTS)))
    for lane in range(num_lanes):
        for arm in range(num_arms):
            key, count, total = tables.keys[lane, arm], float(counts[lane, arm]), sums[lane, arm]
            if key[0] == count and key[1] == total:
                continue
            key[0] = np.nan
            data = Data(family, precision, count, total)
            points, guide = tables.points[lane, arm], tables.guides[lane, arm]
            if not build_table(mesh, arm, data, spare, points, guide):
                return lane * num_arms + arm
            key[0], key[1] = count, total
    return -1


@njit(cache=True, error_model="numpy")
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
