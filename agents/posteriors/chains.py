"""Markov chains for a normal prior cut to a box: slice sampling along lines.

Every arm's likelihood has a density in the five features of `agents.numerics.laws`,

    log p(x) = c_0 log x + c_1 log(1 - x) + c_2 x + c_3 x^2 + c_4 / x + constant,

and with the normal prior it gives the posterior on any line through the box. That is drawn from by
slice sampling, which needs neither tables nor tuning, and leaves the posterior invariant exactly. A
sweep moves the means along the principal axes of a normal law with the prior's precision and the
data's, and then arm by arm. Where the posterior is such a law, the axes forget nearly all, however
singular the prior's covariance, under which arms alone would crawl; where the box cuts it, axes and
arms help each other.

Letters: K arms, L lanes (chains that know nothing of each other), D = 2 K directions.

References:
    Neal (2003), "Slice sampling", Section 4.
    von Neumann (1941), "Distribution of the ratio of the mean square successive difference to the
    variance".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from bandit_gym.numerics.compiled import inner, kernel
from bandit_gym.typing import FloatArray

WIDTH = 3.5
"""First guess of a slice, in lengths of its direction."""


class GibbsTarget(NamedTuple):
    """The posterior of L lanes, in the form the kernels read.

    Attributes:
        coefficients: (L, K, 5) of the likelihood, in the features log x, log(1 - x), x, x^2, 1/x.
        mean: (K,) of the prior before truncation.
        box: (K, 2) lowest and highest means.
    """

    coefficients: FloatArray
    mean: FloatArray
    box: FloatArray


class Directions(NamedTuple):
    """Directions along which the means of L lanes are moved.

    Attributes:
        steps: (L, D, K) one per row, about one standard deviation of the posterior long: K
            principal axes, then K arms.
        pushes: (L, D, K) the prior's precision times each.
        curvatures: (L, D) of the prior's -log density along each.
    """

    steps: FloatArray
    pushes: FloatArray
    curvatures: FloatArray


def find_directions(precision: FloatArray, information: FloatArray) -> Directions:
    """Return the directions for L posteriors.

    Args:
        precision: (K, K) of the prior before truncation.
        information: (L, K) precisions of the data alone.
    """
    unit = np.eye(len(precision))
    values, vectors = np.linalg.eigh(precision + information[..., None] * unit)
    axes = (vectors / np.sqrt(values)[:, None, :]).transpose(0, 2, 1)
    arms = unit / np.sqrt(information + np.diag(precision))[..., None]
    steps = np.concatenate([axes, arms], axis=1)
    pushes = steps @ precision
    return Directions(steps, pushes, np.einsum("ldj,ldj->ld", steps, pushes))


@inner
def log_density(c: FloatArray, x: float) -> float:
    """Return c . (log x, log(1 - x), x, x^2, 1/x), without the terms whose coefficient is 0."""
    value: float = (c[2] + c[3] * x) * x
    if c[0] != 0.0:
        value += c[0] * math.log(x)
    if c[1] != 0.0:
        value += c[1] * math.log1p(-x)
    if c[4] != 0.0:
        value += c[4] / x
    return value


@inner
def ends_along(means: np.ndarray, axis: np.ndarray, box: np.ndarray) -> tuple[float, float]:
    """Return the smallest and largest t for which means + t * axis are in the box."""
    low, high = -np.inf, np.inf
    for j in range(means.size):
        if axis[j] != 0.0:
            first = (box[j, 0] - means[j]) / axis[j]
            second = (box[j, 1] - means[j]) / axis[j]
            low, high = max(low, min(first, second)), min(high, max(first, second))
    return low, high


class Line(NamedTuple):
    """One lane's means, and the direction they are moved in.

    Attributes:
        means: (K,).
        axis: (K,).
        coefficients: (K, 5) of the likelihood.
        pull: slope, in t, of the prior's -log density at t = 0.
        curvature: its second derivative.
    """

    means: np.ndarray
    axis: np.ndarray
    coefficients: np.ndarray
    pull: float
    curvature: float


@inner
def log_density_along(t: float, line: Line) -> float:
    """Return the posterior log-density of t, up to a constant; -inf outside the support."""
    value = -(line.pull + 0.5 * line.curvature * t) * t
    for j in range(line.means.size):
        if line.axis[j] != 0.0:
            value += log_density(line.coefficients[j], line.means[j] + t * line.axis[j])
    return value if value == value else -np.inf


@inner
def draw_along(rng: Generator, line: Line, low: float, high: float) -> float:
    """Return the successor of t = 0 under slice sampling of the posterior on the line.

    The slice is bracketed by stepping out from a randomly placed interval, then shrunk.
    """
    level = log_density_along(0.0, line) - rng.standard_exponential()
    left = -WIDTH * rng.random()
    right = left + WIDTH
    while left > low and log_density_along(left, line) > level:
        left -= WIDTH
    while right < high and log_density_along(right, line) > level:
        right += WIDTH
    left, right = max(left, low), min(right, high)
    while True:
        t = left + (right - left) * rng.random()
        if log_density_along(t, line) >= level or right - left < 1e-14:
            return t
        if t < 0.0:
            left = t
        else:
            right = t


@inner
def sweep(
    rng: Generator, means: np.ndarray, target: GibbsTarget, directions: Directions, lane: int
) -> None:
    """Move one lane's (K,) means, strictly inside the box, along each of its directions once."""
    coefficients = target.coefficients[lane]
    for k in range(directions.steps.shape[1]):
        axis, pull = directions.steps[lane, k], 0.0
        for j in range(means.size):
            pull += directions.pushes[lane, k, j] * (means[j] - target.mean[j])
        low, high = ends_along(means, axis, target.box)
        line = Line(means, axis, coefficients, pull, directions.curvatures[lane, k])
        t = draw_along(rng, line, low, high)
        for j in range(means.size):
            moved = means[j] + t * axis[j]
            if target.box[j, 0] < moved < target.box[j, 1]:
                means[j] = moved


