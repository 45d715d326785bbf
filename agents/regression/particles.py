"""Particles of the coefficients: SMC with resampling and moves, as `agents.posteriors.particles`.

What differs is the data, which are rows, and the moves. A move is a Metropolis step of all
coefficients at once, a random walk with the covariance of the population, that leaves the posterior
of all rows as it is. Sweeps go on until particles have forgotten where they were copied from, or
have used up their number.

How far they have is measured by their correlation with the copies. Particles then err as fewer
independent draws do, and a lane where these are too few is flagged: for good if the prior is not
normal, as moves do not bring back a mode that copies have lost. A part of the posterior that no
particle has met is not noticed.

Notation: N lanes, R of them that are due, P particles, n rows of a lane at most, d features.

References:
    Chopin (2002); Gelman, Roberts and Gilks (1996).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from agents.base.rows import Rows
from agents.posteriors.particles import ParticlePosterior
from agents.posteriors.populations import step_directions
from agents.posteriors.weighted_draws import WeightedDraws
from agents.regression.comparison import Pool
from agents.regression.draws import add_likelihood
from agents.regression.gaussian import is_normal
from agents.regression.likelihoods import LinkCode, make_link_code
from agents.regression.normal_fit import Data
from agents.regression.pool import PooledBelief
from agents.regression.posterior import CoefficientPosterior
from bandit_gym.doubts import Doubt
from bandit_gym.numerics.compiled import kernel

MAX_STAGES = 300
"""Most powers of the likelihood by which the new rows of an update are added."""

MAX_SWEEPS = 100
"""Most Metropolis steps of a particle after a resampling."""

MAX_CORRELATION = 0.5
"""Of a coefficient with that of the copy, where sweeps end: after 7 if d = 5, 26 if d = 20."""

STEP_SCALE = 2.38
"""Times the covariance's factor over the root of d, the best random walk on a normal posterior."""

MIN_WORTH_SHARE, MIN_WORTH_PER_COEFFICIENT = 0.5, 4
"""Of P and of d: independent draws that moved particles are worth, below which a lane is flagged.
With P = 500, best-arm probabilities of 50 coefficients were off by 0.01 beyond the noise of as many
draws, those of 100 by 0.03 and those of 200 by 0.31."""

MIN_DEVIATION = 1e-300


class ParticleBelief(PooledBelief):
    """What particles say of arms with features, worth as many draws as they are of coefficients."""

    posterior: ParticleCoefficients

    def _count_independent_draws(self) -> np.ndarray:
        return np.resize(self.posterior._count_independent_draws(), len(self.features))


