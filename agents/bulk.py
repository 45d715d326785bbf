"""Where an arm's posterior has its mass, and its log-density at points there; compiled.

The prior is read off the mesh of `agents.mesh`, and places are counted in its cells (v) where steps
should be as long as the prior is smooth, and in the coordinate u where densities are integrated.

Letters: K arms, C cells, m points, M + 1 points of a table.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from agents.compiled import inner
from agents.mesh import LOG_REACH, Mesh
from agents.posteriors import BETA, GAMMA, INVERSE_GAMMA, NORMAL
from agents.vector_math import exp_all, log_all

NUM_SCOUTS = 17
MAX_ZOOMS = 60
ENOUGH_CELLS, ENOUGH_SCOUTS = 6, 7
"""A posterior that is felt at so many points, one after the other, needs no closer look."""


class Data(NamedTuple):
    """What an arm paid.

    Attributes:
        family: law of a mean under a conjugate prior, which tells the likelihood.
        precision: of a reward, if the family is NORMAL.
        pulls: how many times it was pulled.
        total: sum of the rewards.
    """

    family: int
    precision: float
    pulls: float
    total: float


@inner
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


@inner
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


@inner
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
    count, total = data.pulls, data.total
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


@inner
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


@inner
def weigh(mesh: Mesh, data: Data, u: np.ndarray, out: np.ndarray, spare: np.ndarray) -> float:
    """Add the log-likelihood at u (m,) to `out` and return the largest sum; spare is (3, m)."""
    if data.pulls > 0.0:
        x, rest, more = spare[0, : u.size], spare[1, : u.size], spare[2, : u.size]
        find_means(mesh.ends, u, x, rest, more)
        add_log_likelihood(data, x, rest, more, out)
    top = -np.inf
    for j in range(u.size):
        top = max(top, out[j])
    return top


@inner
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


@inner
def evaluate_prior(
    edges: np.ndarray, c: np.ndarray, is_jump: np.ndarray, cell: int, u: float
) -> float:
    """Return one arm's prior log-density of u in a cell, from its (C, 4) coefficients c."""
    start, end = edges[cell], edges[cell + 1]
    t = (u - start) / (end - start)
    if is_jump[cell]:
        return c[cell, 0] if t < 0.5 else c[cell, 1]
    return c[cell, 0] + t * (c[cell, 1] + t * (c[cell, 2] + t * c[cell, 3]))


@inner
def place_steps(mesh: Mesh, arm: int, v: np.ndarray, u: np.ndarray, out: np.ndarray) -> None:
    """Set u (m,) at v (m,) cells from the low end, and `out` to the prior log-density there."""
    edges, size = mesh.edges[arm], mesh.sizes[arm]
    c, is_jump = mesh.coefficients[arm], mesh.is_jump[arm]
    for j in range(u.size):
        cell = min(int(v[j]), size - 1)
        u[j] = edges[cell] + (v[j] - cell) * (edges[cell + 1] - edges[cell])
        out[j] = evaluate_prior(edges, c, is_jump, cell, u[j])


@inner
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


@inner
def set_steps(low: float, high: float, v: np.ndarray) -> None:
    """Set v (m,) to equal steps from low to high."""
    step = (high - low) / (v.size - 1)
    for j in range(v.size):
        v[j] = low + j * step
    v[v.size - 1] = high


@inner
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


@inner
def find_peak(
    mesh: Mesh, arm: int, data: Data, u: np.ndarray, out: np.ndarray, spare: np.ndarray
) -> tuple[int, float]:
    """Return the cell of the mean that the data favour, and the log-density there."""
    edges = mesh.edges[arm]
    place = find_place(mesh, data.total / data.pulls)
    u[0] = min(max(place, edges[0]), edges[mesh.sizes[arm]])
    cell = find_cell(edges, mesh.sizes[arm], u[0])
    c, is_jump = mesh.coefficients[arm], mesh.is_jump[arm]
    out[0] = evaluate_prior(edges, c, is_jump, cell, u[0])
    return cell, weigh(mesh, data, u[:1], out[:1], spare)


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
    if data.pulls > 0.0 and last - first < ENOUGH_CELLS:
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


@inner
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
