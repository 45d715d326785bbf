"""Mean-field variational inference: independent normal laws on the line, by their lower bound.

Kucukelbir et al. (2017), "Automatic Differentiation Variational Inference", with fixed draws in
place of fresh ones, as Giordano, Ingram and Broderick (2024), "Black Box Variational Inference with
a Deterministic Objective", who recommend some 30 of them. The bound's slopes are zero where each
mean has average slope zero, and each variance is one over the average curvature: these two lines
are repeated (Opper and Archambeau 2009, "The Variational Gaussian Approximation Revisited").
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from scipy import special, stats

from bandit_gym.problem import BanditProblem
from outsiders.target import Target, find_mode

NUM_POINTS, NUM_ROUNDS = 30, 20


def mean_field(
    problem: BanditProblem, counts: np.ndarray, sums: np.ndarray, rng: Generator, size: int
) -> np.ndarray:
    """Draw (size, K) means, given (K,) data or (size, K), a history for each row."""
    target = Target(problem, counts, sums)
    centre, curvature = fit(target)
    noise = rng.standard_normal((size, problem.num_arms))
    return target.means(centre + noise / np.sqrt(-curvature))


mean_field.is_batched = True


def fit(target: Target) -> tuple[np.ndarray, np.ndarray]:
    """Return the centres of the normal laws and minus their precisions, shaped as `find_mode`'s."""
    centre, curvature = find_mode(target)
    uniforms = stats.qmc.Sobol(centre.shape[1], seed=0).random_base2(5)[:NUM_POINTS]
    points = special.ndtri(np.vstack([uniforms, 1 - uniforms]).clip(1e-9, 1 - 1e-9))[:, None]
    for _ in range(NUM_ROUNDS):
        slopes, curvatures = target.slopes(centre + points / np.sqrt(-curvature))
        average = np.minimum(np.nan_to_num(curvatures).mean(axis=0), curvature / 10)
        curvature = (curvature + np.maximum(average, 10 * curvature)) / 2
        step = np.nan_to_num(slopes).mean(axis=0) / -curvature
        centre = centre + np.clip(step, -1.0, 1.0) / 2
    return centre, curvature
