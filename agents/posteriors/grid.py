"""The posterior of arms that are independent a priori: a table for each, see `tables`.

Probabilities p_a that arm a is the best, and means M_ai of arm i if it is, follow from all tables.
With densities f_i and distribution functions F_i of the coordinate u, and x(u) the mean,

    p_a      = int f_a(u) prod_{j != a} F_j(u) du,
    p_a M_aa = int x(u) f_a(u) prod_{j != a} F_j(u) du,
    p_a M_ai = int f_a(u) prod_{j != a} F_j(u) E(mean_i | mean_i <= x(u)) du,

as Russo and Van Roy (2018) have it for Bernoulli arms, by sums over a fixed grid. Here the steps
lie between points of the tables of all arms. From one even point of a table to the next the density
is a parabola through three points, as in Simpson's rule, and so is the density times x.

A table ends where a density is e^-21 of its top, which may leave out most of a heavy-tailed mean or
variance. Such a moment is flagged, and infinite where its integrand does not decay there.

Notation: K arms, N lanes, M + 1 points, m places.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from agents.base.evidence import CountsAndSums
from agents.numerics.choices import hide_arms, random_argmax
from agents.numerics.kernels import fill_array
from agents.posteriors.base import ExactPosterior
from agents.posteriors.cells import find_mean, make_cells
from agents.posteriors.tables import (
    DENSITY,
    MASS,
    MAX_RECENT_TABLES,
    MAX_RELIABLE_ERROR,
    POSITION,
    Tables,
    count_points,
    invert_tables,
    make_empty_tables,
    update_tables,
)
from bandit_gym.checks import message
from bandit_gym.doubts import Doubt
from bandit_gym.numerics.compiled import inner, kernel
from bandit_gym.problem import BanditProblem

MAX_TABLE_BYTES = 4e9
"""Of the tables of all lanes and arms."""

_GAUSS_NODES, _GAUSS_WEIGHTS = (half / 2 for half in np.polynomial.legendre.leggauss(3))
_GAUSS_NODES = _GAUSS_NODES + 0.5

MAX_TAIL_SHARES = {1: 2e-5, 2: 1e-3}
"""Of a mean and of a variance: largest shares beyond a table's ends up to which they are right to
two thousandths, and unflagged."""
MIN_DECAY_RATE = 1e-9
"""Of decay along u, below which an integral is infinite."""
MIN_RELATIVE_DENSITY = 1e-9
"""Density over the highest, below which a table's points are too few for moments."""
MIN_PROBABILITY_LEFT = 1e-12
"""Probability that the best mean is even lower, at which a lane is done."""


