"""Many races at once: what their samples add up to, and lines 7 to 15 of Algorithm 2.

Letters: K arms, N lanes (one race each), R races still on, m samples.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from agents.numerics.choices import among
from agents.numerics.kernels import draw_chunk, make_draws
from agents.racing.leaders import Sums, find_leaders, is_clear, shrink_sums
from agents.racing.proposal import TILE_SIZE, Proposal, split_lanes
from agents.racing.stopping import StoppingRule
from agents.racing.weighing import WeighedLaws, add_log_weights
from bandit_gym.numerics.compiled import kernel

CALL_COST = 2000.0
"""What a round of drawing, weighing and racing costs at any size, in means drawn from tables."""

ROW_COST = 10.0
"""What each arm of each race costs in a round at any size, in draws of its mean."""

FEWEST = 3.0
"""Effective samples on which a race may rest where nothing but itself tells what it misses."""

SMALLEST, LOWEST = 5e-324, -1e300
"""The least positive number, to divide 0 by, and what stands for the logarithm of 0."""


class Races(NamedTuple):
    """N races, in the form that kernels read; all but the rule change as samples come in.

    Attributes:
        rule: what ends a race.
        lengths: (N,) samples that end each; the cap where these turn out to have no weight.
        gumbels: (N, K) eps.
        totals: (N, K) sum over samples of v_i, divided by e^{log_scale}.
        squares: (N, K) sum over samples of v_i^2, divided by e^{2 log_scale}.
        log_scale: (N,) log of what v is divided by.
        weight_sums: (N, 2) sums of w and of w^2, on the same scale and its square.
        num_samples: (N,) samples drawn.
    """

    rule: StoppingRule
    lengths: np.ndarray
    gumbels: np.ndarray
    totals: np.ndarray
    squares: np.ndarray
    log_scale: np.ndarray
    weight_sums: np.ndarray
    num_samples: np.ndarray

    @classmethod
    def start(cls, rule: StoppingRule, gumbels: np.ndarray, lengths: np.ndarray) -> Races:
        """Return races without samples, given (N, K) eps.

        Args:
            rule: what ends them.
            gumbels: (N, K) eps.
            lengths: (N,) samples that end them.
        """
        return cls(
            rule=rule,
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
        available: np.ndarray | None = None,
    ) -> None:
        """Run the races of the given (R,) lanes to their end, with draws from the proposal.

        Where compiled loops can draw and weigh by themselves, all is one such loop, lane by lane.
        Elsewhere races run in rounds, so that a user's log-density is called for many at once; that
        does the same. So they do where (N, K) `available` arms are the only ones that race.

        Raises:
            ValueError: if a race ended at its last sample with every weight zero.
        """
        laws = None if available is not None else proposal.weighed_laws()
        if available is not None:
            self._run_rounds(rng, proposal, lanes, available)
        elif laws is not None:
            run_lane_by_lane(rng, laws, self, lanes, self._chunk_size(proposal))
            self._require_weight(proposal, lanes)
        elif not proposal.run_races(rng, self, lanes, self._chunk_size(proposal)):
            self._run_rounds(rng, proposal, lanes)
        proposal.expected_samples = max(1.0, float(self.num_samples.sum()) / len(self.gumbels))

    def _run_rounds(
        self,
        rng: Generator,
        proposal: Proposal,
        lanes: np.ndarray,
        available: np.ndarray | None = None,
    ) -> None:
        while lanes.size:  # line 7
            num_left = self.lengths - self.num_samples
            lanes = lanes[num_left[lanes].argsort(kind="stable")]  # alike ones share a tile
            part = lanes[: self._num_together(lanes)]
            size = self._chunk_size(proposal, part.size)
            is_over = []
            for tile in split_lanes(part, 4 * size * self.gumbels.shape[1]):
                left = num_left[tile].max()
                draws = proposal.draw(rng, tile, left if left < 2 * size else size)  # line 8
                winners = draws.winners
                if available is not None:
                    winners = among(draws.means, available[tile][..., None]).argmax(axis=1)
                is_over.append(self.feed(tile, draws.log_weights, winners))  # lines 9 to 14
                self._require_weight(proposal, tile[is_over[-1]])
            lanes = np.concatenate([part[~np.concatenate(is_over)], lanes[part.size :]])

    def _num_together(self, lanes: np.ndarray) -> int:
        """Go on with one lane alone where none has had weight: if it never has, the rest waits."""
        is_hopeful = self.num_samples[lanes[0]] == 0 or self.weight_sums[lanes, 0].any()
        return lanes.size if is_hopeful else 1

    def feed(self, lanes: np.ndarray, log_weights: np.ndarray, winners: np.ndarray) -> np.ndarray:
        """Feed (R, m) samples to the races of the given lanes, each until it is decided.

        Returns:
            (R,) True where the race is over.
        """
        return feed_races(self, lanes, log_weights, winners)

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) (sum w)^2 / sum w^2, between 1 and the number of samples; 0 before any."""
        total, squares = self.weight_sums.T
        return total**2 / np.maximum(squares, SMALLEST)

    def log_sums_of_others(self) -> np.ndarray:
        """Return (N,) logs of what the weights of all samples but one add up to; low if nothing."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weight_sums[:, 0]) + np.log1p(-1.0 / np.maximum(self.num_samples, 1))
        return np.maximum(logs + self.log_scale, LOWEST)

    def is_poor(self, effective_sizes: np.ndarray) -> np.ndarray:
        """Return (N,) True where (N,) effective samples are few, and not for being short."""
        few = np.minimum(FEWEST, 0.9 * self.num_samples)
        return effective_sizes < few

    def is_capped(self) -> np.ndarray:
        """Return (N,) True where the cap ended a race that another rule might have."""
        return (self.num_samples == self.rule.cap) & (not self.rule.is_fixed)

    def _chunk_size(self, proposal: Proposal, num_races: int | None = None) -> int:
        """Balance the cost of another chunk against samples drawn beyond a race's end.

        Args:
            proposal: to draw from.
            num_races: that share the cost of a call, or None if there is no call.
        """
        num_arms = self.gumbels.shape[1]
        cost = ROW_COST
        if num_races:
            cost += CALL_COST / (num_arms * num_races * proposal.draw_cost)
        size = math.sqrt(2 * proposal.expected_samples * cost)
        if self.rule.is_fixed:
            size = TILE_SIZE / num_arms
        return max(1, min(round(size), self.rule.cap))

    def _require_weight(self, proposal: Proposal, lanes: np.ndarray) -> None:
        """Refuse races that ended at their last sample with every weight zero."""
        has_none = self.weight_sums[lanes, 0] == 0.0
        if has_none.any():
            lane = lanes[has_none & (self.num_samples[lanes] > 0)][0]
            raise ValueError(
                "prior.log_density must be above -inf at some draw from the proposal, got -inf at "
                f"all {self.rule.cap} samples of the race in lane {lane}, whose "
                f"{proposal.describe_fault(lane)}; use proposal='matched' if it is another, "
                "ExactThompson or SMCThompson."
            )


@kernel
def feed_races(
    races: Races, lanes: np.ndarray, log_weights: np.ndarray, winners: np.ndarray
) -> np.ndarray:
    """Lines 9 to 14 of Algorithm 2: the leader and the second change by one sample at a time.

    Views of a lane's rows are taken once, for each costs as much as the rest of a sample.
    """
    rule, is_over = races.rule, np.zeros(lanes.size, dtype=np.bool_)
    bars, by_value, is_paper = rule.bars, rule.by_value, rule.enough_size == np.inf
    for r in range(lanes.size):
        n = lanes[r]
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
            if d == length and total[leader] == 0.0:
                length = races.lengths[n] = rule.cap
            is_decided = (total[leader] - second) / (d + 1) > bars[d] or d == length  # line 12
            if not is_paper and not is_decided and total[leader] > 0.0:
                is_decided = is_clear(rule, sums, leader)
            if (is_decided and total[leader] > 0.0) or d == rule.cap:
                is_over[r] = True
                break  # line 13
        races.num_samples[n], races.log_scale[n] = d, scale
    return is_over


@kernel
def run_lane_by_lane(
    rng: Generator, laws: WeighedLaws, races: Races, lanes: np.ndarray, chunk_size: int
) -> None:
    """Draw, weigh and race, a lane at a time, whose tables then stay in the core's own cache."""
    num_arms = races.gumbels.shape[1]
    for r in range(lanes.size):
        lane, is_over = lanes[r : r + 1], False
        while not is_over:
            size = min(chunk_size, races.lengths[lane[0]] - races.num_samples[lane[0]])
            draws = make_draws(1, num_arms, size)
            draw_chunk(rng, laws.laws, lane, draws)
            add_log_weights(laws.log_weight, lane, draws.means, draws.log_weights)
            is_over = feed_races(races, lane, draws.log_weights, draws.winners)[0]
        if races.weight_sums[lane[0], 0] == 0.0:
            break  # the prior excludes every draw: this race is refused
