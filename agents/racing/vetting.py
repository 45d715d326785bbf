"""What a proposal's draws are worth in each lane, and whether they see what decides.

Weights tell of a proposal by its *own* draws: mass of the posterior where it never goes is not in
them. So a lane is vetted whenever its pulls have doubled, by draws that decide nothing:

- *pilot* draws of the proposal give the effective samples that one draw is worth. A race can so
  choose its length before its own draws, and chooses nothing by what these turn out to be;
- a *witness*, weighted draws from the posterior that come by another way, shows where the posterior
  is. Where x has the weight w(x) = Z r(x), Z = E_q[w], a race of m draws sees x with probability
  about min(1, m / r(x)). The law of the best arm in what is seen, against that in all of it, says
  what the race misses.

A proposal that has no witness is its own, which shows what m draws miss of what many see.

Letters: K arms, N lanes, R of them vetted, m samples.
"""

from __future__ import annotations

import numpy as np

from agents.numerics.kernels import Draws
from agents.racing.bank import Bank
from agents.racing.proposal import Proposal, split_lanes

SMALLEST = 5e-324
"""The least positive number, to divide 0 by."""

NUM_PILOTS, NUM_WITNESSES = 256, 2048
FIRST_PULLS = 4
"""Pulls after which a lane is vetted for the second time; then whenever they have doubled."""
LARGEST_MISS = 0.07
"""Total variation between the laws of the best arm in what is seen and in all; what noise is left
of so many draws stays below it."""


LOG_UNSEEN = -5.0
"""Of the chances that a race sees a draw of a bank. More data may make a camp of such draws rule,
however rare it is at the part of them that the bank can follow."""


class Vetting:
    """Vets a proposal in each of N lanes as their data grow.

    Arguments:
        proposal: to vet. One whose weights are equal needs no vetting.
        witness: of the posterior; None if the proposal's own draws have to do.

    Attributes:
        shares: (N,) effective samples that a draw is worth.
        is_blind: (N,) True where a race misses what would change its answer.
    """

    def __init__(self, proposal: Proposal, witness: Proposal | Bank | None) -> None:
        self.proposal, self.witness = proposal, witness

    def restart(self, mask: np.ndarray) -> None:
        """Forget the (N,) masked lanes."""
        if mask.all():
            self.shares, self.is_blind = np.ones(len(mask)), np.zeros(len(mask), dtype=bool)
            self._next = np.zeros(len(mask), dtype=np.int64)  # pulls at which a lane is due
        self.shares[mask], self.is_blind[mask], self._next[mask] = 1.0, False, 0
        self._due = np.empty(0, dtype=np.int64)

    def look_ahead(self) -> None:
        """Renew the shares of the lanes that are due."""
        if self.proposal.has_equal_weights:
            return
        pulls = self.proposal.counts.sum(axis=1)
        self._due = np.flatnonzero(pulls >= self._next)
        if not self._due.size:
            return
        self._next[self._due] = np.maximum(2 * pulls[self._due], FIRST_PULLS)
        lanes, which = self._different(np.zeros(len(pulls)))
        for tile in self._tiles(lanes):
            weights = scale_weights(self._pilot(tile).log_weights)[0]
            squares = np.maximum(np.square(weights).mean(axis=1), SMALLEST)
            self.shares[tile] = weights.mean(axis=1) ** 2 / squares
        self.shares[self._due] = self.shares[lanes[which]]

    def look_back(self, num_samples: np.ndarray) -> None:
        """Say which of the lanes that were due had a blind race, given (N,) numbers of samples."""
        if not self._due.size:
            return
        counts, sums = self.proposal.counts, self.proposal.sums
        different, which = self._different(np.round(np.log2(np.maximum(num_samples, 1))))
        for lanes in self._tiles(different):
            testimony = self._pilot(lanes)
            log_weights = log_pilots = testimony.log_weights
            if self.witness is not None:
                testimony, pilot = self._testify(counts[lanes], sums[lanes])
                rows = np.arange(len(lanes))
                log_weights = self.proposal.weigh(rows, testimony.means)
                log_pilots = self.proposal.weigh(rows, pilot.means)
            weights, log_scale = scale_weights(log_pilots)
            with np.errstate(divide="ignore", invalid="ignore"):
                log_reach = log_scale + np.log(weights.mean(axis=1) * num_samples[lanes])
                log_chances = np.minimum(log_reach[:, None] - log_weights, 0.0)
            self.is_blind[lanes] = self._miss(testimony, log_chances) > LARGEST_MISS
            self._follow(counts, sums)
        self.is_blind[self._due] = self.is_blind[different[which]]

    def _different(self, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (R,) due lanes of different data or (N,) kinds, and which is like each due one."""
        columns = self.proposal.counts, self.proposal.sums, kinds[:, None]
        rows = np.concatenate(columns, axis=1)[self._due]
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return self._due[first], which.ravel()

    def _follow(self, counts: np.ndarray, sums: np.ndarray) -> None:
        if self.proposal.counts is not counts:
            self.proposal.follow(np.random.default_rng(0), counts, sums)

    def _testify(self, counts: np.ndarray, sums: np.ndarray) -> tuple[Draws, Draws]:
        """Return draws of the witness and of the proposal for what the witness knows of (R, K)."""
        assert self.witness is not None
        rng, rows = np.random.default_rng(0), np.arange(len(counts))
        self.witness.follow(rng, counts, sums)
        self._follow(self.witness.counts, self.witness.sums)
        return self.witness.draw(rng, rows, NUM_WITNESSES), self._pilot(rows)

    def _miss(self, testimony: Draws, log_chances: np.ndarray) -> np.ndarray:
        """Return the (R,) part of the answer that is missed; all, where a bank has doubts."""
        if isinstance(self.witness, Bank):
            return ((log_chances < LOG_UNSEEN).any(axis=1) | self.witness.is_far).astype(float)
        weights = scale_weights(testimony.log_weights)[0]
        seen = weights * np.exp(np.where(weights > 0.0, log_chances, 0.0))
        is_best = testimony.winners[:, None] == np.arange(testimony.means.shape[1])[:, None]
        laws = [np.einsum("rm,rkm->rk", mass, is_best) for mass in (weights, seen)]
        laws = [law / np.maximum(law.sum(axis=1, keepdims=True), SMALLEST) for law in laws]
        return abs(laws[0] - laws[1]).sum(axis=1) / 2

    def _tiles(self, lanes: np.ndarray) -> list[np.ndarray]:
        return split_lanes(lanes, NUM_WITNESSES * self.proposal.problem.num_arms)

    def _pilot(self, lanes: np.ndarray) -> Draws:
        return self.proposal.draw(np.random.default_rng(0), lanes, NUM_PILOTS)


def scale_weights(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (R, m) weights of which the largest in a row is 1, and the (R,) logs of their unit."""
    top = log_weights.max(axis=1)
    log_scale = np.where(top > -np.inf, top, 0.0)
    return np.exp(log_weights - log_scale[:, None]), log_scale
