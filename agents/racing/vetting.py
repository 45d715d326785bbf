"""What a proposal's draws are worth in each lane, and whether they see what decides.

Weights tell of a proposal by its *own* draws: mass of the posterior where it never goes is not in
them. So a lane is vetted whenever its pulls have doubled, beyond 64 have grown fourfold:

- before a race, *pilot* draws of the proposal, which decide nothing, give the effective samples
  that one draw is worth, and how far weights favour an arm. A race can so choose its
  length before its own draws, and chooses nothing by what these turn out to be. Few pilots miss the
  largest weights, and overstate that worth; so there are more where one outweighs others;
- after it, a *witness*, weighted draws from the posterior p that come by another way, shows what
  the race misses. A race of m draws from q plays the best arm of one that is picked by its weight,
  an arm of a set A with probability

      m E_q[w(x) 1_A(x) / (w(x) + W)]  =  m E_q[w] E_p[1_A(x) / (w(x) + W)],

  where W is the sum of the other m - 1 weights. So the race counts a draw x of the posterior as
  much as 1 / (w(x) + W), up to a constant, and the law of the best arm among draws so counted,
  against that among all alike, is what it misses. W is that of a race that was run: the mass that
  it has not met and the few draws that it rests on are judged as one.

A proposal that has no witness is its own, which shows what m draws miss of what many see. Where
independence was inferred from draws of the prior, it is tried once more where the data lead.

Letters: K arms, N lanes, R of them vetted, m samples of a race, M of a witness.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from agents.posteriors.weighted_draws import WeightedDraws, normalise
from agents.racing.normal import NormalProposal
from agents.racing.proposals import Proposal
from agents.racing.races import Races
from agents.racing.stopping import SelfNormalised, Stop
from agents.racing.weighing import split_lanes, weigh
from bandit_gym.problem import BanditProblem

NUM_PILOTS, MAX_PILOTS, NUM_WITNESSES = 256, 1 << 14, 1024
MORE = 4
"""Times as many pilots are drawn where those so far are too few."""

HEAVIEST_PILOT = 1 / 24
"""Of the weight of all pilots. Cut normal priors leave it below with the first 256."""

LARGEST_LEAN = 0.006
"""Total variation by which weights may make races lean, as a lane's pilots foresee it."""

FIRST_PULLS, MANY_PULLS = 8, 64
"""Pulls at which a lane is vetted for the second time, and from which on they grow fourfold."""

NEVER = np.iinfo(np.int64).max
LARGEST_MISS = 0.05
"""Total variation between the law of the best arm as a race counts and the true one, with the error
of finding it out, up to which a lane is not flagged."""

LOG_UNSEEN = -5.0
"""Of the chances that a race sees a draw of a bank. More data may make a camp of such draws rule,
however rare it is at the part of them that the bank can follow."""

BANK_SIZE = 4096
FEWEST = 100.0
"""Effective draws that pilots must be worth, and that a part of the data must leave of a bank."""

FAR = 12.0
"""Log-likelihood, beside one for each arm, by which the averages of rewards may explain the data
better than all draws of a bank together do."""


