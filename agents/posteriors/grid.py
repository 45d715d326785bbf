"""The posterior of arms that are independent a priori: a table for each, see `tables`.

Letters: K arms, N lanes, M + 1 points, m places.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.random import Generator

from agents.posteriors.base import Posterior, require_sum, same_arms
from agents.posteriors.cells import make_cells
from agents.posteriors.comparison import compare_tables, find_best_arms
from agents.posteriors.tables import (
    DENSITY,
    LARGEST_RELIABLE_ERROR,
    PLACE,
    Tables,
    count_points,
    draw_best_of_tables,
    empty_tables,
    invert_tables,
    update_tables,
)
from bandit_gym.checks import message
from bandit_gym.doubts import Doubt
from bandit_gym.problem import BanditProblem

MOST_BYTES = 4e9
"""Of the tables of all lanes and arms."""


class GridPosterior(Posterior):
    """Posteriors of arms that are independent a priori, each as a table.

    Tables follow from the statistics: copies and pickles leave them out.

    Arguments:
        problem: a likelihood and a prior with `arm_log_density`.

    Attributes:
        cells: the priors and the likelihood, resolved.
        tables: of all lanes and arms, for the statistics last followed.

    Raises:
        ValueError: if the prior does not integrate, or is too rough.
    """

    source = "tables"
    can_forget = True

    def __init__(self, problem: BanditProblem) -> None:
        self.coordinate, self.cells = make_cells(problem)
        self.tables = empty_tables(self.cells, 0)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the tables out."""
        return self.__dict__ | {"tables": empty_tables(self.cells, 0)}

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Build the tables whose statistics have changed.

        Raises:
            ValueError: if data have probability 0 under the prior; names arm and lane. Or if so
                many tables do not fit into memory.
        """
        self.counts = counts
        if len(self.tables.keys) != len(counts):
            self.tables = self._make_room(len(counts))
        place = update_tables(self.cells, self.tables, counts, sums)
        if place >= 0:
            lane, arm = divmod(place, counts.shape[1])
            raise ValueError(
                f"the rewards of arm {arm} in lane {lane} must be possible under problem.prior, "
                f"got {counts[lane, arm]} rewards of total {sums[lane, arm]}, whose probability "
                "is 0."
            )

    def _make_room(self, num_lanes: int) -> Tables:
        num_tables, num_points = num_lanes * len(self.cells.kind_of_arm), count_points(self.cells)
        if num_tables * num_points * 26 > MOST_BYTES:
            condition = f"be so few that tables of {num_points} points fit into 4 GB"
            raise ValueError(message("num_envs times num_arms", condition, num_tables))
        return empty_tables(self.cells, num_lanes)

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw."""
        return self.quantile(rng.random(self.tables.keys.shape[:2]))

    def draw_best(self, rng: Generator) -> np.ndarray:
        """Return the (N,) best arms of one draw."""
        actions = np.empty(len(self.tables.keys), dtype=np.int64)
        draw_best_of_tables(rng, self.tables, actions)
        return actions

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations."""
        return self._integral(self._means())

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations."""
        means = self._means()
        off = means - self._integral(means)[..., None]
        return np.sqrt(self._integral(off * off))

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles."""
        shape = self.tables.keys.shape[:2]
        u = np.empty(shape)
        invert_tables(self.tables, np.array(np.broadcast_to(p, shape), dtype=np.float64), u)
        return self.coordinate.means(u)

    def density(self, x: np.ndarray) -> np.ndarray:
        """Return the (m, N, K) densities at (m,) places, as draws from the tables have them."""
        lines, u = self.coordinate, self.coordinate.positions(x)
        slope = np.where((x > lines.low) & (x < lines.high), np.exp(-lines.log_slope(u)), 0.0)
        found = [[_density_of_table(arm, u) for arm in lane] for lane in self.tables.points]
        return np.moveaxis(np.array(found), -1, 0) * slope[:, None, None]

    def best_arm_probabilities(self) -> np.ndarray:
        """Return the (N, K) probabilities."""
        found, miss = find_best_arms(self.tables.points)
        require_sum(miss)
        return found

    def best_arm_moments(
        self, available: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) probabilities and (N, K, K) conditional means, see `comparison`."""
        num_lanes, num_arms = self.tables.keys.shape[:2]
        found, means = np.zeros((num_lanes, num_arms)), np.zeros((num_lanes, num_arms, num_arms))
        if available is not None:
            for lanes, arms in same_arms(available):
                part = self.restrict(lanes, arms).best_arm_moments()
                found[np.ix_(lanes, arms)], means[np.ix_(lanes, arms, arms)] = part
            return found, means
        compare_tables(self.cells.ends, self.tables.points, self._means(), found, means)
        return found, means

    def shortfall(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) probabilities and expected shortfalls, of the parabolas between points."""
        level = np.array(np.broadcast_to(level, self.tables.keys.shape[:2]), dtype=np.float64)
        u = self.coordinate.positions(level)[..., None]
        place, density = self.tables.points[..., PLACE], self.tables.points[..., DENSITY]
        length = np.diff(place[..., ::2], axis=-1)
        along = np.clip((u - place[..., :-2:2]) / np.maximum(length, 1e-300), 0.0, 1.0)
        below = (length * _part_of_parabola(density, along)).sum(axis=-1)
        total = (length * _part_of_parabola(density * self._means(), along)).sum(axis=-1)
        below = np.clip(below, 0.0, 1.0)
        return below, np.maximum(level * below - total, 0.0)

    def doubts(self) -> np.ndarray:
        """Return (N,) BEYOND_TABLE where an arm's table is unreliable, see `tables`."""
        is_beyond = (self.tables.errors > LARGEST_RELIABLE_ERROR).any(axis=1)
        return np.where(is_beyond, Doubt.BEYOND_TABLE, 0)

    def restrict(self, lanes: np.ndarray, arms: np.ndarray) -> GridPosterior:
        """Return what is known of some arms in some lanes, to be asked and not to follow data."""
        part, tables, cells = copy.copy(self), self.tables, np.ix_(lanes, arms)
        kept = (
            tables.keys[cells],
            tables.points[cells],
            tables.guides[cells],
            tables.errors[cells],
        )
        part.tables, part.counts = Tables(*kept, tables.recent), self.counts[cells]
        return part

    def _means(self) -> np.ndarray:
        """Return the (N, K, M + 1) means at the points."""
        return self.coordinate.means(self.tables.points[..., PLACE])

    def _integral(self, values: np.ndarray) -> np.ndarray:
        """Return the (N, K) expectations of values at the points, (N, K, M + 1), by Simpson."""
        weighted = values * self.tables.points[..., DENSITY]
        whole = weighted[..., :-2:2] + 4 * weighted[..., 1::2] + weighted[..., 2::2]
        length = np.diff(self.tables.points[..., ::2, PLACE], axis=-1)
        return np.asarray((length * whole).sum(axis=-1) / 6)


def _part_of_parabola(values: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the integrals up to t (..., M / 2) in [0, 1] of parabolas through (..., M + 1)."""
    left, middle, right = values[..., :-2:2], values[..., 1::2], values[..., 2::2]
    slope, bend = -3 * left + 4 * middle - right, 2 * (left - 2 * middle + right)
    return np.asarray(t * (left + t * (slope / 2 + t * bend / 3)))


def _density_of_table(points: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the (m,) densities of u: straight lines between points, over areas of their mass."""
    mass, place, density = points.T
    steps = np.clip(np.searchsorted(place, u, side="right") - 1, 0, len(place) - 2)
    areas = (density[1:] + density[:-1]) * np.diff(place) / 2
    line = np.interp(u, place, density, 0.0, 0.0)
    return np.asarray(line * (np.diff(mass) / np.maximum(areas, 1e-300))[steps])