class GridPosterior(ExactPosterior):
    """Posteriors of arms that are independent a priori, each as a table.

    Tables follow from the statistics: copies and pickles leave them out, and make them when asked.

    Arguments:
        problem: a likelihood and a prior with `arm_log_density`.

    Attributes:
        cells: the priors and the likelihood, resolved.
        sums: (N, K) of the evidence that it was last brought to.
        recent: the tables built last, by their data, to copy from.

    Raises:
        ValueError: if the prior does not integrate, or is too rough.
    """

    method = "grid"
    source = "tables"

    def __init__(self, problem: BanditProblem) -> None:
        self.problem = problem
        self.cells = make_cells(problem)
        num_tables = MAX_TABLE_BYTES / (26 * count_points(self.cells)) - MAX_RECENT_TABLES
        self.max_lanes = max(1, int(num_tables / problem.num_arms))
        self.coordinate = self.cells.coordinate
        self.recent = make_empty_tables(self.cells, 0)
        self.counts, self.sums = np.zeros((2, 0, problem.num_arms))
        self._is_guessed = np.zeros(0, dtype=bool)
        self._tables = make_empty_tables(self.cells, 0, problem.num_arms)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the tables out."""
        tables = make_empty_tables(self.cells, 0, self.problem.num_arms)
        return self.__dict__ | {"_tables": tables, "recent": make_empty_tables(self.cells, 0)}

    @property
    def tables(self) -> Tables:
        """Those of all lanes and arms, for the statistics of the last update."""
        if len(self._tables.keys) != len(self.counts):
            self._fill_tables()
        return self._tables

    def update(self, rng: Generator, evidence: CountsAndSums) -> None:
        """Build the tables whose statistics have changed.

        Raises:
            ValueError: if data have probability 0 under the prior; names the lane. Or if so many
                tables do not fit into memory.
        """
        self.build_tables(evidence.counts, evidence.sums)
        self._require_possible(np.isnan(self.tables.errors).any(axis=1), evidence)

    def build_tables(self, counts: np.ndarray, sums: np.ndarray) -> None:
        """Do as `update`, but where data are impossible, use the prior and set errors to NaN."""
        self.counts, self.sums, self._is_guessed = counts, sums, np.zeros(len(counts), dtype=bool)
        self._fill_tables()

    def _fill_tables(self) -> None:
        counts = self.counts
        if len(self._tables.keys) != len(counts):
            num_points = count_points(self.cells)
            num_recent = min(2 * counts.size, MAX_RECENT_TABLES)
            if (counts.size + num_recent) * num_points * 26 > MAX_TABLE_BYTES:
                condition = f"be so few that tables of {num_points} points fit into 4 GB"
                raise ValueError(message("num_envs times num_arms", condition, counts.size))
            self._tables = make_empty_tables(self.cells, *counts.shape)
            if len(self.recent.keys) != num_recent:
                self.recent = make_empty_tables(self.cells, num_recent)
        # As floats, which discounted counts are, so that one signature is compiled.
        floats = counts.astype(np.float64)
        update_tables(self.cells, self._tables, self.recent, floats, self.sums)

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw."""
        return self.quantile(rng.random(self.counts.shape))

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return the (size, N, K) draws that `sample` would return one by one."""
        levels = np.moveaxis(rng.random((size, *self.counts.shape)), 0, -1)
        return np.moveaxis(self.coordinate.means(self.positions(levels)), -1, 0)

    def draw_best(self, rng: Generator, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N,) best arms of one draw."""
        u = self.positions(rng.random(self.counts.shape))
        return random_argmax(rng, u if available is None else hide_arms(u, available))

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations; infinite also where they do not exist."""
        return self._moments(1, np.zeros(self.counts.shape))

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations."""
        return np.sqrt(self._moments(2, self.mean()))

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles."""
        return self.coordinate.means(self.positions(np.broadcast_to(p, self.counts.shape)))

    def positions(self, levels: np.ndarray, lanes: np.ndarray | None = None) -> np.ndarray:
        """Return the u at which distribution functions reach levels.

        Args:
            levels: (N, K), or (R, K, m) for some lanes.
            lanes: (R,) these.
        """
        lanes = np.arange(len(levels)) if lanes is None else lanes
        u = np.array(levels if levels.ndim == 3 else levels[..., None], order="C")
        invert_tables(self.tables, lanes, u)
        return u.reshape(levels.shape)

    def density(self, x: np.ndarray) -> np.ndarray:
        """Return the (m, N, K) densities at (m,) places, as draws from the tables have them."""
        u, (low, high, *_) = self.coordinate.positions(x), self.coordinate.ends
        slope = np.where((x > low) & (x < high), np.exp(-self.coordinate.log_slope(u)), 0.0)
        densities = [[_table_density(points, u) for points in lane] for lane in self.tables.points]
        return np.moveaxis(np.array(densities), -1, 0) * slope[:, None, None]

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) probabilities."""
        return table_best_arms(self.tables.points, available)[0]

    def best_arm_moments(
        self, available: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) probabilities and (N, K, K) conditional means, see the module."""
        self.mean()  # flags those that rest on what lies beyond the tables
        x = self._means()
        totals = np.pad(self._parts(x).cumsum(axis=-1), [(0, 0), (0, 0), (1, 0)])
        return table_best_arms(self.tables.points, available, self.coordinate.ends, x, totals)

    def lower_partial_moment(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) probabilities and partial moments, of the parabolas between points."""
        level = np.array(np.broadcast_to(level, self.counts.shape), dtype=np.float64)
        u = self.coordinate.positions(level)[..., None]
        position = self.tables.points[..., ::2, POSITION]
        length = np.maximum(np.diff(position, axis=-1), 1e-300)
        fractions = np.clip((u - position[..., :-1]) / length, 0.0, 1.0)
        below = np.clip(self._integral(1.0, fractions), 0.0, 1.0)
        return below, np.maximum(level * below - self._integral(self._means(), fractions), 0.0)

    def doubts(self) -> np.ndarray:
        """Return (N,) BEYOND_TABLE where an arm's table, or a moment asked of it, is unreliable."""
        is_beyond = (self.tables.errors > MAX_RELIABLE_ERROR).any(axis=1)
        return np.where(is_beyond | self._is_guessed, Doubt.BEYOND_TABLE, 0)

    def _moments(self, power: int, centre: np.ndarray) -> np.ndarray:
        """Return the (N, K) expectations of (mean - centre)^power, given (N, K) centres.

        They are flagged where much may lie beyond the tables' ends, and infinite where all may.
        """
        with np.errstate(all="ignore"):
            moments = self._integral((self._means() - centre[..., None]) ** power)
            low, high, _, scale = self.coordinate.ends
            if np.isfinite(high - low):
                return moments
            size = np.abs(moments) + scale * (power == 1)  # the mean may be 0
            tails = self._tails(power, centre)
            self._is_guessed |= ~(tails <= MAX_TAIL_SHARES[power] * size).all(axis=1)
            return np.where(np.isfinite(centre + tails), moments, np.inf)

    def _tails(self, power: int, centre: np.ndarray) -> np.ndarray:
        """Return about what tables leave out of (N, K) moments.

        From the first and the last point on that has a density, the integrand keeps its rate of
        decay: exactly so for a power of the mean.
        """
        density = self.tables.points[..., DENSITY]
        is_seen = density > MIN_RELATIVE_DENSITY * density.max(axis=-1, keepdims=True)
        first, last = is_seen.argmax(-1), is_seen.shape[-1] - 1 - is_seen[..., ::-1].argmax(-1)
        indices = np.stack([first, last, first + 2, last - 2], axis=-1)
        points = np.take_along_axis(self.tables.points, indices[..., None], axis=2)
        off = np.abs(self.coordinate.means(points[..., POSITION]) - centre[..., None])
        ends, inside = np.split(off**power * points[..., DENSITY], 2, axis=-1)
        lengths = np.abs(np.subtract(*np.split(points[..., POSITION], 2, axis=-1)))
        rates = np.log(inside / ends) / lengths
        tails = ends / np.where(rates > MIN_DECAY_RATE, rates, 0.0)
        return np.asarray(np.where(ends == 0.0, 0.0, tails).sum(axis=-1))

    def _means(self) -> np.ndarray:
        """Return the (N, K, M + 1) means at the points."""
        return self.coordinate.means(self.tables.points[..., POSITION])

    def _integral(self, *values: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) expectations of values at the points; see `_parts`."""
        return np.asarray(self._parts(*values).sum(axis=-1))

    def _parts(self, values: np.ndarray | float, fractions: np.ndarray | float = 1.0) -> np.ndarray:
        """Return the (N, K, M / 2) integrals over pairs of intervals, by parabolas.

        Args:
            values: (N, K, M + 1) at the points.
            fractions: (N, K, M / 2) which part of each pair of intervals counts, up to 1 for all.
        """
        weighted = values * self.tables.points[..., DENSITY]
        three = weighted[..., :-2:2], weighted[..., 1::2], weighted[..., 2::2]
        length = np.diff(self.tables.points[..., ::2, POSITION], axis=-1)
        return np.asarray(length * evaluate_parabola(*three, fractions)[1])


def _table_density(points: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the (m,) densities of u: straight lines between points, over areas of their mass."""
    mass, position, density = points.T
    steps = np.clip(np.searchsorted(position, u, side="right") - 1, 0, len(position) - 2)
    areas = (density[1:] + density[:-1]) * np.diff(position) / 2
    line = np.interp(u, position, density, 0.0, 0.0)
    return np.asarray(line * (np.diff(mass) / np.maximum(areas, 1e-300))[steps])


