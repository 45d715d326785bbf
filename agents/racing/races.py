"""Many races at once: lines 5 to 16 of Algorithm 2, for any stopping rule.

Notation: K arms, N lanes (one race each), R races still on, m samples.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from agents.numerics.choices import hide_arms, random_argmax
from agents.racing.proposals import (
    MEANS_PER_TILE,
    Proposal,
    find_log_weights,
    make_weight_error,
    split_lanes,
)
from agents.racing.stopping import StoppingThresholds
from bandit_gym.numerics.compiled import inner, kernel

CALL_COST = 5000.0
"""Fixed time of a round (drawing, weighting, racing), in units of the time to draw one mean."""

ROW_COST = 10.0
"""Fixed time per arm and race in a round, in units of the time to draw one mean."""

FIRST_ROUND_SAMPLES = 16.0
"""Samples expected before line 12 first holds; later, as many again as were drawn so far."""

MIN_POSITIVE, LOG_ZERO = 5e-324, -1e300
"""Smallest positive float, a divisor in place of 0; and a finite stand-in for log 0."""


class Races(NamedTuple):
    """State of N races, as compiled kernels read it; samples change its arrays in place.

    Attributes:
        stop: thresholds that may end a race before its fixed length.
        lengths: (N,) number of samples at which each race ends. If all their weights are zero, it
            becomes the maximum allowed.
        gumbels: (N, K) Gumbel variables eps_i.
        totals: (N, K) sums over samples of f_i (line 10), divided by e^{log_scale}.
        log_scale: (N,) logarithm of the divisor of f_i.
        weight_sums: (N, 2) sums of w and of w^2, divided by e^{log_scale} and by its square.
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
        """Return races without samples (lines 5 and 6) that end after (N,) lengths."""
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

    def run(
        self,
        rng: Generator,
        proposal: Proposal,
        lanes: np.ndarray,
        available: np.ndarray | None = None,
    ) -> None:
        """Run the races of the given (R,) lanes to their end (lines 7 to 15).

        Races run in rounds, so that each call of a user's log-density gets many samples. All races
        of a round get equally many.

        Args:
            rng: source of randomness.
            proposal: distribution of the samples.
            lanes: (R,) lanes of the races to run.
            available: (N, K) arms that may win; None for all.

        Raises:
            ValueError: if a race ended at its last sample with every weight zero.
        """
        while lanes.size:  # line 7
            lanes, others = self._choose_round(lanes)
            has_ended = self._run_round(rng, proposal, lanes, available)
            lanes = np.concatenate([lanes[~has_ended], others])

    def _choose_round(self, lanes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lanes of the next round and the others, each by the samples they are short of.

        A round's longest race is short of at most twice as many as its shortest. If all weights are
        zero so far, one lane goes alone: the prior may rule out whatever is drawn.
        """
        num_left = self.lengths[lanes] - self.num_samples[lanes]
        order = num_left.argsort(kind="stable")
        lanes, num_left = lanes[order], num_left[order]
        size = int(np.searchsorted(num_left, 2 * num_left[0], side="right"))
        if self.num_samples[lanes[0]] > 0 and not self.weight_sums[lanes, 0].any():
            size = 1
        return lanes[:size], lanes[size:]

    def _run_round(
        self, rng: Generator, proposal: Proposal, lanes: np.ndarray, available: np.ndarray | None
    ) -> np.ndarray:
        """Give samples to the races of (R,) lanes, as `run` does; return (R,) which are over."""
        size, has_ended = self._round_size(lanes), []
        num_left = self.lengths - self.num_samples
        for tile in split_lanes(lanes, min(size, num_left[lanes[-1]]) * self.gumbels.shape[1]):
            longest = num_left[tile].max()
            draws = proposal.draw(rng, tile, longest if longest < 2 * size else size)  # line 8
            log_weights = find_log_weights(proposal, tile, draws.means, draws.log_densities)
            winners = draws.winners
            if available is not None:
                winners = find_winners(rng, draws.means, available[tile])
            has_ended.append(update_races(self, tile, log_weights, winners))  # lines 9 to 14
            self._require_weight(proposal, tile[has_ended[-1]])
        return np.concatenate(has_ended)

    def _round_size(self, lanes: np.ndarray) -> int:
        """Return the number of samples in a round: as many as fit, if lengths are fixed.

        If line 12 may end races early, samples after that are wasted. Let m more be expected, each
        of cost 1, and a round of s samples have the fixed cost c. The m / s rounds cost c m / s,
        and s / 2 samples are wasted on average. The sum is least at s = sqrt(2 m c).
        """
        num_arms = self.gumbels.shape[1]
        if self.stop.gaps.size == 1:
            return max(1, MEANS_PER_TILE // num_arms)
        expected = max(FIRST_ROUND_SAMPLES, self.num_samples[lanes].mean())
        return round(math.sqrt(2 * expected * (ROW_COST + CALL_COST / (num_arms * lanes.size))))

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) (sum w)^2 / sum w^2, between 1 and the number of samples; 0 before any."""
        total, squares = self.weight_sums.T
        return total**2 / np.maximum(squares, MIN_POSITIVE)

    def log_sums_of_others(self) -> np.ndarray:
        """Return (N,) logs of the expected weight sum without one sample; `LOG_ZERO` if none."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weight_sums[:, 0]) + np.log1p(-1.0 / np.maximum(self.num_samples, 1))
        return np.maximum(logs + self.log_scale, LOG_ZERO)

    def _require_weight(self, proposal: Proposal, lanes: np.ndarray) -> None:
        """Raise an error for races that reached their last sample with every weight zero."""
        has_none = (self.weight_sums[lanes, 0] == 0.0) & (self.num_samples[lanes] > 0)
        if has_none.any():
            where = f"{self.stop.max_samples} samples of the race"
            remedy = "; use proposal='matched' if it is another, ExactThompson or SMCThompson"
            raise make_weight_error(proposal, int(lanes[has_none.argmax()]), where, remedy)


def find_winners(rng: Generator, means: np.ndarray, available: np.ndarray) -> np.ndarray:
    """Return the (R, m) best of (R, K) available arms in (R, K, m) means, ties at random."""
    draws = hide_arms(means.swapaxes(1, 2), available[:, None]).reshape(-1, means.shape[1])
    return random_argmax(rng, draws).reshape(len(means), -1)


@kernel
def update_races(
    races: Races, lanes: np.ndarray, log_weights: np.ndarray, winners: np.ndarray
) -> np.ndarray:
    """Return which races are over after lines 9 to 14 of Algorithm 2, sample by sample.

    Args:
        races: N races; updated in place.
        lanes: (R,) lanes of the races that get samples, each until it is over.
        log_weights: (R, m) log-weights of the samples.
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
