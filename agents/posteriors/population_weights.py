"""What populations of particles weigh: kept up to date as rewards arrive.

Letters: N lanes with G populations of P particles, each of D means; R populations (rows) at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from agents.posteriors.conjugate import code_of, is_compiled
from agents.posteriors.lineage import Rows
from bandit_gym.likelihoods import Gaussian, Likelihood


class PopulationWeights:
    """Log-weights of all populations, and what follows from them.

    Arguments:
        likelihood: of the rewards.
        shape: (N, G, P).

    Attributes:
        logs: (N, G, P) log-weights; who changes them says so by `mark`.
        cumulative: (N, G, P) normalised weights, summed up; they end at exactly 1.
        effective_sizes: (N, G) effective sample sizes.
        log_means: (N, G) log of the mean weight, -inf where every particle rules out the data.
    """

    state_names = ("_kept", "_is_stale")

    def __init__(self, likelihood: Likelihood, shape: tuple[int, int, int]) -> None:
        from agents.numerics.particle_weights import make_weights

        self._likelihood = likelihood
        self._kept = make_weights(*shape)
        self._is_stale = np.ones(shape[:2], dtype=bool)
        self._resume()

    def _resume(self) -> None:
        self.logs, self.cumulative = self._kept.logs, self._kept.cumulative
        self.effective_sizes, self.log_means = self._kept.effective_sizes, self._kept.log_means

    def mark(self, rows: Rows | np.ndarray) -> None:
        """Take note that the logarithms of rows, or of the lanes of a mask, have changed."""
        from agents.numerics.particle_weights import MOST_PRODUCTS

        self._is_stale[rows] = True
        self._kept.ages[rows] = MOST_PRODUCTS

    def refresh(self, num_particles: np.ndarray) -> None:
        """Weigh the populations that are marked, given how many take part in each of (N,) lanes."""
        lanes, groups = np.nonzero(self._is_stale)
        if lanes.size:
            self._weigh((lanes, groups), num_particles[lanes])
            self._is_stale[lanes, groups] = False

    def learn(
        self,
        rows: Rows,
        means: np.ndarray,
        columns: np.ndarray,
        rewards: np.ndarray,
        num_particles: np.ndarray,
    ) -> None:
        """Weigh populations by one reward each.

        Args:
            rows: the populations.
            means: (N, G, D, P) particles.
            columns: (R,) which of the D means was pulled.
            rewards: (R,) what it paid.
            num_particles: (R,) how many particles take part.
        """
        from agents.numerics.particle_weights import Populations, Rewards, learn_rewards

        likelihood = self._likelihood
        if not is_compiled(likelihood):
            pulled = means[(*rows, columns)]
            self.logs[rows] += likelihood.log_likelihood(pulled, 1, rewards[:, None])
            return self._weigh(rows, num_particles)
        family = code_of(likelihood)
        std = likelihood.std if isinstance(likelihood, Gaussian) else 1.0
        news = Rewards(family, std, means, columns, rewards)
        return learn_rewards(self._kept, news, Populations(*rows, num_particles))

    def draw(self, rng: Generator, means: np.ndarray) -> np.ndarray:
        """Return (N, G, D) means of a particle of each population, by its weight."""
        from agents.numerics.particle_weights import pick

        draw = np.empty(means.shape[:3])
        pick(self.cumulative, means, rng.random(means.shape[:2]), draw)
        return draw

    def _weigh(self, rows: Rows, num_particles: np.ndarray) -> None:
        from agents.numerics.particle_weights import Populations, weigh

        weigh(self._kept, Populations(*rows, num_particles))
