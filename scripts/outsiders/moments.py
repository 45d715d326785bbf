"""A normal law with the moments of prior and data: no ends, no skewness, no dependence.

As Gaussian Thompson sampling is mostly run (Agrawal and Goyal 2017, "Near-Optimal Regret Bounds for
Thompson Sampling", algorithm 2, with the reward's own standard deviation in place of 1): the
average reward of each arm with its standard error. Prior and data are matched by moments: the prior
counts as (reward variance / prior variance) pulls that paid its mean. Draws beyond an end are moved
to it.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from bandit_gym.problem import BanditProblem
from outsiders.target import prior_moments


def moment_matched(
    problem: BanditProblem, counts: np.ndarray, sums: np.ndarray, rng: Generator, size: int
) -> np.ndarray:
    """Draw (size, K) means, given (K,) data or (size, K), a history for each row."""
    mean, variance = prior_moments(problem)
    noise = problem.likelihood.reward_std(mean) ** 2
    precision = 1 / variance + counts / noise
    centre = (mean / variance + sums / noise) / precision
    draws = rng.normal(centre, precision**-0.5, (size, problem.num_arms))
    return np.clip(draws, *problem.arm_support().T)


moment_matched.is_batched = True
