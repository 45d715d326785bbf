"""What to expect of every arm's mean if a given arm is best, from tables of independent posteriors.

With densities f_i and distribution functions F_i of the coordinate u, and x(u) the mean,

    p_a      = int f_a(u) prod_{j != a} F_j(u) du,
    p_a M_aa = int x(u) f_a(u) prod_{j != a} F_j(u) du,
    p_a M_ai = int f_a(u) prod_{j != a} F_j(u) E(mean_i | mean_i <= x(u)) du:

Russo and Van Roy (2018), Section 6.3, whose Algorithm 3 has a sum over a fixed grid in their place.
Here the steps lie between points of the tables of all arms, which are close where there is mass.

Letters: K arms, N lanes, M + 1 points of a table.
"""

from __future__ import annotations

import math

import numpy as np

from agents.numerics.compiled import inner, kernel
from agents.posteriors.features import set_means
from agents.posteriors.tabulation import DENSITY, MASS, PLACE, PosteriorTables

MOST_STEPS = 128
GAUSS = 0.5 - 0.5 / math.sqrt(3.0)
"""Where the first of two points of Gauss's rule lies along a step."""


@inner
def sum_means(ends: np.ndarray, points: np.ndarray, sums: np.ndarray, spare: np.ndarray) -> None:
    """Set `sums` (M + 1,) to the integral of x dF up to each point of a table, by Simpson's rule.

    Args:
        ends: (4,) of the coordinate, see `set_means`.
        points: (M + 1, 3) of the table.
        sums: (M + 1,) is written to.
        spare: (3, 2 M + 1) is overwritten.
    """
    last = len(points) - 1
    u, x = spare[0], spare[1]
    for k in range(last + 1):
        u[2 * k] = points[k, PLACE]
        if k < last:
            u[2 * k + 1] = 0.5 * (points[k, PLACE] + points[k + 1, PLACE])
    set_means(ends, u, x, spare[2])
    sums[0] = 0.0
    for k in range(last):
        left, right = points[k, DENSITY], points[k + 1, DENSITY]
        middle = 2.0 * (left + right)
        average = left * x[2 * k] + middle * x[2 * k + 1] + right * x[2 * k + 2]
        mass = points[k + 1, MASS] - points[k, MASS]
        sums[k + 1] = sums[k] + mass * average / (3.0 * (left + right))


@inner
def find_steps(points: np.ndarray, nodes: np.ndarray) -> int:
    """Set `nodes` to ends of steps over which to integrate for the best of K arms; return how many.

    Args:
        points: (K, M + 1, 3) tables.
        nodes: (K (M + 1),) receives increasing u, from where the best mean may lie.
    """
    num_arms, last = points.shape[0], points.shape[1] - 1
    low, high = -np.inf, -np.inf
    for arm in range(num_arms):
        low, high = max(low, points[arm, 0, PLACE]), max(high, points[arm, last, PLACE])
    num = 0
    for arm in range(num_arms):
        for k in range(last + 1):
            if low <= points[arm, k, PLACE] <= high:
                nodes[num] = points[arm, k, PLACE]
                num += 1
    nodes[:num] = np.sort(nodes[:num])
    stride = max(1, num // MOST_STEPS)
    kept = 0
    for j in range(0, num - 1, stride):
        nodes[kept] = nodes[j]
        kept += 1
    nodes[kept] = high
    return kept + 1


@inner
def look_up(
    points: np.ndarray, sums: np.ndarray, k: int, u: float, x: float
) -> tuple[int, float, float, float]:
    """Return the step of a table where u is, and there F, the density and E(mean | mean <= x).

    Args:
        points: (M + 1, 3) of the table.
        sums: (M + 1,) integrals of x dF.
        k: a step at or before the one sought.
        u: where to look.
        x: the mean there.
    """
    last = len(points) - 1
    while k < last and points[k + 1, PLACE] <= u:
        k += 1
    if k == last:
        return k, 1.0, 0.0, sums[last]
    if u < points[0, PLACE]:
        return k, 0.0, 0.0, x
    step = points[k + 1, PLACE] - points[k, PLACE]
    t, left = (u - points[k, PLACE]) / step, points[k, DENSITY]
    rise = points[k + 1, DENSITY] - left
    share = (points[k + 1, MASS] - points[k, MASS]) / (2.0 * left + rise)
    part = share * t * (2.0 * left + t * rise)
    mass, density = points[k, MASS] + part, 2.0 * share * (left + t * rise) / step
    within = (sums[k + 1] - sums[k]) / max(points[k + 1, MASS] - points[k, MASS], 1e-300)
    average = (sums[k] + part * 0.5 * (within + x)) / mass if mass > 0.0 else x
    return k, mass, density, min(average, x)


@kernel
def find_best_arm_moments(
    ends: np.ndarray, tables: PosteriorTables, found: np.ndarray, means: np.ndarray
) -> None:
    """Write the probabilities and the conditional means of all lanes.

    Args:
        ends: (4,) of the coordinate, see `set_means`.
        tables: of all lanes and arms.
        found: (N, K) receives p_a.
        means: (N, K, K) receives M_ai at [lane, a, i].
    """
    num_lanes, num_arms, num_points = tables.points.shape[:3]
    sums, spare = np.empty((num_arms, num_points)), np.empty((3, 2 * num_points - 1))
    nodes, place = np.empty(num_arms * num_points + 1), np.empty((3, 1))
    mass, density, average, before = np.empty((4, num_arms))
    steps = np.empty(num_arms, dtype=np.int64)
    for lane in range(num_lanes):
        points, p, moments = tables.points[lane], found[lane], means[lane]
        p[:], moments[:], steps[:] = 0.0, 0.0, 0
        for arm in range(num_arms):
            sum_means(ends, points[arm], sums[arm], spare)
        num = find_steps(points, nodes)
        for j in range(2 * (num - 1)):
            step = nodes[j // 2 + 1] - nodes[j // 2]
            u = nodes[j // 2] + step * (GAUSS if j % 2 == 0 else 1.0 - GAUSS)
            place[0, 0] = u
            set_means(ends, place[0], place[1], place[2])
            x, product = place[1, 0], 0.5 * step
            for i in range(num_arms):
                steps[i], mass[i], density[i], average[i] = look_up(
                    points[i], sums[i], steps[i], u, x
                )
                before[i] = product
                product *= mass[i]
            product = 1.0
            for a in range(num_arms - 1, -1, -1):
                weight = before[a] * product * density[a]
                product *= mass[a]
                p[a] += weight
                moments[a, a] += weight * (x - average[a])
                for i in range(num_arms):
                    moments[a, i] += weight * average[i]
        for a in range(num_arms):
            for i in range(num_arms):
                whole = sums[i, num_points - 1]
                moments[a, i] = moments[a, i] / p[a] if p[a] > 0.0 else whole
        p /= p.sum()
