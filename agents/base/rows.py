"""Evidence with features: each reward beside the features of the arm that paid it.

Equal features collapse into one row with a count and a sum, all that a generalised linear model
needs, so that a finite set of features costs the same at any t.

Notation: K arms, N lanes, R of them that are paid, d features, n distinct rows of a lane at most.
"""

from __future__ import annotations

import copy
import math
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse.csgraph import connected_components

from agents.base.evidence import find_discounts, make_room_for_weights, merge_squares
from agents.numerics.roots import Roots, add_rows_to_roots, make_roots
from bandit_gym.checks import check_features, message
from bandit_gym.checks.typing import BoolArray, FloatArray

MAX_ROW_VALUES = 10**9
"""Features of all lanes and rows: 8 GB of them."""

MAX_FORGOTTEN = 1e-5
"""Share of the weights of all rows that those of forgotten ones may be."""

MAX_FULL = 0.75
"""Share of the room that rows may take after some are forgotten, else it doubles."""

MIN_CAPACITY = 16
"""Rows of a lane for which there is room at first; it doubles when it is full."""


class Rows:
    """The distinct features of each lane, and the count and sum of the rewards under them.

    Beside them are the features of the last decision, of which each lane's serve one reward.

    Arguments:
        num_features: d.
        keeps_squares: whether the deviation of rewards is unknown.

    Attributes:
        columns: (N, d, n) features; zeros beyond a lane's rows. The rows of a column lie side by
            side, as loops over them want it.
        counts: (N, n) rewards of each row, int64, or weights, float64; 0 beyond a lane's rows.
        sums: (N, n) total rewards, in reward units.
        squares: (N, n) squares of rewards around their row's average; None if they are not kept.
        sizes: (N,) distinct rows of each lane.
        decision_features: (N, K, d) features of the arms at the last decision, without any K = 0.
        awaits_reward: (N,) True where no reward was observed for it.
        summary: (d, d + 1) rows [R | z] that stand for rows of one lane which were removed: the
            likelihood exp(-|R theta - z|^2 / 2). None if there are none.
        is_cumulative: True; rows are neither discounted nor removed.
        max_lanes: how many lanes there is memory for.
    """

    state_names: ClassVar[tuple[str, ...]] = (
        "columns",
        "counts",
        "sums",
        "squares",
        "sizes",
        "_roots",
        "decision_features",
        "awaits_reward",
        "summary",
    )
    is_cumulative = True
    _roots: Roots | None = None
    summary: np.ndarray | None = None

    def __init__(self, num_features: int, keeps_squares: bool = False) -> None:
        self.squares = np.zeros((0, MIN_CAPACITY)) if keeps_squares else None
        self.max_lanes = MAX_ROW_VALUES // (MIN_CAPACITY * num_features)
        self._num_features = num_features
        self.start(0)

    @property
    def features(self) -> np.ndarray:
        """(N, n, d) features of the rows, a view of `columns`."""
        return self.columns.swapaxes(1, 2)

    def start(self, num_lanes: int) -> None:
        """Prepare for so many lanes without data."""
        shape = num_lanes, MIN_CAPACITY
        self.columns = np.zeros((num_lanes, self._num_features, MIN_CAPACITY))
        self.counts, self.sums = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        self.squares = None if self.squares is None else np.zeros(shape)
        self.sizes = np.zeros(num_lanes, dtype=np.int64)
        self._index: list[dict[bytes, int]] = [{} for _ in range(num_lanes)]
        self._roots = self.summary = None
        self.decision_features = np.zeros((num_lanes, 0, self._num_features))
        self.awaits_reward = np.zeros(num_lanes, dtype=bool)

    def restart(self, mask: np.ndarray) -> None:
        """Remove the data of the (N,) masked lanes, and what was offered there."""
        for values in (self.columns, self.counts, self.sums, self.sizes, self.awaits_reward):
            values[mask] = 0
        if self.squares is not None:
            self.squares[mask] = 0.0
        for lane in np.flatnonzero(mask):
            self._index[lane] = {}
        for values in self._roots or ():
            values[mask] = 0.0
        if mask.any():  # of one lane
            self.summary = None

    def add(
        self,
        lanes: np.ndarray,
        features: np.ndarray,
        rewards: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> None:
        """Add one reward in each of (R,) lanes, under (R, d) features."""
        if weights is None:
            self._add_rows(lanes, features, np.ones(len(lanes), dtype=self.counts.dtype), rewards)
        else:
            self.counts, weights = make_room_for_weights(self.counts, weights)
            self._add_rows(lanes, features, weights, weights * rewards)

    def add_totals(self, features: np.ndarray, counts: np.ndarray, sums: np.ndarray) -> None:
        """Add earlier data to every lane: (R,) counts and sums of rewards under (R, d) features."""
        for lane in range(len(self.counts)):
            self._add_rows(np.full(len(counts), lane), features, counts, sums)

    def _add_rows(
        self, lanes: np.ndarray, features: np.ndarray, counts: np.ndarray, sums: np.ndarray
    ) -> None:
        """Add (R,) counts and sums to rows of lanes.

        Lane by lane, at 3 microseconds each: one lane alone would wait five times as long for
        arrays of indices.
        """
        features = features + 0.0  # turns -0.0 into 0.0, which is equal to it
        rows = zip(lanes.tolist(), features, counts.tolist(), sums.tolist(), strict=True)
        for lane, values, count, total in rows:
            known = self._index[lane]
            row = known.setdefault(values.tobytes(), len(known))
            if row == self.counts.shape[1]:
                self._grow()
            self.columns[lane, :, row] = values
            if self.squares is not None:
                known_row = self.counts[lane, row], self.sums[lane, row], self.squares[lane, row]
                self.squares[lane, row] = merge_squares(*known_row, count, total)
            self.counts[lane, row] += count
            self.sums[lane, row] += total
            self.sizes[lane] = len(known)
        if self._roots is not None:
            counts = counts.astype(np.float64)
            add_rows_to_roots(self._roots, lanes, features, sums / counts, counts)

    def add_features(self, num_more: int) -> None:
        """Add so many features, last, that were 0 in all rows."""
        self._num_features += num_more
        self.max_lanes = MAX_ROW_VALUES // (MIN_CAPACITY * self._num_features)
        self.columns = np.pad(self.columns, ((0, 0), (0, num_more), (0, 0)))
        self.decision_features = np.pad(self.decision_features, ((0, 0), (0, 0), (0, num_more)))
        if self._roots is not None:
            sizes = [((0, 0), *((0, num_more),) * (values.ndim - 1)) for values in self._roots]
            self._roots = Roots(*map(np.pad, self._roots, sizes))
        if self.summary is not None:
            summary = np.insert(self.summary, [-1] * num_more, 0.0, axis=1)
            self.summary = np.pad(summary, ((0, num_more), (0, 0)))
        self._resume()

    def set_decision(self, features: FloatArray) -> None:
        """Take the (N, K, d) features of the decision at hand."""
        self.decision_features = features
        self.awaits_reward[:] = True

    def find_features(
        self, observation: Any, num_envs: int | None, mask: BoolArray | None
    ) -> FloatArray:
        """Return the features that rewards are for: (N, K, d), or (N, d) of the played arms.

        Args:
            observation: features, or None for those of the last decision, each lane's once.
            num_envs: N, or None for a single run.
            mask: (N,) lanes that are paid, or None for all.

        Raises:
            TypeError: if an observation is needed, or is made of no numbers.
            ValueError: if its shape is wrong, or a feature is NaN or infinite.
        """
        if observation is not None:
            taken: dict[str, Any] = {"mask": mask, "takes_played": True}
            return check_features(observation, self._num_features, num_envs, **taken)
        unused = self.awaits_reward if mask is None else self.awaits_reward[mask]
        if np.count_nonzero(unused) == unused.size:  # a third of the time of `all`
            if not self.decision_features.size:  # and no lane is paid
                return np.zeros((len(self.decision_features), self._num_features))
            return self.decision_features
        condition = "be given where no act since the last reward has shown features"
        raise TypeError(message("observation", condition, None))

    def mark_rewarded(self, lanes: np.ndarray) -> None:
        """Let the last decision of (R,) lanes have its reward."""
        self.awaits_reward[lanes] = False

    def roots(self) -> Roots:
        """Return the roots of the precision matrices that the rows give to coefficients.

        They are all that Gaussian rewards of deviation 1 say of these. From the first call on they
        are kept, at some d^2 operations a reward.
        """
        if self._roots is None:
            roots = make_roots(len(self.counts), self._num_features)
            # Contiguous, as `add` has them, so that one signature is compiled.
            lanes, rows = map(np.ascontiguousarray, self.counts.nonzero())
            counts = self.counts[lanes, rows].astype(np.float64)
            means = self.sums[lanes, rows] / counts
            add_rows_to_roots(roots, lanes, self.features[lanes, rows], means, counts)
            if self.squares is not None:
                roots.residual[:] += self.squares.sum(axis=1)
            self._roots = roots  # now that they are whole: an interrupt leaves none
        return self._roots

    def data_version(self) -> float:
        """Return a number that is another one after each reward: how many there are, by weight."""
        return float(self.counts.sum())

    def replace_rows(self, is_removed: BoolArray, sites: FloatArray) -> Self:
        """Return those of one lane in which normal factors stand for some rows.

        Args:
            is_removed: (n,) rows.
            sites: (n, 2) tau and nu of the factors, see `agents.regression.normal_fit`.
        """
        twin, size = copy.copy(self), int(self.sizes[0])
        root, slope = np.sqrt(sites[is_removed, :1]), sites[is_removed, 1:]
        removed = np.hstack([root * self.features[0, is_removed], slope / root])
        before = removed[:0] if self.summary is None else self.summary
        twin.start(1)
        twin.summary = join_rows(np.vstack([before, removed]))
        twin.decision_features, twin.awaits_reward = self.decision_features, self.awaits_reward
        kept = np.flatnonzero(~is_removed[:size])
        twin.counts = twin.counts.astype(self.counts.dtype)
        rows = self.features[0, kept], self.counts[0, kept], self.sums[0, kept]
        Rows.add_totals(twin, *rows)
        return twin

    def copy_decision(self) -> Self:
        """Return one with the same rows, not copied, and a decision of its own."""
        twin = copy.copy(self)
        twin.awaits_reward = self.awaits_reward.copy()
        return twin

    def __deepcopy__(self, _: Any) -> Self:
        """Copy arrays, and the index without its keys: a tenth of the time for 1,000 rows."""
        twin = copy.copy(self)
        for name in self.state_names:
            setattr(twin, name, copy.deepcopy(getattr(self, name)))
        twin._index = [known.copy() for known in self._index]
        return twin

    def _resume(self) -> None:
        """Index the rows of a saved agent.

        Raises:
            ValueError: if they have other features than the problem.
        """
        if self._roots is not None:
            no_residual = [np.zeros(len(self.counts))] * (len(self._roots) == 3)  # as files had it
            self._roots = Roots(*self._roots, *no_residual)
        num_features = self.columns.shape[1]
        if num_features != self._num_features:
            condition = f"have {num_features} features, as the rows of the agent do"
            raise ValueError(message("problem", condition, self._num_features))
        self._index = [
            {row.tobytes(): place for place, row in enumerate(rows[:size] + 0.0)}
            for rows, size in zip(self.features, self.sizes.tolist(), strict=True)
        ]

    def _grow(self) -> None:
        """Make room for twice as many rows."""
        more = self.counts.shape[1]
        self.columns = np.pad(self.columns, ((0, 0), (0, 0), (0, more)))
        self.counts = np.pad(self.counts, ((0, 0), (0, more)))
        self.sums = np.pad(self.sums, ((0, 0), (0, more)))
        if self.squares is not None:
            self.squares = np.pad(self.squares, ((0, 0), (0, more)))


def join_rows(rows: FloatArray) -> FloatArray:
    """Return (d, d + 1) rows [R | z] with the |R theta - z|^2 of (n, d + 1), to a constant.

    Coefficients that no row couples stay apart.
    """
    size = rows.shape[1] - 1
    is_used = rows[:, :size] != 0.0
    _, groups = connected_components(is_used.T.astype(np.float64) @ is_used)
    out = np.zeros((size, size + 1))
    for group in range(groups.max() + 1):
        own = np.flatnonzero(groups == group)
        block = rows[is_used[:, own].any(axis=1)][:, [*own, size]]
        root = np.linalg.qr(block, mode="r")[: own.size]
        out[np.ix_(own[: len(root)], [*own, size])] = root
    return out


class ForgettingRows(Rows):
    """Rows whose earlier rewards are discounted, or leave a window; what is said by a prior stays.

    Arguments:
        num_features: d.
        keeps_squares: whether the deviation of rewards is unknown.
        discount: in (0, 1], by which each reward multiplies its lane's earlier counts and sums.
        window: w >= 1, the rewards of a lane that count; None for all.

    Attributes:
        counts: (N, n) weights of each row, float64.
        num_discounts: (N,) times that a lane's earlier rewards were multiplied by the discount.
        num_removals: (N,) times that rewards were removed.
        is_cumulative: False.
    """

    state_names: ClassVar[tuple[str, ...]] = (
        *Rows.state_names,
        "num_discounts",
        "num_removals",
        "_window_rows",
        "_window_rewards",
        "_window_weights",
        "_next_slots",
        "_totals",
    )
    is_cumulative = False

    def __init__(
        self, num_features: int, keeps_squares: bool, discount: float, window: int | None
    ) -> None:
        self.discount, self.window = discount, window
        super().__init__(num_features, keeps_squares)
        if window is not None:
            self.max_lanes = min(self.max_lanes, MAX_ROW_VALUES // (window * num_features))

    def start(self, num_lanes: int) -> None:
        """Prepare for so many lanes without data."""
        super().start(num_lanes)
        self.counts = self.counts.astype(np.float64)
        shape = num_lanes, self.window or 0
        self._window_rows, self._window_rewards = np.full(shape, -1), np.zeros(shape)
        self._window_weights = np.ones(shape)
        self._totals = np.zeros((num_lanes, 2, self.counts.shape[1]))  # counts and sums that stay
        self._next_slots, self.num_discounts = np.zeros((2, num_lanes), dtype=np.int64)
        self.num_removals = np.ones(num_lanes, dtype=np.int64)

    def restart(self, mask: np.ndarray) -> None:
        """Remove the data of the (N,) masked lanes, and what was offered there."""
        super().restart(mask)
        self._window_rows[mask], self._window_rewards[mask] = -1, 0.0
        self._next_slots[mask], self._totals[mask] = 0, 0.0
        self.num_removals[mask] += 1

    def add(
        self,
        lanes: np.ndarray,
        features: np.ndarray,
        rewards: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> None:
        """Add one reward in each of (R,) lanes, under (R, d) features; earlier ones count less."""
        features = features + 0.0
        for lane in lanes[self.sizes[lanes] == self.counts.shape[1]].tolist():
            self._forget_rows(lane)
        if self.window is not None:
            self._roots = None  # removing rows from roots would add up rounding
            self.num_removals[lanes] += 1
            for lane in lanes.tolist():
                self._leave_window(lane)
        else:
            self.num_discounts[lanes] += 1
            discounts = find_discounts(self.counts[lanes], self.discount)
            self.counts[lanes] *= discounts
            self.sums[lanes] *= discounts
            if self.squares is not None:
                self.squares[lanes] *= discounts
            if self._roots is not None:
                self._roots.root[lanes] *= math.sqrt(self.discount)
                self._roots.shift[lanes] *= math.sqrt(self.discount)
                self._roots.errors[lanes] *= self.discount
                self._roots.residual[lanes] *= self.discount
        super().add(lanes, features, rewards, weights)
        if self.window is not None:
            slots = self._next_slots[lanes]
            of_lanes = zip(lanes.tolist(), features, strict=True)
            rows = [self._index[lane][values.tobytes()] for lane, values in of_lanes]
            self._window_rows[lanes, slots], self._window_rewards[lanes, slots] = rows, rewards
            self._window_weights[lanes, slots] = 1.0 if weights is None else weights
            self._next_slots[lanes] = (slots + 1) % self.window

    def add_totals(self, features: np.ndarray, counts: np.ndarray, sums: np.ndarray) -> None:
        """Add earlier data to every lane, which do not leave a window, as they have no order."""
        super().add_totals(features, counts, sums)
        if self.window is not None:
            for lane, known in enumerate(self._index):
                rows = [known[values.tobytes()] for values in features + 0.0]
                np.add.at(self._totals[lane].T, rows, np.column_stack([counts, sums]))
        self.num_removals += 1

    def data_version(self) -> int:
        """Return how often a lane's rewards were discounted, or some removed."""
        return int((self.num_discounts + self.num_removals).sum())

    def _leave_window(self, lane: int) -> None:
        """Take a lane's oldest reward out of a full window; differences would add up rounding."""
        slot = self._next_slots[lane]
        row = self._window_rows[lane, slot]
        if row >= 0:
            self._window_rows[lane, slot] = -1
            is_of_row = self._window_rows[lane] == row
            weights = self._window_weights[lane, is_of_row]
            rewards = self._window_rewards[lane, is_of_row]
            self.counts[lane, row] = self._totals[lane, 0, row] + weights.sum()
            self.sums[lane, row] = self._totals[lane, 1, row] + (weights * rewards).sum()
            if self.squares is not None:
                average = (weights * rewards).sum() / (weights.sum() or 1.0)
                self.squares[lane, row] = (weights * np.square(rewards - average)).sum()

    def _forget_rows(self, lane: int) -> None:
        """Remove the rows of least weight; make room if they are few."""
        weights = self.counts[lane]
        order = np.argsort(weights, kind="stable")
        limit = MAX_FORGOTTEN * weights.sum() if self.window is None else 0.0
        kept = np.sort(order[np.cumsum(weights[order]) > limit])
        size = len(kept)
        for values in (self.columns, self.counts, self.sums, self.squares, self._totals):
            if values is not None:
                of_lane = values[lane]
                of_lane[..., :size] = of_lane[..., kept]
                of_lane[..., size:] = 0.0
        places = np.full(len(weights) + 1, -1)  # the last is of what is no row
        places[kept] = np.arange(size)
        self._window_rows[lane] = places[self._window_rows[lane]]
        self.sizes[lane] = size
        self.num_removals[lane] += 1
        rows = self.features[lane, :size]
        self._index[lane] = {row.tobytes(): place for place, row in enumerate(rows)}
        if size > MAX_FULL * len(weights):
            self._grow()

    def _resume(self) -> None:
        """Index the rows of a saved agent, whose file may be from before totals."""
        super()._resume()
        more = self.counts.shape[1] - self._totals.shape[2]
        self._totals = np.pad(self._totals, ((0, 0), (0, 0), (0, more)))

    def _grow(self) -> None:
        """Make room for twice as many rows."""
        self._totals = np.pad(self._totals, ((0, 0), (0, 0), (0, self.counts.shape[1])))
        super()._grow()
