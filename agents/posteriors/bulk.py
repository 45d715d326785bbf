"""Where an arm's posterior has its mass, and its log-density at points there; compiled.

The prior is read off the mesh of `agents.posteriors.mesh`, and places are counted in its cells (v)
where steps should be as long as the prior is smooth, and in the coordinate u where densities are
integrated.

Letters: K arms, C cells, m points, M + 1 points of a table.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from agents.numerics.compiled import inner
from agents.posteriors.features import Data, add_log_likelihood, set_features
from agents.posteriors.mesh import LOG_REACH, Mesh

NUM_SCOUTS = 16
MAX_ZOOMS = 60
ENOUGH_CELLS, ENOUGH_SCOUTS = 2, 4
"""A posterior that is felt at so many points, one after the other, needs no closer look."""


class Places(NamedTuple):
    """Where a posterior is looked at, from left to right, and what is seen there.

    Attributes:
        v: (m,) places, counted in cells from the low end.
        u: (m,) the coordinate there.
        heights: (m,) log-density there, up to a constant.
    """

    v: np.ndarray
    u: np.ndarray
    heights: np.ndarray


@inner
def to_coordinate(mesh: Mesh, x: float) -> float:
    """Return u(x), see `agents.posteriors.quadrature.Coordinate`, within the limits."""
    low, high, centre, scale = mesh.likelihood.ends
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


@inner
def weigh(mesh: Mesh, data: Data, u: np.ndarray, out: np.ndarray, spare: np.ndarray) -> float:
    """Add the log-likelihood at u (m,) to `out` and return the largest sum; spare is (3, m)."""
    if data.pulls > 0.0:
        first, second, more = spare[0, : u.size], spare[1, : u.size], spare[2, : u.size]
        set_features(mesh.likelihood, u, first, second, more)
        add_log_likelihood(mesh.likelihood, data, first, second, out)
    return largest_of(out)


@inner
def largest_of(x: np.ndarray) -> float:
    """Return the largest of x (m,)."""
    largest = -np.inf
    for j in range(x.size):
        largest = max(largest, x[j])
    return largest


@inner
def evaluate_prior(mesh: Mesh, arm: int, cell: int, u: float) -> float:
    """Return one arm's prior log-density of u in a cell."""
    start, end = mesh.edges[arm, cell], mesh.edges[arm, cell + 1]
    c, t = mesh.coefficients[arm, cell], (u - start) / (end - start)
    if mesh.is_jump[arm, cell]:
        return c[0] if t < 0.5 else c[1]
    return c[0] + t * (c[1] + t * (c[2] + t * c[3]))


@inner
def place_steps(mesh: Mesh, arm: int, v: np.ndarray, u: np.ndarray, out: np.ndarray) -> None:
    """Set u (m,) at v (m,) cells from the low end, and `out` to the prior log-density there."""
    edges, size = mesh.edges[arm], mesh.sizes[arm]
    for j in range(u.size):
        cell = min(int(v[j]), size - 1)
        u[j] = edges[cell] + (v[j] - cell) * (edges[cell + 1] - edges[cell])
        out[j] = evaluate_prior(mesh, arm, cell, u[j])


@inner
def place_points(mesh: Mesh, arm: int, v: np.ndarray, u: np.ndarray, out: np.ndarray) -> None:
    """Set u (M + 1,), and `out` to the prior log-density there.

    Every other point is at v (M / 2 + 1,) cells, and the others halfway between them in u.
    """
    edges, size = mesh.edges[arm], mesh.sizes[arm]
    place_steps(mesh, arm, v, u[::2], out[::2])
    cell = min(int(v[0]), size - 1)
    for k in range(1, u.size, 2):
        u[k] = 0.5 * (u[k - 1] + u[k + 1])
        while cell < size - 1 and edges[cell + 1] <= u[k]:
            cell += 1
        out[k] = evaluate_prior(mesh, arm, cell, u[k])


@inner
def look(mesh: Mesh, arm: int, data: Data, places: Places, spare: np.ndarray) -> float:
    """Look at the posterior at `places.v` cells, and return the largest log-density seen."""
    place_steps(mesh, arm, places.v, places.u, places.heights)
    return weigh(mesh, data, places.u, places.heights, spare)


@inner
def set_steps(low: float, high: float, v: np.ndarray) -> None:
    """Set v (m,) to equal steps from low to high, as `np.linspace` would in an array of its own."""
    step = (high - low) / (v.size - 1)
    for j in range(v.size):
        v[j] = low + j * step
    v[v.size - 1] = high


@inner
def scout_mesh(mesh: Mesh, arm: int, data: Data, out: np.ndarray) -> float:
    """Set `out` (C + 1,) to the posterior log-density at the ends of cells; return the largest."""
    out[:] = mesh.heights[arm, : out.size]
    if data.pulls > 0.0:
        first, second = mesh.features[0, arm, : out.size], mesh.features[1, arm, : out.size]
        add_log_likelihood(mesh.likelihood, data, first, second, out)
    return largest_of(out)


