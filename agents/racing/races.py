"""Many races at once: what their samples add up to, and lines 7 to 15 of Algorithm 2.

Letters: K arms, N lanes (one race each), R races still on, m samples.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from agents.racing.proposals import Proposal
from agents.racing.stopping import Bars, Sums, is_clear
from agents.racing.weighing import TILE_SIZE, no_weight, split_lanes, weigh
from bandit_gym.numerics.compiled import inner, kernel

CALL_COST = 5000.0
"""What a round of drawing, weighing and racing costs at any size, in draws of a mean."""

ROW_COST = 10.0
"""What each arm of each race costs in a round at any size, in draws of its mean."""

FIRST_GUESS = 16.0
"""Samples that a race is expected to take at first; then, as many more as it has drawn."""

FEWEST = 3.0
"""Effective samples on which a race may rest where nothing but itself tells what it misses."""

SMALLEST, LOWEST = 5e-324, -1e300
"""The least positive number, to divide 0 by, and what stands for the logarithm of 0."""


class Races(NamedTuple):
    """N races, in the form that kernels read; all but the bars change as samples come in.

    Attributes:
        bars: what ends a race.
        lengths: (N,) samples that end each; all that are allowed where these have no weight.
        gumbels: (N, K) eps.
        totals: (N, K) sum over samples of v_i, divided by e^{log_scale}.
        squares: (N, K) sum over samples of v_i^2, divided by e^{2 log_scale}.
        log_scale: (N,) log of what v is divided by.
        weight_sums: (N, 2) sums of w and of w^2, on the same scale and its square.
        num_samples: (N,) samples drawn.
    """

    bars: Bars
    lengths: np.ndarray
    gumbels: np.ndarray
    totals: np.ndarray
    squares: np.ndarray
    log_scale: np.ndarray
    weight_sums: np.ndarray
    num_samples: np.ndarray

    @classmethod
    def start(cls, bars: Bars, gumbels: np.ndarray, lengths: np.ndarray) -> Races:
        """Return races without samples, given (N, K) eps and the (N,) samples that end them."""
        return cls(
            bars=bars,
            lengths=lengths.copy(),
            gumbels=gumbels,
            totals=np.zeros_like(gumbels),
            squares=np.zeros_like(gumbels),
            log_scale=np.full(len(gumbels), -np.inf),
            weight_sums=np.zeros((len(gumbels), 2)),
            num_samples=np.zeros(len(gumbels), dtype=np.int64),
        )

    def run(
        self,
        rng: Generator,
        proposal: Proposal,
        lanes: np.ndarray,
    ) -> None:
        """Run the races of the given (R,) lanes to their end, with draws from the proposal.

        Races run in rounds, so that a user's log-density is called for many at once.

        Args:
            rng: source of randomness.
            proposal: to draw from.
            lanes: (R,) whose races to run.

        Raises:
            ValueError: if a race ended at its last sample with every weight zero.
        """
        num_arms = self.gumbels.shape[1]
        while lanes.size:  # line 7
            num_left = self.lengths - self.num_samples
            lanes = lanes[num_left[lanes].argsort(kind="stable")]  # alike ones share a tile
            is_hopeful = self.num_samples[lanes[0]] == 0 or self.weight_sums[lanes, 0].any()
            part = lanes if is_hopeful else lanes[:1]  # if it never has weight, the rest waits
            cost = ROW_COST + CALL_COST / (num_arms * part.size)
            expected = max(FIRST_GUESS, self.num_samples[part].mean())
            size = round(math.sqrt(2 * expected * cost))
            if self.bars.is_fixed:
                size = max(1, TILE_SIZE // num_arms)
            over = []
            for tile in split_lanes(part, min(size, num_left[part].max()) * num_arms):
                left = num_left[tile].max()
                draws = proposal.draw(rng, tile, left if left < 2 * size else size)  # line 8
                log_weights = weigh(proposal, tile, draws.means, draws.log_densities)
                over.append(feed_races(self, tile, log_weights, draws.winners))  # lines 9 to 14
                self._require_weight(proposal, tile[over[-1]])
            lanes = np.concatenate([part[~np.concatenate(over)], lanes[part.size :]])

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) (sum w)^2 / sum w^2, between 1 and the number of samples; 0 before any."""
        total, squares = self.weight_sums.T
        return total**2 / np.maximum(squares, SMALLEST)

    def log_sums_of_others(self) -> np.ndarray:
        """Return (N,) logs of what the weights of all samples but one add up to; low if nothing."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weight_sums[:, 0]) + np.log1p(-1.0 / np.maximum(self.num_samples, 1))
        return np.maximum(logs + self.log_scale, LOWEST)

    def is_poor(self) -> np.ndarray:
        """Return (N,) True where effective samples are few, and not because the race is short."""
        return self.effective_sample_size() < np.minimum(FEWEST, 0.9 * self.num_samples)

    def _require_weight(self, proposal: Proposal, lanes: np.ndarray) -> None:
        """Refuse races that ended at their last sample with every weight zero."""
        has_none = (self.weight_sums[lanes, 0] == 0.0) & (self.num_samples[lanes] > 0)
        if has_none.any():
            where = f"{self.bars.max_samples} samples of the race"
            remedy = "; use proposal='matched' if it is another, ExactThompson or SMCThompson"
            raise no_weight(proposal, int(lanes[has_none.argmax()]), where, remedy)


@kernel
def feed_races(
    races: Races, lanes: np.ndarray, log_weights: np.ndarray, winners: np.ndarray
) -> np.ndarray:
    """Do lines 9 to 14 of Algorithm 2: the leader and the second change by one sample at a time.

    Args:
        races: N of them; they change.
        lanes: (R,) whose races are fed, each until it is over.
        log_weights: (R, m) of the samples.
        winners: (R, m) best arms of the samples.

    Returns:
        (R,) True where the race is over.
    """
    bars, has_ended = races.bars, np.zeros(lanes.size, dtype=np.bool_)
    gaps, by_value, most = bars.gaps, bars.by_value, bars.max_samples
    level = bars.level + math.log(races.totals.shape[1] - 1)
    for r in range(lanes.size):
        n = lanes[r]  # views of its rows are taken once, for each costs as much as a sample
        total, square, weights = races.totals[n], races.squares[n], races.weight_sums[n]
        eps, factors = races.gumbels[n], np.exp(races.gumbels[n])
        sums = Sums(total, square, weights, factors)
        leader, second = find_leaders(total)
        d, scale, length = races.num_samples[n], races.log_scale[n], races.lengths[n]
        for j in range(log_weights.shape[1]):
            d += 1  # line 9: m is d + 1
            log_weight, i = log_weights[r, j], winners[r, j]
            if log_weight > -np.inf:
                size = log_weight + eps[i] if by_value else log_weight
                if size > scale:
                    shrink = math.exp(scale - size)
                    shrink_sums(sums, shrink)
                    second *= shrink
                    scale = size
                weight = math.exp(log_weight - scale)
                value = weight * factors[i]
                weights[0] += weight
                weights[1] += weight * weight
                total[i] += value  # line 10, times m
                square[i] += value * value
                if i != leader:  # line 11
                    second = max(second, min(total[i], total[leader]))
                    leader = i if total[i] > total[leader] else leader
            has_weight = total[leader] > 0.0
            if d == length and not has_weight:
                length = races.lengths[n] = most
            bar = gaps[min(d, gaps.size - 1)]
            is_done = d == length or (total[leader] - second) / (d + 1) > bar  # line 12
            if not is_done and total[leader] >= level * factors[leader]:  # with less none is clear
                largest = max(1.0, bars.peak * length * weights[0] / d)
                is_done = is_clear(level, sums, leader, largest)
            if (is_done and has_weight) or d == most:
                has_ended[r] = True
                break  # line 13
        races.num_samples[n], races.log_scale[n] = d, scale
    return has_ended


@inner
def find_leaders(total: np.ndarray) -> tuple[int, float]:
    """Return the arm with the largest total, and the largest total of the others."""
    leader, second = 0, 0.0
    for i in range(1, total.size):
        leader = i if total[i] > total[leader] else leader
    for i in range(total.size):
        if i != leader and total[i] > second:
            second = total[i]
    return leader, second


@inner
def shrink_sums(sums: Sums, shrink: float) -> None:
    """Shrink sums to a new maximum of the scale, which keeps the order of the totals."""
    for i in range(sums.totals.size):
        sums.totals[i] *= shrink
        sums.squares[i] *= shrink * shrink
    sums.weight_sums[0] *= shrink
    sums.weight_sums[1] *= shrink * shrink
