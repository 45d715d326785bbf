"""What a proposal's draws are worth in each lane, and whether they see what decides.

Weights tell of a proposal by its *own* draws: mass of the posterior where it never goes is not in
them. So a lane is vetted whenever its pulls have doubled, beyond 64 have grown fourfold, by draws
that decide nothing:

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
from agents.racing.stopping import StoppingRule

SMALLEST = 5e-324
"""The least positive number, to divide 0 by."""

NUM_PILOTS, NUM_WITNESSES = 256, 512
FIRST_PULLS, MANY_PULLS = 8, 64
"""Pulls at which a lane is vetted for the second time, and from which on they grow fourfold."""

NEVER = np.iinfo(np.int64).max
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
        rule: what ends the races.

    Attributes:
        due: (N,) pulls at which a lane is to be vetted.
        shares: (N,) effective samples that a draw is worth.
        lengths: (N,) samples that end a race, by the rule.
        is_blind: (N,) True where a race misses what would change its answer.
    """

    def __init__(
        self, proposal: Proposal, witness: Proposal | Bank | None, rule: StoppingRule
    ) -> None:
        self.proposal, self.witness, self.rule = proposal, witness, rule

    def restart(self, mask: np.ndarray) -> None:
        """Forget the (N,) masked lanes."""
        if mask.all():
            self.shares, self.is_blind = np.ones(len(mask)), np.zeros(len(mask), dtype=bool)
            self.due, self._log_means = np.zeros(len(mask), dtype=np.int64), np.zeros(len(mask))
        self.shares[mask], self.is_blind[mask] = 1.0, False
        self.due[mask] = NEVER if self.proposal.has_equal_weights else 0
        self.lengths = self.rule.lengths(self.shares)

    def look_ahead(self, due: np.ndarray) -> None:
        """Renew the lengths of races in the (R,) lanes that are due."""
        pulls = self.proposal.counts[due].sum(axis=1)
        growth = np.where(pulls < MANY_PULLS, 2, 4)
        self.due[due] = np.maximum(growth * pulls, FIRST_PULLS)
        first, which = self._different(due)
        for lanes in self._tiles(first):
            weights, log_scale = scale_weights(self._pilot(lanes).log_weights)
            means, squares = weights.mean(axis=1), np.square(weights).mean(axis=1)
            self.shares[lanes] = means**2 / np.maximum(squares, SMALLEST)
            self._log_means[lanes] = log_scale + np.log(np.maximum(means, SMALLEST))
        self.shares[due] = self.shares[first[which]]
        self._log_means[due] = self._log_means[first[which]]
        self.lengths[due] = self.rule.lengths(self.shares[due])

    def look_back(self, due: np.ndarray, num_samples: np.ndarray) -> None:
        """Say which of the (R,) lanes are blind to their data, in races of (N,) samples.

        Lanes of the same data share the middle one of their races: how long a race turns out is
        luck, and to be blind is not.
        """
        counts, sums = self.proposal.counts, self.proposal.sums
        due = due[num_samples[due].argsort(kind="stable")]
        first, which = self._different(due)
        middle = [due[which == i][(which == i).sum() // 2] for i in range(len(first))]
        log_sizes = np.zeros(len(counts))
        log_sizes[first] = np.log(np.maximum(num_samples[middle], 1))
        for lanes in self._tiles(first):
            testimony, log_weights, log_means = self._testify(lanes, counts, sums)
            with np.errstate(invalid="ignore"):
                log_reach = log_sizes[lanes] + log_means
                log_chances = np.minimum(log_reach[:, None] - log_weights, 0.0)
            self.is_blind[lanes] = self._miss(testimony, log_chances) > LARGEST_MISS
        self.is_blind[due] = self.is_blind[first[which]]

    def _different(self, due: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return lanes of different data among (R,) due ones, and which is like each of these."""
        rows = np.concatenate([self.proposal.counts[due], self.proposal.sums[due]], axis=1)
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return due[first], which.ravel()

    def _testify(
        self, lanes: np.ndarray, counts: np.ndarray, sums: np.ndarray
    ) -> tuple[Draws, np.ndarray, np.ndarray]:
        """Return draws of the witness for (R,) lanes, their weights, and log-means of weights."""
        rng, rows = np.random.default_rng(0), np.arange(len(lanes))
        if self.witness is None:
            testimony = self._pilot(lanes)
            return testimony, testimony.log_weights, self._log_means[lanes]
        self.witness.follow(rng, counts[lanes], sums[lanes])
        testimony, log_means = self.witness.draw(rng, rows, NUM_WITNESSES), self._log_means[lanes]
        if not isinstance(self.witness, Bank):
            return testimony, self.proposal.weigh(lanes, testimony.means), log_means
        self.proposal.follow(rng, self.witness.counts, self.witness.sums)
        weights, log_scale = scale_weights(self._pilot(rows).log_weights)
        log_means = log_scale + np.log(np.maximum(weights.mean(axis=1), SMALLEST))
        log_weights = self.proposal.weigh(rows, testimony.means)
        self.proposal.follow(rng, counts, sums)
        return testimony, log_weights, log_means

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
