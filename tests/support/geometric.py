"""Geometric rewards, a likelihood of one's own: failures before the first success."""

from dataclasses import dataclass
from math import inf

import numpy as np
from scipy import special

from bandit_gym.likelihoods import Likelihood


@dataclass(frozen=True)
class Geometric(Likelihood):
    """P(k) = (1 / (1 + m)) (m / (1 + m))^k for k = 0, 1, ..., with mean m."""

    name = "users_geometric"
    support = (0.0, inf)
    has_whole_rewards = True

    def is_possible(self, rewards):
        """Return whether the reward is a whole number of at least 0."""
        return np.isfinite(rewards) & (np.floor(rewards) == rewards) & np.greater_equal(rewards, 0)

    def log_likelihood(self, means, counts, sums):
        """Return s log(m) - (n + s) log(1 + m)."""
        is_inside = self.contains(means)
        m = np.where(is_inside, means, 1.0)
        value = special.xlogy(sums, m) - np.add(counts, sums) * np.log1p(m)
        return np.where(is_inside, value, -inf)

    def sample(self, means, uniforms):
        """Return the smallest k with 1 - (m / (1 + m))^(k + 1) > u."""
        m = np.asarray(means, dtype=float)
        log_failure = -special.log1p(1 / np.maximum(m, 1e-300))
        return np.where(m > 0, np.floor(special.log1p(np.negative(uniforms)) / log_failure), 0.0)
