"""One-dimensional posteriors as tables that follow the data, for any prior independent across arms.

A table holds the distribution function of one arm's mean at M + 1 points of the coordinate u of
`agents.posteriors.mesh`. They lie between the two places beyond which the density is below e^-21 of
its top,
at equal steps counted in cells of the prior's mesh: whatever the prior has there, be it spikes or
jumps, gets its points, and when the data have narrowed the posterior to a part of a cell, all
points lie in that part. Where much of the mass still lies between two points, they are placed
again. Masses are by Simpson's rule; between points the density is a straight line. What remains is
an error of the distribution function of 1e-3 at most, 2e-3 for a prior of many spikes, and more
only where data and prior exclude each other: 7e-3 for 10^6 failures under Beta(5, 5).

A draw inverts the distribution function: a uniform number, a guide that says where to look, and a
quadratic equation. As the coordinate is common to all arms, the best arm is the one of largest u.

A table is a function of the arm's prior and statistics alone. When those have changed, one per lane
and step, it is built anew, or copied from a lane and arm that have the same: with rewards that are
whole numbers, a few hundred tables serve thousands of lanes.

Letters: K arms, N lanes, M + 1 points.

References:
    Devroye (1986), "Non-Uniform Random Variate Generation", III.2 (indexed search).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from agents.numerics.compiled import inner, kernel
from agents.numerics.vector_math import exp_all
from agents.posteriors.bulk import NUM_SCOUTS, Places, find_bulk, largest_of, place_points, weigh
from agents.posteriors.features import Data
from agents.posteriors.mesh import LOG_REACH, Mesh

FEWEST_POINTS = 64
MOST_POINTS = 4096
POINTS_PER_CELL, POINTS_PER_JUMPY_CELL = 1.5, 12
MAX_SPREADS = 24
LARGEST_MASS = 0.2
"""Of two neighbouring intervals; more calls for points closer to where the mass is."""
NUM_RECENT = 4096
"""Kinds of statistics, of which one table each is remembered to copy from."""
MASS, PLACE, DENSITY = range(3)


class PosteriorTables(NamedTuple):
    """Room for the tables of N lanes.

    Attributes:
        keys: (N, K, 2) statistics that the tables were built for, NaN at first.
        points: (N, K, M + 1, 3) distribution function, u and density of u at each point.
        guides: (N, K, M) the last point with a distribution function of at most j / M.
        recent: (NUM_RECENT,) lane * K + arm of the last table built for statistics of each kind.
    """

    keys: np.ndarray
    points: np.ndarray
    guides: np.ndarray
    recent: np.ndarray


def empty_tables(mesh: Mesh, num_lanes: int) -> PosteriorTables:
    """Return room for tables, none of them built, with enough points for the mesh."""
    shape = (num_lanes, len(mesh.sizes))
    num_points = count_points(mesh)
    return PosteriorTables(
        keys=np.full((*shape, 2), np.nan),
        points=np.zeros((*shape, num_points + 1, 3)),
        guides=np.zeros((*shape, num_points), dtype=np.uint16),
        recent=np.zeros(NUM_RECENT, dtype=np.int64),
    )


def count_points(mesh: Mesh) -> int:
    """Return M: even, and some for each cell, with any mass, of the arm with most of them.

    With twelve points to a cell, of which every other is at equal steps, a jump keeps one of those
    on either side, even when `spread` has taken two thirds of them elsewhere.
    """
    has_mass = mesh.heights > mesh.heights.max(axis=1, keepdims=True) - LOG_REACH
    is_jumpy = (mesh.is_jump & (has_mass[:, 1:] | has_mass[:, :-1])).any()
    per_cell = POINTS_PER_JUMPY_CELL if is_jumpy else POINTS_PER_CELL
    num_cells = int(has_mass.sum(axis=1).max()) + 2
    return min(max(2 * round(per_cell * num_cells / 2), FEWEST_POINTS), MOST_POINTS)


@inner
def spread(v: np.ndarray, mass: np.ndarray, new: np.ndarray) -> None:
    """Set `new` so that its steps have equal shares of v's length, of its mass and of its steps.

    Shares of the length keep points at jumps. Those of the mass are smoothed over three steps, and
    those of the steps as they are delay their moving, or else points would leave the tails, where
    masses are then seen too large, and return, for ever.

    Args:
        v: (m,) places.
        mass: (m,) up to each of them, from 0.
        new: (n,) receives places from the first to the last of v.
    """
    num_steps, last = new.size - 1, v.size - 1
    per_length = num_steps / (3.0 * (v[last] - v[0]))
    per_mass, per_step = num_steps / (12.0 * mass[last]), num_steps / (3.0 * last)
    j, before = 0, 0.0
    for k in range(last):
        part = mass[k] + 2.0 * mass[k + 1] + mass[min(k + 2, last)]
        after = per_length * (v[k + 1] - v[0]) + per_mass * part + per_step * (k + 1)
        slope = (v[k + 1] - v[k]) / (after - before)
        while j < after and j < num_steps:
            new[j] = v[k] + slope * (j - before)
            j += 1
        before = after
    new[j:] = v[last]


@inner
def sum_trapezia(u: np.ndarray, log_density: np.ndarray, mass: np.ndarray) -> None:
    """Set `mass` (m,) to that up to each of u (m,); `log_density` (m,) is overwritten."""
    top = largest_of(log_density)
    for j in range(u.size):
        log_density[j] -= top
    exp_all(log_density, mass)
    mass[0] = 0.0
    for j in range(1, u.size):
        mass[j] = mass[j - 1] + (u[j] - u[j - 1]) * (log_density[j - 1] + log_density[j])


@inner
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


@inner
def fill_guide(points: np.ndarray, guide: np.ndarray) -> None:
    """Set the last point with a mass of at most j / M before it, for each j."""
    k = 0
    for j in range(len(guide)):
        while points[k + 1, MASS] * len(guide) <= j:
            k += 1
        guide[j] = k


@inner
def build_posterior_table(
    mesh: Mesh, arm: int, data: Data, spare: np.ndarray, points: np.ndarray, guide: np.ndarray
) -> bool:
    """Fill the table of one posterior, or return False if that is 0 everywhere.

    Args:
        mesh: of all arms' priors.
        arm: whose posterior.
        data: what it paid.
        spare: (7, at least the number of points and of edges plus one) overwritten.
        points: (M + 1, 3) receives the points.
        guide: (M,) receives the guide.
    """
    v, u, out, rest = spare[0], spare[1], spare[2], spare[3:]
    num_seen = find_bulk(mesh, arm, data, Places(v, u, out), rest)
    if num_seen == 0:
        return False
    mass, new = rest[0], rest[1, : len(points) // 2 + 1]
    sum_trapezia(u[:num_seen], out[:num_seen], mass[:num_seen])
    spread(v[:num_seen], mass[:num_seen], new)
    v, u, out, mass = v[: new.size], u[: len(points)], out[: len(points)], mass[: new.size]
    for _ in range(MAX_SPREADS):
        v[:] = new
        place_points(mesh, arm, v, u, out)
        top = weigh(mesh, data, u, out, rest)
        if not -np.inf < top < np.inf:
            return False
        for j in range(out.size):
            out[j] -= top
        exp_all(out, rest[0, : out.size])
        if accumulate(u, out, points) < LARGEST_MASS:
            break
        mass[:] = points[::2, MASS]
        spread(v, mass, new)
    fill_guide(points, guide)
    return True


@inner
def invert_table(points: np.ndarray, guide: np.ndarray, level: float) -> tuple[float, float]:
    """Return u at which the distribution function is `level`, and the density there.

    Of a uniform level, u is a draw.
    """
    k = int(guide[int(level * len(guide))])
    while points[k + 1, MASS] <= level:
        k += 1
    mass = points[k + 1, MASS] - points[k, MASS]
    part = (level - points[k, MASS]) / mass
    left, right = points[k, DENSITY], points[k + 1, DENSITY]
    root = math.sqrt(left * left + part * (right * right - left * left))
    along = part * (left + right) / (left + root)
    step = points[k + 1, PLACE] - points[k, PLACE]
    density = 2.0 * mass * (left + along * (right - left)) / ((left + right) * step)
    return points[k, PLACE] + along * step, density


@inner
def kind_of(twin: int, pulls: float, total: float) -> int:
    """Return which of NUM_RECENT kinds an arm's statistics are of; equal ones are of one."""
    fraction = (0.6180339887498949 * pulls + 0.7548776662466927 * total + 0.45 * twin) % 1.0
    return min(int(fraction * NUM_RECENT), NUM_RECENT - 1)


