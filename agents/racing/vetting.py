"""What a proposal's draws are worth in each lane, and whether they see what decides.

Weights tell of a proposal by its *own* draws: mass of the posterior where it never goes is not in
them. So a lane is vetted whenever its pulls have doubled, beyond 64 have grown fourfold:

- before a race, *pilot* draws of the proposal, which decide nothing, give the effective samples
  that one draw is worth. A race can so choose its length before its own draws, and chooses nothing
  by what these turn out to be;
- after it, a *witness*, weighted draws from the posterior p that come by another way, shows what
  the race misses. A race of m draws from q plays the best arm of one that is picked by its weight,
  an arm of a set A with probability

      m E_q[w(x) 1_A(x) / (w(x) + W)]  =  m E_q[w] E_p[1_A(x) / (w(x) + W)],

  where W is the sum of the other m - 1 weights. So the race counts a draw x of the posterior as
  much as 1 / (w(x) + W), up to a constant, and the law of the best arm among draws so counted,
  against that among all alike, is what it misses. W is that of a race that was run: the mass that
  it has not met and the few draws that it rests on are judged as one.

A proposal that has no witness is its own, which shows what m draws miss of what many see. Where
proposal or witness rest on what draws of the prior have shown (`Proposal.is_inferred`), that is
tried once more where the data lead.

Letters: K arms, N lanes, R of them vetted, m samples of a race, M of a witness.
"""

from __future__ import annotations

import numpy as np

from agents.numerics.kernels import Draws
from agents.racing.bank import Bank
from agents.racing.proposal import Proposal, split_lanes
from agents.racing.races import Races
from agents.racing.stopping import StoppingRule

SMALLEST = 5e-324
"""The least positive number, to divide 0 by."""

NUM_PILOTS, NUM_WITNESSES = 256, 1024
FIRST_PULLS, MANY_PULLS = 8, 64
"""Pulls at which a lane is vetted for the second time, and from which on they grow fourfold."""

NEVER = np.iinfo(np.int64).max
LARGEST_MISS = 0.05
"""Total variation between the law of the best arm as a race counts and the true one, with the error
of finding it out, up to which a lane is not flagged."""

LOG_UNSEEN = -5.0
"""Of the chances that a race sees a draw of a bank. More data may make a camp of such draws rule,
however rare it is at the part of them that the bank can follow."""


