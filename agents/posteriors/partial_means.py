"""Integrals of means over tables of posteriors: what an arm is expected to fall short of a level.

Letters: K arms, N lanes, M + 1 points of a table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agents.posteriors.features import set_means
from agents.posteriors.points import DENSITY, MASS, PLACE
from agents.posteriors.tabulation import PosteriorTables
from bandit_gym.numerics.compiled import inner, inner_maker, kernel


class Sums(NamedTuple):
    """What a lane's tables do not hold: the means at their points, and integrals of them.

    Attributes:
        x: (K, M + 1) the mean at each point.
        total: (K, M + 1) the integral of x dF up to each point.
        spare: (3, 2 M + 1) overwritten.
    """

    x: np.ndarray
    total: np.ndarray
    spare: np.ndarray


@inner_maker
def make_sums(num_arms: int, num_points: int) -> Sums:
    """Return room for the sums of K tables."""
    shape, spare = (num_arms, num_points), np.empty((3, 2 * num_points - 1))
    return Sums(np.empty(shape), np.empty(shape), spare)


@inner
def sum_means(ends: np.ndarray, points: np.ndarray, sums: Sums) -> None:
    """Fill `sums` from (K, M + 1, 3) tables, by Simpson's rule; `ends` (4,) as in `set_means`."""
    last = points.shape[1] - 1
    u, x = sums.spare[0], sums.spare[1]
    for arm in range(points.shape[0]):
        for k in range(last + 1):
            u[2 * k] = points[arm, k, PLACE]
            if k < last:
                u[2 * k + 1] = 0.5 * (points[arm, k, PLACE] + points[arm, k + 1, PLACE])
        set_means(ends, u, x, sums.spare[2])
        sums.total[arm, 0], sums.x[arm, 0] = 0.0, x[0]
        for k in range(last):
            left, right = points[arm, k, DENSITY], points[arm, k + 1, DENSITY]
            of_three = left * x[2 * k] + 2.0 * (left + right) * x[2 * k + 1] + right * x[2 * k + 2]
            mass = points[arm, k + 1, MASS] - points[arm, k, MASS]
            sums.total[arm, k + 1] = sums.total[arm, k] + mass * of_three / (3.0 * (left + right))
            sums.x[arm, k + 1] = x[2 * k + 2]


@inner
def look_up(
    points: np.ndarray, sums: Sums, where: tuple[int, int], u: float, x: float
) -> tuple[int, float, float, float]:
    """Return the step of a table where u is, and there F, the density and E(mean | mean <= x).

    Args:
        points: (K, M + 1, 3) tables.
        sums: of the tables.
        where: the arm, and a step at or before the one sought.
        u: where to look.
        x: the mean there.
    """
    last, (arm, k) = points.shape[1] - 1, where
    while k < last and points[arm, k + 1, PLACE] <= u:
        k += 1
    if k == last:
        return k, 1.0, 0.0, sums.total[arm, last]
    place, left, before = points[arm, k, PLACE], points[arm, k, DENSITY], points[arm, k, MASS]
    if u < place:
        return k, 0.0, 0.0, x
    step = points[arm, k + 1, PLACE] - place
    along, whole = (u - place) / step, points[arm, k + 1, MASS] - before
    right = left + along * (points[arm, k + 1, DENSITY] - left)
    share = whole / (left + points[arm, k + 1, DENSITY])
    mass, density = before + share * along * (left + right), 2.0 * share * right / step
    if mass <= 0.0:
        return k, 0.0, density, x
    part = sums.x[arm, k] * (2.0 * left + right) + x * (left + 2.0 * right)
    return k, mass, density, min((sums.total[arm, k] + share * along * part / 3.0) / mass, x)


@kernel
def find_shortfalls(
    ends: np.ndarray, tables: PosteriorTables, levels: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the (N, K) probabilities that means are at most a level, and E(level - mean)^+.

    Args:
        ends: (4,) of the coordinate, see `set_means`.
        tables: of all lanes and arms.
        levels: (N, K) means.
        places: (N, K) coordinates u of the levels.
    """
    num_lanes, num_arms, num_points = tables.points.shape[:3]
    sums = make_sums(num_arms, num_points)
    below, shortfall = np.empty(levels.shape), np.empty(levels.shape)
    for lane in range(num_lanes):
        points = tables.points[lane]
        sum_means(ends, points, sums)
        for arm in range(num_arms):
            level = levels[lane, arm]
            found = look_up(points, sums, (arm, 0), places[lane, arm], level)
            below[lane, arm] = found[1]
            shortfall[lane, arm] = found[1] * (level - found[3])
    return below, shortfall
