"""Where an arm's posterior has its mass, and its log-density at points there; compiled.

The prior is read off the mesh of `agents.posteriors.mesh`, and places are counted in its cells (v)
where steps should be as long as the prior is smooth, and in the coordinate u where densities are
integrated.

Places that are looked at are the columns of one array, from left to right: v, u there, and the
logarithms of prior and likelihood, up to a constant.

Letters: K arms, C cells, m places or points, M + 1 points of a table.
"""

from __future__ import annotations

import math

import numpy as np

from agents.posteriors.features import Data, Features, add_log_likelihood, set_features
from agents.posteriors.mesh_rows import (
    EDGE,
    FIRST,
    HEIGHT,
    JUMP,
    LOG_REACH,
    SECOND,
    find_peak,
    place_steps,
)
from bandit_gym.numerics.compiled import inner

V, U, PRIOR, GAIN = range(4)
MAX_ROUNDS = 60
NUM_MORE = 400
"""Room for places that are looked at beside the ends of cells."""
LARGEST_CHANGE = 6.0
"""Of the log-density in a step at the top; further down, half of the depth is added."""
NUM_CUTS = 4
SHORTEST = 4e-15


@inner
def weigh(
    likelihood: Features, data: Data, u: np.ndarray, out: np.ndarray, spare: np.ndarray
) -> None:
    """Add the log-likelihood at u (m,) to `out`; spare is (3, m)."""
    if data.pulls > 0.0:
        first, second, more = spare[0, : u.size], spare[1, : u.size], spare[2, : u.size]
        set_features(likelihood, u, first, second, more)
        add_log_likelihood(likelihood, data, first, second, out)


@inner
def largest_of(x: np.ndarray) -> float:
    """Return the largest of x (m,), of four parts: comparisons of one wait for each other."""
    a, b, c, d = -np.inf, -np.inf, -np.inf, -np.inf
    for j in range(0, x.size - 3, 4):
        a, b, c, d = max(a, x[j]), max(b, x[j + 1]), max(c, x[j + 2]), max(d, x[j + 3])
    for j in range(x.size - x.size % 4, x.size):
        a = max(a, x[j])
    return max(max(a, b), max(c, d))


@inner
def look(
    likelihood: Features, data: Data, cells: np.ndarray, places: np.ndarray, spare: np.ndarray
) -> None:
    """Fill (4, m) places of which v is given; spare is (3, m)."""
    place_steps(cells, places[V], places[U], places[PRIOR])
    places[GAIN] = 0.0
    weigh(likelihood, data, places[U], places[GAIN], spare)


@inner
def insert(places: np.ndarray, num: int, new: np.ndarray) -> None:
    """Make new places (4, n) part of the first `num` of `places`; v is in order in both."""
    left = new.shape[1]
    for k in range(num - 1, -1, -1):
        while left > 0 and new[V, left - 1] >= places[V, k]:
            left -= 1
            for row in range(4):
                places[row, k + left + 1] = new[row, left]
        if left == 0:
            return
        for row in range(4):
            places[row, k + left] = places[row, k]


@inner
def trim(places: np.ndarray, num: int, threshold: float) -> tuple[int, float]:
    """Leave out the places at either end between which log-densities are below a threshold.

    Returns:
        how many stay, and what the mass that is left out hardly exceeds, in units of e^threshold.
    """
    first, last, lost = 0, num - 1, 0.0
    while first < last and not bound_step(places, first) > threshold:
        lost += bound_mass(places, first, threshold)
        first += 1
    while first < last and not bound_step(places, last - 1) > threshold:
        lost += bound_mass(places, last - 1, threshold)
        last -= 1
    if first > 0 and first < last:
        for row in range(4):
            for k in range(first, last + 1):
                places[row, k - first] = places[row, k]
    return (last - first + 1 if first < last else 0), lost


@inner
def bound_mass(places: np.ndarray, k: int, unit: float) -> float:
    """Return what the mass between a place and the next hardly exceeds, in units of e^unit."""
    height = bound_step(places, k) - unit
    return math.exp(height) * (places[U, k + 1] - places[U, k]) if height > -LOG_REACH else 0.0


@inner
def bound_step(places: np.ndarray, k: int) -> float:
    """Return what the log-density hardly exceeds between a place and the next one."""
    prior = max(places[PRIOR, k], places[PRIOR, k + 1])
    return prior + max(places[GAIN, k], places[GAIN, k + 1])


@inner
def find_top(places: np.ndarray) -> float:
    """Return the largest log-density at (4, m) places."""
    top = -np.inf
    for k in range(places.shape[1]):
        top = max(top, places[PRIOR, k] + places[GAIN, k])
    return top


@inner
def cut_steps(
    places: np.ndarray, cells: np.ndarray, top: float, reach: float, cuts: np.ndarray
) -> int:
    """Find where to look in steps that are no jump and in which the log-density may change much.

    Args:
        places: (4, m).
        cells: (C + 1, NUM_COLUMNS) of the mesh.
        top: the largest log-density.
        reach: below it, as in `find_bulk`.
        cuts: (m,) receives v, in order, as far as there is room.

    Returns:
        how many there are.
    """
    num = 0
    for k in range(places.shape[1] - 1):
        bound = bound_step(places, k)
        depth = top - bound
        if not depth < reach or num + NUM_CUTS > cuts.size:
            continue
        left, right = places[PRIOR, k] + places[GAIN, k], places[PRIOR, k + 1] + places[GAIN, k + 1]
        is_long = places[U, k + 1] - places[U, k] > SHORTEST * (1.0 + abs(places[U, k]))
        change, allowed = bound - min(left, right), LARGEST_CHANGE + 1.0 * depth
        if change > allowed and is_long and not cells[int(places[V, k]), JUMP] > 0.0:
            if bound - max(left, right) > allowed:
                part = 0.5  # there may be more in between than at either end
            else:
                part = max(math.sqrt(allowed / change), 1e-3)
            num = cut_step(places[V, k], places[V, k + 1], part, left > right, cuts, num)
    return num


