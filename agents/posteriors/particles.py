"""The posterior as weighted particles: importance sampling, or SMC with resampling and moves.

Particles are drawn from the prior and reweighted as data arrive. Over time the weight concentrates
on few particles; SMC then resamples and moves them, see `agents.posteriors.populations`. Where data
leave, as in a window, a population begins anew from the prior.

If arms are independent, each arm has a population of its own mean, so that R = N K and D = 1.
Otherwise, and where particles are never resampled, each lane has one of all means: R = N and D = K.

Notation: K arms, N lanes, R populations of P particles of D arms' means each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from agents.base.conjugacy import require_proper_prior
from agents.base.evidence import CountsAndSums
from agents.posteriors.base import Posterior
from agents.posteriors.populations import MIN_EFFECTIVE_SHARE, Populations, Target
from agents.posteriors.weighted_draws import (
    compare_populations,
    draw_particle,
    draw_particles,
    find_particles,
)
from bandit_gym.checks import check_choice, check_integer
from bandit_gym.checks.doubts import Doubt
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.problem import BanditProblem, check_problem

RESAMPLING_OPTIONS = ("never", "systematic")
MOVE_OPTIONS = ("none", "random-walk")

MAX_PARTICLES = 10**7
"""Most particles in a lane; each takes 8 bytes per arm."""

MAX_PARTICLE_MEANS = 5 * 10**8
"""Most means in all lanes together: 4 GB, and as much again for temporary arrays."""

LOG_LIKELIHOODS_PER_BLOCK = 65_536
"""Log-likelihoods computed per block, so that they fit in the cache. With 1,000 particles in 500
lanes, a decision takes 5.7 us per lane, and 15.5 us without blocks."""

MIN_KEPT_SHARE = 0.5
"""Of an arm's pulls since its population began, below which it begins anew, as in a window."""

MAX_EXCESS_VARIATION = 0.04
"""Expected total variation of best-arm probabilities, beyond that of P independent draws."""

MAX_MISSED_SHARE = 0.1
"""Posterior probability that one more draw of the prior may have had, where none are moved."""

MAX_LOG_LIKELIHOOD = 1e13
"""Absolute log-likelihood above which rounding errors exceed a thousandth."""

NUM_PROBES = 256
"""Means on both sides of the best for the data, as far as those of the particles and closest
together near the best, at which the posterior density shows whether a mode was missed."""


