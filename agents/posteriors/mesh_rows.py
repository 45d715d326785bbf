"""The mesh of `agents.posteriors.mesh` as compiled code has it, and what it reads off.

Letters: K arms, C cells, m places, M + 1 points of a table.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from agents.posteriors.features import Data, Features
from bandit_gym.numerics.compiled import inner

LOG_REACH = 21.0
"""Densities below e^-21 of the top are left out: a mass of about 1e-9."""

EDGE, HEIGHT, FIRST, SECOND, JUMP, CUBIC = range(6)
NUM_COLUMNS = CUBIC + 4


class Mesh(NamedTuple):
    """The prior of K arms, in the form that kernels read; short arms are padded at the end.

    All that is known of a cell lies in one row, for a kernel pays for each array that it is handed.

    Attributes:
        likelihood: of the rewards.
        limits: (2,) range of u.
        sizes: (K,) number of cells of each arm.
        cells: (K, C + 1, NUM_COLUMNS), a row for each cell and one for the end of the last. EDGE
            is u at its left end, HEIGHT the log-density there less
            the largest of them, the larger one where it jumps, FIRST
            and SECOND the features of the likelihood there; JUMP is 1 for a jump, else 0; from
            CUBIC on, there are the coefficients of the cubic in t, from 0 to 1 along the cell, or,
            for a jump, the values on either side, in the first two.
        twins: (K,) the first arm with the same prior.
    """

    likelihood: Features
    limits: np.ndarray
    sizes: np.ndarray
    cells: np.ndarray
    twins: np.ndarray


@inner
def to_coordinate(ends: np.ndarray, x: float) -> float:
    """Return u(x), see `agents.posteriors.quadrature.Coordinate`; its limits are not kept."""
    low, high, centre, scale = ends[0], ends[1], ends[2], ends[3]
    if x <= low:
        return -np.inf
    if x >= high:
        return np.inf
    if low > -np.inf and high < np.inf:
        return math.log((x - low) / (high - x))
    if low > -np.inf:
        return math.log((x - low) / scale)
    if high < np.inf:
        return -math.log((high - x) / scale)
    return math.asinh((x - centre) / scale)


@inner
def place_steps(cells: np.ndarray, v: np.ndarray, u: np.ndarray, out: np.ndarray) -> None:
    """Set u (m,) at v (m,) cells from the low end, and `out` to the prior log-density there."""
    for j in range(u.size):
        k = min(int(v[j]), len(cells) - 2)
        t = v[j] - k
        u[j] = cells[k, EDGE] + t * (cells[k + 1, EDGE] - cells[k, EDGE])
        out[j] = evaluate_cubic(cells, k, t)


@inner
def evaluate_cubic(cells: np.ndarray, k: int, t: float) -> float:
    """Return the prior log-density in a cell, t of its length from the left."""
    if cells[k, JUMP] > 0.0:
        return float(cells[k, CUBIC] if t < 0.5 else cells[k, CUBIC + 1])
    rise = cells[k, CUBIC + 1] + t * (cells[k, CUBIC + 2] + t * cells[k, CUBIC + 3])
    return float(cells[k, CUBIC] + t * rise)


@inner
def place_points(cells: np.ndarray, v: np.ndarray, u: np.ndarray, out: np.ndarray) -> None:
    """Set u (M + 1,), and `out` to the prior log-density there.

    Every other point is at v (M / 2 + 1,) cells, and the others halfway between them in u.
    """
    place_steps(cells, v, u[::2], out[::2])
    last = len(cells) - 2
    cell = min(int(v[0]), last)
    for k in range(1, u.size, 2):
        u[k] = 0.5 * (u[k - 1] + u[k + 1])
        while cell < last and cells[cell + 1, EDGE] <= u[k]:
            cell += 1
        t = (u[k] - cells[cell, EDGE]) / (cells[cell + 1, EDGE] - cells[cell, EDGE])
        out[k] = evaluate_cubic(cells, cell, t)


@inner
def find_peak(likelihood: Features, data: Data, cells: np.ndarray) -> float:
    """Return v of the mean that the data favour, or of the end of the mesh that is next to it."""
    u, first, last = to_coordinate(likelihood.ends, data.total / data.pulls), 0, len(cells) - 2
    if not u > cells[0, EDGE]:
        return 0.0
    if u >= cells[last + 1, EDGE]:
        return float(last + 1)
    while first < last:
        middle = (first + last + 1) // 2
        if cells[middle, EDGE] <= u:
            first = middle
        else:
            last = middle - 1
    return float(first + (u - cells[first, EDGE]) / (cells[first + 1, EDGE] - cells[first, EDGE]))
