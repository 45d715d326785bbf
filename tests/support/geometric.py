"""Geometric rewards, a likelihood of one's own: failures before the first success.

Importing this module registers `UsersGeometricBandit-v0`, as a user's own module would.
"""

from dataclasses import dataclass
from math import inf

import gymnasium as gym
import numpy as np
from scipy import special

from bandit_gym.envs import BanditEnv, BanditVectorEnv
from bandit_gym.likelihoods import Likelihood
from bandit_gym.priors import Gamma
from bandit_gym.problem import BanditProblem


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


def geometric_problem(num_arms=10, prior=None):
    """Build geometric rewards, with a gamma prior of mean 2 unless told otherwise."""
    return BanditProblem(Geometric(), prior or Gamma(2.0, 1.0), num_arms)


def make(num_arms=10, prior=None, num_envs=None, **options):
    """Make the geometric bandit, or N lanes of it."""
    problem = geometric_problem(num_arms, prior)
    lanes = () if num_envs is None else (num_envs,)
    return (BanditVectorEnv if lanes else BanditEnv)(*lanes, problem, **options)


gym.register(
    "UsersGeometricBandit-v0",
    entry_point="geometric:make",
    vector_entry_point="geometric:make",
    max_episode_steps=1000,
)
