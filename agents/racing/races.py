"""Many races at once: samples of a proposal, their weights, and the arm that these pick.

A race of fixed length draws its samples, adds up the weights of those in which each arm is best,
and picks an arm in proportion, by Gumbel's trick. Those of the paper may end earlier, see
`agents.racing.stopping`.

Notation: K arms, N lanes (one race each), R races still on, m samples.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

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
from bandit_gym.numerics.compiled import inner, kernel

MIN_POSITIVE, LOG_ZERO = 5e-324, -1e300
"""Smallest positive float, a divisor in place of 0; and a finite stand-in for log 0."""


class Races(NamedTuple):
    """State of N races, as compiled kernels read it; samples change its arrays in place.

    Attributes:
        lengths: (N,) number of samples at which each race ends. If all their weights are zero, it
            becomes the maximum allowed; where line 12 ends a race, it becomes `num_samples`.
        max_samples: the maximum allowed.
        gumbels: (N, K) Gumbel variables eps_i.
        totals: (N, K) sums of the weights w of samples in which each arm is best, divided by
            e^{log_scale}.
        log_scale: (N,) logarithm of that divisor.
        weight_sums: (N, 2) sums of w and of w^2, divided by e^{log_scale} and by its square.
        num_samples: (N,) samples drawn.
    """

    lengths: np.ndarray
    max_samples: int
    gumbels: np.ndarray
    totals: np.ndarray
    log_scale: np.ndarray
    weight_sums: np.ndarray
    num_samples: np.ndarray

    @classmethod
    def start(cls, lengths: np.ndarray, max_samples: int, gumbels: np.ndarray) -> Races:
        """Return races without samples (line 6) that end after (N,) lengths."""
        num_lanes = len(lengths)
        return cls(
            lengths=lengths.copy(),
            max_samples=max_samples,
            gumbels=gumbels,
            totals=np.zeros(gumbels.shape),
            log_scale=np.full(num_lanes, -np.inf),
            weight_sums=np.zeros((num_lanes, 2)),
            num_samples=np.zeros(num_lanes, dtype=np.int64),
        )

    def run(
        self,
        rng: Generator,
        proposal: Proposal,
        lanes: np.ndarray,
        available: np.ndarray | None = None,
        line_12: Any = None,
    ) -> None:
        """Run the races of the given (R,) lanes to their end (lines 7 to 15).

        Races run in rounds, so that each call of a user's log-density gets many samples. The
        longest race of a round is short of at most twice as many as its shortest, and all get
        equally many. If all weights are zero so far, one lane goes alone: the prior may rule out
        whatever is drawn.

        Args:
            rng: source of randomness.
            proposal: distribution of the samples.
            lanes: (R,) lanes of the races to run.
            available: (N, K) arms that may win; None for all.
            line_12: `StoppingThresholds`, by which races may end before their lengths; or None.

        Raises:
            ValueError: if a race ended at its last sample with every weight zero.
        """
        num_arms = self.gumbels.shape[1]
        while lanes.size:
            left = self.lengths - self.num_samples
            lanes = lanes[left[lanes].argsort(kind="stable")]
            count = int(np.searchsorted(left[lanes], 2 * left[lanes[0]], side="right"))
            if self.num_samples[lanes[0]] > 0 and not self.weight_sums[lanes, 0].any():
                count = 1
            lanes, others = lanes[:count], lanes[count:]
            size = max(1, MEANS_PER_TILE // num_arms)
            if line_12 is not None:
                size = line_12.choose_size(self.num_samples[lanes], num_arms)
            for tile in split_lanes(lanes, min(size, left[lanes[-1]]) * num_arms):
                longest = left[tile].max()
                draws = proposal.draw(rng, tile, longest if longest < 2 * size else size)
                log_weights = find_log_weights(proposal, tile, draws.means, draws.log_densities)
                winners = draws.winners
                if available is not None:
                    means = hide_arms(draws.means.swapaxes(1, 2), available[tile][:, None])
                    winners = random_argmax(rng, means.reshape(-1, num_arms)).reshape(winners.shape)
                if line_12 is None:
                    add_samples(self, tile, log_weights, winners)
                else:
                    line_12.race(self, tile, log_weights, winners)
            is_over = self.num_samples[lanes] == self.lengths[lanes]
            has_none = is_over & (self.weight_sums[lanes, 0] == 0.0)
            if has_none.any():
                where = f"{self.max_samples} samples of the race"
                remedy = "; use proposal='matched' if it is another, ExactThompson or SMCThompson"
                raise make_weight_error(proposal, int(lanes[has_none.argmax()]), where, remedy)
            lanes = np.concatenate([lanes[~is_over], others])

    def pick_arms(self) -> np.ndarray:
        """Return (N,) arms, the best by totals: argmax_i (eps_i + log total_i), line 16."""
        with np.errstate(divide="ignore"):
            return np.argmax(self.gumbels + np.log(self.totals), axis=1)

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) (sum w)^2 / sum w^2, between 1 and the number of samples; 0 before any."""
        total, squares = self.weight_sums.T
        return total**2 / np.maximum(squares, MIN_POSITIVE)

    def log_sums_of_others(self) -> np.ndarray:
        """Return (N,) logs of the expected weight sum without one sample; `LOG_ZERO` if none."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weight_sums[:, 0]) + np.log1p(-1.0 / np.maximum(self.num_samples, 1))
        return np.maximum(logs + self.log_scale, LOG_ZERO)


@kernel
def add_samples(
    races: Races, lanes: np.ndarray, log_weights: np.ndarray, winners: np.ndarray
) -> None:
    """Add samples to the races of (R,) lanes, to each until it has its length.

    Args:
        races: N races; updated in place.
        lanes: (R,) lanes of the races that get samples.
        log_weights: (R, m) log-weights of the samples.
        winners: (R, m) best arms of the samples.
    """
    for r in range(lanes.size):
        n = lanes[r]  # views of its rows are taken once, for each costs as much as a sample
        totals, sums, scale = races.totals[n], races.weight_sums[n], races.log_scale[n]
        d, length = races.num_samples[n], races.lengths[n]
        for j in range(log_weights.shape[1]):
            if d == length:
                break
            log_weight = log_weights[r, j]
            scale = add_sample(totals, sums, scale, winners[r, j], log_weight, log_weight)
            d += 1
            if d == length and sums[0] == 0.0:
                length = races.max_samples
        races.num_samples[n], races.lengths[n], races.log_scale[n] = d, length, scale


@inner
def add_sample(
    totals: np.ndarray, sums: np.ndarray, scale: float, i: int, log_weight: float, log_size: float
) -> float:
    """Add a weight to the total of arm i and to the (2,) sums; return the log of their divisor.

    That grows with the largest size so far, which is the weight's, or that of the paper's f_i.
    """
    if log_weight == -np.inf:
        return scale
    if log_size > scale:
        shrink = math.exp(scale - log_size)
        scale = log_size
        for k in range(totals.size):
            totals[k] *= shrink
        sums[0] *= shrink
        sums[1] *= shrink * shrink
    weight = math.exp(log_weight - scale)
    totals[i] += weight
    sums[0] += weight
    sums[1] += weight * weight
    return scale
