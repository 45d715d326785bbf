"""What chains tell by their conditional laws, which are less noisy than their places.

Letters: K arms, N lanes, S sweeps, G points of a grid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agents.numerics.choices import among
from agents.posteriors.chains import GibbsTarget

MOST_POINTS = 2048


class Answer(NamedTuple):
    """What averages of conditional laws tell of N lanes.

    Attributes:
        grid: (N, K, G) points, at equal steps.
        density: (N, K, G) densities there.
        best: (N, K) probabilities of having the largest mean.
    """

    grid: np.ndarray
    density: np.ndarray
    best: np.ndarray


def average_conditionals(
    target: GibbsTarget, means: np.ndarray, available: np.ndarray | None = None
) -> Answer:
    """Return what the conditional laws of each arm given the others tell, averaged over sweeps.

    Args:
        target: the posterior of N lanes.
        means: (S, N, K) after each of S sweeps.
        available: (N, K) True for the arms of which one is the best; None for all.
    """
    off = means - target.mean
    own = np.diag(target.precision)
    pulls = own * (target.mean + off) - off @ target.precision  # (S, N, K)
    grid = _grids(means, target)
    log_base = _log_features(target.coefficients, grid) - 0.5 * own[:, None] * grid**2
    density, wins = np.zeros_like(grid), np.zeros(grid.shape[:2])
    compared = means if available is None else among(means, available)
    for pull, rivals in zip(pulls, _best_rivals(compared), strict=True):
        log_density = log_base + pull[..., None] * grid
        part = np.exp(log_density - log_density.max(axis=-1, keepdims=True))
        part /= np.trapezoid(part, grid, axis=-1)[..., None]
        density += part
        wins += _mass_above(grid, part, rivals)
    if available is not None:
        wins = np.where(available, wins, 0.0)
    return Answer(grid, density / len(pulls), wins / wins.sum(axis=-1, keepdims=True))


def _best_rivals(means: np.ndarray) -> np.ndarray:
    """Return for each of (..., K) means the largest of the others."""
    largest = np.partition(means, -2, axis=-1)[..., -2:]
    return np.where(means == largest[..., 1:], largest[..., :1], largest[..., 1:])


def _mass_above(grid: np.ndarray, density: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the (N, K) masses above x (N, K), given (N, K, G) densities at equal steps."""
    step = grid[..., 1] - grid[..., 0]
    place = np.clip((x - grid[..., 0]) / step, 0.0, grid.shape[-1] - 1 - 1e-9)
    cell = place.astype(np.int64)[..., None]
    part = place[..., None] - cell
    pairs = (density[..., 1:] + density[..., :-1]) / 2
    above = np.cumsum(pairs[..., ::-1], axis=-1)[..., ::-1]  # of a cell and those after it
    left, right = (np.take_along_axis(density, cell + k, axis=-1) for k in (0, 1))
    before = part * (left + part * (right - left) / 2)
    return np.asarray(step * (np.take_along_axis(above, cell, axis=-1) - before)[..., 0])


def _grids(means: np.ndarray, target: GibbsTarget) -> np.ndarray:
    """Return (N, K, G) points strictly inside the box, close enough for the conditional laws."""
    low, high = target.box.T
    width = target.widths / 2  # about a conditional deviation
    first = np.maximum(means.min(axis=0) - 6 * width, np.nextafter(low, high))
    last = np.minimum(means.max(axis=0) + 6 * width, np.nextafter(high, low))
    num_points = int(np.clip(6 * ((last - first) / width).max(), 96, MOST_POINTS))
    return np.linspace(first, last, num_points, axis=-1)


def _log_features(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the (N, K, G) sums of five features of x, those with a coefficient of 0 left out."""
    with np.errstate(all="ignore"):
        features = (np.log(x), np.log1p(-x), x, x * x, 1 / x)
        found = np.zeros_like(x)
        for i, feature in enumerate(features):
            c = coefficients[..., [i]]
            found += np.where(c == 0.0, 0.0, c * feature)
        return found