@inner
def evaluate_parabola(left: float, middle: float, right: float, t: float) -> tuple[float, float]:
    """Return the parabola through three values at t from 0 to 1, and its integral up to t."""
    slope, bend = -3.0 * left + 4.0 * middle - right, 2.0 * (left - 2.0 * middle + right)
    return left + t * (slope + t * bend), t * (left + t * (slope / 2.0 + t * bend / 3.0))


class LaneTables(NamedTuple):
    """The tables of a lane, and the pair of intervals of each that the integrals are in.

    Attributes:
        points: (K, M + 1, 3).
        x: (K, M + 1) means at the points, or (K, 0).
        totals: (K, M / 2 + 1) integrals of x dF; (K, 0) likewise.
        pairs: (K,) these pairs.
    """

    points: np.ndarray
    x: np.ndarray
    totals: np.ndarray
    pairs: np.ndarray


class ArmsAtNodes(NamedTuple):
    """What a lane's K arms have at the three nodes of a step, (K, 3); the next overwrites it."""

    density: np.ndarray  # f_i
    below: np.ndarray  # F_i
    below_before: np.ndarray  # product of F_j over j < i
    weighted: np.ndarray  # x f_i
    average: np.ndarray  # E(mean_i | mean_i <= x)
    product: np.ndarray  # (3,) of F_j, running; in the end of all arms, times the nodes' weights


