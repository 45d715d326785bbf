"""The posterior as weighted particles: importance sampling, or SMC with resampling and moves.

Particles are drawn from the prior and reweighted as data arrive. Over time the weight concentrates
on few particles. When the effective sample size falls, SMC *resamples* the particles. It then
*moves* the copies by Metropolis steps that leave the posterior invariant (resample-move, Gilks and
Berzuini 2001). Very informative data are added in stages (tempering, see `_add_data`). Where data
leave, as in a window, a population begins anew from the prior.
`agents.posteriors.populations` detects particles that have become too alike.

Notation: K arms, N lanes, P particles. A *population* is one set of P particles. If arms are
independent, each arm has a population of dimension D = 1, so that R = N K. Otherwise each lane has
one population of dimension D = K, so that R = N. The mean of an arm in a lane is *entry* lane K +
arm, which belongs to population entry // D. Arrays have P + 1 columns. The last one is a
*reference*: a fixed point without weight, at which log-likelihoods are evaluated for comparison.

References:
    Chopin (2002); Del Moral, Doucet and Jasra (2006).
    Jasra et al. (2011), "Inference for Levy-driven stochastic volatility models via adaptive
    sequential Monte Carlo".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.random import Generator

from agents.base.conjugacy import require_proper_prior
from agents.base.evidence import CountsAndSums
from agents.posteriors.base import Posterior
from agents.posteriors.populations import Genealogy, PopulationData, move_particles, step_directions
from agents.posteriors.weighted_draws import (
    WeightedDraws,
    draw_particle,
    draw_particles,
    find_particles,
    normalise_weights,
    particle_best_arms,
    scale_weights,
    systematic_resample,
)
from bandit_gym.checks import check_choice, check_integer
from bandit_gym.doubts import Doubt
from bandit_gym.likelihoods import is_binary
from bandit_gym.problem import BanditProblem, check_problem

RESAMPLING_OPTIONS = ("never", "systematic")
MOVE_OPTIONS = ("none", "random-walk")

MAX_PARTICLES = 10**7
"""Most particles in a lane; each takes 8 bytes per arm."""

MAX_PARTICLE_MEANS = 5 * 10**8
"""Most means in all lanes together: 4 GB, and as much again for temporary arrays."""

MAX_STAGED_STEPS = 1500
"""Most Metropolis steps for new data in an update: stages times arms times steps per sweep."""

MAX_LOG_LIKELIHOOD = 1e13
"""Absolute log-likelihood above which rounding errors exceed a thousandth."""

LOG_LIKELIHOODS_PER_BLOCK = 65_536
"""Log-likelihoods computed per block, so that they fit in the cache. With 1,000 particles in 500
lanes, a decision takes 5.7 us per lane, and 15.5 us without blocks."""

MIN_LOG2_STEP = -100
"""Base 2 logarithm of the smallest power of the likelihood that a stage adds."""

MIN_EFFECTIVE_FRACTION = 0.5
"""Fraction of P; a population is resampled if its effective sample size falls below it."""

MIN_UNSTAGED_FRACTION = 0.2
"""Fraction of the resampling threshold; new data that reduce the size below it need stages."""

MIN_KEPT_FRACTION = 0.5
"""Of an arm's pulls since its population began, below which it begins anew, as in a window."""

SWEEPS_PER_RESAMPLING = 3
"""Sweeps of Metropolis steps after a resampling."""