class Bank:
    """A witness for priors that nothing exact is known of: their own draws, weighed by data.

    Few draws from the prior keep weight once there are many data. So of a lane's data only as large
    a part is taken as leaves enough of them: half of them, and half again. Where the prior has a
    rare camp that the data ask for, its draws have come to the fore by then, and a proposal that
    has not seen it shows. That is evidence and no proof: a camp that no draw has met stays unseen.

    Arguments:
        problem: likelihood and prior.

    Attributes:
        counts: (R, K) pulls of the part.
        sums: (R, K) their total rewards, in proportion.
        is_far: (R,) True where no draw comes near what explains the part.
    """

    def __init__(self, problem: BanditProblem) -> None:
        shape = (BANK_SIZE, problem.num_arms)
        self.problem, self.means = problem, problem.prior.sample(np.random.default_rng(0), shape)

    def follow(self, counts: np.ndarray, sums: np.ndarray) -> None:
        """Take as large a part of (R, K) counts and sums as leaves enough draws."""
        self.counts, self.sums = counts.copy(), sums.copy()
        self._log_weights, poor = np.empty((len(counts), BANK_SIZE)), np.arange(len(counts))
        while poor.size:
            self._log_weights[poor] = self._log_likelihood(self.means, poor)
            weights = normalise(self._log_weights[poor])[0]
            is_void = self._log_weights[poor].max(axis=1) == -np.inf
            poor = poor[is_void | (np.square(weights).sum(axis=1) > 1 / FEWEST)]
            poor = poor[self.counts[poor].any(axis=1)]
            half = self.counts[poor] // 2
            self.sums[poor] *= half / np.maximum(self.counts[poor], 1)
            self.counts[poor] = half
        averages = np.where(self.counts > 0, self.sums / np.maximum(self.counts, 1), self.means[0])
        best = self._log_likelihood(averages[:, None], np.arange(len(counts)))[:, 0]
        log_total = normalise(self._log_weights)[1]
        self.is_far = best - log_total > FAR + self.problem.num_arms

    def _log_likelihood(self, means: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        data = self.counts[lanes, None], self.sums[lanes, None]
        return self.problem.likelihood.log_likelihood(means, *data).sum(axis=-1)

    def draw(self) -> np.ndarray:
        """Return (R, K, M) draws by their weights, at even levels: none of 1/M is left out."""
        levels = (np.arange(NUM_WITNESSES) + 0.5) / NUM_WITNESSES
        below = normalise(self._log_weights)[0].cumsum(axis=1)
        chosen = np.array([np.searchsorted(row, levels * row[-1]) for row in below])
        return np.ascontiguousarray(self.means[chosen].swapaxes(1, 2))


class Vetting:
    """Vets a proposal in each of N lanes as their data grow.

    Arguments:
        proposal: to vet. One whose weights are equal, and known to be, needs no vetting.
        matched: another one that suits the problem, if there is one.
        stop: what ends the races.

    Attributes:
        is_sure: whether the witness knows all of the posterior.
        due: (N,) pulls at which a lane is to be vetted.
        last: (N,) pulls at which it was last; 0 before.
        shares: (N,) effective samples that a draw is worth; 1 where the stop asks for no number.
        is_blind: (N,) True where a race misses what would change its answer.
        is_rough: (N,) True where pilots were worth too little to tell.
    """

    state_names = ("due", "last", "shares", "is_blind")

    def __init__(self, proposal: Proposal, matched: Proposal | None, stop: Stop) -> None:
        self.proposal, self.stop = proposal, stop
        self.witness = find_witness(proposal, matched)
        self.is_sure = isinstance(self.witness, Proposal)
        # A bank's part of the data is for another than the one that races, whose lanes stay found.
        self._scout = proposal.fork() if isinstance(self.witness, Bank) else proposal
        self.has_equal_weights = proposal.posterior is not None

    def restart(self, mask: np.ndarray) -> None:
        """Forget the (N,) masked lanes."""
        if mask.all():
            self.shares, self.is_blind = np.ones(len(mask)), np.zeros(len(mask), dtype=bool)
            self.is_rough = np.zeros(len(mask), dtype=bool)
            self.due, self.last = np.zeros((2, len(mask)), dtype=np.int64)
        self.shares[mask], self.is_blind[mask], self.last[mask] = 1.0, False, 0
        is_known = self.has_equal_weights and not self.proposal.is_inferred
        self.due[mask] = NEVER if is_known else 0

    def find_due(self, counts: np.ndarray) -> np.ndarray:
        """Return the (R,) lanes that are to be vetted, given their counts."""
        return np.flatnonzero(counts.sum(axis=1) >= self.due)

    def look_ahead(self, due: np.ndarray) -> None:
        """Renew what draws are worth in the (R,) lanes that are due, if the stop asks."""
        if self.has_equal_weights or not isinstance(self.stop, SelfNormalised):
            return
        first, which = self._different(due)
        for lanes, pilots in self._pilots(first):
            num_pilots, wanted = pilots.weights.shape[1], self.stop.effective_samples
            sizes = pilots.effective_sample_size()
            self.is_rough[lanes] = sizes < FEWEST
            # A longer race is of no use where so many pilots are worth so little.
            shares = np.where(sizes > 0, np.maximum(sizes, FEWEST), 0.0) / num_pilots
            if num_pilots > NUM_PILOTS:  # of even weights, what is found here is noise
                shares *= wanted / np.maximum(wanted, lean(pilots) / LARGEST_LEAN)
            self.shares[lanes] = shares
        self.shares[due] = self.shares[first[which]]

    def look_back(self, due: np.ndarray, races: Races) -> None:
        """Say which of the (R,) lanes are blind to their data, after N races.

        Lanes of the same data share the middle one of their sums of weights: what a race has met is
        luck, and to be blind is not. A lane that did not race stays due.
        """
        due = due[races.num_samples[due] > 0]
        first, which = self._different(due)
        middle = due[find_middles(races.log_sums_of_others()[due], which)]
        for part in self._tiles(np.arange(len(first))):
            self.is_blind[first[part]] = self._is_blind(first[part], middle[part], races)
        self._note(due, first[which])

    def look_near(self, due: np.ndarray) -> None:
        """Say in which of the (R,) lanes equal weights were inferred, and are not equal."""
        first, which = self._different(due)
        self.is_blind[first] = self.proposal.is_misled(first)
        self._note(due, first[which])

    def _note(self, due: np.ndarray, like: np.ndarray) -> None:
        pulls = self.proposal.counts[due].sum(axis=1)
        growth = np.where(pulls < MANY_PULLS, 2, 4)
        self.last[due], self.due[due] = pulls, np.maximum(growth * pulls, FIRST_PULLS)
        self.is_blind[due] = self.is_blind[like]

    def _different(self, due: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return lanes of different data among (R,) due ones, and which is like each of these."""
        rows = np.concatenate([self.proposal.counts[due], self.proposal.sums[due]], axis=1)
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return due[first], which.ravel()

    def _is_blind(self, lanes: np.ndarray, like: np.ndarray, races: Races) -> np.ndarray:
        """Return (R,) True where (R,) lanes are blind, whose races were as those of (R,) others."""
        if self.has_equal_weights:
            return self.proposal.is_misled(lanes)
        if not isinstance(self.witness, Proposal):
            is_blind = self.is_rough[lanes]
            if not isinstance(self.stop, SelfNormalised):  # whose length is none that they ask for
                is_blind = self._misses_pilots(lanes, races.log_sums_of_others()[like])
            if isinstance(self.witness, Bank):
                is_blind |= self._has_doubts(self.witness, lanes, races.num_samples[like])
            return is_blind
        log_sums = races.log_sums_of_others()[like]
        rng, rows = np.random.default_rng(0), np.arange(len(lanes))
        self.witness.follow(rng, self.proposal.counts[lanes], self.proposal.sums[lanes])
        draws = self.witness.draw(rng, rows, NUM_WITNESSES)
        log_weights = weigh(self.witness, rows, draws.means, draws.log_densities)
        testimony = WeightedDraws(draws.means.swapaxes(1, 2), log_weights)
        seen = weigh(self.proposal, lanes, draws.means)
        return (miss(testimony, seen, log_sums) > LARGEST_MISS) | self.witness.is_misled(rows)

    def _misses_pilots(self, lanes: np.ndarray, log_sums: np.ndarray) -> np.ndarray:
        """Return (R,) True where races miss a part of what pilots see."""
        found, sums = np.zeros(len(self.shares), dtype=bool), np.empty(len(self.shares))
        sums[lanes] = log_sums
        for part, pilots in self._pilots(lanes):
            found[part] = miss(pilots, pilots.log_weights, sums[part]) > LARGEST_MISS
        return found[lanes]

    def _has_doubts(self, bank: Bank, lanes: np.ndarray, num_samples: np.ndarray) -> np.ndarray:
        """Return (R,) True where a bank has draws that races of (R,) samples miss, or none."""
        rng, rows, scout = np.random.default_rng(0), np.arange(len(lanes)), self._scout
        bank.follow(self.proposal.counts[lanes], self.proposal.sums[lanes])
        scout.follow(rng, bank.counts, bank.sums)
        log_weights = weigh(scout, rows, bank.draw())
        pilots = scout.draw(rng, rows, NUM_PILOTS)
        _, log_total = normalise(weigh(scout, rows, pilots.means, pilots.log_densities))
        log_sums = np.maximum(np.log(num_samples / NUM_PILOTS) + log_total, -1e300)
        log_chances = -np.logaddexp(0.0, log_weights - log_sums[:, None])
        return (log_chances < LOG_UNSEEN).any(axis=1) | bank.is_far

    def _tiles(self, lanes: np.ndarray) -> list[np.ndarray]:
        return split_lanes(lanes, NUM_WITNESSES * self.proposal.problem.num_arms)

    def _pilots(self, lanes: np.ndarray) -> Iterator[tuple[np.ndarray, WeightedDraws]]:
        """Yield parts of the (R,) lanes and their pilots, the same whenever asked.

        There are so many that they are worth FEWEST and none weighs more than HEAVIEST_PILOT, or
        MAX_PILOTS.
        """
        size = NUM_PILOTS
        while lanes.size:
            poor = []
            for part in split_lanes(lanes, size * self.proposal.problem.num_arms):
                draws = self.proposal.draw(np.random.default_rng(0), part, size)
                log_weights = weigh(self.proposal, part, draws.means, draws.log_densities)
                pilots = WeightedDraws(draws.means.swapaxes(1, 2), log_weights)
                is_enough = pilots.weights.max(axis=1) <= HEAVIEST_PILOT
                is_enough &= pilots.effective_sample_size() >= FEWEST
                is_enough |= size >= MAX_PILOTS
                if is_enough.any():
                    means = pilots.means[is_enough]
                    yield part[is_enough], WeightedDraws(means, log_weights[is_enough])
                poor.append(part[~is_enough])
            lanes, size = np.concatenate(poor), MORE * size


def find_witness(proposal: Proposal, matched: Proposal | None) -> Proposal | Bank | None:
    """Return whose draws can tell where the posterior lies, or None if the proposal's own can.

    Args:
        proposal: to vet.
        matched: the one that suits the problem, if there is one.
    """
    problem = proposal.problem
    is_box = problem.offers("normal_box")
    if proposal.posterior is not None or isinstance(proposal, NormalProposal) and is_box:
        return None
    if matched is None or (matched.posterior is None and not is_box):
        return Bank(problem)
    return None if isinstance(proposal, type(matched)) and matched.posterior is None else matched


def miss(testimony: WeightedDraws, log_weights: np.ndarray, log_sums: np.ndarray) -> np.ndarray:
    """Return (R,) distances between the best arm's law as races count and in all; see the module.

    Args:
        testimony: (R, M) weighted draws of the posterior.
        log_weights: (R, M) what the races weigh them.
        log_sums: (R,) of the weights that a draw competes with.

    Returns:
        (R,) total variation, and the standard error of the differences that it adds up.
    """
    counted = testimony.log_weights - np.logaddexp(log_weights, log_sums[:, None])
    as_raced = WeightedDraws(testimony.means, counted)
    laws = as_raced.best_arm_probabilities(), testimony.best_arm_probabilities()
    error = np.square(as_raced.weights - testimony.weights).sum(axis=1)
    return np.asarray(abs(laws[0] - laws[1]).sum(axis=1) / 2 + np.sqrt(error))


def lean(pilots: WeightedDraws) -> np.ndarray:
    """Return (R,) distances of races from the best arm's law, times their effective samples.

    A race counts draws by 1 / (w + W), see the module, which for a large W is (1 - w / W) / W: so
    an arm lacks as much as the average weight of its draws under the posterior exceeds that of all.
    """
    squared = WeightedDraws(pilots.means, 2 * pilots.log_weights)
    laws = squared.best_arm_probabilities(), pilots.best_arm_probabilities()
    return np.asarray(abs(laws[0] - laws[1]).sum(axis=1) / 2)


def find_middles(values: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Return where, for each group 0, 1, ... of (R,) values, its middle one is."""
    order, sizes = np.lexsort([values, which]), np.bincount(which)
    return order[sizes.cumsum() - sizes + sizes // 2]