class ParticlePosterior(Posterior):
    """Weighted particles, resampled and moved when their effective sample size falls.

    Arguments:
        problem: likelihood and prior.
        num_particles: number of particles P. Without resampling, it may be a sequence: the numbers
            of particles in use after 0, 1, ... pulls. Its last entry holds for all later pulls.
        resampling: "systematic" resamples a population once its effective sample size is below
            P / 2; "never" only reweights.
        move: "random-walk" runs Metropolis steps after resampling; "none" does not.
    """

    source = "weighted particles"
    can_discount = True
    has_exact_probabilities = True
    state_names = ("counts", "sums", "most_counts", "populations")
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
        self._schedule = np.array(check_schedule(num_particles, resampling))
        self._is_resampled = check_choice("resampling", resampling, RESAMPLING_OPTIONS) != "never"
        self._is_moved = check_choice("move", move, MOVE_OPTIONS) != "none"
        require_proper_prior(problem.prior)
        self.problem = check_problem(problem)
        num_means = getattr(problem, "num_features", problem.num_arms)  # or coefficients
        is_split = self._is_resampled and problem.offers("arm_log_density")
        self._shape = (problem.num_arms, 1) if is_split else (1, num_means)  # of a lane: R / N, D
        self.max_lanes = max(1, MAX_PARTICLE_MEANS // (self._schedule.max() * num_means))
        # The reward of one Bernoulli arm has two log-likelihoods at particles that never move.
        self._keeps_gains = type(problem.likelihood) is Bernoulli and not self._is_resampled

    def start(self, rng: Generator, num_lanes: int) -> None:
        """Allocate the particles of all lanes, and draw them from the prior."""
        (num_blocks, size), num_particles = self._shape, int(self._schedule.max())
        self.num_lanes = num_lanes
        self.counts, self.sums, self.most_counts = np.zeros((3, num_lanes, num_blocks * size))
        shape = num_lanes * num_blocks, size, num_particles
        max_variance = find_max_variance(int(self._schedule[0]), self.problem.num_arms)
        options = {"is_moved": self._is_moved, "is_scheduled": len(self._schedule) > 1}
        self.populations = Populations(shape, max_variance, **options)
        super().start(rng, num_lanes)

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Draw the masked lanes' particles from the prior."""
        self._shortages = 0
        self._kept_gains: dict[tuple[int, float], np.ndarray] = {}
        self.counts[mask] = self.sums[mask] = 0.0
        self._begin(rng, np.flatnonzero(mask.repeat(self._shape[0])))

    def _begin(self, rng: Generator, rows: np.ndarray) -> None:
        """Draw populations from the prior; their weights are by no data."""
        num_blocks, size = self._shape
        lanes, places = np.unique(rows // num_blocks, return_inverse=True)
        num_particles = self.populations.particles.shape[2]
        draws = self.problem.prior.sample(rng, (len(lanes), num_particles, num_blocks * size))
        arms = (rows % num_blocks * size)[:, None] + np.arange(size)
        particles = draws[places[:, None], :, arms]
        self.populations.restart(rows, particles, int(self._schedule[0]))

    def update(self, rng: Generator, evidence: CountsAndSums) -> None:
        """Reweight by the new data, in stages if the effective sample size would fall too far."""
        before, new_counts = (self.counts, self.sums), evidence.counts - self.counts
        is_new = (
            new_counts
            if evidence.is_cumulative
            else (new_counts != 0) | (evidence.sums != self.sums)
        )
        (cells,) = is_new.reshape(-1).nonzero()
        if not cells.size:
            return
        self._shortages = 0
        self.counts, self.sums = evidence.counts.astype(np.float64), evidence.sums.copy()
        if len(self._schedule) > 1:
            num_pulls = np.minimum(self.counts.sum(axis=1), len(self._schedule) - 1)
            self.populations.num_active[:] = self._schedule[num_pulls.astype(np.int64)]
        if self._keeps_gains and evidence.is_cumulative and self.num_lanes == cells.size == 1:
            arm = cells.item(0)
            if new_counts.item(arm) == 1:
                self._add_one_reward(arm, self.sums.item(arm) - before[1].item(arm))
                return
        rows = np.unique(cells // self._shape[1])
        num_values = len(rows) * self.populations.particles[0].size
        for block in np.array_split(rows, -(-num_values // LOG_LIKELIHOODS_PER_BLOCK)):
            target = self._make_target(before, is_cumulative=evidence.is_cumulative)
            if evidence.is_cumulative or not self._is_resampled:
                self._add_data(rng, block, target)
            else:
                self._follow_loss(rng, block, target)

    def _add_data(self, rng: Generator, rows: np.ndarray, target: Target) -> None:
        """Reweight by new data, and resample and move if that is wanted."""
        if self._is_resampled:
            self.populations.add_data(rng, rows, target)
            return
        particles = self.populations.particles[rows]
        self.populations.reweight(rows, target.log_likelihood_of_new(rows, particles))

    def _follow_loss(self, rng: Generator, rows: np.ndarray, target: Target) -> None:
        """Reweight by data of which some may have left; begin anew where particles are too few.

        Where data leave, a posterior gets wider. Particles cannot come back to where resampling
        has left none, and weights do not show what is missing there. So a population also begins
        anew where an arm has lost half of its data.
        """
        self.most_counts = np.maximum(self.most_counts, self.counts)
        has_lost = self.counts < MIN_KEPT_SHARE * self.most_counts
        particles = self.populations.particles[rows]
        self.populations.reweight(rows, target.log_likelihood_of_new(rows, particles))
        sizes = self.populations.effective_sizes(rows)
        is_low = sizes < MIN_EFFECTIVE_SHARE * particles.shape[2]
        lost = rows[is_low | self._by_population(has_lost)[rows].any(axis=1)]
        if lost.size:
            self._by_population(self.most_counts)[lost] = 0.0
            self._begin(rng, lost)
            no_data = np.zeros_like(self.counts), np.zeros_like(self.sums)
            self.populations.add_data(rng, lost, self._make_target(no_data))

    def _add_one_reward(self, arm: int, reward: float) -> None:
        """Update a single lane with one Bernoulli reward, if particles never move.

        Kept log-likelihoods cut the time of a decision to two thirds.
        """
        if (arm, reward) not in self._kept_gains:
            means = self.populations.particles[:, arm]
            self._kept_gains[arm, reward] = log_bernoulli(means, np.array([[reward]]))
        self.populations.add_to_first(self._kept_gains[arm, reward])

    def _make_target(
        self, before: tuple[np.ndarray, np.ndarray], *, is_cumulative: bool = True
    ) -> MeansTarget:
        """Return the posterior, with what the (N, K) data before lack as new data."""
        num_blocks, size = self._shape
        rows = np.arange(self.num_lanes * num_blocks)
        arms = (rows % num_blocks * size)[:, None] + np.arange(size)
        known = np.array([self._by_population(values) for values in before])
        now = np.array([self._by_population(self.counts), self._by_population(self.sums)])
        inside = self.populations.particles[:, :, :1]
        return MeansTarget(self.problem, arms, known, now, inside, is_cumulative)

    @property
    def _means_shape(self) -> tuple[int, int]:
        """N and K, or d of coefficients."""
        return self.num_lanes, self._shape[0] * self._shape[1]

    def _by_population(self, values: np.ndarray) -> np.ndarray:
        """Return (R, D) of the (N, K) values."""
        return values.reshape(-1, self._shape[1])

    def _by_lane(self, values: np.ndarray) -> np.ndarray:
        """Return (R,) values of populations as an (N, R / N) array."""
        return values.reshape(self.num_lanes, -1)

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw: a particle of each population, in proportion to its weight."""
        particles, weights = self.populations.particles, self.populations.weights
        if len(weights) == 1:
            return particles[:, :, draw_particle(rng, weights[0])]
        chosen = draw_particles(rng, weights)
        return particles[np.arange(len(chosen)), :, chosen].reshape(self.num_lanes, -1)

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws: particles in proportion to their weight."""
        particles, weights = self.populations.particles, self.populations.weights
        chosen = find_particles(weights, rng.random((len(weights), size)))
        return particles[np.arange(len(weights)), :, chosen.T].reshape(size, self.num_lanes, -1)

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) probabilities that each arm has the largest mean."""
        draws, shape = self.populations.weighted_draws(), self._means_shape
        if self._shape[0] == 1:
            return draws.best_arm_probabilities(available)
        means, weights = draws.means.reshape(*shape, -1), draws.weights.reshape(*shape, -1)
        probabilities = np.zeros(shape)
        for lane in range(self.num_lanes):
            arms = slice(None) if available is None else available[lane]
            probabilities[lane, arms] = compare_populations(means[lane][arms], weights[lane][arms])
        return probabilities

    def best_arm_moments(
        self, available: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) best-arm probabilities and (N, K, K) means given which arm is best."""
        is_joint = self._shape[0] == 1
        draws = self.populations.weighted_draws() if is_joint else self._draws()
        return draws.best_arm_moments(available)

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles of the means."""
        draws = self.populations.weighted_draws()
        levels = self._by_population(np.broadcast_to(p, self._means_shape))
        self._note_shortage(np.any(self._by_lane(draws.has_few_beyond(levels)), axis=1))
        return draws.quantile(levels).reshape(self._means_shape)

    def _answer(self, question: Callable[..., Any], *options: Any) -> Any:
        """Return (N, K) values of a `WeightedDraws` method, applied to each population."""
        shape = self._means_shape
        levels = [self._by_population(np.broadcast_to(option, shape)) for option in options]
        answer = np.asarray(question(self.populations.weighted_draws(), *levels))
        return answer.reshape(*answer.shape[:-2], *shape)

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) smallest effective sample sizes of each lane's populations."""
        return self._by_lane(self.populations.effective_sizes()).min(axis=1)

    def _count_independent_draws(self) -> np.ndarray:
        return np.asarray(1 / self._by_lane(self.populations.variance()).max(axis=1))

    def doubts(self) -> np.ndarray:
        """Return (N,) `Doubt` flags: particles collapsed, or posterior mass perhaps missed."""
        collapsed = np.where(self.populations.are_few(), Doubt.PARTICLES_COLLAPSED, 0)
        missed = np.where(self._may_miss_mass(), Doubt.FEW_EFFECTIVE_SAMPLES, 0)
        reasons: np.ndarray = np.bitwise_or.reduce(self._by_lane(collapsed | missed), axis=1)
        return reasons | self._shortages

    def diagnostics(self) -> dict[str, np.ndarray]:
        """Return (N,) arrays by name that measure the quality of the particles.

        A population whose particles all give the data likelihood 0 is degenerate: they get equal
        weights.
        """
        is_void = self._by_lane(self.populations.max_log_weights) == -np.inf
        return super().diagnostics() | {
            "num_samples": self._by_lane(self.populations.num_active)[:, 0],
            "effective_sample_size": self.effective_sample_size(),
            "acceptance": np.fmin.reduce(self._by_lane(self.populations.acceptance), axis=1),
            "is_degenerate": is_void.any(axis=1),
        }

    def _may_miss_mass(self) -> np.ndarray:
        """Return (R,) whether the prior may have a part that particles have not met.

        Moved particles are compared with means on the straight line from their average through
        the best for the data. Without moves, one more draw of the prior could outweigh all
        particles: if it met the data best, less 1/2 per arm by which the best means overfit, and
        its posterior probability were above MAX_MISSED_SHARE. Log-likelihoods lack a constant,
        which differs between all data and their increments; so the heaviest particle is the
        reference.
        """
        populations, rows = self.populations, np.arange(len(self.populations.weights))
        target = self._make_target((np.zeros_like(self.counts), np.zeros_like(self.sums)))
        counts, sums = self._by_population(self.counts), self._by_population(self.sums)
        low, high = self.problem.arm_support()[target.arms].transpose(2, 0, 1)
        averages = populations.weighted_draws().mean()
        with np.errstate(all="ignore"):  # NaN where all is ruled out, which is doubted
            best = np.where(counts > 0, np.clip(sums / counts, low, high), averages)
            log_likelihood = target.log_likelihood_of_new(rows, best[..., None])[:, 0]
            if self._is_resampled:
                places = np.linspace(-1.0, 1.0, NUM_PROBES)
                places *= abs(places)
                line = best[..., None] + (averages - best)[..., None] * places
                reference = target.log_likelihood_of_new(rows, populations.reference)[:, 0]
                overfit = 0.5 * np.count_nonzero(counts > 0, axis=1)
                log_ratio = log_likelihood - overfit - reference
                is_missed = populations.misses_mode(target, line, log_ratio)
            else:
                heaviest = populations.weights.argmax(axis=1)
                reference = populations.particles[rows, :, heaviest][..., None]
                gain = log_likelihood - target.log_likelihood_of_new(rows, reference)[:, 0]
                gain -= 0.5 * np.count_nonzero(counts > 0, axis=1)
                log_odds = gain - np.log(populations.weights.sum(axis=1))
                is_missed = ~(log_odds <= np.log(MAX_MISSED_SHARE))
                is_missed |= populations.max_log_weights == -np.inf
        return is_missed | (abs(log_likelihood) > MAX_LOG_LIKELIHOOD)


class MeansTarget:
    """The posterior of populations of means; see `Target`.

    Arguments:
        problem: likelihood and prior.
        arms: (R, D) whose means they are.
        before: (2, R, D) counts and sums that are known.
        now: (2, R, D) counts and sums with the new data.
        inside: (R, D, 1) means at which a user's density may be evaluated, in place of others.
        is_cumulative: whether what is new are rewards, of which none have left.
    """

    def __init__(
        self,
        problem: BanditProblem,
        arms: np.ndarray,
        before: np.ndarray,
        now: np.ndarray,
        inside: np.ndarray,
        is_cumulative: bool,
    ) -> None:
        self.problem, self.arms, self.inside = problem, arms, inside
        self.before, self.now, self.is_cumulative = before, now, is_cumulative

    def log_likelihood_of_new(self, rows: np.ndarray, particles: np.ndarray) -> np.ndarray:
        """Return (R, P) log-likelihoods of the new data at (R, D, P) particles."""
        before, now = self.before[:, rows], self.now[:, rows]
        owners, places = np.nonzero((before != now).any(axis=0))
        means = particles[owners, places]
        before, now = (values[:, owners, places, None] for values in (before, now))
        weigh, (counts, sums) = self.problem.likelihood.log_likelihood, now - before
        if not self.is_cumulative:
            # Of a window, sums may change where counts do not: no statistics of rewards.
            with np.errstate(invalid="ignore"):
                gain = weigh(means, *now) - weigh(means, *before)
            gain[np.isnan(gain)] = 0.0  # ruled out before and now
        elif type(self.problem.likelihood) is Bernoulli and np.all(counts == 1):
            gain = log_bernoulli(means, sums)
        else:
            gain = weigh(means, counts, sums)
        if len(owners) == len(rows) and np.all(owners == np.arange(len(rows))):
            return np.asarray(gain)
        total = np.zeros((len(rows), particles.shape[2]))
        np.add.at(total, owners, gain)
        return total

    def log_density(self, rows: np.ndarray, particles: np.ndarray, power: np.ndarray) -> np.ndarray:
        """Return (R, P) log posterior densities, to a constant, with (R,) powers of what is new.

        Log-likelihoods are linear in counts and sums, up to a term free of the mean.
        """
        arms, before, now = self.arms[rows], self.before[:, rows], self.now[:, rows]
        low, high = self.problem.arm_support()[arms].transpose(2, 0, 1)[..., None]
        is_inside = (particles >= low) & (particles <= high)
        is_possible = (is_inside & self.problem.likelihood.contains(particles)).all(axis=1)
        means = np.where(is_possible[:, None], particles, self.inside[rows])
        counts, sums = before + power[:, None] * (now - before)
        log_likelihood = self.problem.likelihood.log_likelihood(
            means, counts[..., None], sums[..., None]
        )
        log_density = log_likelihood.sum(axis=1) + self._log_prior(means, arms)
        return np.where(is_possible, log_density, -np.inf)

    def _log_prior(self, means: np.ndarray, arms: np.ndarray) -> np.ndarray:
        """Return (R, P) log prior densities of (R, D, P) means of (R, D) arms, one or all."""
        prior: Any = self.problem.prior
        if arms.shape[1] == self.problem.num_arms:
            return np.asarray(prior.log_density(means.swapaxes(1, 2)))
        # Packed into vectors of all arms, of which each has the means of several populations.
        arm = arms[:, 0]
        order = np.argsort(arm, kind="stable")
        occurrence = np.empty_like(arm)  # how often a population's arm has come before
        occurrence[order] = np.arange(len(arm)) - np.searchsorted(arm, arm, sorter=order)[order]
        shape = occurrence.max(initial=0) + 1, means.shape[2], self.problem.num_arms
        packed = np.broadcast_to(means[: shape[0], 0, :, None], shape).copy()
        packed[occurrence, :, arm] = means[:, 0]
        return np.asarray(prior.arm_log_density(packed)[occurrence, :, arm])


def log_bernoulli(means: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """Return log-likelihoods of one Bernoulli reward each, in a third of the general time."""
    gain = means - (rewards == 0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.abs(gain, out=gain), out=gain))


def find_max_variance(num_particles: int, num_arms: int) -> float:
    """Return the v above which best-arm probabilities are too far off; see `Populations`.

    A share p found with variance v p (1 - p) is off by sqrt(2 v p (1 - p) / pi) on average. Over K
    equal arms, the worst case, that adds up to sqrt(2 v (K - 1) / pi), and half of it is the total
    variation. It may exceed that of P independent draws by MAX_EXCESS_VARIATION.
    """
    if num_arms == 1:
        return np.inf
    excess = MAX_EXCESS_VARIATION * np.sqrt(2 * np.pi / (num_arms - 1))
    return float(np.square(np.sqrt(1 / num_particles) + excess))


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
