"""The posterior as weighted particles: reweighted only, or resampled and moved as well.

Particles are drawn from the prior and reweighted as data arrive, and fewer and fewer carry the
weight. What helps is to *resample* a population whose effective sample size has fallen, and to
*move* the copies by Markov steps that leave the posterior invariant (resample-move, Gilks and
Berzuini 2001).

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

from agents.posteriors.base import Posterior
from agents.posteriors.resampling import (
    accumulate,
    compare_populations,
    effective_sample_size,
    normalise,
    resample,
    search,
    step_directions,
)
from bandit_gym.problem import BanditProblem

STEP = 2.4
"""Standard deviations of a random-walk proposal in those of the population (Gelman et al. 1996)."""

MAX_STAGES = 200
"""Of the bridge over which particles are led to many data that arrive all at once."""

Rows = tuple[np.ndarray, np.ndarray]
"""(R,) lanes and (R,) groups of populations."""


class ParticlePosterior(Posterior):
    """Populations of weighted particles, renewed when their effective sample size falls.

    Arguments:
        problem: likelihood and prior.
        schedule: (S,) how many particles take part after 0, 1, ... pulls; the last holds on.
        resampling: "never", or one of `agents.posteriors.resampling.RESAMPLING`.
        ess_threshold: share of P below which a population is renewed, in (0, 1].
        num_moves: sweeps of Metropolis steps after a resampling; 0 leaves the copies as they are.
    """

    def __init__(
        self,
        problem: BanditProblem,
        schedule: Sequence[int],
        *,
        resampling: str = "never",
        ess_threshold: float = 0.5,
        num_moves: int = 0,
    ) -> None:
        self.problem = problem
        self.resampling = resampling
        self.num_moves = num_moves
        self._schedule = np.array(schedule)
        self._least_size = ess_threshold * float(self._schedule[0])
        self._is_split = resampling != "never" and problem.offers("arm_log_density")
        arms = np.arange(problem.num_arms)
        self._arms = arms[:, None] if self._is_split else arms[None]  # (G, D)
        self.counts = self.sums = np.empty((0, problem.num_arms))

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Draw the masked lanes' particles from the prior."""
        num_arms, num_particles = self.problem.num_arms, int(self._schedule.max())
        if len(mask) != len(self.counts) or mask.all():
            groups, size = self._arms.shape
            shape = (len(mask), groups, num_particles)
            self._particles = np.empty((*shape, size))
            self._log_weights, self._cumulative = np.empty((2, *shape))
            self._sizes = np.empty(shape[:2])
            self._is_degenerate, self._is_stale = np.empty((2, *shape[:2]), dtype=bool)
            self.counts, self.sums = np.zeros((2, len(mask), num_arms))
        draws = self.problem.prior.sample(rng, (int(mask.sum()), num_particles, num_arms))
        self._particles[mask] = draws[..., self._arms].swapaxes(1, 2)
        self._log_weights[mask] = 0.0
        self._is_stale[mask] = True
        self.counts[mask] = self.sums[mask] = 0.0

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Reweight by the new data: one reward a lane at once, more by stages."""
        news = counts - self.counts
        lanes, arms = np.nonzero(news)
        if len(np.unique(lanes)) == len(lanes) and (news[lanes, arms] == 1).all():
            self._learn(rng, lanes, arms, (sums - self.sums)[lanes, arms])
        else:
            self._absorb(rng, counts, sums)
        self.counts[:], self.sums[:] = counts, sums
        self._refresh()

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw: of each population, a particle by its weight."""
        num_lanes, groups, num_particles = self._log_weights.shape
        num_rows = num_lanes * groups
        chosen = search(self._cumulative.reshape(num_rows, -1), rng.random(num_rows))
        rows = self._particles.reshape(num_rows, num_particles, -1)
        return rows[np.arange(num_rows), chosen].reshape(num_lanes, -1)

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
        weights = self._weights()
        if not self._is_split:
            best = self._particles[:, 0].argmax(axis=2)
            is_best = best[..., None] == np.arange(self.problem.num_arms)
            return np.einsum("np,npk->nk", weights[:, 0], is_best)
        pairs = zip(self._particles[..., 0], weights, strict=True)
        return np.array([compare_populations(means, shares) for means, shares in pairs])

    def num_taking_part(self) -> np.ndarray:
        """Return (N,) how many particles take part in a decision."""
        pulls = self.counts.sum(axis=1).astype(np.int64)
        return self._schedule[np.minimum(pulls, len(self._schedule) - 1)]

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) that of each lane's poorest population."""
        return self._sizes.min(axis=1)

    def is_degenerate(self) -> np.ndarray:
        """Return (N,) whether in some population every particle rules out the data.

        It is treated as if all were equally likely.
        """
        return np.any(self._is_degenerate, axis=1)

    def _weights(self) -> np.ndarray:
        shape = self._log_weights.shape
        weights, _ = self._weigh(self._all_rows())
        return weights.reshape(shape)

    def _per_arm(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K, P) means and weights."""
        lanes, _, num_particles, _ = self._particles.shape
        means = self._particles.swapaxes(2, 3).reshape(lanes, -1, num_particles)
        return means, np.broadcast_to(self._weights(), means.shape)

    def _learn(
        self, rng: Generator, lanes: np.ndarray, arms: np.ndarray, rewards: np.ndarray
    ) -> None:
        """Take in one reward in each of the given lanes."""
        groups, columns = np.divmod(arms, self._arms.shape[1])
        rows = lanes, groups
        means = self._particles[lanes, groups, :, columns]
        self._log_weights[rows] += self.problem.likelihood.log_likelihood(
            means, 1, rewards[:, None]
        )
        self._is_stale[rows] = True
        self.counts[lanes, arms] += 1
        self.sums[lanes, arms] += rewards
        if self.resampling != "never":
            weights, _ = normalise(self._log_weights[rows])
            is_poor = effective_sample_size(weights) < self._least_size
            self._renew(rng, (lanes[is_poor], groups[is_poor]))

    def _absorb(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Take in (N, K) statistics by stages, each small enough to keep the particles alive."""
        rows = self._all_rows()
        self._is_stale[:] = True
        for stage in range(MAX_STAGES):
            news = counts - self.counts, sums - self.sums
            gain = self._log_likelihood(self._particles[rows], rows, *news)
            share = np.ones(len(gain))
            if self.resampling != "never" and stage < MAX_STAGES - 1:
                share = self._affordable_share(self._log_weights[rows], gain)
            self._log_weights[rows] += share[:, None] * gain
            cells = self._cells(rows)
            self.counts[cells] += share[:, None] * news[0][cells]
            self.sums[cells] += share[:, None] * news[1][cells]
            rows = rows[0][share < 1], rows[1][share < 1]
            if not rows[0].size:
                return
            self._renew(rng, rows)

    def _affordable_share(self, old: np.ndarray, gain: np.ndarray) -> np.ndarray:
        """Return (R,) how much of new data each population can take without getting poor.

        Args:
            old: (R, P) log-weights.
            gain: (R, P) log-likelihood of all of the new data.
        """
        low, share = np.zeros(len(old)), np.ones(len(old))
        high = share
        for _ in range(30):
            weights, _ = normalise(old + share[:, None] * gain)
            is_fine = effective_sample_size(weights) >= self._least_size
            low, high = np.where(is_fine, share, low), np.where(is_fine, high, share)
            share = (low + high) / 2
        return np.where(low > 0, low, share)

    def _renew(self, rng: Generator, rows: Rows) -> None:
        """Resample and move the given populations."""
        if not rows[0].size:
            return
        weights, _ = normalise(self._log_weights[rows])
        chosen = resample(rng, weights, self.resampling)
        particles = np.take_along_axis(self._particles[rows], chosen[:, :, None], axis=1)
        for sweep in range(self.num_moves):
            directions = step_directions(particles, is_along_axes=sweep % 2 == 0)
            particles = self._move(rng, particles, rows, directions)
        self._particles[rows] = particles
        self._log_weights[rows] = 0.0

    def _move(
        self, rng: Generator, particles: np.ndarray, rows: Rows, directions: np.ndarray
    ) -> np.ndarray:
        """Return (R, P, D) particles after one Metropolis step along each of the directions."""
        current = self._log_posterior(particles, rows)
        for d in range(particles.shape[2]):
            sizes = STEP * rng.standard_normal(particles.shape[:2])
            proposed = particles + sizes[..., None] * directions[:, d, None]
            log_density = self._log_posterior(proposed, rows)
            chance = -rng.standard_exponential(particles.shape[:2])
            is_accepted = log_density - current > chance
            particles = np.where(is_accepted[..., None], proposed, particles)
            current = np.where(is_accepted, log_density, current)
        return particles

    def _log_posterior(self, particles: np.ndarray, rows: Rows) -> np.ndarray:
        """Return (R, P) log posterior densities given the data taken in, up to a constant."""
        prior: Any = self.problem.prior
        low, high = self.problem.arm_support().T
        arms = self._arms[rows[1], None]
        is_inside = (particles >= low[arms]) & (particles <= high[arms])
        is_possible = np.all(is_inside & self.problem.likelihood.contains(particles), axis=2)
        possible = self._particles[rows][:, :1]  # where a user's density may be asked
        inside = np.where(is_possible[..., None], particles, possible)
        if self._is_split:
            every_arm = np.broadcast_to(inside, (*inside.shape[:2], self.problem.num_arms))
            log_prior = prior.arm_log_density(every_arm)[np.arange(len(arms)), :, rows[1]]
        else:
            log_prior = prior.log_density(inside)
        data = self._log_likelihood(inside, rows, self.counts, self.sums)
        return np.where(is_possible, log_prior + data, -np.inf)

    def _log_likelihood(
        self, particles: np.ndarray, rows: Rows, counts: np.ndarray, sums: np.ndarray
    ) -> np.ndarray:
        """Return (R, P) log-likelihoods of (N, K) statistics under (R, P, D) particles."""
        cells = self._cells(rows)
        terms = self.problem.likelihood.log_likelihood(
            particles, counts[cells][:, None], sums[cells][:, None]
        )
        return terms.sum(axis=2)

    def _all_rows(self) -> Rows:
        lanes, groups = np.indices(self._log_weights.shape[:2]).reshape(2, -1)
        return lanes, groups

    def _cells(self, rows: Rows) -> Rows:
        """Return the lanes, (R, 1), and the arms, (R, D), of the given populations."""
        return rows[0][:, None], self._arms[rows[1]]

    def _weigh(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return (R, P) weights of the given populations, and (R,) whether all were zero."""
        sizes = self.num_taking_part()[rows[0], None]
        takes_part = np.arange(self._log_weights.shape[2]) < sizes
        log_weights = np.where(takes_part, self._log_weights[rows], -np.inf)
        weights, is_degenerate = normalise(log_weights)
        return np.where(is_degenerate[:, None], takes_part / sizes, weights), is_degenerate

    def _refresh(self) -> None:
        """Weigh the populations that have new data; the others keep their cumulative weights."""
        rows: Any = np.nonzero(self._is_stale)
        weights, self._is_degenerate[rows] = self._weigh(rows)
        self._cumulative[rows] = accumulate(weights)
        self._sizes[rows] = effective_sample_size(weights)
        self._is_stale[rows] = False