@inner
def add_step(
    ends: np.ndarray, lane: LaneTables, u: float, step: float, nodes: ArmsAtNodes, sums: np.ndarray
) -> None:
    """Add a step to the integrals, three nodes at once, which takes a quarter off the time of each.

    Products over the other arms come from running products on either side: dividing by a factor
    would lose an arm whose distribution function is still 0.

    Args:
        ends: (4,) of the coordinate.
        lane: its tables, at the pairs that hold the step or are last.
        u: where it begins.
        step: its length, > 0.
        nodes: is set.
        sums: (K, K + 1) or (K, 1): p_a is added to [a, 0], and p_a M_ai to [a, i + 1].
    """
    num_arms, has_means, product = len(lane.pairs), sums.shape[1] > 1, nodes.product
    fill_array(product, 1.0)
    for i in range(num_arms):
        points, pair, k = lane.points[i], lane.pairs[i], 2 * lane.pairs[i]
        start, length = points[k, POSITION], points[k + 2, POSITION] - points[k, POSITION]
        per = 1.0 / length if length > 0.0 else 0.0
        left, middle, right = points[k, DENSITY], points[k + 1, DENSITY], points[k + 2, DENSITY]
        for q in range(3):
            t = min((u + step * _GAUSS_NODES[q] - start) * per, 1.0)
            density, integral = evaluate_parabola(left, middle, right, t)
            nodes.density[i, q] = density if t < 1.0 else 0.0
            nodes.below[i, q] = max(points[k, MASS] + length * integral, 0.0)
            nodes.below_before[i, q] = product[q]
            product[q] *= nodes.below[i, q]
            if has_means:
                x = lane.x[i, k : k + 3]
                weighted = left * x[0], middle * x[1], right * x[2]
                nodes.weighted[i, q], integral = evaluate_parabola(*weighted, t)
                total = lane.totals[i, pair] + length * integral
                nodes.average[i, q] = total / max(nodes.below[i, q], 1e-300)
    for q in range(3):
        product[q] = step * _GAUSS_WEIGHTS[q]
    for a in range(num_arms - 1, -1, -1):
        part = 0.0
        for q in range(3):
            others_below = nodes.below_before[a, q] * product[q]
            is_best = others_below * nodes.density[a, q]
            product[q] *= nodes.below[a, q]
            part += is_best
            if has_means and is_best != 0.0:
                highest = find_mean(ends, u + step * _GAUSS_NODES[q])
                for i in range(num_arms):
                    average = is_best * min(nodes.average[i, q], highest)
                    sums[a, i + 1] += others_below * nodes.weighted[i, q] if i == a else average
        sums[a, 0] += part


