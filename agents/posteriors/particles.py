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
        self._counts = self._sums = np.empty((0, problem.num_arms))

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Draw the masked lanes' particles from the prior."""
        num_arms, num_particles = self.problem.num_arms, int(self._schedule.max())
        if len(mask) != len(self._counts) or mask.all():
            groups, size = (num_arms, 1) if self._is_split else (1, num_arms)
            shape = (len(mask), groups, num_particles)
            self._particles = np.empty((*shape, size))
            self._log_weights, self._cumulative = np.empty(shape), np.empty(shape)
            self._sizes = np.empty(shape[:2])
            self._is_degenerate = np.empty(shape[:2], dtype=bool)
            self._is_stale = np.empty(shape[:2], dtype=bool)
            self._counts, self._sums = np.zeros((2, len(mask), num_arms))
        draws = self.problem.prior.sample(rng, (int(mask.sum()), num_particles, num_arms))
        split = draws.transpose(0, 2, 1)[..., None] if self._is_split else draws[:, None]
        self._particles[mask] = split
        self._log_weights[mask] = 0.0
        self._is_stale[mask] = True
        self._counts[mask] = self._sums[mask] = 0.0

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Reweight by the new data: one reward a lane at once, more by stages."""
        news = counts - self._counts
        lanes, arms = np.nonzero(news)
        if len(np.unique(lanes)) == len(lanes) and (news[lanes, arms] == 1).all():
            self._learn(rng, lanes, arms, (sums - self._sums)[lanes, arms])
        else:
            self._absorb(rng, counts, sums)
        self._counts[:], self._sums[:] = counts, sums
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
        pulls = self._counts.sum(axis=1).astype(np.int64)
        return self._schedule[np.minimum(pulls, len(self._schedule) - 1)]

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) that of each lane's poorest population."""
        return self._sizes.min(axis=1)

    def is_degenerate(self) -> np.ndarray:
        """Return (N,) whether in some population every particle rules out the data.

        It is treated as if all were equally likely.
        """
        return np.any(self._is_degenerate, axis=1, keepdims=True)[:, 0]

    def _weights(self) -> np.ndarray:
        shape = self._log_weights.shape
        weights, _ = self._weigh(*(rows.ravel() for rows in np.indices(shape[:2])))
        return weights.reshape(shape)

    def _per_arm(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K, P) means and weights."""
        axes = (0, 1, 2) if self._is_split else (0, 2, 1)
        particles = self._particles[..., 0] if self._is_split else self._particles[:, 0]
        means = particles.transpose(axes)
        return means, np.broadcast_to(self._weights(), means.shape)

    def _learn(
        self, rng: Generator, lanes: np.ndarray, arms: np.ndarray, rewards: np.ndarray
    ) -> None:
        """Take in one reward in each of the given lanes."""
        groups = arms if self._is_split else np.zeros_like(arms)
        columns = np.zeros_like(arms) if self._is_split else arms
        means = self._particles[lanes, groups, :, columns]
        self._log_weights[lanes, groups] += self.problem.likelihood.log_likelihood(
            means, 1, rewards[:, None]
        )
        self._is_stale[lanes, groups] = True
        self._counts[lanes, arms] += 1
        self._sums[lanes, arms] += rewards
        if self.resampling != "never":
            weights, _ = normalise(self._log_weights[lanes, groups])
            is_poor = effective_sample_size(weights) < self._least_size
            self._renew(rng, lanes[is_poor], groups[is_poor])

    def _absorb(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Take in (N, K) statistics by stages, each small enough to keep the particles alive."""
        lanes, groups = (rows.ravel() for rows in np.indices(self._log_weights.shape[:2]))
        self._is_stale[:] = True
        for stage in range(MAX_STAGES):
            news = counts - self._counts, sums - self._sums
            share, gain = self._affordable_share(lanes, groups, *news)
            if self.resampling == "never" or stage == MAX_STAGES - 1:
                share = np.ones(len(lanes))
            self._log_weights[lanes, groups] += share[:, None] * gain
            rows: Any = (lanes, groups) if self._is_split else lanes
            part = share if self._is_split else share[:, None]
            self._counts[rows] += part * news[0][rows]
            self._sums[rows] += part * news[1][rows]
            lanes, groups = lanes[share < 1], groups[share < 1]
            if not lanes.size:
                return
            self._renew(rng, lanes, groups)

    def _affordable_share(
        self, lanes: np.ndarray, groups: np.ndarray, counts: np.ndarray, sums: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (R,) how much of (N, K) new data each population can take without getting poor.

        Also returns the (R, P) log-likelihood of all of the new data.
        """
        old = self._log_weights[lanes, groups]
        gain = self._log_likelihood(self._particles[lanes, groups], lanes, groups, counts, sums)
        low, share = np.zeros(len(lanes)), np.ones(len(lanes))
        high = share
        for _ in range(30):
            weights, _ = normalise(old + share[:, None] * gain)
            is_fine = effective_sample_size(weights) >= self._least_size
            low, high = np.where(is_fine, share, low), np.where(is_fine, high, share)
            share = (low + high) / 2
        return np.where(low > 0, low, share), gain

    def _renew(self, rng: Generator, lanes: np.ndarray, groups: np.ndarray) -> None:
        """Resample and move the given populations."""
        if not lanes.size:
            return
        weights, _ = normalise(self._log_weights[lanes, groups])
        chosen = resample(rng, weights, self.resampling)
        particles = np.take_along_axis(self._particles[lanes, groups], chosen[:, :, None], axis=1)
        for sweep in range(self.num_moves):
            directions = step_directions(particles, is_along_axes=sweep % 2 == 0)
            particles = self._move(rng, particles, lanes, groups, directions)
        self._particles[lanes, groups] = particles
        self._log_weights[lanes, groups] = 0.0

    def _move(
        self,
        rng: Generator,
        particles: np.ndarray,
        lanes: np.ndarray,
        groups: np.ndarray,
        directions: np.ndarray,
    ) -> np.ndarray:
        """Return (R, P, D) particles after one Metropolis step along each of the directions."""
        current = self._log_posterior(particles, lanes, groups)
        for d in range(particles.shape[2]):
            sizes = STEP * rng.standard_normal(particles.shape[:2])
            proposed = particles + sizes[..., None] * directions[:, d, None]
            log_density = self._log_posterior(proposed, lanes, groups)
            chance = -rng.standard_exponential(particles.shape[:2])
            is_accepted = log_density - current > chance
            particles = np.where(is_accepted[..., None], proposed, particles)
            current = np.where(is_accepted, log_density, current)
        return particles

    def _log_posterior(
        self, particles: np.ndarray, lanes: np.ndarray, groups: np.ndarray
    ) -> np.ndarray:
        """Return (R, P) log posterior densities given the data taken in, up to a constant."""
        prior: Any = self.problem.prior
        likelihood = self.problem.likelihood
        low, high = self.problem.arm_support().T
        arms = groups[:, None, None] if self._is_split else np.arange(self.problem.num_arms)
        is_inside = (particles >= low[arms]) & (particles <= high[arms])
        is_possible = np.all(is_inside & likelihood.contains(particles), axis=2)
        possible = self._particles[lanes, groups, :1]  # where a user's density may be asked
        inside = np.where(is_possible[..., None], particles, possible)
        if self._is_split:
            every_arm = np.broadcast_to(inside, (*inside.shape[:2], self.problem.num_arms))
            log_prior = prior.arm_log_density(every_arm)[np.arange(len(groups)), :, groups]
        else:
            log_prior = prior.log_density(inside)
        data = self._log_likelihood(inside, lanes, groups, self._counts, self._sums)
        return np.where(is_possible, log_prior + data, -np.inf)

    def _log_likelihood(
        self,
        particles: np.ndarray,
        lanes: np.ndarray,
        groups: np.ndarray,
        counts: np.ndarray,
        sums: np.ndarray,
    ) -> np.ndarray:
        """Return (R, P) log-likelihoods of (N, K) statistics under (R, P, D) particles."""
        arms = groups[:, None] if self._is_split else np.arange(self.problem.num_arms)[None]
        rows = (lanes[:, None], arms)
        terms = self.problem.likelihood.log_likelihood(
            particles, counts[rows][:, None], sums[rows][:, None]
        )
        return terms.sum(axis=2)

    def _weigh(self, lanes: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (R, P) weights of the given populations, and (R,) whether all were zero."""
        sizes = self.num_taking_part()[lanes, None]
        takes_part = np.arange(self._log_weights.shape[2]) < sizes
        log_weights = np.where(takes_part, self._log_weights[lanes, groups], -np.inf)
        weights, is_degenerate = normalise(log_weights)
        return np.where(is_degenerate[:, None], takes_part / sizes, weights), is_degenerate

    def _refresh(self) -> None:
        """Weigh the populations that have new data; the others keep their cumulative weights."""
        lanes, groups = np.nonzero(self._is_stale)
        if not lanes.size:
            return
        weights, self._is_degenerate[lanes, groups] = self._weigh(lanes, groups)
        self._cumulative[lanes, groups] = accumulate(weights)
        self._sizes[lanes, groups] = effective_sample_size(weights)
        self._is_stale[lanes, groups] = False
