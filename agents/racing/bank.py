"""A witness for priors that nothing exact is known of: their own draws, weighed by data.

Few draws from the prior keep weight once there are many data. So of a lane's data only as large a
part is taken as leaves enough of them: half of them, and half again. Where the prior has a rare
camp that the data ask for, its draws have come to the fore by then, and a proposal that has not
seen it shows. That is evidence and no proof: a camp that no draw has met stays unseen.

Letters: K arms, M draws, R lanes.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from agents.numerics.kernels import Draws
from bandit_gym.problem import BanditProblem

NUM_DRAWS = 4096
FEWEST = 100.0
"""Effective draws that a part of the data must leave."""


class Bank:
    """Draws from a prior, which follow a part of the data.

    Arguments:
        problem: likelihood and prior.

    Attributes:
        counts: (R, K) pulls of the part.
        sums: (R, K) their total rewards, in proportion.
    """

    def __init__(self, problem: BanditProblem) -> None:
        shape = (NUM_DRAWS, problem.num_arms)
        self.problem, self.means = problem, problem.prior.sample(np.random.default_rng(0), shape)

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Take as large a part of (R, K) counts and sums as leaves enough draws."""
        self.counts, self.sums = counts.copy(), sums.copy()
        self._shares = np.empty((len(counts), NUM_DRAWS))
        poor = np.arange(len(counts))
        while poor.size:
            part = self.counts[poor, None], self.sums[poor, None]
            logs = self.problem.likelihood.log_likelihood(self.means, *part).sum(axis=-1)
            weights = np.exp(logs - np.maximum(logs.max(axis=1, keepdims=True), -1e300))
            self._shares[poor] = weights.cumsum(axis=1)
            size = weights.sum(axis=1) ** 2 / np.maximum(np.square(weights).sum(axis=1), 1e-300)
            poor = poor[~(size >= FEWEST)]
            half = self.counts[poor] // 2
            self.sums[poor] *= half / np.maximum(self.counts[poor], 1)
            self.counts[poor] = half

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Return m draws for each of the (R,) lanes, by their weights."""
        levels = (np.arange(num_samples) + rng.random()) / num_samples
        shares = self._shares[lanes] / self._shares[lanes, -1:]
        chosen = np.array([np.searchsorted(each, levels) for each in shares])
        means = np.ascontiguousarray(self.means[chosen].swapaxes(1, 2))
        return Draws(means, np.zeros(chosen.shape), means.argmax(axis=1))
