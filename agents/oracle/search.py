"""Where posteriors have their modes: first ends of panels, found by looking everywhere.

Panels that are halved find a single mode from anywhere, but a spike beside a flat density only if
one of their nodes meets it. So points are placed first: at draws of the prior, at what the arms
paid, at equal steps, and then again and again inside the intervals that may hold most mass. A panel
ends wherever the log-density rises or falls by much between neighbours.

Notation: K arms, M points, I intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from agents.oracle.arms import ArmPosteriors
from bandit_gym.checks.typing import FloatArray

NUM_TYPICAL = 4
"""Draws of each arm at which panels end, wherever they are."""

NUM_GRID_POINTS, MAX_SEARCH_DRAWS = 512, 1024
"""Points at equal steps of the means, and draws that are kept, at most."""

NUM_ZOOMS, NUM_ZOOMED = 20, 64
"""Rounds that look for peaks, each in a seventh of the width before, and how many intervals each
splits."""

NUM_REFINEMENTS = 2
"""Rounds that split a fourth of the intervals, so that none can hide a spike beside a mode."""

MAX_REFINED_POINTS = 1 << 19
"""Of all arms, fifty or so, after which only peaks are looked for."""

NUM_PIECES = 7
EDGE_LOG_CHANGE, MAX_EDGE_DEPTH = 4.0, 48.0
"""Change of the log-density after which a panel ends, and how far below its top it counts."""

Density = Callable[[FloatArray], FloatArray]


def find_first_edges(posteriors: ArmPosteriors) -> FloatArray:
    """Return (P + 1,) increasing u, far beyond all that can be seen of any arm."""
    arms, line = posteriors.arms, posteriors.arms.line
    steps = np.concatenate([[0.0], 2.0 ** np.arange(-1, 21)])
    typical = arms.draws[:: max(1, len(arms.draws) // NUM_TYPICAL)].ravel()
    known = line.positions(
        np.concatenate([arms.support.ravel(), typical, _average_rewards(posteriors)])
    )
    edges = np.concatenate([-steps, steps, line.limits, known])
    return np.unique(edges if arms.is_smooth else np.append(edges, _search_peaks(posteriors)))


def _average_rewards(posteriors: ArmPosteriors) -> FloatArray:
    """Return the average rewards of the arms that were pulled."""
    pulled = posteriors.counts > 0
    return np.asarray(posteriors.sums[pulled] / posteriors.counts[pulled])


def _search_peaks(posteriors: ArmPosteriors) -> FloatArray:
    density = posteriors.coordinate_log_density
    u = _first_points(posteriors)
    values = density(u)
    for _ in range(NUM_ZOOMS):
        u, values = _split_intervals(density, u, values, NUM_ZOOMED)
    for _ in range(NUM_REFINEMENTS if u.size < MAX_REFINED_POINTS else 0):
        u, values = _split_intervals(density, u, values, len(u) // 4)
    return _level_changes(u, values)


def _first_points(posteriors: ArmPosteriors) -> FloatArray:
    """Return (M, K) sorted points: draws where there may be most mass, and a coarse grid."""
    arms, line = posteriors.arms, posteriors.arms.line
    draws = line.positions(arms.draws)
    bounds = mass_bounds(draws, posteriors.coordinate_log_density(draws))
    rank = np.argsort(-bounds, axis=0)[: MAX_SEARCH_DRAWS // 2]
    likely = [np.take_along_axis(draws, rank + side, axis=0) for side in (0, 1)]
    typical = draws[:: max(1, len(draws) // MAX_SEARCH_DRAWS)]
    paid = _average_rewards(posteriors)
    all_means: Any = np.append(arms.draws, paid)
    lowest, highest = float(all_means.min()), float(all_means.max())
    steps = np.linspace(lowest, highest, NUM_GRID_POINTS)
    grid = line.positions(np.append(steps, paid))
    first, last = line.limits
    coarse = np.concatenate([grid, np.linspace(first, last, NUM_GRID_POINTS)])
    coarse = np.repeat(coarse[:, None], len(posteriors.counts), axis=1)
    return np.sort(np.concatenate([*likely, typical, coarse]), axis=0)


def _split_intervals(
    density: Density, u: FloatArray, values: FloatArray, num_intervals: int
) -> tuple[FloatArray, FloatArray]:
    """Return sorted points and values with those inside the most promising intervals added."""
    half = max(1, num_intervals // 2)
    ranks = [
        np.argpartition(-bounds, half, axis=0)[:half]
        for bounds in (mass_bounds(u, values), peak_bounds(u, values))
    ]
    chosen = np.concatenate(ranks)
    left, right = (np.take_along_axis(u, chosen + side, axis=0) for side in (0, 1))
    fractions = (np.arange(1, NUM_PIECES) / NUM_PIECES)[:, None, None]
    new = (left + (right - left) * fractions).reshape(-1, u.shape[1])
    u, values = np.concatenate([u, new]), np.concatenate([values, density(new)])
    order = np.argsort(u, axis=0, kind="stable")
    return np.take_along_axis(u, order, axis=0), np.take_along_axis(values, order, axis=0)


def mass_bounds(u: FloatArray, values: FloatArray) -> FloatArray:
    """Return the (I, K) logs of length times height at the higher end of each interval."""
    with np.errstate(divide="ignore"):
        return np.maximum(values[:-1], values[1:]) + np.log(np.diff(u, axis=0))


def peak_bounds(u: FloatArray, values: FloatArray) -> FloatArray:
    """Return (I, K) bounds, likewise, if the log-density is concave around each interval.

    Inside, it then lies below the straight lines through the intervals on either side.
    """
    lengths = np.diff(u, axis=0)
    known = np.maximum(values, values.max(axis=0) - 1e15)
    with np.errstate(all="ignore"):
        slopes = np.where(lengths > 0, np.diff(known, axis=0) / lengths, 0.0)
        before = np.maximum(np.concatenate([np.zeros_like(slopes[:1]), slopes[:-1]]), 0.0)
        after = np.maximum(np.concatenate([-slopes[1:], np.zeros_like(slopes[:1])]), 0.0)
        heights = np.minimum(known[:-1] + before * lengths, known[1:] + after * lengths)
        return np.asarray(heights + np.log(lengths))


def _level_changes(u: FloatArray, values: FloatArray) -> FloatArray:
    """Return (J,) places, of all arms, between which no log-density changes by much."""
    levels = np.floor(np.maximum(values - values.max(axis=0), -MAX_EDGE_DEPTH) / EDGE_LOG_CHANGE)
    changes = np.diff(levels, axis=0) != 0
    return np.concatenate([u[:-1][changes], u[1:][changes]])
