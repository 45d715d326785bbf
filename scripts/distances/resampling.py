"""The law of a race of fixed length, worked out without any of the agents' sampling code.

The arm that such a race returns is a draw from the self-normalised importance weights of its
samples. So its law is the expectation, over sets of m samples from the reference posterior, of each
arm's share of the weight.
"""

from __future__ import annotations

import numpy as np
from benchmarks.plain_numpy import reference_sampler
from numpy.random import Generator

from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Likelihood
from bandit_gym.problem import BanditProblem

CHUNK = 200_000  # samples in memory at a time


def resampling_law(
    problem: BanditProblem,
    statistics: tuple[np.ndarray, np.ndarray],
    num_samples: int,
    num_sets: int,
    rng: Generator,
) -> np.ndarray | None:
    """Return the (K,) law of the arm that a race of m samples returns.

    Args:
        problem: likelihood and prior; a Gaussian's standard deviation is 1.
        statistics: (K,) counts and (K,) sums.
        num_samples: m.
        num_sets: how many sets of samples to average over.
        rng: source of randomness.

    Returns:
        (K,) probabilities, or None where an arm has no reference posterior.
    """
    counts, sums = statistics
    if not isinstance(problem.likelihood, Bernoulli | Exponential) and (counts == 0).any():
        return None
    size = max(1, CHUNK // num_samples)
    sizes = [size] * (num_sets // size) + [num_sets % size]
    shares = np.zeros(problem.num_arms)
    draw = reference_sampler(problem.likelihood.name, rng, counts, sums)
    for rows in filter(None, sizes):
        shares += _shares(problem, draw((rows, num_samples, problem.num_arms))).sum(axis=0)
    return shares / num_sets


def _shares(problem: BanditProblem, means: np.ndarray) -> np.ndarray:
    """Return the (S, K) share of the weight of each arm in S sets of (S, m, K) samples."""
    log_weights = problem.prior.log_density(means)
    log_weights -= log_reference(problem.likelihood, means).sum(axis=-1)
    top = log_weights.max(axis=1, keepdims=True)
    weights = np.exp(log_weights - np.where(np.isfinite(top), top, 0.0))
    weights[~np.isfinite(top[:, 0])] = 1.0  # no sample is possible: any may be returned
    is_best = means.argmax(axis=-1)[..., None] == np.arange(means.shape[-1])
    return np.einsum("sm,smk->sk", weights, is_best) / weights.sum(axis=1)[:, None]


def log_reference(likelihood: Likelihood, means: np.ndarray) -> np.ndarray:
    """Return the log-density of Table 1's reference prior over each mean, up to a constant."""
    if isinstance(likelihood, Exponential):
        return -1 / means - 2 * np.log(means)  # of the mean; the table has its reciprocal
    if isinstance(likelihood, Bernoulli | Gaussian):
        return np.zeros_like(means)
    return -0.5 * np.log(means)