class ParticlePosterior(Posterior):
    """Weighted particles, resampled and moved when their effective sample size falls.

    Arguments:
        problem: likelihood and prior.
        num_particles: number of particles P. Without resampling, it may be a sequence: the numbers
            of particles in use after 0, 1, ... pulls. Its last entry holds for all later pulls.
        resampling: "systematic" resamples a population once its effective sample size is below
            P / 2; "never" only reweights.
        move: "random-walk" runs sweeps of Metropolis steps after resampling; "none" does not.
    """

    source = "weighted particles"
    can_discount = True
    has_exact_probabilities = True
    state_names = ("counts", "sums", "_peaks", "lineage", "_means", "_log_weights")
    min_file_format = 6
    counts: np.ndarray

    def __init__(
        self,
        problem: BanditProblem,
        *,
        num_particles: int | Sequence[int] = 500,
        resampling: str = "systematic",
        move: str = "random-walk",
    ) -> None:
        schedule = check_schedule(num_particles, resampling)
        is_renewed = check_choice("resampling", resampling, RESAMPLING_OPTIONS) != "never"
        require_proper_prior(problem.prior)
        self.problem = check_problem(problem)
        self._is_cumulative = True
        self._num_means = getattr(problem, "num_features", problem.num_arms)  # or coefficients
        self.max_lanes = max(1, MAX_PARTICLE_MEANS // (max(schedule) * self._num_means))
        moves = check_choice("move", move, MOVE_OPTIONS) != "none"
        self._num_moves, self._is_renewed = SWEEPS_PER_RESAMPLING * moves, is_renewed
        self._schedule = np.array(schedule)
        self._min_effective_size = MIN_EFFECTIVE_FRACTION * float(self._schedule[0])
        self._min_unstaged_size = MIN_UNSTAGED_FRACTION * self._min_effective_size
        is_split = is_renewed and problem.offers("arm_log_density")
        self._size = 1 if is_split else problem.num_arms  # D
        self._keeps_gains = is_binary(problem.likelihood) and not is_renewed
        self._num_stages = max(1, MAX_STAGED_STEPS // (problem.num_arms * self._size))

    def start(self, rng: Generator, num_lanes: int) -> None:
        """Allocate the particles of all lanes, and draw them from the prior."""
        num_means, size, num_particles = self._num_means, self._size, self._schedule.max()
        num_populations = num_lanes * num_means // size
        self.counts, self.sums, self._peaks = np.zeros((3, num_lanes, num_means))
        self._means = np.empty((num_lanes * num_means, num_particles + 1))
        self._log_weights = np.zeros((num_populations, num_particles + 1))
        self._weights = np.empty((num_populations, num_particles))
        self._max_log_weights = np.empty(num_populations)
        self.lineage = Genealogy((num_populations, num_particles, size))
        super().start(rng, num_lanes)

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Draw the masked lanes' particles from the prior."""
        self._shortages = 0
        self._kept_gains: dict[tuple[int, float], np.ndarray] = {}
        self.counts[mask] = self.sums[mask] = 0.0
        self._begin(rng, np.flatnonzero(mask.repeat(self._num_means // self._size)))

    def _begin(self, rng: Generator, which: np.ndarray) -> None:
        """Draw populations from the prior; their weights are by no data."""
        num_means, num_particles = self._num_means, self._schedule.max()
        entries = self._entries_of(which).ravel()
        lanes, lane_of_entry = np.unique(entries // num_means, return_inverse=True)
        draws = self.problem.prior.sample(rng, (len(lanes), num_particles, num_means))
        self._means[entries, :-1] = draws[lane_of_entry, :, entries % num_means]
        self._peaks.reshape(-1)[entries] = 0.0
        # The reference is an average: inside the support, while a draw may be at its end.
        self._means[entries, -1] = self._means[entries, : min(16, num_particles)].mean(axis=1)
        self.lineage.restart(which, self._particles()[which])
        self._set_log_weights(which, np.zeros((len(which), num_particles + 1)))

    def _entries_of(self, which: np.ndarray) -> np.ndarray:
        """Return the (R, D) entries of the given populations."""
        return which[:, None] * self._size + np.arange(self._size)

    def _resume(self) -> None:
        """Recompute the weights and their sums from the log-weights."""
        self._set_log_weights(np.arange(len(self._log_weights)), self._log_weights)

    def update(self, rng: Generator, evidence: CountsAndSums) -> None:
        """Reweight by the new data, in stages if the effective sample size would fall too far."""
        counts, sums, self._is_cumulative = evidence.counts, evidence.sums, evidence.is_cumulative
        new_counts = counts - self.counts
        is_new = new_counts if self._is_cumulative else (new_counts != 0) | (sums != self.sums)
        (entries,) = is_new.reshape(-1).nonzero()
        if not entries.size:
            return
        before, self._shortages = (self.counts, self.sums), 0
        self.counts, self.sums = counts.copy(), sums.copy()
        first = entries.item(0)
        is_one = len(counts) == entries.size == new_counts.item(first) == 1
        if self._keeps_gains and self._is_cumulative and is_one:
            reward = sums.item(first) - before[1].item(first)
            if reward in (0.0, 1.0):  # and not half a reward of each
                self._add_one_reward(first, reward)
                return
        totals = np.array([before, (counts, sums)]).reshape(2, 2, -1)
        num_blocks = math.ceil(entries.size * self._weights.shape[1] / LOG_LIKELIHOODS_PER_BLOCK)
        block_size = math.ceil(len(self._weights) / num_blocks)  # in populations
        with self._all_or_none(rng):
            if self._is_renewed and not self._is_cumulative:
                entries = self._begin_wider(rng, entries, totals)
            ends = np.arange(block_size, len(self._weights), block_size) * self._size
            for block in np.split(entries, entries.searchsorted(ends)):
                if block.size:
                    self._add_data(rng, block, totals)

    @contextmanager
    def _all_or_none(self, rng: Generator) -> Iterator[None]:
        """Let particles know nothing after an interrupt: half of the data would count as all."""
        try:
            yield
        except BaseException:
            self.restart(rng, np.ones(len(self.counts), dtype=bool))
            raise

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw: a particle of each population, in proportion to its weight."""
        if len(self._weights) == 1:
            return self._means[:, draw_particle(rng, self._weights[0])][None]
        chosen = draw_particles(rng, self._weights)
        return self._particles()[np.arange(len(chosen)), chosen].reshape(self._means_shape)

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws: particles in proportion to their weight."""
        chosen = find_particles(self._weights, rng.random((len(self._weights), size)))
        draws = self._particles()[np.arange(len(self._weights)), chosen.T]
        return draws.reshape(size, *self._means_shape)

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) probabilities that each arm has the largest mean."""
        if self._size == self._num_means:
            return self._populations().best_arm_probabilities(available)
        probabilities, (num_lanes, num_arms) = np.zeros(self._means_shape), self._means_shape
        means = self._means[:, :-1].reshape(num_lanes, num_arms, -1)
        weights = self._populations().weights.reshape(means.shape)
        for lane in range(num_lanes):
            arms = slice(None) if available is None else available[lane]
            probabilities[lane, arms] = particle_best_arms(means[lane][arms], weights[lane][arms])
        return probabilities

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) smallest effective sample sizes of each lane's populations."""
        return self._by_lane(self._effective_sizes()).min(axis=1)

    def _count_independent_draws(self) -> np.ndarray:
        variance = self._by_lane(self.lineage.estimate_variance(self._effective_sizes()))
        return np.asarray(1 / variance.max(axis=1))

    def doubts(self) -> np.ndarray:
        """Return (N,) `Doubt` flags: particles collapsed, or posterior mass perhaps missed."""
        num_particles = self._num_active()
        lineage, sizes = self.lineage, self._effective_sizes()
        has_few_effective = lineage.has_few_effective(sizes, num_particles, self.problem.num_arms)
        may_miss_mass = lineage.may_miss_mass(self._log_totals(), self._max_log_likelihood())
        collapsed = np.where(has_few_effective | lineage.is_capped, Doubt.PARTICLES_COLLAPSED, 0)
        missed = np.where(may_miss_mass, Doubt.FEW_EFFECTIVE_SAMPLES, 0)
        doubts = np.bitwise_or.reduce(self._by_lane(collapsed | missed), axis=1)
        return np.bitwise_or(doubts, self._shortages)

    def diagnostics(self) -> dict[str, np.ndarray]:
        """Return (N,) arrays by name that measure the quality of the particles.

        A population whose particles all give the data likelihood 0 is degenerate: they get equal
        weights.
        """
        is_void = self._by_lane(self._max_log_weights) == -np.inf
        return super().diagnostics() | {
            "num_samples": self._by_lane(self._num_active())[:, 0],
            "effective_sample_size": self.effective_sample_size(),
            "acceptance": self._by_lane(self.lineage.acceptance).min(axis=1),
            "is_degenerate": is_void.any(axis=1),
        }

    @property
    def _means_shape(self) -> tuple[int, int]:
        """N and K, or d of coefficients."""
        return len(self.counts), self._num_means

    def _by_lane(self, values: np.ndarray) -> np.ndarray:
        """Return (R,) values of populations as an (N, R / N) array."""
        return values.reshape(len(self.counts), -1)

    def _particles(self) -> np.ndarray:
        """Return a (R, P, D) view of the particles."""
        return self._means.reshape(len(self._weights), self._size, -1)[..., :-1].swapaxes(1, 2)

    def best_arm_moments(
        self, available: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) best-arm probabilities and (N, K, K) means given which arm is best."""
        return self._joint_draws().best_arm_moments(available)

    def position_probabilities(self, top: int, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, top, K) probabilities of each place; see `Belief`."""
        return self._joint_draws().position_probabilities(top, available)

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles of the means."""
        draws = self._populations()
        levels = np.broadcast_to(p, self._means_shape).reshape(len(draws.means), -1)
        self._note_shortage(np.any(self._by_lane(draws.has_few_beyond(levels)), axis=1))
        return draws.quantile(levels).reshape(self._means_shape)

    def _answer(self, question: Callable[..., Any], *options: Any) -> Any:
        """Return (N, K) values of a `WeightedDraws` method, applied to each population."""
        draws, shape = self._populations(), self._means_shape
        given = [np.broadcast_to(option, shape).reshape(len(draws.means), -1) for option in options]
        answers = np.asarray(question(draws, *given))
        return answers.reshape(*answers.shape[:-2], *shape)

    def _joint_draws(self) -> WeightedDraws:
        """Return draws of all means together: the populations, or of each arm's."""
        return self._populations() if self._size == self._num_means else self._draws()

    def _populations(self) -> WeightedDraws:
        """Return the R populations as weighted draws with R lanes of D arms."""
        log_weights = self._active_log_weights(np.arange(len(self._weights)), self._log_weights)
        return WeightedDraws(self._particles(), log_weights)

    def _num_active(self) -> np.ndarray:
        """Return (R,) numbers of particles in use in each population."""
        pulls = np.minimum(self.counts.sum(axis=1), len(self._schedule) - 1)
        active = self._schedule[pulls.astype(np.int64)]
        return active.repeat(self._num_means // self._size)

    def _active_log_weights(self, which: np.ndarray | slice, log_weights: np.ndarray) -> np.ndarray:
        """Return (R, P) log-weights of the given populations, -inf for particles not in use."""
        if len(self._schedule) == 1:
            return log_weights[:, :-1]
        is_in = np.arange(self._weights.shape[1]) < self._num_active()[which, None]
        return np.where(is_in, log_weights[:, :-1], -np.inf)

    def _set_log_weights(self, which: np.ndarray | slice, log_weights: np.ndarray) -> None:
        """Set the (R, P + 1) log-weights of the given populations."""
        if not self._is_cumulative:  # discounted data of likelihood 0 still rule a particle out
            log_weights[np.isnan(log_weights)] = -np.inf
        self._log_weights[which] = log_weights
        active = self._active_log_weights(which, log_weights)
        self._weights[which], self._max_log_weights[which] = scale_weights(active)

    def _effective_sizes(self, which: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return (R,) effective sample sizes of the given populations."""
        weights = self._weights[which]
        return weights.sum(axis=1) ** 2 / np.vecdot(weights, weights)

    def _log_totals(self, which: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return (R,) logarithms of the weights of the given populations, summed up."""
        return self._max_log_weights[which] + np.log(self._weights[which].sum(axis=1))

    def _max_log_likelihood(self) -> np.ndarray:
        """Return (R,) maximal log-likelihoods, less the expected overfit of 1/2 per arm.

        Infinite where rounding errors are too large to distinguish means. Log-likelihoods lack a
        constant, which differs between all data and their increments. So the maximum is taken
        relative to the reference, whose log-likelihood is accumulated like the particles'.
        """
        reference = self._means[:, -1].reshape(self.counts.shape)
        low, high = self.problem.arm_support().T
        with np.errstate(all="ignore"):  # NaN where the reference rules out the data
            best = np.minimum(np.maximum(self.sums / self.counts, low), high)
            log_likelihood = self.problem.likelihood.log_likelihood
            at_best = log_likelihood(best, self.counts, self.sums)
            gains = at_best - log_likelihood(reference, self.counts, self.sums) - 0.5
            gains[np.abs(at_best) > MAX_LOG_LIKELIHOOD] = np.inf
            gains = np.where(self.counts > 0, gains, 0.0)  # discounted to none
            return gains.reshape(-1, self._size).sum(axis=1) + self._log_weights[:, -1]

    def _add_one_reward(self, arm: int, reward: float) -> None:
        """Update a single lane with one Bernoulli reward, if particles never move.

        The result is that of `_add_data`. Cached log-likelihoods cut the time of a decision to two
        thirds.
        """
        if (arm, reward) not in self._kept_gains:
            gain = self._bernoulli_gain(np.array([arm]), np.array([[reward]]))
            self._kept_gains[arm, reward] = gain
        self._log_weights += self._kept_gains[arm, reward]
        log_weights = self._active_log_weights(slice(None), self._log_weights)
        self._weights, self._max_log_weights = scale_weights(log_weights)

    def _begin_wider(self, rng: Generator, entries: np.ndarray, totals: np.ndarray) -> np.ndarray:
        """Begin anew in populations that have lost much of their data; return the other entries."""
        self._peaks = np.maximum(self._peaks, self.counts)
        has_less = self.counts < MIN_KEPT_FRACTION * self._peaks
        has_lost = np.any(has_less.reshape(-1, self._size), axis=1)
        if has_lost.any():
            self._begin_anew(rng, np.flatnonzero(has_lost), totals)
        return entries[~has_lost[entries // self._size]]

    def _begin_anew(self, rng: Generator, which: np.ndarray, totals: np.ndarray) -> None:
        """Draw populations from the prior and add all present data, as to new lanes.

        Where data leave, a posterior gets wider. Particles cannot come back to where resampling
        has left none, and weights do not show what is missing there.
        """
        self._begin(rng, which)
        entries = self._entries_of(which).ravel()
        totals[0][:, entries] = 0.0
        if (known := entries[totals[1, 0, entries] > 0]).size:
            self._add_data(rng, known, totals, is_new=True)

    def _add_data(
        self, rng: Generator, entries: np.ndarray, totals: Any, *, is_new: bool = False
    ) -> None:
        """Reweight by the new data of (C,) entries, in stages where these are very informative.

        The likelihood of the new data is raised to powers that rise to 1, each the largest that
        leaves enough effective particles (Jasra et al. 2011). Between stages particles are
        resampled and moved, under the likelihood raised so far.

        Args:
            rng: source of randomness.
            entries: those with new data, in whole populations.
            totals: (2, 2, N K) counts and sums of all entries, before and now.
            is_new: whether the populations know no data yet.
        """
        owners = entries // self._size
        which = np.unique(owners) if np.count_nonzero(owners[1:] == owners[:-1]) else owners
        power = np.zeros(len(which))
        for stages_left in reversed(range(self._num_stages)):
            gain = (1 - power[:, None]) * self._log_likelihood_gain(which, entries, totals)
            old = self._log_weights[which]
            self._set_log_weights(which, old + gain)
            if not self._is_renewed:
                return
            sizes, step = self._effective_sizes(which), np.ones(len(which))  # of the power left
            is_due = sizes < self._min_effective_size
            if is_due.any() and not (self._is_cumulative or is_new):
                self._begin_anew(rng, which[is_due], totals)
                return
            needs_stages = sizes < self._min_unstaged_size
            if not stages_left:
                self.lineage.is_capped[which] |= needs_stages
            elif needs_stages.any():
                old, gain = old[needs_stages], gain[needs_stages]
                step[needs_stages] = self._find_step(old[:, :-1], gain[:, :-1])
                self._set_log_weights(which[needs_stages], old + step[needs_stages, None] * gain)
            power += step * (1 - power)
            if is_due.any():
                self._renew(rng, which[is_due], totals, power[is_due])
            which, power = which[step < 1], power[step < 1]
            if not which.size:
                return
            entries = entries[np.isin(entries // self._size, which)]

    def _log_likelihood_gain(
        self, which: np.ndarray, entries: np.ndarray, totals: Any
    ) -> np.ndarray:
        """Return (R, P + 1) log-likelihoods of the new data of (C,) entries, summed by population.

        One Bernoulli reward per entry takes a third of the time of the general case.
        """
        before, now = totals[:, :, entries, None]
        counts, sums = now - before
        is_fast = self._is_cumulative and is_binary(self.problem.likelihood)
        # Of a window, 1 may be 2 - 1, and of weights 1 / 2 + 1 / 2.
        if is_fast and not np.count_nonzero((counts != 1) | (sums * (1 - sums) != 0)):
            gain = self._bernoulli_gain(entries, sums)
        else:
            log_likelihood, means = self.problem.likelihood.log_likelihood, self._means[entries]
            if self._is_cumulative:
                gain = log_likelihood(means, counts, sums)
            else:  # of a window, sums may change where counts do not: no statistics of rewards
                with np.errstate(invalid="ignore"):
                    gain = log_likelihood(means, *now) - log_likelihood(means, *before)
                gain[np.isnan(gain)] = 0.0  # ruled out before and now
        if len(which) == len(entries):
            return gain
        return np.add.reduceat(gain, (entries // self._size).searchsorted(which))

    def _bernoulli_gain(self, entries: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return (C, P + 1) log-likelihoods of (C, 1) Bernoulli rewards, one per entry."""
        gain = self._means[entries]
        gain -= sums == 0
        with np.errstate(divide="ignore"):
            np.log(np.abs(gain, out=gain), out=gain)
        return gain

    def _find_step(self, old: np.ndarray, gain: np.ndarray) -> np.ndarray:
        """Return (R,) largest powers of the new likelihood that keep enough effective particles.

        By bisection of the power's logarithm.

        Args:
            old: (R, P) log-weights.
            gain: (R, P) log-likelihoods of all new data.
        """
        low, high = np.full(len(old), float(MIN_LOG2_STEP)), np.zeros(len(old))  # base 2
        log2_step = high
        for _ in range(20):
            weights, _ = normalise_weights(old + np.exp2(log2_step)[:, None] * gain)
            is_enough = np.vecdot(weights, weights) * self._min_effective_size <= 1
            low, high = np.where(is_enough, log2_step, low), np.where(is_enough, high, log2_step)
            log2_step = (low + high) / 2
        return np.exp2(low)

    def _renew(self, rng: Generator, which: np.ndarray, totals: Any, power: np.ndarray) -> None:
        """Resample and move populations that know the new likelihood raised to (R,) powers."""
        weights, _ = normalise_weights(self._log_weights[which, :-1])
        chosen = systematic_resample(rng, weights)
        copies = np.take_along_axis(self._particles()[which], chosen[:, :, None], axis=1)
        self._particles()[which] = copies
        self._move(rng, which, chosen, totals, power)
        reference = self._log_weights[which, -1:]
        self._set_log_weights(which, np.hstack([np.zeros(chosen.shape), reference]))

    def _move(
        self,
        rng: Generator,
        which: np.ndarray,
        chosen: np.ndarray,
        totals: Any,
        power: np.ndarray,
    ) -> None:
        """Move populations that are copies of the (R, P) chosen particles, and note their past.

        Log-likelihoods are linear in counts and sums, up to a term free of the mean.
        """
        old, new = totals.reshape(2, 2, -1, self._size)[:, :, which]
        arms = self._entries_of(which) % self.problem.num_arms
        data = PopulationData(arms, *(old + power[:, None] * (new - old)))
        particles = self._particles()[which]
        for move in range(self._num_moves):
            directions = step_directions(particles, uses_principal_axes=move % 2 == 0)
            particles, acceptance = move_particles(rng, self.problem, particles, data, directions)
            self.lineage.acceptance[which] = acceptance
        self.lineage.resample(which, chosen, self._log_totals(which), particles)
        self._particles()[which] = particles


def check_schedule(num_particles: int | Sequence[int], resampling: str) -> list[int]:
    """Return the checked numbers of particles after 0, 1, ... pulls."""
    limits = {"minimum": 1, "maximum": MAX_PARTICLES}
    sizes = np.atleast_1d(np.asarray(num_particles, dtype=object)).tolist()
    checked = [check_integer("num_particles", size, **limits) for size in sizes]
    if not checked or (len(checked) > 1 and resampling != "never"):
        raise ValueError(
            "num_particles must be one number, or a sequence of them where resampling is 'never', "
            f"got {num_particles!r} with {resampling!r}."
        )
    return checked
