"""The Laplace approximation: a normal law at the mode, with the curvature there.

As recommended for Thompson sampling by Chapelle and Li (2011), "An Empirical Evaluation of Thompson
Sampling", algorithm 3 (mode, and the diagonal of the curvature), and by Russo et al. (2018), "A
Tutorial on Thompson Sampling", section 5.2.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from bandit_gym.problem import BanditProblem
from outsiders.target import Target, find_mode


def laplace(
    problem: BanditProblem, counts: np.ndarray, sums: np.ndarray, rng: Generator, size: int
) -> np.ndarray:
    """Draw (size, K) means, given (K,) data or (size, K), a history for each row."""
    target = Target(problem, counts, sums)
    mode, curvature = find_mode(target)
    noise = rng.standard_normal((size, problem.num_arms))
    return target.means(mode + noise / np.sqrt(-curvature))


laplace.is_batched = True
