"""Unadjusted Langevin: gradient steps with noise from the mode, a chain for each draw.

Mazumdar et al. (2020), "On Approximate Thompson Sampling with Langevin Algorithms", ask for a step
that falls like one over the number of pulls, which is the scale of the inverse curvature, and for a
number of steps that does not grow with the data. Here the step is a tenth of the inverse curvature
at the mode, arm by arm, and chains begin there. Nothing is rejected, so that a bias of the order of
the step stays.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from bandit_gym.problem import BanditProblem
from outsiders.target import Target, find_mode

STEP, NUM_STEPS = 0.1, 50
"""In units of the inverse curvature at the mode; 50 steps are 5 times of relaxation."""


def langevin(
    problem: BanditProblem, counts: np.ndarray, sums: np.ndarray, rng: Generator, size: int
) -> np.ndarray:
    """Draw (size, K) means, given (K,) data or (size, K), a history for each row."""
    target = Target(problem, counts, sums)
    mode, curvature = find_mode(target)
    step = STEP / -curvature
    line = np.broadcast_to(mode, (size, problem.num_arms))
    for _ in range(NUM_STEPS):
        slope = np.clip(np.nan_to_num(target.slope(line)), -1 / step, 1 / step)
        line = line + step * slope + np.sqrt(2 * step) * rng.standard_normal(line.shape)
    return target.means(line)


langevin.is_batched = True