@inner
def holds(tables: PosteriorTables, lane: int, arm: int, pulls: float, total: float) -> bool:
    """Return whether a lane's table is the one for these statistics."""
    return tables.keys[lane, arm, 0] == pulls and tables.keys[lane, arm, 1] == total


@inner
def copy_posterior_table(
    tables: PosteriorTables, lane: int, arm: int, other_lane: int, other_arm: int
) -> None:
    """Make an arm's table in a lane that of an arm with the same prior, in any lane."""
    points, guide = tables.points[lane, arm], tables.guides[lane, arm]
    for k in range(points.shape[0]):
        for column in range(3):
            points[k, column] = tables.points[other_lane, other_arm, k, column]
    for k in range(guide.size):
        guide[k] = tables.guides[other_lane, other_arm, k]


@kernel
def update_tables(mesh: Mesh, tables: PosteriorTables, counts: np.ndarray, sums: np.ndarray) -> int:
    """Build or copy the tables whose (N, K) statistics have changed.

    Returns:
        -1, or lane * K + arm of the first posterior that is 0 everywhere.
    """
    num_lanes, num_arms = counts.shape
    spare = np.empty((7, max(mesh.edges.shape[1] + 1, tables.points.shape[2], NUM_SCOUTS)))
    for lane in range(num_lanes):
        for arm in range(num_arms):
            pulls, total = float(counts[lane, arm]), sums[lane, arm]
            if holds(tables, lane, arm, pulls, total):
                continue
            tables.keys[lane, arm, 0] = np.nan
            kind = kind_of(mesh.twins[arm], pulls, total)
            other_lane, other_arm = divmod(tables.recent[kind], num_arms)
            is_twin = mesh.twins[other_arm] == mesh.twins[arm]
            if is_twin and holds(tables, other_lane, other_arm, pulls, total):
                copy_posterior_table(tables, lane, arm, other_lane, other_arm)
            else:
                data = Data(pulls, total)
                points, guide = tables.points[lane, arm], tables.guides[lane, arm]
                if not build_posterior_table(mesh, arm, data, spare, points, guide):
                    return lane * num_arms + arm
                tables.recent[kind] = lane * num_arms + arm
            tables.keys[lane, arm, 0], tables.keys[lane, arm, 1] = pulls, total
    return -1


@kernel
def invert_tables(tables: PosteriorTables, levels: np.ndarray, out: np.ndarray) -> None:
    """Set out (N, K) to u at which the distribution functions are `levels` (N, K)."""
    for lane in range(levels.shape[0]):
        for arm in range(levels.shape[1]):
            points, guide = tables.points[lane, arm], tables.guides[lane, arm]
            out[lane, arm], _ = invert_table(points, guide, levels[lane, arm])


@kernel
def draw_best_of_tables(rng: Generator, tables: PosteriorTables, actions: np.ndarray) -> None:
    """Draw every arm's mean once in each lane, and find the best, ties broken at random."""
    num_lanes, num_arms = tables.keys.shape[:2]
    for lane in range(num_lanes):
        best, num_best = -np.inf, 0.0
        for arm in range(num_arms):
            points, guide = tables.points[lane, arm], tables.guides[lane, arm]
            u, _ = invert_table(points, guide, rng.random())
            if u > best:
                best, num_best = u, 1.0
                actions[lane] = arm
            elif u == best:
                num_best += 1.0
                if rng.random() * num_best < 1.0:
                    actions[lane] = arm
