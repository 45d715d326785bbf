"""A witness for priors that nothing exact is known of: their own draws, weighed by data.

Few draws from the prior keep weight once there are many data. So of a lane's data only as large a
part is taken as leaves enough of them: half of them, and half again. Where the prior has a rare
camp that the data ask for, its draws have come to the fore by then, and a proposal that has not
seen it shows. That is evidence and no proof: a camp that no draw has met stays unseen. Where all
of the data lead to such a place shows at least from each arm's average: beyond all draws, nothing
is known of the prior.

Letters: K arms, M draws, R lanes.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from scipy.special import logsumexp

from agents.numerics.kernels import Draws
from bandit_gym.problem import BanditProblem

NUM_DRAWS = 4096
LOWEST = -1e300
FEWEST = 100.0
"""Effective draws that a part of the data must leave."""

FAR = 12.0
"""Log-likelihood, beside one for each arm, by which the averages of rewards may explain the data
better than all draws together do."""

BEYOND = 2.0
"""Standard errors by which the average of an arm may lie beyond the means of all draws."""


class Bank:
    """Draws from a prior, which follow a part of the data.

    Arguments:
        problem: likelihood and prior.

    Attributes:
        counts: (R, K) pulls of the part.
        sums: (R, K) their total rewards, in proportion.
        is_far: (R,) True where no draw comes near what explains the part, or all draws of an arm
            are on one side of what it paid.
    """

    def __init__(self, problem: BanditProblem) -> None:
        shape = (NUM_DRAWS, problem.num_arms)
        self.problem, self.means = problem, problem.prior.sample(np.random.default_rng(0), shape)

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Take as large a part of (R, K) counts and sums as leaves enough draws."""
        self.counts, self.sums = counts.copy(), sums.copy()
        self._shares, log_total = np.empty((len(counts), NUM_DRAWS)), np.empty(len(counts))
        poor = np.arange(len(counts))
        while poor.size:
            logs = self._log_likelihood(self.means, poor)
            log_total[poor] = logsumexp(logs, axis=1)
            weights = np.exp(logs - np.maximum(log_total[poor, None], LOWEST))
            self._shares[poor] = weights.cumsum(axis=1)
            poor = poor[~(1.0 >= FEWEST * np.square(weights).sum(axis=1))]
            poor = poor[self.counts[poor].any(axis=1)]
            half = self.counts[poor] // 2
            self.sums[poor] *= half / np.maximum(self.counts[poor], 1)
            self.counts[poor] = half
        averages = np.where(self.counts > 0, self.sums / np.maximum(self.counts, 1), self.means[0])
        best = self._log_likelihood(averages[:, None], np.arange(len(counts)))[:, 0]
        self.is_far = best - log_total > FAR + self.problem.num_arms
        self.is_far |= self._is_beyond(counts, sums).any(axis=1)

    def _is_beyond(self, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return (R, K) True for arms whose rewards lie beyond all draws of the prior."""
        pulls = np.maximum(counts, 1)
        average = sums / pulls
        nearest = np.clip(average, self.means.min(axis=0), self.means.max(axis=0))
        error = self.problem.likelihood.reward_std(nearest) / np.sqrt(pulls)
        return np.asarray((counts > 0) & (abs(average - nearest) > BEYOND * error))

    def _log_likelihood(self, means: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        data = self.counts[lanes, None], self.sums[lanes, None]
        return self.problem.likelihood.log_likelihood(means, *data).sum(axis=-1)

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Return m draws for each of the (R,) lanes, by their weights."""
        levels = (np.arange(num_samples) + rng.random()) / num_samples
        shares = self._shares[lanes] / self._shares[lanes, -1:]
        chosen = np.array([np.searchsorted(each, levels) for each in shares])
        means = np.ascontiguousarray(self.means[chosen].swapaxes(1, 2))
        return Draws(means, np.zeros(chosen.shape), means.argmax(axis=1))
