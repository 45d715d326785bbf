"""The state of many races, and the inner loop of Algorithm 2 that runs them.

Letters: K arms, N lanes (one race each), R races still on, m samples.
"""

from __future__ import annotations

import math

import numpy as np

from agents.numerics.compiled import inner, kernel
from agents.numerics.draw_tables import Tables
from agents.numerics.kernels import add_log_densities, draw_chunk, fill
from agents.racing.conjugate import ConjugateProposal
from agents.racing.stopping import StoppingRule


class Races:
    """The state of N races: what their samples so far add up to.

    Attributes:
        gumbels: (N, K) eps.
        totals: (N, K) sum over samples of v_i, divided by e^{log_scale}.
        squares: (N, K) sum over samples of v_i^2, divided by e^{2 log_scale}.
        log_scale: (N,) log of what v is divided by.
        weight_sums: (N, 2) sums of w and of w^2, on the same scale and its square.
        num_samples: (N,) samples drawn.
    """

    def __init__(self, gumbels: np.ndarray) -> None:
        self.gumbels = gumbels
        self.totals = np.zeros_like(gumbels)
        self.squares = np.zeros_like(gumbels)
        self.log_scale = np.full(len(gumbels), -np.inf)
        self.weight_sums = np.zeros((len(gumbels), 2))
        self.num_samples = np.zeros(len(gumbels), dtype=np.int64)

    def run(
        self,
        lanes: np.ndarray,
        log_weights: np.ndarray,
        winners: np.ndarray,
        rule: StoppingRule,
        scale_by_value: bool,
    ) -> np.ndarray:
        """Feed (R, m) samples to the races of the given lanes, each until it is decided.

        Returns:
            (R,) True where the race is over.

        Raises:
            ValueError: if a race ended at its last sample with every weight zero.
        """
        is_over = np.zeros(len(lanes), dtype=bool)
        _run_races(
            lanes, log_weights, winners, rule, scale_by_value, self.gumbels, self.totals,
            self.squares, self.log_scale, self.weight_sums, self.num_samples, is_over,
        )  # fmt: skip
        self._require_weight(lanes[is_over], rule)
        return is_over

    def run_alone(
        self,
        rng: np.random.Generator,
        lanes: np.ndarray,
        proposal: ConjugateProposal,
        parameters: tuple[np.ndarray, np.ndarray, np.ndarray],
        tables: Tables,
        rule: StoppingRule,
        scale_by_value: bool,
        chunk_size: int,
    ) -> None:
        """Run the races of the given lanes to their end, drawing and weighing as they go.

        For priors whose density is known to the kernels: all of it is one compiled loop, lane by
        lane, which does what `Proposal.draw_rows` and `run` do in turn.

        Args:
            rng: source of randomness.
            lanes: (R,) races to run.
            proposal: to draw from.
            parameters: of the proposal in all N lanes, see `ConjugateProposal.parameters`.
            tables: of all lanes, or none.
            rule: as for `run`.
            scale_by_value: as for `run`.
            chunk_size: samples to draw at a time.
        """
        first, second, sets = parameters
        _run_alone(
            rng, lanes, proposal.posterior.family, first, second, tables, proposal.coefficients,
            sets, proposal.support, rule, scale_by_value, chunk_size, self.gumbels, self.totals,
            self.squares, self.log_scale, self.weight_sums, self.num_samples,
        )  # fmt: skip
        self._require_weight(lanes, rule)

    def _require_weight(self, lanes: np.ndarray, rule: StoppingRule) -> None:
        """Refuse races that ended at their last sample with every weight zero."""
        is_empty = self.weight_sums[lanes, 0] == 0.0
        if is_empty.any():
            raise ValueError(
                "prior.log_density must be above -inf at some draw from the proposal, got -inf at "
                f"all {rule.cap} samples of the race in lane {lanes[is_empty][0]}, whose data are "
                "hardly possible under the prior."
            )

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) (sum w)^2 / sum w^2, between 1 and the number of samples; 0 before any."""
        total, squares = self.weight_sums.T
        return np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)


@kernel
def _run_races(
    lanes: np.ndarray,
    log_weights: np.ndarray,
    winners: np.ndarray,
    rule: StoppingRule,
    scale_by_value: bool,
    gumbels: np.ndarray,
    totals: np.ndarray,
    squares: np.ndarray,
    log_scale: np.ndarray,
    weight_sums: np.ndarray,
    num_samples: np.ndarray,
    is_over: np.ndarray,
) -> None:
    """Lines 9 to 14 of Algorithm 2: the leader and the second change by one sample at a time.

    Views of a lane's rows are taken once, for each costs as much as the rest of a sample.
    """
    bars, is_paper = rule.bars, rule.enough_size == np.inf
    scale_by_value = scale_by_value and is_paper  # the other rule divides by the largest weight
    for r in range(lanes.size):
        n = lanes[r]
        total, square, sums = totals[n], squares[n], weight_sums[n]
        eps, factors = gumbels[n], np.exp(gumbels[n])
        leader, second = _find_leaders(total)
        d, scale = num_samples[n], log_scale[n]
        for j in range(log_weights.shape[1]):
            d += 1
            log_weight, i = log_weights[r, j], winners[r, j]
            if log_weight > -np.inf:
                size = log_weight + eps[i] if scale_by_value else log_weight
                if size > scale:
                    shrink = math.exp(scale - size)
                    _rescale(shrink, total, square, sums)
                    second *= shrink
                    scale = size
                weight = math.exp(log_weight - scale)
                value = weight * factors[i]
                sums[0] += weight
                sums[1] += weight * weight
                total[i] += value  # line 10, times m
                square[i] += value * value
                if i != leader:  # line 11
                    second = max(second, min(total[i], total[leader]))
                    leader = i if total[i] > total[leader] else leader
            is_decided = (total[leader] - second) / (d + 1) > bars[d]  # line 12: m is d + 1
            if not is_paper and not is_decided and total[leader] > 0.0:
                is_decided = _is_settled(rule, total, square, sums, factors, leader)
            if (is_decided and total[leader] > 0.0) or d == bars.size - 1:
                is_over[r] = True
                break
        num_samples[n], log_scale[n] = d, scale


@inner
def _is_settled(
    rule: StoppingRule,
    total: np.ndarray,
    squares: np.ndarray,
    weight_sums: np.ndarray,
    factors: np.ndarray,
    leader: int,
) -> bool:
    """Apply the self-normalised rule of `stopping`, sums being in units of the largest w."""
    if weight_sums[0] * weight_sums[0] >= rule.enough_size * weight_sums[1]:
        return True
    level = rule.level + math.log(total.size - 1)
    if total[leader] < level * factors[leader]:  # no r < 1 could do
        return False
    for i in range(total.size):
        if i != leader:
            bound = max(factors[leader], factors[i])
            gap = (total[leader] - total[i]) / bound
            variance = (squares[leader] + squares[i]) / (bound * bound)
            if _find_evidence(rule.tilts, gap, variance) <= level:
                return False
    return True


@inner
def _find_evidence(tilts: np.ndarray, gap: float, variance: float) -> float:
    """Return the largest of r S - psi(r) V over the values of r."""
    best = 0.0
    for k in range(tilts.shape[0]):
        best = max(best, tilts[k, 0] * gap - tilts[k, 1] * variance)
    return best


@inner
def _find_leaders(total: np.ndarray) -> tuple[int, float]:
    """Return the arm with the largest total, and the largest total of the others."""
    leader, second = 0, 0.0
    for i in range(1, total.size):
        leader = i if total[i] > total[leader] else leader
    for i in range(total.size):
        if i != leader and total[i] > second:
            second = total[i]
    return leader, second


@inner
def _rescale(
    shrink: float, total: np.ndarray, squares: np.ndarray, weight_sums: np.ndarray
) -> None:
    """Shrink sums to a new maximum of the scale, which keeps the order of the totals."""
    for i in range(total.size):
        total[i] *= shrink
        squares[i] *= shrink * shrink
    weight_sums[0] *= shrink
    weight_sums[1] *= shrink * shrink


@kernel
def _run_alone(
    rng: np.random.Generator,
    lanes: np.ndarray,
    family: int,
    first: np.ndarray,
    second: np.ndarray,
    tables: Tables,
    coefficients: np.ndarray,
    sets: np.ndarray,
    support: np.ndarray,
    rule: StoppingRule,
    scale_by_value: bool,
    chunk_size: int,
    gumbels: np.ndarray,
    totals: np.ndarray,
    squares: np.ndarray,
    log_scale: np.ndarray,
    weight_sums: np.ndarray,
    num_samples: np.ndarray,
) -> None:
    """Draw, weigh and race, a lane at a time, whose tables then stay in the core's own cache."""
    is_over = np.empty(1, dtype=np.bool_)
    for r in range(lanes.size):
        lane, is_over[0] = lanes[r : r + 1], False
        while not is_over[0]:
            size = min(chunk_size, rule.bars.size - 1 - num_samples[lane[0]])
            means = np.empty((1, first.shape[1], size))
            winners, log_weights = np.empty((1, size), dtype=np.int64), np.empty((1, size))
            fill(log_weights[0], 0.0)
            draw_chunk(rng, family, first, second, lane, tables, means, winners)
            add_log_densities(means, coefficients, sets, lane, support, log_weights)
            _run_races(
                lane, log_weights, winners, rule, scale_by_value, gumbels, totals, squares,
                log_scale, weight_sums, num_samples, is_over,
            )  # fmt: skip