class ParticleCoefficients(CoefficientPosterior, ParticlePosterior):
    """Weighted particles of the coefficients; see `ParticlePosterior`.

    Arguments: those of `ParticlePosterior`.

    Attributes:
        counts: (N, n) rewards of each row that the particles know.
        sums: (N, n) their totals.
    """

    can_discount = False  # it follows rows by their places, which change where rows are forgotten

    def start(self, rng: Generator, num_lanes: int) -> None:
        """Draw the particles of all lanes from the prior; they are populations of all d at once."""
        self._size, self._num_stages = self._num_means, MAX_STAGES
        self._min_unstaged_size = self._min_effective_size
        super().start(rng, num_lanes)
        self.num_lanes, self._link = num_lanes, make_link_code(self.problem)
        self.counts, self.sums = np.zeros((2, num_lanes, 0))

    def update(self, rng: Generator, rows: Rows) -> None:  # type: ignore[override]  # evidence here
        """Reweight by the new rewards of each row."""
        if num_new := rows.counts.shape[1] - self.counts.shape[1]:
            padding = (0, 0), (0, 0), (0, num_new)
            self.counts, self.sums = np.pad([self.counts, self.sums], padding)
        before = Data(rows.columns, self.counts, self.sums)
        self.counts, self.sums = rows.counts.astype(np.float64), rows.sums.copy()
        (lanes,) = (self.counts != before.counts).any(axis=1).nonzero()
        if lanes.size:
            now = Data(rows.columns, self.counts, self.sums)
            with self._all_or_none(rng):
                self._add_data(rng, lanes * self._size, (before, now))

    def predict(self, features: np.ndarray | None = None) -> Any:
        """Return the belief for the next decision, see `Posterior.predict`."""
        belief = super().predict(features)
        return belief if features is None else ParticleBelief(self, features)

    def weighted_draws(self) -> WeightedDraws:
        """Return the particles and their weights."""
        return self._populations()

    def find_pool(self, lane: int) -> Pool:
        """Return the particles of a lane as a pool, whose shares are the agent's own."""
        draws = self._populations()
        order, starts = np.arange(self._size), np.array([0, self._size])
        return Pool(draws.means[lane].T, draws.log_weights[lane][None], order, starts, {})

    def doubts(self) -> np.ndarray:
        """Return (N,) where particles are worth too few draws, or could not follow the data."""
        lineage, num_particles, num_arms = self.lineage, self._num_active(), self.problem.num_arms
        is_few = lineage.has_few_effective(self._effective_sizes(), num_particles, num_arms)
        is_few |= lineage.is_capped | lineage.is_worth_less(self._min_worth())
        return np.where(is_few, Doubt.PARTICLES_COLLAPSED.value, 0) | self._shortages

    def _min_worth(self) -> float:
        return max(MIN_WORTH_SHARE * self._weights.shape[1], MIN_WORTH_PER_COEFFICIENT * self._size)

    def _log_likelihood_gain(self, lanes: np.ndarray, cells: np.ndarray, totals: Any) -> np.ndarray:
        """Return (R, P + 1) log-likelihoods of the new rewards of R lanes."""
        before, now = totals
        new = Data(now.columns, now.counts - before.counts, now.sums - before.sums)
        theta = self._means.reshape(self.num_lanes, self._size, -1)[lanes].swapaxes(1, 2)
        return np.asarray(sum_likelihoods(self._link, new, lanes, np.ascontiguousarray(theta)))

    def _move(
        self, rng: Generator, lanes: np.ndarray, chosen: np.ndarray, totals: Any, power: np.ndarray
    ) -> None:
        """Move the copied particles of R lanes, by sweeps until they have moved far enough."""
        before, now = totals
        share = np.zeros((self.num_lanes, 1))
        share[lanes, 0] = power
        counts = before.counts + share * (now.counts - before.counts)
        data = Data(now.columns, counts, before.sums + share * (now.sums - before.sums))
        copies = self._particles()[lanes]
        scale = np.maximum(copies.std(axis=1, keepdims=True), MIN_DEVIATION)
        steps = step_directions(copies / scale, uses_principal_axes=True)
        # In the order of C: products of matrices take an eighth of the time.
        steps = np.ascontiguousarray(STEP_SCALE / np.sqrt(self._size) * scale * steps)
        particles, correlation = copies.copy(), np.ones(len(lanes))
        current, moving = self._log_posterior(lanes, data, copies), np.arange(len(lanes))
        for _ in range(MAX_SWEEPS if self._num_moves else 0):
            old = particles[moving]
            proposed = old + rng.standard_normal(old.shape) @ steps[moving]
            log_density = self._log_posterior(lanes[moving], data, proposed)
            log_uniform = -rng.standard_exponential(log_density.shape)
            is_accepted = log_density - current[moving] > log_uniform
            particles[moving] = np.where(is_accepted[..., None], proposed, old)
            current[moving] = np.where(is_accepted, log_density, current[moving])
            self.lineage.acceptance[lanes[moving]] = is_accepted.mean(axis=1)
            correlation[moving] = correlate(copies[moving], particles[moving])
            moving = moving[correlation[moving] > MAX_CORRELATION]
            if not moving.size:
                break
        self.lineage.update_worth(lanes, self._effective_sizes(lanes), correlation)
        if not is_normal(self.problem.prior):
            self.lineage.is_capped[lanes] |= self.lineage.is_worth_less(self._min_worth())[lanes]
        self._particles()[lanes] = particles

    def _log_posterior(self, lanes: np.ndarray, data: Data, particles: np.ndarray) -> np.ndarray:
        """Return (R, P) log posterior densities of (R, P, d) particles of lanes, to a constant."""
        log_prior = np.asarray(self.problem.prior.log_density(particles))
        # In the order of C, as above: for each order another kernel would be compiled.
        ordered = np.ascontiguousarray(particles)
        return log_prior + sum_likelihoods(self._link, data, lanes, ordered)


def correlate(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return (R,) largest correlations of a coefficient in two (R, P, d) populations.

    It is 1 where a coefficient does not vary.
    """
    first = first - first.mean(axis=1, keepdims=True)
    second = second - second.mean(axis=1, keepdims=True)
    products = np.sqrt(np.square(first).sum(axis=1) * np.square(second).sum(axis=1))
    shared = (first * second).sum(axis=1)
    return np.where(products > 0, shared / np.maximum(products, MIN_DEVIATION), 1.0).max(axis=1)


@kernel
def sum_likelihoods(link: LinkCode, data: Data, lanes: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return (R, m) log-likelihoods of (R, m, d) coefficients of lanes over rows with a count."""
    out, indices = np.zeros(theta.shape[:2]), np.arange(theta.shape[2])
    for i in range(lanes.size):
        known = np.flatnonzero(data.counts[lanes[i]])
        add_likelihood(link, data, lanes[i], known, indices, theta[i].T, out[i])
    return out
