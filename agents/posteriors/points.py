"""The points of a table of one posterior: where they are put, what lies up to them; compiled.

Letters: M + 1 points, m places.
"""

from __future__ import annotations

import math

import numpy as np

from agents.numerics.vector_math import exp_all
from agents.posteriors.bulk import largest_of
from bandit_gym.numerics.compiled import inner

MASS, PLACE, DENSITY = range(3)
"""What there is of each point: distribution function, u and density of u."""


@inner
def spread(v: np.ndarray, weights: np.ndarray, new: np.ndarray) -> None:
    """Set `new` so that its steps have equal shares of the weight (2 / 3) and of the steps.

    Shares of the weight are smoothed over three steps. Those of the steps keep points at jumps, and
    delay their moving, or else they would leave the tails, where masses are then seen too large,
    and return, for ever.

    Args:
        v: (m,) places.
        weights: (m,) up to each of them, from 0.
        new: (n,) receives places from the first to the last of v.
    """
    num_steps, last = new.size - 1, v.size - 1
    per_weight, per_step = num_steps / (6.0 * weights[last]), num_steps / (3.0 * last)
    j, before = 0, 0.0
    for k in range(last):
        part = weights[k] + 2.0 * weights[k + 1] + weights[min(k + 2, last)]
        after = per_weight * part + per_step * (k + 1)
        slope = (v[k + 1] - v[k]) / (after - before)
        while j < after and j < num_steps:
            new[j] = v[k] + slope * (j - before)
            j += 1
        before = after
    new[j:] = v[last]


@inner
def sum_roots(u: np.ndarray, log_density: np.ndarray, weights: np.ndarray) -> float:
    """Set `weights` (m,) to the sum of roots of the masses of the steps up to each of u (m,).

    Masses are twice those of the trapezoidal rule, where the density is 1 at its top, and their sum
    is returned; `log_density` (m,) is overwritten.
    """
    top = largest_of(log_density)
    for j in range(u.size):
        log_density[j] -= top
    exp_all(log_density, weights)
    weights[0], total = 0.0, 0.0
    for j in range(1, u.size):
        mass = (u[j] - u[j - 1]) * (log_density[j - 1] + log_density[j])
        weights[j] = weights[j - 1] + math.sqrt(mass)
        total += mass
    return total


@inner
def sum_error_roots(points: np.ndarray, weights: np.ndarray) -> None:
    """Set `weights` (M / 2 + 1,) to the sum of roots of the errors of the pairs up to each."""
    weights[0] = 0.0
    for j in range(1, weights.size):
        left, middle, right = points[2 * j - 2 : 2 * j + 1, DENSITY]
        bend = abs(left - 2.0 * middle + right) / (left + 2.0 * middle + right)
        mass = points[2 * j, MASS] - points[2 * j - 2, MASS]
        weights[j] = weights[j - 1] + math.sqrt(mass * bend)


@inner
def accumulate(u: np.ndarray, density: np.ndarray, points: np.ndarray) -> float:
    """Write the points of a table, with masses from the left; return what they may be wrong by.

    The mass of a pair of intervals is Simpson's, and is shared between them as by the trapezoidal
    rule, so that no share is negative however steep the density.
    """
    mass, error, largest = 0.0, 0.0, 0.0
    points[0, MASS] = 0.0
    for k in range(1, u.size, 2):
        left, middle, right = density[k - 1], density[k], density[k + 1]
        step, per_sum = u[k] - u[k - 1], 1.0 / (left + 2.0 * middle + right)
        bend = abs(left - 2.0 * middle + right)
        part = bend * per_sum
        error += step * bend * min(2.0, part * (0.15 + 5.0 * part))
        largest = max(largest, step * bend)
        pair = step * (left + 4.0 * middle + right)
        points[k, MASS] = mass + pair * (left + middle) * per_sum
        mass += pair
        points[k + 1, MASS] = mass
    scale = 1.0 / mass
    for k in range(u.size):
        points[k, MASS] *= scale
        points[k, PLACE] = u[k]
        points[k, DENSITY] = density[k]
    points[u.size - 1, MASS] = 1.0
    return (error + 0.0125 * largest) * scale


@inner
def fill_guide(points: np.ndarray, guide: np.ndarray) -> None:
    """Set the last point with a mass of at most j / M before it, for each j.

    Points are counted rather than looked for, which no processor could foretell the steps of.
    """
    num = len(guide)
    guide[:] = 0
    for k in range(1, num):
        first = math.ceil(points[k, MASS] * num)
        if 0 <= first < num:
            guide[first] += 1
    for j in range(1, num):
        guide[j] += guide[j - 1]


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
