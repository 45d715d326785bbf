"""How efficient a proposal is in each lane, and what races with its draws miss.

Its efficiency is the effective sample size of its weights, per draw.

Weights do not show posterior mass that the proposal never reaches. So a lane is checked whenever
its pulls have doubled, and at its next reward after a race with far fewer effective samples than
wanted, as data may contradict those of the last check:

- before a race, *pilots*, draws of the proposal that decide nothing, give its efficiency and how
  far weights favour an arm. So a race's length can be fixed before its own draws, and does not
  depend on them. Few pilots miss the largest weights, and overestimate it; so more are drawn where
  one outweighs the others;
- after it, a *reference sample*, weighted draws from the posterior p that are independent of q,
  shows what the race misses. A race of m draws from q picks one by its weight and plays its best
  arm. That arm is in a set A with probability

      m E_q[w(x) 1_A(x) / (w(x) + W)]  =  m E_q[w] E_p[1_A(x) / (w(x) + W)],

  where W is the sum of the other m - 1 weights. So the race counts a draw x of the posterior in
  proportion to 1 / (w(x) + W). What it misses is the total variation between the best-arm
  probabilities of draws with this factor and without it. W is that of a race that was run. So one
  number judges the mass that it has not met and the few draws that it rests on.

Reference samples are of the posterior itself, if a second proposal equals it. Else they are of all
other proposals that suit the problem, and of the prior. If pilots do not fix the race's length,
they are one too: they show what m draws miss of what many see.

Notation: K arms, N lanes, R of them checked, m samples of a race, M of a reference sample.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from agents.posteriors.weighted_draws import WeightedDraws, find_particles, normalise_weights
from agents.racing.races import Proposal, Races, draw_weighted, find_log_weights, split_lanes
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem

MIN_PILOTS_PER_CHECK, MAX_PILOTS_PER_CHECK, NUM_REFERENCE = 256, 1 << 14, 1024
PILOT_GROWTH = 4
"""Factor of the number of pilots where those so far are too few."""

MAX_FIRST_WEIGHT, MAX_PILOT_WEIGHT = 1 / 24, 1 / 48
"""Largest normalised weight of one pilot: among the first pilots, and among more. More are drawn
where weights are skewed, and are to show how far."""

MAX_BIAS = 0.006
"""Total variation of races from the best-arm probabilities, estimated from a lane's pilots."""

SECOND_CHECK_PULLS = 8
"""Least pulls at a lane's second check."""

MIN_RACE_EFFICIENCY = 0.5
"""Fraction of the effective samples wanted below which a race shows that efficiency has fallen."""

NEVER_DUE = np.iinfo(np.int64).max
MAX_COVERAGE_ERROR = 0.05
"""Total variation of a race's best-arm probabilities from the true ones, plus its standard error,
up to which a lane is not flagged."""

LOG_UNSEEN = -5.0
"""Log of the factor by which a race counts a prior draw too little, below which a lane is flagged.
A mode that is rare given a part of the data may dominate given all of them."""

NUM_PRIOR_SAMPLE_DRAWS, NUM_ONE_MODE_DRAWS = 4096, 1024
MIN_EFFECTIVE_PILOTS = 100.0
"""Effective sample size of pilots, and of the prior's draws given a part of the data."""

MIN_DATA_FRACTION = 1e-4
"""Share of a lane's data that weights a prior sample."""

MAX_UNEXPLAINED = 12.0
"""Log-likelihood, plus one an arm, by which average rewards may explain the data better than all
draws of the prior together."""

MIN_DIVISOR = 1e-300
"""The smallest efficiency that is divided by."""


