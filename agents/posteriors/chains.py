"""Markov chains for a normal prior cut to a box: slice sampling arm by arm and along its axes.

Given the other means, arm i's has a density in the five features of `agents.numerics.laws`,

    log p(x) = c_0 log x + c_1 log(1 - x) + c_2 x + c_3 x^2 + c_4 / x + constant  on [low, high],

to which the likelihood of its own data and the normal prior, conditioned on the others, both add
their coefficients. One such density after the other is drawn from by slice sampling, which needs
neither tables nor tuning, and leaves the posterior invariant exactly. Compiled: a sweep over 10
arms takes 1.5 to 3 microseconds, against 380 for the plain function.

That is fast when the data are many, but under a nearly singular covariance each mean is all but
fixed by the others, and a chain crawls. So the means are also moved together, along each principal
axis of a normal law with the prior's precision and the data's, by slice sampling of the posterior
on that line. Where the posterior is such a law, a sweep along the axes forgets nearly all, however
singular; where the box cuts it, arms and axes help each other.

Letters: K arms, L lanes (chains that know nothing of each other).

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

from bandit_gym.numerics.compiled import inner, inner_maker, kernel
from bandit_gym.typing import FloatArray

WIDTH = 3.5
"""First guess of a slice along an axis, in its lengths."""


class GibbsTarget(NamedTuple):
    """The posterior of L lanes, in the form the kernels read.

    Attributes:
        coefficients: (L, K, 5) of the likelihood, in the features log x, log(1 - x), x, x^2, 1/x.
        widths: (L, K) rough widths of the conditional densities, first guesses of the slices.
        mean: (K,) of the prior before truncation.
        precision: (K, K) of the prior before truncation.
        box: (K, 2) lowest and highest means.
    """

    coefficients: FloatArray
    widths: FloatArray
    mean: FloatArray
    precision: FloatArray
    box: FloatArray


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
def draw_from_slice(
    rng: Generator, x: float, c: FloatArray, low: float, high: float, width: float
) -> float:
    """Return the successor of x under slice sampling of exp(c . features) on (low, high).

    The slice is bracketed by stepping out from a randomly placed interval of the given width,
    which must not depend on x, then shrunk towards x (Neal 2003, Section 4).
    """
    level = log_density(c, x) - rng.standard_exponential()
    left = x - width * rng.random()
    right = left + width
    while left > low and log_density(c, left) > level:
        left -= width
    while right < high and log_density(c, right) > level:
        right += width
    left, right = max(left, low), min(right, high)
    while True:
        candidate = left + (right - left) * rng.random()
        if log_density(c, candidate) >= level:
            return candidate
        if candidate < x:
            left = candidate
        else:
            right = candidate


@inner
def condition(target: GibbsTarget, lane: int, arm: int, means: FloatArray, c: FloatArray) -> None:
    """Write the coefficients of one arm's density, given the (K,) means of the others, to c."""
    precision = target.precision[arm]
    pull = precision[arm] * target.mean[arm]
    for j in range(means.size):
        if j != arm:
            pull -= precision[j] * (means[j] - target.mean[j])
    for k in range(c.size):
        c[k] = target.coefficients[lane, arm, k]
    c[2] += pull
    c[3] -= 0.5 * precision[arm]


@inner_maker
def sweep_arms(rng: Generator, means: np.ndarray, target: GibbsTarget, lane: int) -> None:
    """Renew one lane's (K,) means, strictly inside the box, one arm after the other."""
    c = np.empty(5)
    for i in range(means.size):
        condition(target, lane, i, means, c)
        low, high = target.box[i]
        means[i] = draw_from_slice(rng, means[i], c, low, high, target.widths[lane, i])


class Axes(NamedTuple):
    """Directions along which the means of L lanes are moved together.

    Attributes:
        steps: (L, K, K) one direction per row, about one standard deviation of the posterior long.
        pushes: (L, K, K) the prior's precision times each direction.
        curvatures: (L, K) of the prior's -log density along each.
    """

    steps: FloatArray
    pushes: FloatArray
    curvatures: FloatArray


def principal_axes(precision: FloatArray, information: FloatArray) -> Axes:
    """Return the principal axes of L posteriors.

    Args:
        precision: (K, K) of the prior before truncation.
        information: (L, K) precisions of the data alone.
    """
    own = information[..., None] * np.eye(len(precision))
    values, vectors = np.linalg.eigh(precision + own)
    steps = np.ascontiguousarray((vectors / np.sqrt(values)[:, None, :]).transpose(0, 2, 1))
    pushes = steps @ precision
    return Axes(steps, pushes, np.einsum("lkj,lkj->lk", steps, pushes))


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
        value += log_density(line.coefficients[j], line.means[j] + t * line.axis[j])
    return value if value == value else -np.inf


@inner
def draw_along(rng: Generator, line: Line, low: float, high: float) -> float:
    """Return the successor of t = 0 under slice sampling of the posterior on the line."""
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
def move_along_axes(
    rng: Generator, means: np.ndarray, target: GibbsTarget, axes: Axes, lane: int
) -> None:
    """Move one lane's (K,) means along each of its axes once."""
    coefficients = target.coefficients[lane]
    for k in range(means.size):
        axis, pull = axes.steps[lane, k], 0.0
        for j in range(means.size):
            pull += axes.pushes[lane, k, j] * (means[j] - target.mean[j])
        low, high = ends_along(means, axis, target.box)
        line = Line(means, axis, coefficients, pull, axes.curvatures[lane, k])
        t = draw_along(rng, line, low, high)
        for j in range(means.size):
            moved = means[j] + t * axis[j]
            if target.box[j, 0] < moved < target.box[j, 1]:
                means[j] = moved


@inner
def sweep(rng: Generator, means: np.ndarray, target: GibbsTarget, axes: Axes, lane: int) -> None:
    """Renew one lane's (K,) means along the axes and then arm by arm."""
    move_along_axes(rng, means, target, axes, lane)
    sweep_arms(rng, means, target, lane)


@kernel
def renew_chains(
    rng: Generator, means: np.ndarray, target: GibbsTarget, axes: Axes, num_sweeps: int
) -> None:
    """Renew every lane's means, (L, K) strictly inside the box, by `num_sweeps` sweeps."""
    for lane in range(means.shape[0]):
        for _ in range(num_sweeps):
            sweep(rng, means[lane], target, axes, lane)


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
    rng: Generator, means: np.ndarray, target: GibbsTarget, axes: Axes, num_sweeps: int
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
            sweep(rng, means[lane], target, axes, lane)
            path[s] = axes.steps[lane] @ means[lane]
        slowness[lane] = autocorrelation(path)
        for k in range(num_arms):
            half = path[num_sweeps // 2 :, k]
            places[lane, 0, k], places[lane, 1, k] = half.mean(), half.var()
    return slowness, places
