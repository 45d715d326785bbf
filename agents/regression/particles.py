"""Particles of the coefficients: SMC with resampling and moves, see `agents.posteriors.particles`.

What differs is the data, which are rows.

Notation: N lanes, R of them, P particles, n rows of a lane at most, d features.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from agents.posteriors.particles import ParticlePosterior
from agents.posteriors.weighted_draws import WeightedDraws
from agents.regression.draws import add_likelihood
from agents.regression.likelihoods import LinkCode, make_link_code
from agents.regression.normal_fit import Data
from agents.regression.posterior import CoefficientPosterior
from agents.regression.rows import Rows
from bandit_gym.numerics.compiled import kernel
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import ContextualProblem

NUM_PRIOR_DRAWS, NUM_PLACES = 32, 8
"""Probes for missed modes lie at so many places between the average and draws of the prior."""


class ParticleCoefficients(CoefficientPosterior, ParticlePosterior):
    """Weighted particles of the coefficients; see `ParticlePosterior`.

    Arguments: those of `ParticlePosterior`.

    Attributes:
        counts: (N, n) rewards of each row that the particles know.
        sums: (N, n) their totals.
    """

    def start(self, rng: Generator, num_lanes: int) -> None:
        """Draw the particles of all lanes from the prior; they are populations of all d at once."""
        self._shape = 1, self.problem.num_features
        super().start(rng, num_lanes)
        self.counts, self.sums = np.zeros((2, num_lanes, 0))
        self._columns = np.zeros((num_lanes, self._shape[1], 0))

    def update(self, rng: Generator, rows: Rows) -> None:  # type: ignore[override]  # evidence here
        """Reweight by the new rewards of each row."""
        num_new = rows.counts.shape[1] - self.counts.shape[1]
        known = np.pad([self.counts, self.sums], ((0, 0), (0, 0), (0, num_new)))
        self.counts, self.sums = rows.counts.astype(np.float64), rows.sums.copy()
        self._columns = rows.columns
        (lanes,) = (self.counts != known[0]).any(axis=1).nonzero()
        if lanes.size:
            now = np.array([self.counts, self.sums])
            self._shortages = 0
            target = CoefficientsTarget(self.problem, rows.columns, known, now)
            self._add_data(rng, lanes, target)

    def weighted_draws(self) -> WeightedDraws:
        """Return the particles and their weights."""
        return self.populations.weighted_draws()

    def _may_miss_mass(self) -> np.ndarray:
        """Return (N,) whether particles miss a mode between them and draws of the prior."""
        if not self._is_resampled:
            return np.zeros(self.num_lanes, dtype=bool)
        averages = self.mean()[:, None]
        draws = self.problem.prior.sample(
            make_generator("probes"), (NUM_PRIOR_DRAWS, averages.shape[2])
        )
        places = (np.arange(NUM_PLACES) + 0.5)[:, None, None, None] / NUM_PLACES
        probes = (averages + places * (draws - averages)).swapaxes(0, 1)
        probes = probes.reshape(self.num_lanes, -1, averages.shape[2]).swapaxes(1, 2)
        now = np.array([self.counts, self.sums])
        target = CoefficientsTarget(self.problem, self._columns, np.zeros_like(now), now)
        is_unknown = np.full(self.num_lanes, -np.inf)
        return self.populations.misses_mode(target, probes, is_unknown)


class CoefficientsTarget:
    """The posterior of populations of coefficients; see `Target`.

    Arguments:
        problem: likelihood and prior.
        columns: (N, d, n) features of the rows.
        before: (2, N, n) counts and sums that are known.
        now: (2, N, n) counts and sums with the new rewards.
    """

    def __init__(
        self, problem: ContextualProblem, columns: np.ndarray, before: np.ndarray, now: np.ndarray
    ) -> None:
        self.problem, self.link = problem, make_link_code(problem)
        self.columns, self.before, self.now = columns, before, now

    def log_likelihood_of_new(self, rows: np.ndarray, particles: np.ndarray) -> np.ndarray:
        """Return (R, P) log-likelihoods of the new rewards at (R, d, P) coefficients."""
        theta = np.ascontiguousarray(particles.swapaxes(1, 2))
        data = Data(self.columns, *(self.now - self.before))
        return np.asarray(sum_likelihoods(self.link, data, rows, theta))

    def log_density(self, rows: np.ndarray, particles: np.ndarray, power: np.ndarray) -> np.ndarray:
        """Return (R, P) log posterior densities, to a constant, with (R,) powers of what is new."""
        share = np.zeros((len(self.columns), 1))
        share[rows, 0] = power
        data = Data(self.columns, *(self.before + share * (self.now - self.before)))
        theta = np.ascontiguousarray(particles.swapaxes(1, 2))
        log_prior = np.asarray(self.problem.prior.log_density(theta))
        return log_prior + sum_likelihoods(self.link, data, rows, theta)


@kernel
def sum_likelihoods(link: LinkCode, data: Data, lanes: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return (R, m) log-likelihoods of (R, m, d) coefficients of lanes over rows with a count."""
    out = np.zeros(theta.shape[:2])
    parameters = np.arange(theta.shape[2])
    for i in range(lanes.size):
        rows = np.flatnonzero(data.counts[lanes[i]])
        add_likelihood(link, data, lanes[i], rows, parameters, theta[i], out[i])
    return out
