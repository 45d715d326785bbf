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
from agents.racing.proposal import Proposal, split_lanes

SMALLEST = 5e-324
"""The least positive number, to divide 0 by."""

NUM_PILOTS, NUM_WITNESSES = 256, 1024
FIRST_PULLS = 4
"""Pulls after which a lane is vetted for the second time; then whenever they have doubled."""
LARGEST_MISS = 0.07
"""Total variation between the laws of the best arm in what is seen and in all; what noise is left
of so many draws stays below it."""


class Vetting:
    """Vets a proposal in each of N lanes as their data grow.

    Arguments:
        proposal: to vet. One whose weights are equal needs no vetting.
        witness: of the posterior; None if the proposal's own draws have to do.

    Attributes:
        shares: (N,) effective samples that a draw is worth.
        is_blind: (N,) True where a race misses what would change its answer.
    """

    def __init__(self, proposal: Proposal, witness: Proposal | None) -> None:
        self.proposal, self.witness = proposal, witness

    def restart(self, mask: np.ndarray) -> None:
        """Forget the (N,) masked lanes."""
        if mask.all():
            self.shares, self.is_blind = np.ones(len(mask)), np.zeros(len(mask), dtype=bool)
            self._next = np.zeros(len(mask), dtype=np.int64)  # pulls at which a lane is due
        self.shares[mask], self.is_blind[mask], self._next[mask] = 1.0, False, 0

    def look_ahead(self) -> None:
        """Renew the shares of the lanes that are due."""
        pulls = self.proposal.counts.sum(axis=1)
        is_due = (pulls >= self._next) & (not self.proposal.has_equal_weights)
        self._due = np.flatnonzero(is_due)
        self._next[is_due] = np.maximum(2 * pulls[is_due], FIRST_PULLS)
        for lanes in self._tiles():
            weights = scale_weights(self._pilot(lanes).log_weights)[0]
            squares = np.maximum(np.square(weights).mean(axis=1), SMALLEST)
            self.shares[lanes] = weights.mean(axis=1) ** 2 / squares

    def look_back(self, num_samples: np.ndarray) -> None:
        """Say which of the lanes that were due had a blind race, given (N,) numbers of samples."""
        for lanes in self._tiles():
            pilot = self._pilot(lanes)
            witness, log_weights = self._testify(lanes, pilot)
            weights, log_scale = scale_weights(pilot.log_weights)
            with np.errstate(divide="ignore", invalid="ignore"):
                log_reach = log_scale + np.log(weights.mean(axis=1) * num_samples[lanes])
                missed = miss(witness, log_reach[:, None] - log_weights)
            self.is_blind[lanes] = missed > LARGEST_MISS

    def _tiles(self) -> list[np.ndarray]:
        return split_lanes(self._due, NUM_WITNESSES * self.proposal.problem.num_arms)

    def _pilot(self, lanes: np.ndarray) -> Draws:
        return self.proposal.draw(np.random.default_rng(0), lanes, NUM_PILOTS)

    def _testify(self, lanes: np.ndarray, pilot: Draws) -> tuple[Draws, np.ndarray]:
        """Return draws of the witness, weighed for the posterior and by the proposal."""
        if self.witness is None:
            return pilot, pilot.log_weights
        rng, counts, sums = np.random.default_rng(0), self.proposal.counts, self.proposal.sums
        self.witness.follow(rng, counts[lanes], sums[lanes])
        draws = self.witness.draw(rng, np.arange(len(lanes)), NUM_WITNESSES)
        return draws, self.proposal.weigh(lanes, draws.means)


def miss(witness: Draws, log_chances: np.ndarray) -> np.ndarray:
    """Return the (R,) total variation between the best arm's law in what is seen and in all.

    Args:
        witness: draws from the posterior.
        log_chances: (R, m) logarithms of what each draw's chances to be seen are, if below 0.
    """
    weights = scale_weights(witness.log_weights)[0]
    seen = weights * np.exp(np.minimum(np.where(weights > 0.0, log_chances, 0.0), 0.0))
    is_best = witness.winners[:, None] == np.arange(witness.means.shape[1])[:, None]
    laws = [np.einsum("rm,rkm->rk", mass, is_best) for mass in (weights, seen)]
    laws = [law / np.maximum(law.sum(axis=1, keepdims=True), SMALLEST) for law in laws]
    return abs(laws[0] - laws[1]).sum(axis=1) / 2


def scale_weights(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (R, m) weights of which the largest in a row is 1, and the (R,) logs of their unit."""
    top = log_weights.max(axis=1)
    log_scale = np.where(top > -np.inf, top, 0.0)
    return np.exp(log_weights - log_scale[:, None]), log_scale