class PriorSample:
    """Draws of the prior, weighted by data: a reference sample where no other is known.

    Few draws keep weight once there are many data. So the part of a lane's data that is used is
    halved until enough draws keep weight. Where the data ask for a rare mode of the prior, its
    draws have gained weight by then, and reveal a proposal that has not seen it. That is evidence
    and no proof: a mode that no draw has met stays unseen.

    Arguments:
        problem: likelihood and prior.
    """

    def __init__(self, problem: BanditProblem) -> None:
        size = NUM_ONE_MODE_DRAWS if problem.offers("normal_box") else NUM_PRIOR_SAMPLE_DRAWS
        rng = make_generator("prior sample")
        self.problem, self.means = problem, problem.prior.sample(rng, (size, problem.num_arms))

    def resample(
        self, counts: np.ndarray, sums: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return draws by weight, given as large a part of the data as leaves enough of them.

        A log-likelihood is linear in counts and sums, up to a term without the mean. Resampling is
        systematic: no draw of weight 1/M is left out.

        Args:
            counts: (R, K) pulls of each arm.
            sums: (R, K) their total rewards.

        Returns:
            (R, K, M) draws, the (R, 1) part of the data that weights them, and (R,) True where they
            explain this far worse than averages do.
        """
        log_likelihood = self._log_likelihood(self.means, counts, sums)
        part, is_few = np.ones((len(counts), 1)), np.ones(len(counts), dtype=bool)
        while is_few.any():
            log_weights = np.where(log_likelihood > -np.inf, part * log_likelihood, -np.inf)
            sizes = WeightedDraws(self.means, log_weights).effective_sample_size()
            is_few = (sizes < MIN_EFFECTIVE_PILOTS) & (part[:, 0] > MIN_DATA_FRACTION)
            part[is_few] /= 2
        weights, log_total = normalise_weights(log_weights)
        averages = np.where(counts > 0, sums / np.where(counts > 0, counts, 1), self.means[0])
        best = part * self._log_likelihood(averages[:, None], counts, sums)
        is_unexplained = best[:, 0] - log_total > MAX_UNEXPLAINED + self.problem.num_arms
        levels = (np.arange(MIN_PILOTS_PER_CHECK) + 0.5) / MIN_PILOTS_PER_CHECK
        chosen = find_particles(weights, levels[None])
        return np.ascontiguousarray(self.means[chosen].swapaxes(1, 2)), part, is_unexplained

    def _log_likelihood(
        self, means: np.ndarray, counts: np.ndarray, sums: np.ndarray
    ) -> np.ndarray:
        data = counts[:, None], sums[:, None]
        return self.problem.likelihood.log_likelihood(means, *data).sum(axis=-1)


class CoverageCheck:
    """Checks a proposal in each of N lanes as their data grow.

    Arguments:
        proposal: to check. The posterior itself, whose weights are equal, needs no check.
        others: further ones that suit the problem.
        effective_samples: those wanted of a race; None if its length does not depend on them.

    Attributes:
        prior_sample: the reference sample, if no proposal is the posterior itself.
        next_check: (N,) pulls at a lane's next check.
        last_check: (N,) pulls at its last check; 0 before.
        efficiencies: (N,) wanted effective samples over the length of a race; 1 if lengths do not
            depend on them.
        has_low_coverage: (N,) True where a race misses what would change its answer
            (`Doubt.LOW_COVERAGE`).
    """

    state_names = ("next_check", "last_check", "efficiencies", "has_low_coverage")

    def __init__(
        self, proposal: Proposal, others: list[Proposal], effective_samples: float | None
    ) -> None:
        self.proposal, self.others = proposal, others
        self.effective_samples = effective_samples
        self.prior_sample = None
        if all(known.posterior is None for known in (proposal, *others)):
            self.prior_sample = PriorSample(proposal.problem)
            # A copy gets parts of the data, so that the one that races keeps its own lanes.
            self._part_proposal = proposal.fork()

    def restart(self, mask: np.ndarray) -> None:
        """Forget the (N,) masked lanes."""
        if mask.all():
            self.efficiencies = np.ones(len(mask))
            self.has_low_coverage, self._has_few_pilots = np.zeros((2, len(mask)), dtype=bool)
            self.next_check, self.last_check = np.zeros((2, len(mask)), dtype=np.int64)
        self.efficiencies[mask], self.has_low_coverage[mask], self.last_check[mask] = 1.0, False, 0
        self.next_check[mask] = NEVER_DUE if self.proposal.posterior else 0

    def find_lengths(self, max_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the (N,) lengths of races that give the effective samples, by the efficiencies.

        Also the (R,) lanes that are due for a check. Their efficiencies are estimated anew.
        """
        checked = np.flatnonzero(self.proposal.counts.sum(axis=1) >= self.next_check)
        if self.effective_samples is None:
            return np.full(self.efficiencies.shape, max_samples), checked
        if checked.size:
            self._estimate_efficiencies(checked, self.effective_samples)
        wanted = np.ceil(self.effective_samples / np.maximum(self.efficiencies, MIN_DIVISOR))
        return np.minimum(wanted, max_samples).astype(np.int64), checked

    def _estimate_efficiencies(self, checked: np.ndarray, wanted: float) -> None:
        """Estimate the efficiencies of (R,) lanes from pilots, for the effective samples wanted."""
        first, group = self._group_by_data(checked)
        for lanes, pilots in self._draw_pilots(first):
            num_pilots, sizes = pilots.weights.shape[1], pilots.effective_sample_size()
            self._has_few_pilots[lanes] = sizes < MIN_EFFECTIVE_PILOTS
            # A longer race is of no use where so many pilots have so small an effective size.
            efficiencies = (
                np.where(sizes > 0, np.maximum(sizes, MIN_EFFECTIVE_PILOTS), 0.0) / num_pilots
            )
            if num_pilots > MIN_PILOTS_PER_CHECK:  # with even weights the estimate is noise
                efficiencies *= wanted / np.maximum(wanted, estimate_bias(pilots) / MAX_BIAS)
            self.efficiencies[lanes] = efficiencies
        self.efficiencies[checked] = self.efficiencies[first[group]]
        self._has_few_pilots[checked] = self._has_few_pilots[first[group]]

    def check_races(self, checked: np.ndarray, races: Races, sizes: np.ndarray) -> None:
        """Check the (R,) lanes by N races, and find whose efficiencies have fallen.

        Lanes are checked at their next reward if their races had too small (N,) effective sizes.
        Those that are flagged already wait: they would take many pilots, to little use.
        """
        if checked.size:
            self._check_coverage(checked, races)
        if self.effective_samples is not None:
            is_few = sizes < MIN_RACE_EFFICIENCY * self.effective_samples
            is_few &= (races.num_samples > 0) & ~self.has_low_coverage
            self.next_check[is_few] = self.proposal.counts[is_few].sum(axis=1) + 1

    def _check_coverage(self, checked: np.ndarray, races: Races) -> None:
        """Find in which of the (R,) lanes coverage is low, after N races.

        Coverage is a property of the data, while sums of weights vary by chance. So of lanes with
        the same data, the one with the median sum is checked for all. A lane that did not race is
        checked later.
        """
        checked, log_sums = checked[races.num_samples[checked] > 0], races.log_sums_of_others()
        _, group = self._group_by_data(checked)
        medians = checked[find_medians(log_sums[checked], group)]
        self.has_low_coverage[medians] = self._has_few_pilots[medians]
        for lanes in split_lanes(medians, NUM_REFERENCE * self.proposal.problem.num_arms):
            for other in self.others:
                self.has_low_coverage[lanes] |= self._misses_other(other, lanes, log_sums[lanes])
            if self.prior_sample is not None:
                self.has_low_coverage[lanes] |= self._misses_prior(lanes, races.num_samples[lanes])
            if self.prior_sample is not None and self.effective_samples is None:
                for part, pilots in self._draw_pilots(lanes):
                    error = estimate_coverage_error(pilots, pilots.log_weights, log_sums[part])
                    self.has_low_coverage[part] |= error > MAX_COVERAGE_ERROR
        self.has_low_coverage[checked] = self.has_low_coverage[medians[group]]
        self.last_check[checked] = pulls = self.proposal.counts[checked].sum(axis=1)
        self.next_check[checked] = np.maximum(2 * pulls, SECOND_CHECK_PULLS)

    def _group_by_data(self, checked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first of the (R,) lanes with each data, and (R,) numbers of these groups."""
        data = np.concatenate([self.proposal.counts[checked], self.proposal.sums[checked]], axis=1)
        _, first, group = np.unique(data, axis=0, return_index=True, return_inverse=True)
        return checked[first], group.ravel()

    def _misses_other(self, other: Proposal, lanes: np.ndarray, log_sums: np.ndarray) -> np.ndarray:
        """Return (R,) True where races miss a part of what another proposal sees."""
        rng = make_generator("reference sample")
        other.update(rng, self.proposal.counts[lanes], self.proposal.sums[lanes])
        reference = draw_weighted(rng, other, np.arange(len(lanes)), NUM_REFERENCE)
        log_weights = find_log_weights(self.proposal, lanes, reference.means.swapaxes(1, 2))
        error = estimate_coverage_error(reference, log_weights, log_sums)
        return (error > MAX_COVERAGE_ERROR) | other.is_unreliable()

    def _misses_prior(self, lanes: np.ndarray, num_samples: np.ndarray) -> np.ndarray:
        """Return (R,) True where races hardly ever see a draw of the prior, or none explains data.

        Pilots estimate the sum of the races' weights given a part of the data.
        """
        assert self.prior_sample is not None
        counts, sums = self.proposal.counts[lanes], self.proposal.sums[lanes]
        means, part, is_unexplained = self.prior_sample.resample(counts, sums)
        rng = make_generator("pilots given a part of the data")
        self._part_proposal.update(rng, part * counts, part * sums)
        own_lanes = np.arange(len(lanes))
        log_weights = find_log_weights(self._part_proposal, own_lanes, means)
        pilots = draw_weighted(rng, self._part_proposal, own_lanes, MIN_PILOTS_PER_CHECK)
        log_total = normalise_weights(pilots.log_weights)[1]
        log_sums = np.maximum(np.log(num_samples / MIN_PILOTS_PER_CHECK) + log_total, -1e300)
        log_chances = -np.logaddexp(0.0, log_weights - log_sums[:, None])
        return (log_chances < LOG_UNSEEN).any(axis=1) | is_unexplained

    def _draw_pilots(self, lanes: np.ndarray) -> Iterator[tuple[np.ndarray, WeightedDraws]]:
        """Yield parts of the (R,) lanes and their pilots, the same whenever asked.

        Their number grows until their effective size is MIN_EFFECTIVE_PILOTS and none weighs more
        than MAX_FIRST_WEIGHT, later MAX_PILOT_WEIGHT, or to MAX_PILOTS_PER_CHECK.
        """
        size, most = MIN_PILOTS_PER_CHECK, MAX_FIRST_WEIGHT
        while lanes.size:
            few = []
            for part in split_lanes(lanes, size * self.proposal.problem.num_arms):
                pilots = draw_weighted(make_generator("pilots"), self.proposal, part, size)
                is_enough = pilots.weights.max(axis=1) <= most
                is_enough &= pilots.effective_sample_size() >= MIN_EFFECTIVE_PILOTS
                is_enough |= size >= MAX_PILOTS_PER_CHECK
                if is_enough.any():
                    chosen = pilots.means[is_enough], pilots.log_weights[is_enough]
                    yield part[is_enough], WeightedDraws(*chosen)
                few.append(part[~is_enough])
            lanes, size, most = np.concatenate(few), PILOT_GROWTH * size, MAX_PILOT_WEIGHT


def estimate_coverage_error(
    reference: WeightedDraws, log_weights: np.ndarray, log_sums: np.ndarray
) -> np.ndarray:
    """Return (R,) distances of best-arm probabilities as races count draws from the true ones.

    Args:
        reference: (R, M) weighted draws of the posterior.
        log_weights: (R, M) of these draws in the races.
        log_sums: (R,) of the other weights in a race.

    Returns:
        (R,) total variation plus the standard error of its differences; see the module.
    """
    counted = reference.log_weights - np.logaddexp(log_weights, log_sums[:, None])
    as_raced = WeightedDraws(reference.means, counted)
    error = np.square(as_raced.weights - reference.weights).sum(axis=1)
    return best_arm_distance(as_raced, reference) + np.sqrt(error)


def estimate_bias(pilots: WeightedDraws) -> np.ndarray:
    """Return (R,) distances of races from best-arm probabilities, times their effective samples.

    A race counts draws by 1 / (w + W), see the module; for a large W that is (1 - w / W) / W. So
    arm i loses P_i (E_p[w | i is best] - E_p[w]) / W of its probability P_i.
    """
    return best_arm_distance(WeightedDraws(pilots.means, 2 * pilots.log_weights), pilots)


def best_arm_distance(first: WeightedDraws, second: WeightedDraws) -> np.ndarray:
    """Return the (R,) total variation between two best-arm probabilities."""
    difference = first.best_arm_probabilities() - second.best_arm_probabilities()
    return np.asarray(abs(difference).sum(axis=1) / 2)


def find_medians(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the index of the median of each group 0, 1, ... of (R,) values."""
    order, sizes = np.lexsort([values, group]), np.bincount(group)
    return order[sizes.cumsum() - sizes + sizes // 2]