@inner
def look_at_peak(
    mesh: Mesh, arm: int, data: Data, places: Places, spare: np.ndarray
) -> tuple[int, float]:
    """Return the cell of the mean that the data favour, and the log-density there."""
    edges, u, height = mesh.edges[arm], places.u[:1], places.heights[-1:]
    place = to_coordinate(mesh, data.total / data.pulls)
    u[0] = min(max(place, edges[0]), edges[mesh.sizes[arm]])
    cell = np.searchsorted(edges[: mesh.sizes[arm]], u[0], side="right") - 1
    height[0] = evaluate_prior(mesh, arm, cell, u[0])
    return cell, weigh(mesh, data, u, height, spare)


@inner
def find_span(heights: np.ndarray, threshold: float) -> tuple[int, int]:
    """Return the first and the last index above the threshold."""
    first, last = 0, heights.size - 1
    while first <= last and heights[first] <= threshold:
        first += 1
    while last > first and heights[last] <= threshold:
        last -= 1
    return first, last


@inner
def find_bulk(mesh: Mesh, arm: int, data: Data, places: Places, spare: np.ndarray) -> int:
    """Look for where the posterior has mass, and return at how many places, 0 if it has none.

    Looks at the ends of all cells, and at the mean that the data favour: a posterior too narrow
    to be felt at any end of a cell is there, or near the end of a cell next to it. If it is felt
    at few, scouts look closer and closer.

    Args:
        mesh: of all arms' priors.
        arm: whose posterior.
        data: what it paid.
        places: receives where there is mass, from end to end of it; two more than ends of cells.
        spare: (4, m) overwritten.
    """
    size, (v, u, out) = mesh.sizes[arm], places
    heights = out[: size + 1]
    top = scout_mesh(mesh, arm, data, heights)
    first, last = find_span(heights, top - LOG_REACH)
    is_narrow = data.pulls > 0.0 and last - first < ENOUGH_CELLS
    if is_narrow:
        peak, height = look_at_peak(mesh, arm, data, places, spare)
        first, last = find_span(heights, max(top, height) - LOG_REACH)
        if first > last:
            first, last = peak, peak + 1
        elif height > top - LOG_REACH:
            first, last = min(first, peak), max(last, peak + 1)
    if first > last:
        return 0
    first, last = max(first - 1, 0), min(last + 1, size)
    if is_narrow:
        scouts = Places(v[:NUM_SCOUTS], u[:NUM_SCOUTS], out[:NUM_SCOUTS])
        return zoom(mesh, arm, data, scouts, float(first), float(last), spare)
    for k in range(last - first + 1):
        v[k], u[k], out[k] = first + k, mesh.edges[arm, first + k], out[first + k]
    return tighten(mesh, arm, data, places, last - first, top - LOG_REACH, spare) + 1


@inner
def zoom(
    mesh: Mesh, arm: int, data: Data, places: Places, low: float, high: float, spare: np.ndarray
) -> int:
    """Do as `find_bulk` for the mass in [low, high], in cells."""
    v, u, out = places
    first, last = 0, 0
    for _ in range(MAX_ZOOMS):
        set_steps(low, high, v)
        top = look(mesh, arm, data, places, spare)
        if not top > -np.inf:
            return 0
        first, last = find_span(out, top - LOG_REACH)
        first, last = max(first - 1, 0), min(last + 1, out.size - 1)
        low, high = v[first], v[last]
        if last - first > ENOUGH_SCOUTS:
            break
    for k in range(last - first + 1):
        v[k], u[k], out[k] = v[first + k], u[first + k], out[first + k]
    return tighten(mesh, arm, data, places, last - first, top - LOG_REACH, spare) + 1


@inner
def tighten(
    mesh: Mesh, arm: int, data: Data, places: Places, last: int, threshold: float, spare: np.ndarray
) -> int:
    """Halve the first and the last step until they are no longer than the others together.

    Where the prior is next to nothing, one cell may be hundreds of times as long as the posterior.

    Returns:
        the new index of the last place: places at which mass is found are added.
    """
    v, u, heights = places
    new = Places(spare[3, :1], spare[3, 1:2], spare[3, 2:3])
    for side in range(2):
        for _ in range(MAX_ZOOMS):
            end, following = (0, 1) if side == 0 else (last, last - 1)
            if not abs(u[end] - u[following]) > u[last - 1] - u[1] > 0.0 or last + 2 > u.size:
                break
            new.v[0] = 0.5 * (v[end] + v[following])
            height = look(mesh, arm, data, new, spare)
            if height > threshold:
                last += 1
                end = max(end, 1)
                for k in range(last, end, -1):
                    v[k], u[k], heights[k] = v[k - 1], u[k - 1], heights[k - 1]
            v[end], u[end], heights[end] = new.v[0], new.u[0], height
    return last
