"""One-dimensional posteriors as tables that follow the data, for any prior independent across arms.

A table holds the distribution function of one arm's mean at M + 1 points of the coordinate u of
`agents.posteriors.mesh`. They lie between the two places beyond which the density is below e^-21 of
its top, or e^-42 where mass is left there (under a spike may be what is wide and low), and close
where `agents.posteriors.bulk` has found mass: at shares of the roots of masses, and of the steps
that it took. Masses are by Simpson's rule; between points the density is a straight line. From how
much densities bend between points follows what the distribution function may be wrong by. Where
that is more than 1e-3, points are placed again, closer to where it comes from; where it stays above
5e-3, the table is unreliable. So it is where the data lie so deep in the tail of a prior that its
log-density is not known to 2e-2, and where mass lies nearer to an end than means have digits.

In 808 trials of mixtures of narrow and wide laws (1e-7 to 0.1 of the range), up to 10^9 pulls and
data up to ten standard errors from a component, 23 tables were called unreliable; of the others one
was off by 1.1e-3 and none by more.

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

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from agents.numerics.vector_math import exp_all
from agents.posteriors.bulk import GAIN, NUM_MORE, PRIOR, U, V, find_bulk, largest_of, weigh
from agents.posteriors.features import Data
from agents.posteriors.mesh_rows import HEIGHT, JUMP, LOG_REACH, Mesh, place_points
from agents.posteriors.points import (
    DENSITY,
    MASS,
    PLACE,
    accumulate,
    fill_guide,
    invert_table,
    spread,
    sum_error_roots,
    sum_roots,
)
from bandit_gym.numerics.compiled import inner, kernel, threaded_kernel
from bandit_gym.numerics.threads import MOST_PIECES

FEWEST_POINTS = 48
MOST_POINTS = 4096
POINTS_PER_CELL, POINTS_PER_JUMPY_CELL = 2.5, 12
MAX_SPREADS = 8
LARGEST_ERROR = 1e-3
"""Of a distribution function; more calls for points closer to where it comes from."""
DEEPEST = 350.0
"""Further below its top the log-density of a prior is not known to 2e-2, see `mesh`."""
LARGEST_RELIABLE_ERROR = 5e-3
NUM_SPARE = 11
NUM_RECENT = 4096
"""Kinds of statistics, of which one table each is remembered to copy from."""


class PosteriorTables(NamedTuple):
    """Room for the tables of N lanes.

    Attributes:
        keys: (N, K, 2) statistics that the tables were built for, NaN at first.
        points: (N, K, M + 1, 3) distribution function, u and density of u at each point.
        guides: (N, K, M) the last point with a distribution function of at most j / M.
        errors: (N, K) what the distribution functions may be wrong by.
        recent: (MOST_PIECES, NUM_RECENT) lane * K + arm of the last table with statistics of each
            kind, for each piece of the lanes that is followed by a thread of its own.
    """

    keys: np.ndarray
    points: np.ndarray
    guides: np.ndarray
    errors: np.ndarray
    recent: np.ndarray

    def part(self, lanes: slice, piece: int = 0) -> PosteriorTables:
        """Return the tables of some lanes."""
        tables = (self.keys[lanes], self.points[lanes], self.guides[lanes], self.errors[lanes])
        return PosteriorTables(*tables, self.recent[piece : piece + 1])


def empty_tables(mesh: Mesh, num_lanes: int) -> PosteriorTables:
    """Return room for tables, none of them built, with enough points for the mesh."""
    shape = (num_lanes, len(mesh.sizes))
    num_points = count_points(mesh)
    return PosteriorTables(
        keys=np.full((*shape, 2), np.nan),
        points=np.zeros((*shape, num_points + 1, 3)),
        guides=np.zeros((*shape, num_points), dtype=np.uint16),
        errors=np.zeros(shape),
        recent=np.zeros((MOST_PIECES, NUM_RECENT), dtype=np.int64),
    )


def count_points(mesh: Mesh) -> int:
    """Return M: even, and some for each cell, with any mass, of the arm with most of them.

    With twelve points to a cell, a jump, which is a step of its own, keeps points on either side,
    even when `spread` has taken two thirds of them elsewhere.
    """
    heights = mesh.cells[..., HEIGHT]
    has_mass = heights > heights.max(axis=1, keepdims=True) - LOG_REACH
    is_jumpy = (mesh.cells[:, :-1, JUMP].astype(bool) & (has_mass[:, 1:] | has_mass[:, :-1])).any()
    per_cell = POINTS_PER_JUMPY_CELL if is_jumpy else POINTS_PER_CELL
    num_cells = int(has_mass.sum(axis=1).max()) + 2
    return min(max(2 * round(per_cell * num_cells / 2), FEWEST_POINTS), MOST_POINTS)


@inner
def build_posterior_table(
    mesh: Mesh, arm: int, data: Data, spare: np.ndarray, points: np.ndarray, guide: np.ndarray
) -> float:
    """Fill the table of one posterior.

    Args:
        mesh: of all arms' priors.
        arm: whose posterior.
        data: what it paid.
        spare: (NUM_SPARE, at least the number of points and of places) overwritten.
        points: (M + 1, 3) receives the points.
        guide: (M,) receives the guide.

    Returns:
        what its distribution function may be wrong by; NaN if the posterior is 0 everywhere.
    """
    places, rest = spare[:4], spare[4:]
    likelihood, cells = mesh.likelihood, mesh.cells[arm, : mesh.sizes[arm] + 1]
    weights, new = rest[0], rest[1, : len(points) // 2 + 1]
    num, is_deep = 0, False
    for reach in (LOG_REACH, 2.0 * LOG_REACH):
        num, lost = find_bulk(likelihood, data, cells, reach, places, rest)
        if num == 0:
            return np.nan
        is_deep = max(places[PRIOR, 0], places[PRIOR, num - 1]) < -DEEPEST
        for k in range(num):
            places[PRIOR, k] += places[GAIN, k]
        mass = 0.5 * sum_roots(places[U, :num], places[PRIOR, :num], weights[:num])
        if lost < LARGEST_ERROR * mass:
            break
    spread(places[V, :num], weights[:num], new)
    v, u, out = spare[0, : new.size], spare[1, : len(points)], spare[2, : len(points)]
    error = np.inf
    for _ in range(MAX_SPREADS):
        for j in range(new.size):
            v[j] = new[j]
        place_points(cells, v, u, out)
        weigh(likelihood, data, u, out, rest[2:])
        top = largest_of(out)
        if not -np.inf < top < np.inf:
            return np.nan
        for j in range(out.size):
            out[j] -= top
        exp_all(out, rest[2, : out.size])
        error = accumulate(u, out, points)
        if error < LARGEST_ERROR:
            break
        sum_error_roots(points, weights[: new.size])
        spread(v, weights[: new.size], new)
    fill_guide(points, guide)
    return np.inf if is_deep or is_cut(mesh.limits, points) else error


@inner
def is_cut(limits: np.ndarray, points: np.ndarray) -> bool:
    """Return whether mass lies beyond the (2,) limits of u, where means have no more digits.

    Densities of u decay there as exponentials, by as much as between the last two points.
    """
    last = len(points) - 1
    low = points[0, PLACE] <= limits[0] and mass_beyond(points[0], points[1]) > LARGEST_ERROR
    high = points[last, PLACE] >= limits[1]
    return low or (high and mass_beyond(points[last], points[last - 1]) > LARGEST_ERROR)


@inner
def mass_beyond(end: np.ndarray, inner_point: np.ndarray) -> float:
    """Return the mass beyond an end, of an exponential through it and the (3,) point beside it."""
    fall = inner_point[DENSITY] - end[DENSITY]
    if fall <= 0.0:
        return np.inf if end[DENSITY] > 0.0 else 0.0
    return float(abs(end[MASS] - inner_point[MASS]) * end[DENSITY] / fall)


@inner
def kind_of(twin: int, pulls: float, total: float) -> int:
    """Return which of NUM_RECENT kinds an arm's statistics are of; equal ones are of one."""
    fraction = (0.6180339887498949 * pulls + 0.7548776662466927 * total + 0.45 * twin) % 1.0
    return min(int(fraction * NUM_RECENT), NUM_RECENT - 1)