@kernel
def integrate_tables(
    ends: np.ndarray,
    points: np.ndarray,
    positions: np.ndarray,
    x: np.ndarray,
    totals: np.ndarray,
    best: np.ndarray,
    means: np.ndarray,
) -> None:
    """Find the best-arm probabilities p_a and the conditional means M_ai.

    Args:
        ends: (4,) of the coordinate.
        points: (N, K, M + 1, 3) of the tables.
        positions: (N, K (M / 2 + 1)) those of a lane's even points, in order, from where no
            distribution function is 0.
        x: (N, K, M + 1) means at the points; (N, K, 0) if `means` are not asked for.
        totals: (N, K, M / 2 + 1) integrals of x dF up to every other point; (N, K, 0) likewise.
        best: (N, K) receives p_a; each row sums to one.
        means: (N, K, K) receives M_ai at [lane, a, i]; or (N, 0, 0).
    """
    num_lanes, num_arms, num_points = points.shape[:3]
    num_pairs, pairs = num_points // 2, np.empty(num_arms, np.int64)
    values, sums = np.empty((5, num_arms, 3)), np.empty((num_arms, 1 + means.shape[1]))
    nodes = ArmsAtNodes(values[0], values[1], values[2], values[3], values[4], np.empty(3))
    for lane in range(num_lanes):
        tables, u = LaneTables(points[lane], x[lane], totals[lane], pairs), positions[lane]
        fill_array(sums.reshape(sums.size), 0.0)
        fill_array(pairs, num_pairs - 1)
        rest = 1.0
        for k in range(u.size - 2, -1, -1):
            if not rest > MIN_PROBABILITY_LEFT:
                break
            length = u[k + 1] - u[k]
            for i in range(num_arms):
                while points[lane, i, 2 * pairs[i], POSITION] > u[k]:
                    pairs[i] -= 1
            if length > 0.0:
                add_step(ends, tables, u[k], length, nodes, sums)
                rest = nodes.product[0] / (length * _GAUSS_WEIGHTS[0])
        total = 0.0
        for a in range(num_arms):
            sums[a, 0] = max(sums[a, 0], 0.0)
            total += sums[a, 0]
        for a in range(num_arms):
            p = sums[a, 0]
            best[lane, a] = p / total
            for i in range(means.shape[1]):
                value = sums[a, i + 1] / p if p > 0.0 else totals[lane, i, num_pairs]
                means[lane, a, i] = min(max(value, ends[0]), ends[1])  # parabolas may dip below


def table_best_arms(
    points: np.ndarray, available: np.ndarray | None = None, *moments: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what `integrate_tables` finds, (N, K) probabilities and conditional means.

    Distribution functions of arms that are not available are 1 everywhere. Their points stand where
    those of an available arm do, and add no step to the integrals.

    Args:
        points: (N, K, M + 1, 3) of the tables.
        available: (N, K) arms that may be best; None for all.
        moments: `ends`, `x` and `totals`; none if conditional means are not asked for.
    """
    if available is not None:
        (lanes, arms), points = np.nonzero(~available), points.copy()
        points[lanes, arms] = points[lanes, available.argmax(axis=1)[lanes]]
        points[lanes, arms, :, MASS], points[lanes, arms, :, DENSITY] = 1.0, 0.0
    (num_lanes, num_arms), size = points.shape[:2], points.shape[1] if moments else 0
    none = np.empty((num_lanes, num_arms, 0))
    ends, x, totals = moments or (np.zeros(4), none, none)
    best, means = np.empty((num_lanes, num_arms)), np.empty((num_lanes, size, size))
    positions = np.sort(points[:, :, ::2, POSITION].reshape(num_lanes, -1), axis=1)
    lowest = points[:, :, 0, POSITION].max(axis=1, keepdims=True)
    integrate_tables(ends, points, np.maximum(positions, lowest), x, totals, best, means)
    return best, means
