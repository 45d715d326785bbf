"""The posterior as weighted particles: reweighted only, or resampled and moved as well.

Particles are drawn from the prior and reweighted as data arrive, and fewer and fewer carry the
weight. What helps is to *resample* a population whose effective sample size has fallen, and to
*move* the copies by Markov steps that leave the posterior invariant (resample-move, Gilks and
Berzuini 2001). Data that say much, at once or by a single reward, are taken in by stages: with
their likelihood raised to powers that rise to one. What the particles cannot vouch for in the end,
`agents.posteriors.lineage` tells.

Letters: K arms, N lanes, P particles; G populations a lane, of D-dimensional particles. Where the
prior is independent across arms, so is the posterior, and each arm has a population of its own
(G = K, D = 1), which P particles cover much better than K dimensions; otherwise G = 1, D = K.
R populations (rows) at a time, given by their lanes and groups.

References:
    Chopin (2002); Del Moral, Doucet and Jasra (2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from agents.numerics.choices import among
from agents.posteriors.base import Posterior
from agents.posteriors.lineage import Lineage, Rows
from agents.posteriors.moves import Data, log_likelihood, sweep
from agents.posteriors.population_weights import PopulationWeights
from agents.posteriors.resampling import (
    accumulate,
    compare_populations,
    effective_sample_size,
    normalise,
    resample,
)
from bandit_gym.problem import BanditProblem, check_problem

MAX_WORK = 1500
"""Stages times arms times steps a sweep that lead particles to many data that come at once."""

LARGEST_LOG = 1e13
"""Log-likelihoods beyond it, either way, are rounded by more than a thousandth."""

LEAST_SHARE = -100
"""Base 2 logarithm of the least share of new data that is taken at once."""

MILD = 0.2
"""Share of the least effective sample size that one reward may leave without a bridge."""


class ParticlePosterior(Posterior):
    """Populations of weighted particles, renewed when their effective sample size falls.

    Arguments:
        problem: likelihood and prior.
        schedule: (S,) how many particles take part after 0, 1, ... pulls; the last holds on.
        resampling: "never", or one of `agents.posteriors.resampling.RESAMPLING`.
        ess_threshold: share of P below which a population is renewed, in (0, 1].
        num_moves: sweeps of Metropolis steps after a resampling; 0 leaves the copies as they are.
    """

    source = "weighted particles"
    keeps_state = True
    can_forget = True
    state_names = (
        *("counts", "sums", "lineage", "_particles", "_weighed"),
        *("_log_reference", "_reference", "_gains"),
    )

    def __init__(
        self,
        problem: BanditProblem,
        schedule: Sequence[int],
        *,
        resampling: str = "never",
        ess_threshold: float = 0.5,
        num_moves: int = 0,
    ) -> None:
        self.problem = check_problem(problem)
        self.resampling = resampling
        self.num_moves = num_moves
        self._schedule = np.array(schedule)
        self._least_size = ess_threshold * float(self._schedule[0])
        self._is_split = resampling != "never" and problem.offers("arm_log_density")
        arms = np.arange(problem.num_arms)
        self._arms = arms[:, None] if self._is_split else arms[None]  # (G, D)
        self._support = problem.arm_support()
        self._num_stages = max(1, MAX_WORK // (problem.num_arms * self._arms.shape[1]))
        self.counts = self.sums = np.empty((0, problem.num_arms))

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Draw the masked lanes' particles from the prior."""
        num_arms, num_particles = self.problem.num_arms, int(self._schedule.max())
        if len(mask) != len(self.counts) or mask.all():
            groups, size = self._arms.shape
            shape = (len(mask), groups, num_particles)
            self._particles = np.empty((*shape[:2], size, num_particles)).swapaxes(2, 3)
            is_renewed = self.resampling != "never"
            self.lineage = Lineage((*shape, size), is_renewed=is_renewed)
            self._weighed = PopulationWeights(self.problem.likelihood, shape)
            self._log_reference = np.empty(shape[:2])
            self._reference = np.empty((len(mask), num_arms))
            self._gains = np.empty((len(mask), num_arms))
            self.counts, self.sums = np.zeros((2, len(mask), num_arms))
        draws = self.problem.prior.sample(rng, (int(mask.sum()), num_particles, num_arms))
        self._particles[mask] = draws[..., self._arms].swapaxes(1, 2)
        self.lineage.restart(mask, self._particles[mask])
        self._reference[mask] = draws[:, :16].mean(axis=1)  # inside, where a draw may be at an end
        self._weighed.logs[mask] = 0.0
        self._weighed.mark(mask)
        self._log_reference[mask] = 0.0
        self._gains[mask] = 0.0
        self.counts[mask] = self.sums[mask] = 0.0

    def _resume(self) -> None:
        """Lay one arm's particles side by side, as kernels want them."""
        self._particles = np.ascontiguousarray(self._columns()).swapaxes(2, 3)

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Reweight by the new data: one reward a lane at once, more by stages."""
        news = counts - self.counts
        cells: Any = np.nonzero(news if self.grows else (news != 0) | (sums != self.sums))
        lanes, arms = cells
        if not lanes.size:
            return self._weighed.refresh(self.num_taking_part())
        is_single = bool((lanes[1:] > lanes[:-1]).all() and (news[cells] == 1).all())
        if not is_single or not self._learn(rng, lanes, arms, sums[cells] - self.sums[cells]):
            self._absorb(rng, counts, sums)
        self.counts[:], self.sums[:] = counts, sums
        self._gains[cells] = self._find_gains(cells)
        return self._weighed.refresh(self.num_taking_part())

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw: of each population, a particle by its weight."""
        return self._weighed.draw(rng, self._columns()).reshape(len(self.counts), -1)

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws: particles by their weight."""
        means, _ = self._per_arm()
        found = np.empty((size, *means.shape[:2]))
        for lane, group in np.ndindex(self._weighed.cumulative.shape[:2]):
            arms, below = self._arms[group], self._weighed.cumulative[lane, group]
            chosen = np.searchsorted(below, rng.random(size), side="right")
            found[:, lane, arms] = means[lane, arms][:, chosen].T
        return found

    def mean(self) -> np.ndarray:
        """Return the (N, K) weighted means."""
        means, weights = self._per_arm()
        return (means * weights).sum(axis=-1)

    def std(self) -> np.ndarray:
        """Return the (N, K) weighted standard deviations."""
        means, weights = self._per_arm()
        off = means - self.mean()[..., None]
        return np.sqrt((weights * off * off).sum(axis=-1))

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) smallest particles with at least the share p of the weight below."""
        means, weights = self._per_arm()
        order = np.argsort(means, axis=-1)
        below = accumulate(np.take_along_axis(weights, order, axis=-1))
        levels = np.broadcast_to(p, below.shape[:2])[..., None]
        first = np.argmax(below >= levels, axis=-1)[..., None]
        chosen = np.take_along_axis(order, first, axis=-1)
        return np.take_along_axis(means, chosen, axis=-1)[..., 0]

    def best_arm_probabilities(self) -> np.ndarray:
        """Return the (N, K) probabilities, those of these particles to rounding."""
        return self.best_among(None)

    def best_among(self, available: np.ndarray | None) -> np.ndarray:
        """Return the (N, K) probabilities of being the best among the (N, K) available arms."""
        weights, shape = self._weights(), self.counts.shape
        if not self._is_split:
            means = self._particles[:, 0]
            compared = means if available is None else among(means, available[:, None])
            is_best = compared.argmax(axis=2)[..., None] == np.arange(shape[1])
            return np.einsum("np,npk->nk", weights[:, 0], is_best)
        law = np.zeros(shape)
        for lane in range(shape[0]):
            arms = slice(None) if available is None else available[lane]
            means = self._particles[lane, arms, :, 0]
            law[lane, arms] = compare_populations(means, weights[lane, arms])
        return law

    def num_taking_part(self) -> np.ndarray:
        """Return (N,) how many particles take part in a decision."""
        return self._scheduled(np.arange(len(self.counts)))

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) that of each lane's poorest population."""
        return self._weighed.effective_sizes.min(axis=1)

    def is_degenerate(self) -> np.ndarray:
        """Return (N,) whether in some population every particle rules out the data.

        It is treated as if all were equally likely.
        """
        return np.any(self._weighed.log_means == -np.inf, axis=1)

    def is_unreliable(self) -> np.ndarray:
        """Return (N,) where particles are too few or too alike, or may have missed a part."""
        num_particles = self.num_taking_part()
        lineage, most = self.lineage, self._log_most()
        is_poor = lineage.is_poor(
            self._weighed.effective_sizes, num_particles, self.problem.num_arms
        )
        is_surprised = lineage.is_surprised(self._weighed.log_means, most, num_particles)
        return np.any(is_poor | is_surprised | lineage.is_capped, axis=1)

    def _log_most(self) -> np.ndarray:
        """Return (N, G) log-likelihoods that the best means may give, the fit to noise set aside.

        That fit is half a unit an arm. Infinite where numbers are too coarse to tell means apart.
        Likelihoods are known up to a constant, which is another for all data at once than for their
        parts; two means differ by the same in both, so the likeliest are compared with means that
        are followed.
        """
        with np.errstate(invalid="ignore"):  # NaN where the reference rules out the data
            gains = self._gains.reshape(-1, *self._arms.shape)
            return gains.sum(axis=2) + self._log_reference

    def _find_gains(self, cells: Rows) -> np.ndarray:
        """Return (n,) by how much the best means beat those followed, at (n,) lanes and arms."""
        low, high = self._support[cells[1]].T
        counts, sums, reference = self.counts[cells], self.sums[cells], self._reference[cells]
        likelihood = self.problem.likelihood
        with np.errstate(all="ignore"):
            best = np.minimum(np.maximum(sums / counts, low), high)
            most, least = likelihood.log_likelihood(np.array([best, reference]), counts, sums)
            gains = np.where(np.abs(most) > LARGEST_LOG, np.inf, most - least) - 0.5
        return np.where(counts > 0, gains, 0.0)  # data may have left

    def _weights(self) -> np.ndarray:
        shape = self._weighed.logs.shape
        weights, _ = self._weigh(self._all_rows())
        return weights.reshape(shape)

    def _per_arm(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K, P) means and weights."""
        lanes, _, num_particles, _ = self._particles.shape
        means = self._particles.swapaxes(2, 3).reshape(lanes, -1, num_particles)
        return means, np.broadcast_to(self._weights(), means.shape)

    def _learn(
        self, rng: Generator, lanes: np.ndarray, arms: np.ndarray, rewards: np.ndarray
    ) -> bool:
        """Take in a reward in each of the lanes; return False if some are left for a bridge."""
        num_lanes = len(lanes)
        groups, columns = np.divmod(arms, self._arms.shape[1])
        is_renewed = self.resampling != "never"
        weighed, rows = self._weighed, (lanes, groups)
        before = weighed.logs[rows] if is_renewed else np.empty(0)
        sizes = self._scheduled(lanes, ahead=1)
        weighed.learn(rows, self._columns(), columns, rewards, sizes)
        is_poor = np.zeros(len(lanes), dtype=bool)
        if is_renewed:
            sizes = weighed.effective_sizes[rows]
            is_mild = sizes >= MILD * self._least_size
            undone = lanes[~is_mild], groups[~is_mild]
            weighed.logs[undone] = before[~is_mild]
            weighed.mark(undone)
            lanes, groups, arms, rewards = (x[is_mild] for x in (lanes, groups, arms, rewards))
            is_poor = sizes[is_mild] < self._least_size
        self.counts[lanes, arms] += 1
        self.sums[lanes, arms] += rewards
        self._log_reference[lanes, groups] += self.problem.likelihood.log_likelihood(
            self._reference[lanes, arms], 1, rewards
        )
        self._renew(rng, (lanes[is_poor], groups[is_poor]))
        return len(lanes) == num_lanes

    def _columns(self) -> np.ndarray:
        """Return (N, G, D, P) particles, for kernels: one arm's lie side by side in memory."""
        return self._particles.swapaxes(2, 3)

    def _scheduled(self, lanes: np.ndarray, ahead: int = 0) -> np.ndarray:
        """Return how many particles take part in lanes after their pulls and so many more."""
        if len(self._schedule) == 1:
            return self._schedule.repeat(len(lanes))
        pulls = self.counts[lanes].sum(axis=1) + ahead
        return self._schedule[np.minimum(pulls, len(self._schedule) - 1).astype(np.int64)]

    def _absorb(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Take in (N, K) statistics by stages, each small enough to keep the particles alive."""
        is_new = (counts != self.counts) | (sums != self.sums)
        rows: Any = np.nonzero(is_new[:, self._arms].any(axis=2))
        if not rows[0].size:
            return
        self._weighed.mark(rows)
        lanes, arms = self._cells(rows)
        news = Data(arms, (counts - self.counts)[lanes, arms], (sums - self.sums)[lanes, arms])
        self._log_reference[rows] += log_likelihood(
            self.problem, self._reference[lanes, arms][:, None], news
        )[:, 0]
        power = np.zeros(len(arms))
        for stages_left in reversed(range(self._num_stages)):
            gain = log_likelihood(self.problem, self._particles[rows], news)
            gain *= 1 - power[:, None]
            share = np.ones(len(gain))
            if self.resampling != "never":
                share = self._affordable_share(self._weighed.logs[rows], gain)
                if not stages_left:
                    self.lineage.is_capped[rows] |= share < 1
                    share[:] = 1.0
            self._weighed.logs[rows] += share[:, None] * gain
            if not self.grows:  # what has ruled out a particle fades, and leaves it ruled out
                self._weighed.logs[np.isnan(self._weighed.logs)] = -np.inf
            power += share * (1 - power)
            left = share < 1
            rows, power = (rows[0][left], rows[1][left]), power[left]
            news = Data(news.arms[left], news.counts[left], news.sums[left])
            if not rows[0].size:
                return
            self._renew(rng, rows, news, power)

    def _affordable_share(self, old: np.ndarray, gain: np.ndarray) -> np.ndarray:
        """Return (R,) how much of new data each population can take without getting poor.

        Args:
            old: (R, P) log-weights.
            gain: (R, P) log-likelihood of all of the new data.
        """
        low, high = np.full(len(old), float(LEAST_SHARE)), np.zeros(len(old))  # base 2
        share = high
        for _ in range(20):
            weights, _ = normalise(old + np.exp2(share)[:, None] * gain)
            is_fine = effective_sample_size(weights) >= self._least_size
            low, high = np.where(is_fine, share, low), np.where(is_fine, high, share)
            share = (low + high) / 2
        return np.exp2(low)

    def _renew(
        self, rng: Generator, rows: Rows, news: Data | None = None, power: np.ndarray | float = 1.0
    ) -> None:
        """Resample and move the given populations, which know a part of the news as well."""
        if not rows[0].size:
            return
        weights, log_total = normalise(self._weighed.logs[rows])
        chosen = resample(rng, weights, self.resampling)
        particles = np.take_along_axis(self._particles[rows], chosen[:, :, None], axis=1)
        lanes, arms = self._cells(rows)
        data = Data(arms, self.counts[lanes, arms], self.sums[lanes, arms], news, power)
        for move in range(self.num_moves):
            is_along_axes = move % 2 == 0
            particles = sweep(rng, self.problem, particles, data, is_along_axes=is_along_axes)
        self._particles[rows] = particles
        self._weighed.mark(rows)
        self.lineage.descend(rows, chosen, log_total - np.log(chosen.shape[1]), particles)
        self._weighed.logs[rows] = 0.0

    def _all_rows(self) -> Rows:
        lanes, groups = np.indices(self._weighed.logs.shape[:2]).reshape(2, -1)
        return lanes, groups

    def _cells(self, rows: Rows) -> Rows:
        """Return the lanes, (R, 1), and the arms, (R, D), of the given populations."""
        return rows[0][:, None], self._arms[rows[1]]

    def _weigh(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return (R, P) weights of the given populations, and the (R,) log of their mean before."""
        sizes = self.num_taking_part()[rows[0], None]
        takes_part = np.arange(self._weighed.logs.shape[2]) < sizes
        log_weights = np.where(takes_part, self._weighed.logs[rows], -np.inf)
        weights, log_total = normalise(log_weights)
        weights = np.where(np.isneginf(log_total)[:, None], takes_part / sizes, weights)
        return weights, log_total - np.log(sizes[:, 0])