@kernel
def renew_chains(
    rng: Generator, means: np.ndarray, target: GibbsTarget, directions: Directions, num_sweeps: int
) -> None:
    """Renew every lane's means, (L, K) strictly inside the box, by `num_sweeps` sweeps."""
    for lane in range(means.shape[0]):
        for _ in range(num_sweeps):
            sweep(rng, means[lane], target, directions, lane)


@inner
def autocorrelation(path: np.ndarray) -> float:
    """Return the correlation of successive entries of (S, K) places, largest over its columns.

    Half the sum of squared steps, over that of squared distances from the middle, is what it lacks
    of 1 (von Neumann 1941).
    """
    largest = -1.0
    for k in range(path.shape[1]):
        middle, squares, steps = path[:, k].mean(), 0.0, 0.0
        for s in range(path.shape[0]):
            squares += (path[s, k] - middle) ** 2
            if s > 0:
                steps += (path[s, k] - path[s - 1, k]) ** 2
        largest = max(largest, 1.0 - 0.5 * steps / squares if squares > 0.0 else 1.0)
    return largest


@kernel
def settle_chains(
    rng: Generator, means: np.ndarray, target: GibbsTarget, directions: Directions, num_sweeps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Renew every lane's means, and say how slowly and to where.

    Returns:
        (L,) autocorrelations, largest of all axes, and (L, 2, K) averages and variances of places
        along the axes in the second half of the sweeps.
    """
    num_lanes, num_arms = means.shape
    slowness, places = np.zeros(num_lanes), np.zeros((num_lanes, 2, num_arms))
    path = np.zeros((num_sweeps, num_arms))
    for lane in range(num_lanes):
        for s in range(num_sweeps):
            sweep(rng, means[lane], target, directions, lane)
            path[s] = directions.steps[lane, :num_arms] @ means[lane]
        slowness[lane] = autocorrelation(path)
        for k in range(num_arms):
            half = path[num_sweeps // 2 :, k]
            places[lane, 0, k], places[lane, 1, k] = half.mean(), half.var()
    return slowness, places
