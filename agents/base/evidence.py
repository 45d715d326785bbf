"""What an agent keeps of its data: the count and the sum of each arm's rewards.

They may be discounted, or those of a window, for environments that change. Where the deviation of
rewards is unknown, the sum of their squares around the arm's average is kept beside them. Of two
sets of n_i rewards with the sums s_i and the squares q_i it is

    q = q_1 + q_2 + n_1 n_2 / (n_1 + n_2) (s_1 / n_1 - s_2 / n_2)^2,

in which no large terms cancel (Chan, Golub and LeVeque 1979), and n_i may be weights.

Notation: K arms, N lanes, R of them with a reward, w rewards in a window. A reward of weight c is c
equal ones, in one event: one step of a discount and one place in a window.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np

MAX_STATISTICS = 10**9
"""Counts of all lanes and arms: 8 GB of them."""

MAX_REWARDS = 10**8
"""In the windows of all lanes: 1.2 GB."""

MIN_COUNT = 1e-200
"""Discounted count below which an arm, or a row, is as one without rewards."""


def merge_squares(
    counts: Any, sums: Any, squares: Any, more_counts: Any, more_sums: Any, more_squares: Any = 0.0
) -> np.ndarray:
    """Return the centred squares q of two sets of rewards together, by the formula above."""
    total = np.add(counts, more_counts)
    averages = [s / np.where(n > 0, n, 1) for n, s in ((counts, sums), (more_counts, more_sums))]
    between = np.square(averages[0] - averages[1]) * (more_counts / np.where(total > 0, total, 1))
    return np.asarray(squares + more_squares + counts * between)


class CountsAndSums:
    """The pulls and the total reward of each arm, all that a likelihood of means needs.

    Arguments:
        num_arms: K.
        discount: in (0, 1], by which each reward multiplies its lane's earlier counts and sums.
        keeps_squares: whether the deviation of rewards is unknown.

    Attributes:
        counts: (N, K) pulls; integers unless earlier ones are discounted, or weights are none.
        sums: (N, K) total rewards, in reward units.
        squares: (N, K) squares of rewards around their arm's average; None if they are not kept.
        is_cumulative: whether rewards only add up, so that equal counts mean equal data.
        max_lanes: how many lanes there is memory for.
    """

    state_names: ClassVar[tuple[str, ...]] = ("counts", "sums", "squares")
    is_cumulative: bool = True
    squares: np.ndarray | None = None

    def __init__(
        self, num_arms: int, discount: float = 1.0, *, keeps_squares: bool = False
    ) -> None:
        self.max_lanes = MAX_STATISTICS // num_arms
        self.discount, self.is_cumulative = discount, discount == 1
        self.counts = np.zeros((0, num_arms), dtype=np.int64 if discount == 1 else np.float64)
        self.sums = np.zeros((0, num_arms))
        self.squares = self.sums.copy() if keeps_squares else None

    @classmethod
    def from_totals(
        cls, counts: np.ndarray, sums: np.ndarray, *, is_cumulative: bool = True
    ) -> Self:
        """Return evidence that has (N, K) counts and sums, which are not copied."""
        evidence = cls.__new__(cls)
        evidence.counts, evidence.sums = counts, sums
        evidence.is_cumulative = is_cumulative
        return evidence

    def start(self, num_lanes: int) -> None:
        """Prepare for so many lanes without data."""
        shape = num_lanes, self.counts.shape[1]
        self.counts, self.sums = np.zeros(shape, dtype=self.counts.dtype), np.zeros(shape)
        self.squares = None if self.squares is None else np.zeros(shape)

    def restart(self, mask: np.ndarray) -> None:
        """Remove the data of the (N,) masked lanes."""
        self.counts[mask] = 0
        self.sums[mask] = 0.0
        if self.squares is not None:
            self.squares[mask] = 0.0

    def add(
        self,
        lanes: np.ndarray,
        arms: np.ndarray,
        rewards: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> None:
        """Add one reward in each of (R,) lanes; numbers and flat indices are the fast ones."""
        if self.discount < 1:
            discounts = find_discounts(self.counts[lanes], self.discount)
            self.counts[lanes] *= discounts
            self.sums[lanes] *= discounts
            if self.squares is not None:
                self.squares[lanes] *= discounts  # around an average that stays
        added: Any = 1
        if weights is not None:
            self.counts, added = make_room_for_weights(self.counts, weights)
            rewards = rewards * weights
        if self.squares is not None:
            at = lanes, arms
            known = self.counts[at], self.sums[at], self.squares[at]
            self.squares[at] = merge_squares(*known, added, rewards)
        if len(lanes) == 1:
            lane, arm = lanes.item(0), arms.item(0)
            self.sums[lane, arm] += rewards.item(0)
            self.counts[lane, arm] += added if weights is None else added.item(0)
        else:
            indices = lanes * self.counts.shape[1] + arms
            self.sums.reshape(-1)[indices] += rewards
            self.counts.reshape(-1)[indices] += added

    def add_totals(
        self, counts: np.ndarray, sums: np.ndarray, squares: np.ndarray | None = None
    ) -> None:
        """Add earlier data of which only (N, K) counts, sums and centred squares are known."""
        if self.squares is not None:
            known = self.counts, self.sums, self.squares
            self.squares = merge_squares(*known, counts, sums, squares)
        self.counts += counts
        self.sums += sums

    def add_arms(self, num_arms: int) -> None:
        """Make room for so many more arms, which have no data."""
        padding = (0, 0), (0, num_arms)
        self.counts, self.sums = np.pad(self.counts, padding), np.pad(self.sums, padding)
        self.squares = None if self.squares is None else np.pad(self.squares, padding)

    def view_read_only(self) -> Self:
        """Return one with the same arrays, which cannot be changed through it."""
        view = copy.copy(self)
        for name in CountsAndSums.state_names:
            if getattr(self, name) is not None:
                setattr(view, name, view_read_only(getattr(self, name)))
        return view

    def copy_decision(self) -> Self:
        """Return a copy for a decision that is only asked about, in a tenth of deepcopy's time."""
        twin = type(self).__new__(type(self))
        for name, value in vars(self).items():
            vars(twin)[name] = value.copy() if isinstance(value, np.ndarray) else value
        return twin