class Vetting:
    """Vets a proposal in each of N lanes as their data grow.

    Arguments:
        proposal: to vet. One whose weights are equal, and known to be, needs no vetting.
        witness: of the posterior; None if the proposal's own draws have to do.
        rule: what ends the races.

    Attributes:
        is_sure: whether the witness knows all of the posterior.
        due: (N,) pulls at which a lane is to be vetted.
        shares: (N,) effective samples that a draw is worth; 1 where the rule asks for no number.
        lengths: (N,) samples that end a race, by the rule.
        is_blind: (N,) True where a race misses what would change its answer.
    """

    state_names = ("due", "shares", "is_blind")

    def __init__(
        self, proposal: Proposal, witness: Proposal | Bank | None, rule: StoppingRule
    ) -> None:
        self.proposal, self.witness, self.rule = proposal, witness, rule
        self.is_sure = isinstance(witness, Proposal)
        # A bank's part of the data is for another than the one that races, whose lanes stay found.
        self._scout = proposal.fork() if isinstance(witness, Bank) else proposal
        self._pilots: dict[bytes, Draws] = {}
        self._is_vetted = proposal.is_inferred or not proposal.has_equal_weights

    def restart(self, mask: np.ndarray) -> None:
        """Forget the (N,) masked lanes."""
        if mask.all():
            self.shares, self.is_blind = np.ones(len(mask)), np.zeros(len(mask), dtype=bool)
            self.due = np.zeros(len(mask), dtype=np.int64)
        self.shares[mask], self.is_blind[mask] = 1.0, False
        self.due[mask] = 0 if self._is_vetted else NEVER
        self._resume()

    def _resume(self) -> None:
        """Find the lengths of races, which follow from what draws are worth."""
        self.lengths = self.rule.lengths(self.shares)

    def look_ahead(self, due: np.ndarray) -> None:
        """Renew the lengths of races in the (R,) lanes that are due, if the rule sets any."""
        if self.rule.enough_size == np.inf or self.proposal.has_equal_weights:
            return
        self._pilots.clear()
        first, which = self._different(due)
        for lanes in self._tiles(first):
            weights, _ = scale_weights(self._pilot(lanes).log_weights)
            means, squares = weights.mean(axis=1), np.square(weights).mean(axis=1)
            self.shares[lanes] = means**2 / np.maximum(squares, SMALLEST)
        self.shares[due] = self.shares[first[which]]
        self.lengths[due] = self.rule.lengths(self.shares[due])

    def look_back(self, due: np.ndarray, races: Races) -> None:
        """Say which of the (R,) lanes are blind to their data, after N races.

        Lanes of the same data share the middle one of their sums of weights: what a race has met is
        luck, and to be blind is not. A lane that did not race stays due.
        """
        due = due[races.num_samples[due] > 0]
        pulls = self.proposal.counts[due].sum(axis=1)
        growth = np.where(pulls < MANY_PULLS, 2, 4)
        self.due[due] = np.maximum(growth * pulls, FIRST_PULLS)
        first, which = self._different(due)
        middle = due[find_middles(races.log_sums_of_others()[due], which)]
        for part in self._tiles(np.arange(len(first))):
            self.is_blind[first[part]] = self._is_blind(first[part], middle[part], races)
        self.is_blind[due] = self.is_blind[first[which]]
        self._pilots.clear()

    def _different(self, due: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return lanes of different data among (R,) due ones, and which is like each of these."""
        rows = np.concatenate([self.proposal.counts[due], self.proposal.sums[due]], axis=1)
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return due[first], which.ravel()

    def _is_blind(self, lanes: np.ndarray, like: np.ndarray, races: Races) -> np.ndarray:
        """Return (R,) True where (R,) lanes are blind, whose races were as those of (R,) others."""
        if self.proposal.has_equal_weights:
            return self.proposal.is_misled(lanes)
        if isinstance(self.witness, Bank):
            return self._has_doubts(self.witness, lanes, races.num_samples[like])
        testimony, log_weights = self._testify(lanes)
        is_blind = miss(testimony, log_weights, races.log_sums_of_others()[like]) > LARGEST_MISS
        if isinstance(self.witness, Proposal):
            is_blind |= self.witness.is_misled(np.arange(len(lanes)))
        return is_blind

    def _testify(self, lanes: np.ndarray) -> tuple[Draws, np.ndarray]:
        """Return draws of the posterior for (R,) lanes, and what the proposal weighs them."""
        if not isinstance(self.witness, Proposal):
            testimony = self._pilot(lanes)
            return testimony, testimony.log_weights
        rng, counts, sums = np.random.default_rng(0), self.proposal.counts, self.proposal.sums
        self.witness.follow(rng, counts[lanes], sums[lanes])
        testimony = self.witness.draw(rng, np.arange(len(lanes)), NUM_WITNESSES)
        return testimony, self.proposal.weigh(lanes, testimony.means)

    def _has_doubts(self, bank: Bank, lanes: np.ndarray, num_samples: np.ndarray) -> np.ndarray:
        """Return (R,) True where a bank has draws that races of (R,) samples miss, or none."""
        rng, rows, scout = np.random.default_rng(0), np.arange(len(lanes)), self._scout
        bank.follow(rng, self.proposal.counts[lanes], self.proposal.sums[lanes])
        scout.expected_samples = self.proposal.expected_samples
        scout.follow(rng, bank.counts, bank.sums)
        log_weights = scout.weigh(rows, bank.draw(rng, rows, NUM_WITNESSES).means)
        pilots = scout.draw(rng, rows, NUM_PILOTS)
        weights, log_scale = scale_weights(pilots.log_weights)
        log_sums = np.log(num_samples * np.maximum(weights.mean(axis=1), SMALLEST)) + log_scale
        log_chances = -np.logaddexp(0.0, log_weights - log_sums[:, None])
        return (log_chances < LOG_UNSEEN).any(axis=1) | bank.is_far

    def _tiles(self, lanes: np.ndarray) -> list[np.ndarray]:
        return split_lanes(lanes, NUM_WITNESSES * self.proposal.problem.num_arms)

    def _pilot(self, lanes: np.ndarray) -> Draws:
        """Draw for (R,) lanes, once for what is looked at before a race and after it."""
        key = lanes.tobytes()
        if key not in self._pilots:
            self._pilots[key] = self.proposal.draw(np.random.default_rng(0), lanes, NUM_PILOTS)
        return self._pilots[key]


def miss(testimony: Draws, log_weights: np.ndarray, log_sums: np.ndarray) -> np.ndarray:
    """Return (R,) distances between the best arm's law as races count and in all; see the module.

    Args:
        testimony: (R, M) weighted draws of the posterior.
        log_weights: (R, M) what the races weigh them.
        log_sums: (R,) of the weights that a draw competes with.

    Returns:
        (R,) total variation, and the standard error of the differences that it adds up.
    """
    mass = normalise(testimony.log_weights)
    counted = normalise(testimony.log_weights - np.logaddexp(log_weights, log_sums[:, None]))
    gaps = counted - mass
    is_best = testimony.winners[:, None] == np.arange(testimony.means.shape[1])[:, None]
    distance = abs(np.einsum("rm,rkm->rk", gaps, is_best)).sum(axis=1) / 2
    return distance + np.sqrt(np.square(gaps).sum(axis=1))


def find_middles(values: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Return where, for each group 0, 1, ... of (R,) values, its middle one is."""
    order, sizes = np.lexsort([values, which]), np.bincount(which)
    return order[sizes.cumsum() - sizes + sizes // 2]


def normalise(log_weights: np.ndarray) -> np.ndarray:
    """Return (R, m) weights of which each row adds up to 1."""
    weights = scale_weights(log_weights)[0]
    return weights / np.maximum(weights.sum(axis=1, keepdims=True), SMALLEST)


def scale_weights(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (R, m) weights of which the largest in a row is 1, and the (R,) logs of their unit."""
    top = log_weights.max(axis=1)
    log_scale = np.where(top > -np.inf, top, 0.0)
    return np.exp(log_weights - log_scale[:, None]), log_scale
