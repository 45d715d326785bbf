"""What to expect of every arm's mean if a given arm is best, from tables of independent posteriors.

With densities f_i and distribution functions F_i of the coordinate u, and x(u) the mean,

    p_a      = int f_a(u) prod_{j != a} F_j(u) du,
    p_a M_aa = int x(u) f_a(u) prod_{j != a} F_j(u) du,
    p_a M_ai = int f_a(u) prod_{j != a} F_j(u) E(mean_i | mean_i <= x(u)) du,

as Russo and Van Roy (2018) have it for Bernoulli arms, by sums over a fixed grid. Here the steps
lie between points of the tables of all arms, which are close where there is mass.

Letters: K arms, N lanes, M + 1 points of a table.
"""

from __future__ import annotations

import math

import numpy as np

from agents.posteriors.features import set_means
from agents.posteriors.partial_means import Sums, look_up, make_sums, sum_means
from agents.posteriors.points import MASS, PLACE
from agents.posteriors.tabulation import PosteriorTables
from bandit_gym.numerics.compiled import inner, inner_maker, kernel

MOST_STEPS = 64
"""Between nodes, with two points of Gauss's rule each."""
GAUSS = 0.5 - 0.5 / math.sqrt(3.0)
"""Where the first of the two lies along a step."""
NEGLIGIBLE = 1e-9
"""Of an arm's probability: the best mean is looked for between such quantiles."""


@inner
def find_range(points: np.ndarray, farthest: np.ndarray) -> float:
    """Return u above which the best mean surely lies.

    Args:
        points: (K, M + 1, 3) tables.
        farthest: (K,) receives, for each arm, u beyond which it has next to no mass.
    """
    low = -np.inf
    for arm in range(points.shape[0]):
        k = 0
        while points[arm, k + 1, MASS] < NEGLIGIBLE:
            k += 1
        low = max(low, points[arm, k, PLACE])
        k = points.shape[1] - 1
        while points[arm, k - 1, MASS] > 1.0 - NEGLIGIBLE:
            k -= 1
        farthest[arm] = points[arm, k, PLACE]
    return low


@inner_maker
def find_nodes(points: np.ndarray, nodes: np.ndarray) -> int:
    """Set `nodes` to ends of steps over which to integrate for the best arm; return how many.

    Args:
        points: (K, M + 1, 3) tables.
        nodes: (K (M + 1) + 2,) receives increasing u.
    """
    farthest, num = np.empty(points.shape[0]), 0
    low = find_range(points, farthest)
    for arm in range(points.shape[0]):
        for k in range(points.shape[1]):
            if low <= points[arm, k, PLACE] <= farthest[arm]:
                nodes[num] = points[arm, k, PLACE]
                num += 1
    stride = max(1, num // MOST_STEPS)
    num = (num + stride - 1) // stride
    for j in range(num):
        nodes[j] = nodes[j * stride]
    nodes[num], nodes[num + 1] = low, farthest.max()
    nodes[: num + 2] = np.sort(nodes[: num + 2])
    return num + 2


@inner_maker
def add_moments(
    ends: np.ndarray, points: np.ndarray, sums: Sums, nodes: np.ndarray, means: np.ndarray
) -> None:
    """Add p_a at [a, K] and p_a M_ai at [a, i] of `means` (K, K + 1), integrated between nodes."""
    num_arms = points.shape[0]
    place = np.empty((3, 1))
    density, average, before, after = np.empty((4, num_arms))
    steps = np.zeros(num_arms, dtype=np.int64)
    for j in range(2 * (nodes.size - 1)):
        step = nodes[j // 2 + 1] - nodes[j // 2]
        u = nodes[j // 2] + step * (GAUSS if j % 2 == 0 else 1.0 - GAUSS)
        place[0, 0] = u
        set_means(ends, place[0], place[1], place[2])
        x, product = place[1, 0], 0.5 * step
        for i in range(num_arms):
            found = look_up(points, sums, (i, steps[i]), u, x)
            steps[i], after[i], density[i], average[i] = found
            before[i] = product
            product *= after[i]
        product = 1.0
        for a in range(num_arms - 1, -1, -1):
            weight = before[a] * product * density[a]
            product *= after[a]
            if weight > 0.0:
                for i in range(num_arms):
                    means[a, i] += weight * average[i]
                means[a, a] += weight * (x - average[a])
                means[a, num_arms] += weight


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
    sums = make_sums(num_arms, num_points)
    nodes, moments = np.empty(num_arms * num_points + 2), np.empty((num_arms, num_arms + 1))
    for lane in range(num_lanes):
        points = tables.points[lane]
        sum_means(ends, points, sums)
        moments[:] = 0.0
        num = find_nodes(points, nodes)
        add_moments(ends, points, sums, nodes[:num], moments)
        total = moments[:, num_arms].sum()
        for a in range(num_arms):
            p = moments[a, num_arms]
            found[lane, a] = p / total
            for i in range(num_arms):
                means[lane, a, i] = moments[a, i] / p if p > 0.0 else sums.total[i, num_points - 1]