@inner
def holds(keys: np.ndarray, lane: int, arm: int, pulls: float, total: float) -> bool:
    """Return whether a lane's table is the one for these statistics."""
    return bool(keys[lane, arm, 0] == pulls and keys[lane, arm, 1] == total)


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
    tables.errors[lane, arm] = tables.errors[other_lane, other_arm]


@threaded_kernel
def update_tables(mesh: Mesh, tables: PosteriorTables, counts: np.ndarray, sums: np.ndarray) -> int:
    """Build or copy the tables whose (N, K) statistics have changed.

    Returns:
        -1, or lane * K + arm of the first posterior that is 0 everywhere.
    """
    num_lanes, num_arms = counts.shape
    spare = np.empty((NUM_SPARE, max(mesh.cells.shape[1] + NUM_MORE, tables.points.shape[2])))
    keys, recent, twins = tables.keys, tables.recent[0], mesh.twins
    for lane in range(num_lanes):
        for arm in range(num_arms):
            pulls, total = float(counts[lane, arm]), sums[lane, arm]
            if holds(keys, lane, arm, pulls, total):
                continue
            keys[lane, arm, 0] = np.nan
            kind = kind_of(twins[arm], pulls, total)
            other_lane, other_arm = divmod(recent[kind], num_arms)
            is_twin = other_lane < num_lanes and twins[other_arm] == twins[arm]
            if is_twin and holds(keys, other_lane, other_arm, pulls, total):
                copy_posterior_table(tables, lane, arm, other_lane, other_arm)
            else:
                data = Data(pulls, total)
                points, guide = tables.points[lane, arm], tables.guides[lane, arm]
                error = build_posterior_table(mesh, arm, data, spare, points, guide)
                if np.isnan(error):
                    return lane * num_arms + arm
                tables.errors[lane, arm] = error
            recent[kind] = lane * num_arms + arm
            keys[lane, arm, 0], keys[lane, arm, 1] = pulls, total
    return -1


@kernel
def invert_tables(tables: PosteriorTables, levels: np.ndarray, out: np.ndarray) -> None:
    """Set out (N, K) to u at which the distribution functions are `levels` (N, K)."""
    for lane in range(levels.shape[0]):
        for arm in range(levels.shape[1]):
            points, guide = tables.points[lane, arm], tables.guides[lane, arm]
            out[lane, arm], _ = invert_table(points, guide, levels[lane, arm])


@threaded_kernel
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
