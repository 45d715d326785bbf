"""The posterior of arms that are independent a priori: a table for each, see `tabulation`.

Letters: K arms, N lanes, M + 1 points.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.random import Generator

from agents.posteriors.base import Posterior, require_sum, same_arms
from agents.posteriors.best_arm_moments import find_best_arm_moments
from agents.posteriors.mesh import make_mesh
from agents.posteriors.partial_means import find_shortfalls
from agents.posteriors.quadrature import Coordinate
from agents.posteriors.table_comparison import compare_tables
from agents.posteriors.tabulation import (
    LARGEST_RELIABLE_ERROR,
    PosteriorTables,
    draw_best_of_tables,
    empty_tables,
    invert_tables,
    update_tables,
)
from bandit_gym.numerics.threads import cut, draw_in_pieces, side_by_side
from bandit_gym.problem import BanditProblem

LANES_WORTH_THREADS = 200
"""Whose tables take as long to follow the data as several threads take to begin."""

SMALLEST = 1e-300
"""The least area that is divided by."""


class GridPosterior(Posterior):
    """Posteriors of arms that are independent a priori, each as a table.

    PosteriorTables follow from the statistics: copies and pickles leave them out.

    Arguments:
        problem: a likelihood and a prior with `arm_log_density`.

    Attributes:
        mesh: the prior, resolved.
        tables: of all lanes and arms, for the statistics last followed.

    Raises:
        ValueError: if the prior does not integrate, or is too rough.
    """

    source = "tables"
    can_forget = True

    def __init__(self, problem: BanditProblem) -> None:
        self.mesh = make_mesh(problem)
        self.tables = empty_tables(self.mesh, 0)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the tables out."""
        return self.__dict__ | {"tables": empty_tables(self.mesh, 0)}

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Build the tables whose statistics have changed.

        Raises:
            ValueError: if data have probability 0 under the prior; names arm and lane.
        """
        self.counts = counts
        if len(self.tables.keys) != len(counts):
            self.tables = empty_tables(self.mesh, len(counts))
        pieces = cut(len(counts), LANES_WORTH_THREADS)

        def update(piece: int) -> int:
            lanes = pieces[piece]
            part = self.tables.part(lanes, piece)
            place = update_tables(self.mesh, part, counts[lanes], sums[lanes])
            return place + (lanes.start * counts.shape[1] if place >= 0 else 0)

        place = min(side_by_side(update, list(range(len(pieces)))), key=lambda found: found < 0)
        if place >= 0:
            lane, arm = divmod(place, counts.shape[1])
            raise ValueError(
                f"the rewards of arm {arm} in lane {lane} must be possible under problem.prior, "
                f"got {counts[lane, arm]} rewards of total {sums[lane, arm]}, whose probability "
                "is 0."
            )

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw."""
        return self.quantile(rng.random(self.tables.keys.shape[:2]))

    def draw_best(self, rng: Generator) -> np.ndarray:
        """Return the (N,) best arms of one draw."""
        actions = np.empty(len(self.tables.keys), dtype=np.int64)

        def draw(stream: Generator, lanes: slice) -> None:
            draw_best_of_tables(stream, self.tables.part(lanes), actions[lanes])

        draw_in_pieces(draw, rng, len(actions))
        return actions

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations."""
        return self._moments()[0]

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations."""
        return np.sqrt(self._moments()[1])

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles."""
        shape = self.tables.keys.shape[:2]
        u = np.empty(shape)
        invert_tables(self.tables, np.array(np.broadcast_to(p, shape), dtype=np.float64), u)
        return self._coordinate.means(u)

    def density(self, x: np.ndarray) -> np.ndarray:
        """Return the (M, N, K) densities at (M,) places, as draws from the tables have them."""
        lines = self._coordinate
        u = lines.positions(x)
        slope = np.where((x > lines.low) & (x < lines.high), np.exp(-lines.log_slope(u)), 0.0)
        found = [[density_of_table(arm, u) for arm in lane] for lane in self.tables.points]
        return np.moveaxis(np.array(found), -1, 0) * slope[:, None, None]

    def best_arm_probabilities(self) -> np.ndarray:
        """Return the (N, K) probabilities, those of the tables to rounding."""
        found = np.empty(self.tables.keys.shape[:2])
        require_sum(compare_tables(self.tables.points, found))
        return found

    def best_arm_moments(
        self, available: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) probabilities and (N, K, K) conditional means, see `best_arm_moments`."""
        num_lanes, num_arms = self.tables.keys.shape[:2]
        found, means = np.zeros((num_lanes, num_arms)), np.zeros((num_lanes, num_arms, num_arms))
        if available is not None:
            for lanes, arms in same_arms(available):
                part = self.restrict(lanes, arms).best_arm_moments()
                found[np.ix_(lanes, arms)], means[np.ix_(lanes, arms, arms)] = part
            return found, means
        find_best_arm_moments(self.mesh.likelihood.ends, self.tables, found, means)
        return found, means

    def shortfall(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) probabilities and expected shortfalls, from sums over the tables."""
        level = np.array(np.broadcast_to(level, self.tables.keys.shape[:2]), dtype=np.float64)
        places = self._coordinate.positions(level)
        return find_shortfalls(self.mesh.likelihood.ends, self.tables, level, places)

    def is_unreliable(self) -> np.ndarray:
        """Return (N,) True where an arm's table is unreliable, see `tabulation`."""
        return np.asarray((self.tables.errors > LARGEST_RELIABLE_ERROR).any(axis=1))

    def restrict(self, lanes: np.ndarray, arms: np.ndarray) -> GridPosterior:
        """Return what is known of some arms in some lanes, to be asked and not to follow data."""
        part, tables, cells = copy.copy(self), self.tables, np.ix_(lanes, arms)
        kept = (
            tables.keys[cells],
            tables.points[cells],
            tables.guides[cells],
            tables.errors[cells],
        )
        part.tables, part.counts = PosteriorTables(*kept, tables.recent), self.counts[cells]
        return part

    @property
    def _coordinate(self) -> Coordinate:
        return Coordinate(*self.mesh.likelihood.ends.tolist())

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) means and variances, by Gauss-Legendre quadrature between points."""
        mass, place, density = np.moveaxis(self.tables.points, -1, 0)
        fractions, weights = np.polynomial.legendre.leggauss(3)
        along = (fractions + 1) / 2
        left, right = density[..., :-1, None], density[..., 1:, None]
        slopes = (left + along * (right - left)) / (left + right)  # of the line between points
        shares = np.diff(mass, axis=-1)[..., None] * weights * slopes
        means = self._coordinate.means(
            place[..., :-1, None] + np.diff(place, axis=-1)[..., None] * along
        )
        average = (shares * means).sum(axis=(-2, -1))
        off = means - average[..., None, None]
        return average, (shares * off * off).sum(axis=(-2, -1))


def density_of_table(points: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the (M,) densities of u, given the (M + 1, 3) points of a table, see `tabulation`."""
    mass, place, density = points.T
    cells = np.clip(np.searchsorted(place, u, side="right") - 1, 0, len(place) - 2)
    areas = (density[1:] + density[:-1]) * np.diff(place) / 2
    line = np.interp(u, place, density, 0.0, 0.0)
    return line * (np.diff(mass) / np.maximum(areas, SMALLEST))[cells]
