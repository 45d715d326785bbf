"""Many races at once: lines 5 to 16 of Algorithm 2, for any stopping rule.

Notation: K arms, N lanes (one race each), R races still on, m samples.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from agents.racing.proposals import Proposal
from agents.racing.stopping import StoppingThresholds
from agents.racing.weighing import MEANS_PER_TILE, find_log_weights, make_weight_error, split_lanes
from bandit_gym.numerics.compiled import inner, kernel

CALL_COST = 5000.0
"""What a round of drawing, weighing and racing costs at any size, in draws of a mean."""

ROW_COST = 10.0
"""What each arm of each race costs in a round at any size, in draws of its mean."""

FIRST_ROUND_SAMPLES = 16.0
"""Samples that line 12 is expected to take at first; then, as many more as were drawn."""

MIN_EFFECTIVE_RACE_SAMPLES = 3.0
"""Effective samples on which a race may rest where nothing but itself says what it misses."""

MIN_POSITIVE, LOG_ZERO = 5e-324, -1e300
"""The least positive number, to divide 0 by, and what stands for the logarithm of 0."""


class Races(NamedTuple):
    """N races, in the form that kernels read; arrays change as samples come in.

    Attributes:
        stop: what ends a race before its length.
        lengths: (N,) samples that end each; all that are allowed where these have no weight.
        gumbels: (N, K) eps.
        totals: (N, K) sum over samples of v_i, divided by e^{log_scale}.
        log_scale: (N,) log of what v is divided by.
        weight_sums: (N, 2) sums of w and of w^2, on the same scale and its square.
        num_samples: (N,) samples drawn.
    """

    stop: StoppingThresholds
    lengths: np.ndarray
    gumbels: np.ndarray
    totals: np.ndarray
    log_scale: np.ndarray
    weight_sums: np.ndarray
    num_samples: np.ndarray

    @classmethod
    def start(
        cls, rng: Generator, stop: StoppingThresholds, lengths: np.ndarray, num_arms: int
    ) -> Races:
        """Return races without samples (lines 5 and 6), given the (N,) samples that end them."""
        num_lanes = len(lengths)
        return cls(
            stop=stop,
            lengths=lengths.copy(),
            gumbels=rng.gumbel(size=(num_lanes, num_arms)),  # line 5
            totals=np.zeros((num_lanes, num_arms)),
            log_scale=np.full(num_lanes, -np.inf),
            weight_sums=np.zeros((num_lanes, 2)),
            num_samples=np.zeros(num_lanes, dtype=np.int64),  # line 6
        )

    def run(self, rng: Generator, proposal: Proposal, lanes: np.ndarray) -> None:
        """Run the races of the given (R,) lanes to their end (lines 7 to 15).

        Races run in rounds, so that a user's log-density is called for many at once.

        Args:
            rng: source of randomness.
            proposal: to draw from.
            lanes: (R,) whose races to run.

        Raises:
            ValueError: if a race ended at its last sample with every weight zero.
        """
        while lanes.size:  # line 7
            num_left = self.lengths - self.num_samples
            lanes = lanes[num_left[lanes].argsort(kind="stable")]
            may_have_weight = self.num_samples[lanes[0]] == 0 or self.weight_sums[lanes, 0].any()
            # What one call draws is as long in all its lanes. If no lane has weight, one tries on.
            num_same_length = np.searchsorted(num_left[lanes], 2 * num_left[lanes[0]], side="right")
            part = lanes[: num_same_length if may_have_weight else 1]
            size, over = self._round_size(part), []
            for tile in split_lanes(part, min(size, num_left[part[-1]]) * self.gumbels.shape[1]):
                left = num_left[tile].max()
                draws = proposal.draw(rng, tile, left if left < 2 * size else size)  # line 8
                log_weights = find_log_weights(proposal, tile, draws.means, draws.log_densities)
                over.append(update_races(self, tile, log_weights, draws.winners))  # lines 9 to 14
                self._require_weight(proposal, tile[over[-1]])
            lanes = np.concatenate([part[~np.concatenate(over)], lanes[part.size :]])

    def _round_size(self, part: np.ndarray) -> int:
        """Return how many samples to draw in a round; as nothing is lost by it, as many as fit.

        Where a gap may end races, what is drawn beyond that is lost, and costs as much as rounds.
        """
        num_arms = self.gumbels.shape[1]
        if not self.stop.has_gaps:
            return max(1, MEANS_PER_TILE // num_arms)
        cost = ROW_COST + CALL_COST / (num_arms * part.size)
        return round(math.sqrt(2 * max(FIRST_ROUND_SAMPLES, self.num_samples[part].mean()) * cost))

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) (sum w)^2 / sum w^2, between 1 and the number of samples; 0 before any."""
        total, squares = self.weight_sums.T
        return total**2 / np.maximum(squares, MIN_POSITIVE)

    def log_sums_of_others(self) -> np.ndarray:
        """Return (N,) logs of what the weights of all samples but one add up to; low if nothing."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weight_sums[:, 0]) + np.log1p(-1.0 / np.maximum(self.num_samples, 1))
        return np.maximum(logs + self.log_scale, LOG_ZERO)

    def has_few_effective(self) -> np.ndarray:
        """Return (N,) True where effective samples are few, and not because the race is short."""
        return self.effective_sample_size() < np.minimum(
            MIN_EFFECTIVE_RACE_SAMPLES, 0.9 * self.num_samples
        )

    def _require_weight(self, proposal: Proposal, lanes: np.ndarray) -> None:
        """Refuse races that ended at their last sample with every weight zero."""
        has_none = (self.weight_sums[lanes, 0] == 0.0) & (self.num_samples[lanes] > 0)
        if has_none.any():
            where = f"{self.stop.max_samples} samples of the race"
            remedy = "; use proposal='matched' if it is another, ExactThompson or SMCThompson"
            raise make_weight_error(proposal, int(lanes[has_none.argmax()]), where, remedy)


@kernel
def update_races(
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
    has_ended = np.zeros(lanes.size, dtype=np.bool_)
    gaps, by_value, max_samples = races.stop.gaps, races.stop.by_value, races.stop.max_samples
    for r in range(lanes.size):
        n = lanes[r]  # views of its rows are taken once, for each costs as much as a sample
        total, weights, eps = races.totals[n], races.weight_sums[n], races.gumbels[n]
        factors = np.exp(eps)
        i_1, second = find_leaders(total)
        d, scale, length = races.num_samples[n], races.log_scale[n], races.lengths[n]
        for j in range(log_weights.shape[1]):
            d += 1  # line 9: m is d + 1
            log_weight, i = log_weights[r, j], winners[r, j]
            if log_weight > -np.inf:
                size = log_weight + eps[i] if by_value else log_weight
                if size > scale:  # all sums shrink to the new scale, and keep their order
                    shrink = math.exp(scale - size)
                    scale, second = size, second * shrink
                    for k in range(total.size):
                        total[k] *= shrink
                    weights[0] *= shrink
                    weights[1] *= shrink * shrink
                weight = math.exp(log_weight - scale)
                weights[0] += weight
                weights[1] += weight * weight
                total[i] += weight * factors[i]  # line 10: m times the average of f_i
                if i != i_1:  # line 11
                    second = max(second, min(total[i], total[i_1]))
                    i_1 = i if total[i] > total[i_1] else i_1
            has_weight = total[i_1] > 0.0
            if d == length and not has_weight:
                length = races.lengths[n] = max_samples
            gap = (total[i_1] - second) / (d + 1)
            is_over = gap > gaps[min(d, gaps.size - 1)] or d == length  # line 12
            if (is_over and has_weight) or d == max_samples:
                has_ended[r] = True
                break  # line 13
        races.num_samples[n], races.log_scale[n] = d, scale
    return has_ended


@inner
def find_leaders(total: np.ndarray) -> tuple[int, float]:
    """Return the arm with the largest total, and the largest total of the others (line 11)."""
    leader, second = 0, 0.0
    for i in range(1, total.size):
        leader = i if total[i] > total[leader] else leader
    for i in range(total.size):
        if i != leader and total[i] > second:
            second = total[i]
    return leader, second