class WindowedCountsAndSums(CountsAndSums):
    """Counts and sums of a lane's last w rewards, and of totals, which have no order and stay.

    Arguments:
        num_arms: K.
        window: w >= 1.
    """

    state_names = ("_arms", "_rewards", "_weights", "_next_slots", "_totals", "_total_squares")
    _total_squares: np.ndarray | None = None

    def __init__(self, num_arms: int, window: int, *, keeps_squares: bool = False) -> None:
        super().__init__(num_arms, keeps_squares=keeps_squares)
        self.window, self.is_cumulative = window, False
        self.max_lanes = min(self.max_lanes, MAX_REWARDS // window)

    def start(self, num_lanes: int) -> None:
        """Prepare for so many lanes without data."""
        super().start(num_lanes)
        shape = num_lanes, self.window
        self._arms, self._rewards = np.full(shape, -1, dtype=np.int32), np.zeros(shape)
        self._weights = np.ones(shape)
        self._next_slots = np.zeros(num_lanes, dtype=np.int64)
        self._totals = np.zeros(self.sums.shape)
        self._total_squares = None if self.squares is None else self.squares.copy()

    def restart(self, mask: np.ndarray) -> None:
        """Remove the data of the (N,) masked lanes."""
        super().restart(mask)
        self._arms[mask], self._rewards[mask] = -1, 0.0
        self._next_slots[mask], self._totals[mask] = 0, 0.0
        if self._total_squares is not None:
            self._total_squares[mask] = 0.0

    def add_arms(self, num_arms: int) -> None:
        """Make room for so many more arms, which have no data."""
        super().add_arms(num_arms)
        padding = (0, 0), (0, num_arms)
        self._totals = np.pad(self._totals, padding)
        if self._total_squares is not None:
            self._total_squares = np.pad(self._total_squares, padding)

    def add_totals(
        self, counts: np.ndarray, sums: np.ndarray, squares: np.ndarray | None = None
    ) -> None:
        """Add earlier data, which stay as the prior does."""
        if self._total_squares is not None:
            is_of_arm = self._arms[..., None] == np.arange(self.counts.shape[1])
            in_window = np.where(is_of_arm, self._weights[..., None], 0.0).sum(axis=1)
            known = np.rint(self.counts - in_window), self._totals, self._total_squares
            self._total_squares = merge_squares(*known, counts, sums, squares)
        super().add_totals(counts, sums, squares)
        self._totals += sums  # a difference of sums would lose them beside a large reward

    def add(
        self,
        lanes: np.ndarray,
        arms: np.ndarray,
        rewards: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> None:
        """Add one reward in each of (R,) lanes; it takes the place of the lane's oldest."""
        super().add(lanes, arms, rewards, weights)
        slots = self._next_slots[lanes]
        oldest = self._arms[lanes, slots].astype(np.int64), self._weights[lanes, slots]
        self._arms[lanes, slots], self._rewards[lanes, slots] = arms, rewards
        self._weights[lanes, slots] = 1.0 if weights is None else weights
        self._next_slots[lanes] = (slots + 1) % self.window
        is_full = oldest[0] >= 0
        if is_full.any():
            self._remove_rewards(lanes[is_full], *(each[is_full] for each in oldest))

    def _remove_rewards(self, lanes: np.ndarray, arms: np.ndarray, weights: np.ndarray) -> None:
        """Remove a reward of an arm, of a weight, in each lane; differences would add up rounding.

        Counts of totals are whole numbers, which rounding does not reach.
        """
        kept = np.where(self._arms[lanes] == arms[:, None], self._weights[lanes], 0.0)
        window_counts, window_sums = kept.sum(axis=1), (kept * self._rewards[lanes]).sum(axis=1)
        totals = np.rint(self.counts[lanes, arms] - window_counts - weights)
        self.counts[lanes, arms] = totals + window_counts
        self.sums[lanes, arms] = self._totals[lanes, arms] + window_sums
        if self.squares is not None and self._total_squares is not None:
            average = window_sums / np.where(window_counts > 0, window_counts, 1.0)
            squares = (kept * np.square(self._rewards[lanes] - average[:, None])).sum(axis=1)
            earlier = totals, self._totals[lanes, arms], self._total_squares[lanes, arms]
            known = window_counts, window_sums, squares
            self.squares[lanes, arms] = merge_squares(*known, *earlier)


def find_discounts(counts: np.ndarray, discount: float) -> np.ndarray:
    """Return what counts and their sums are multiplied by: a discount, or 0 of a forgotten count.

    By rounding, the least of numbers would be multiplied for ever without becoming less.
    """
    return np.where(counts < MIN_COUNT, 0.0, discount)


def make_room_for_weights(counts: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return counts that weights can be added to, and the weights as they are added.

    Counts stay integers while weights are, which take less time.
    """
    if counts.dtype == np.int64 and (weights != np.floor(weights)).any():
        counts = counts.astype(np.float64)
    return counts, weights.astype(counts.dtype)


def view_read_only(values: np.ndarray) -> np.ndarray:
    """Return a view through which an array cannot be changed."""
    view = values.view()
    view.flags.writeable = False
    return view