@inner
def cut_step(
    left: float, right: float, part: float, is_falling: bool, cuts: np.ndarray, num: int
) -> int:
    """Add the cuts of one step, which suit a parabola with its vertex at the higher end.

    Args:
        left: v at its left end.
        right: v at its right end.
        part: of the step, after which the parabola has changed by as much as is allowed.
        is_falling: whether the left end is the higher one.
        cuts: (m,) receives v.
        num: of cuts before.

    Returns:
        how many cuts there are now.
    """
    length = right - left
    if part >= 0.4:
        cuts[num] = left + 0.5 * length
        return num + 1
    num_new = 0
    while num_new < NUM_CUTS and (1.0 + 0.5 * num_new) * part < 0.9:
        num_new += 1
    for j in range(num_new):
        along = (1.0 + 0.5 * (j if is_falling else num_new - 1 - j)) * part * length
        cuts[num + j] = left + along if is_falling else right - along
    return num + num_new


@inner
def place_edges(likelihood: Features, data: Data, cells: np.ndarray, places: np.ndarray) -> None:
    """Look at the ends of all C cells, which fill (4, C + 1) places."""
    for k in range(len(cells)):
        places[V, k], places[U, k], places[PRIOR, k] = k, cells[k, EDGE], cells[k, HEIGHT]
    places[GAIN] = 0.0
    if data.pulls > 0.0:
        add_log_likelihood(likelihood, data, cells[:, FIRST], cells[:, SECOND], places[GAIN])


@inner
def may_stand_out(places: np.ndarray, k: int) -> bool:
    """Return whether the likelihood may rise between places k and k + 1 by more than it is told by.

    It rises to its peak more and more slowly: not as fast as before or after these (4, m) places.
    """
    if k == 0 or k + 2 >= places.shape[1]:
        return True
    u, gain = places[U], places[GAIN]
    rise = (gain[k] - gain[k - 1]) / (u[k] - u[k - 1])
    fall = (gain[k + 1] - gain[k + 2]) / (u[k + 2] - u[k + 1])
    left, right = places[PRIOR, k] + gain[k], places[PRIOR, k + 1] + gain[k + 1]
    top = bound_step(places, k) + max(rise, fall) * (u[k + 1] - u[k])
    return not top - min(left, right) <= LARGEST_CHANGE


@inner
def stands_out(places: np.ndarray, peak: np.ndarray, k: int) -> bool:
    """Return whether the (4,) place of the peak tells more than places k and k + 1 beside it."""
    if k + 1 >= places.shape[1]:
        return False
    left, right = places[PRIOR, k] + places[GAIN, k], places[PRIOR, k + 1] + places[GAIN, k + 1]
    prior = max(places[PRIOR, k], places[PRIOR, k + 1])
    return bool(prior + peak[GAIN] - min(left, right) > LARGEST_CHANGE)


@inner
def find_bulk(
    likelihood: Features,
    data: Data,
    cells: np.ndarray,
    reach: float,
    places: np.ndarray,
    spare: np.ndarray,
) -> tuple[int, float]:
    """Look for where the posterior has mass: where log-densities are at most `reach` below the top.

    Looks at the ends of all cells and at the mean that the data favour. Between two of these, prior
    and likelihood are hardly above the larger of their values at the ends, so that no mass hides
    where these together are next to nothing. Other steps are cut until they tell what is between.

    Args:
        likelihood: of the rewards.
        data: what the arm paid.
        cells: (C + 1, NUM_COLUMNS) of the mesh, the arm's own.
        reach: beyond 21 something wide may hold mass beside a spike that is e^21 times as high.
        places: (4, C + 1 + NUM_MORE) receives places from end to end of the mass, in the first.
        spare: (7, C + 1 + NUM_MORE) overwritten.

    Returns:
        how many places there are, 0 if there is no mass, and what the mass beyond them hardly
        exceeds, where the density is 1 at its top.
    """
    num, new, rest = len(cells), spare[:4], spare[4:]
    place_edges(likelihood, data, cells, places[:, :num])
    if data.pulls > 0.0:
        new[V, 0] = find_peak(likelihood, data, cells)
        if may_stand_out(places[:, :num], int(new[V, 0])):
            look(likelihood, data, cells, new[:, :1], rest)
            if stands_out(places[:, :num], new[:, 0], int(new[V, 0])):
                insert(places, num, new[:, :1])
                num += 1
    top = find_top(places[:, :num])
    first_top = top
    num, before = trim(places, num, top - reach)
    for _ in range(MAX_ROUNDS):
        num_new = cut_steps(places[:, :num], cells, top, reach, new[V])
        if num_new == 0 or num + num_new > places.shape[1]:
            break
        look(likelihood, data, cells, new[:, :num_new], rest)
        insert(places, num, new[:, :num_new])
        num += num_new
        top = max(top, find_top(new[:, :num_new]))
    num, lost = trim(places, num, top - reach)
    return num, math.exp(-reach) * (lost + before * math.exp(first_top - top))
