"""What a careful user would write in plain NumPy: the contestants that need no library.

Each does the work and nothing beside it: no checks, no diagnostics, no masks, no seeds per lane.
Letters as everywhere: K arms, N lanes, m samples, P particles.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from bandit_gym.problem import BanditProblem


class BetaThompson:
    """Batched Thompson sampling for Bernoulli rewards and Beta(1, 1) priors, N lanes."""

    def __init__(self, num_arms: int) -> None:
        self.num_arms = num_arms

    def reset(self, num_lanes: int, *, seed: int) -> None:
        """Forget everything."""
        self.rng = np.random.default_rng(seed)
        self.lanes = np.arange(num_lanes)
        self.successes = np.ones((num_lanes, self.num_arms))
        self.failures = np.ones((num_lanes, self.num_arms))

    def act(self) -> np.ndarray:
        """Return (N,) arms."""
        actions: np.ndarray = self.rng.beta(self.successes, self.failures).argmax(axis=1)
        return actions

    def observe(self, actions: np.ndarray, rewards: np.ndarray) -> None:
        """Learn (N,) rewards of 0 or 1."""
        self.successes[self.lanes, actions] += rewards
        self.failures[self.lanes, actions] += 1 - rewards


Sampler = Callable[..., np.ndarray]


def reference_sampler(
    likelihood: str, rng: Generator, counts: np.ndarray, sums: np.ndarray
) -> Sampler:
    """Return the sampler of Table 1's posteriors of the means: `sampler(size=None)`.

    Args:
        likelihood: name of the law of the rewards; a Gaussian's standard deviation is 1.
        rng: source of randomness.
        counts: pulls, of any shape, positive where the reference is improper.
        sums: total rewards, same shape.
    """
    if likelihood == "bernoulli":
        first, second = 1 + sums, 1 + counts - sums
        return lambda size=None: rng.beta(first, second, size)
    if likelihood == "exponential":
        shape, rate = 1.0 + counts, 1.0 + sums
        return lambda size=None: rate / rng.standard_gamma(shape, size)
    if likelihood == "poisson":
        shape, scale = 0.5 + sums, 1.0 / counts
        return lambda size=None: scale * rng.standard_gamma(shape, size)
    mean, std = sums / counts, 1 / np.sqrt(counts)
    return lambda size=None: rng.normal(mean, std, size)


def log_reference(likelihood: str, means: np.ndarray) -> float:
    """Return log q_0 of (K,) means up to a constant: the prior behind `reference_sampler`."""
    if likelihood == "exponential":
        return float(-(1 / means + 2 * np.log(means)).sum())
    if likelihood == "poisson":
        return float(-0.5 * np.log(means).sum())
    return 0.0


def race(
    sampler: Sampler,
    log_weight: Callable[[np.ndarray], float],
    gumbels: np.ndarray,
    delta: float,
    sigma: float,
) -> tuple[int, int]:
    """Choose an arm by lines 5 to 16 of Algorithm 2, one sample at a time.

    Args:
        sampler: draws (K,) means from the reference posterior.
        log_weight: log of the prior's density over the reference prior's.
        gumbels: (K,) standard Gumbel variates.
        delta: error probability.
        sigma: slack.

    Returns:
        The arm, and the number of samples drawn.
    """
    totals = np.zeros(len(gumbels))
    log_scale = -math.inf
    m = 1
    while True:
        means = sampler()
        m += 1
        winner = int(means.argmax())
        log_value = gumbels[winner] + log_weight(means)
        if log_value > log_scale:
            totals *= math.exp(log_scale - log_value)
            log_scale = log_value
        if log_value > -math.inf:
            totals[winner] += math.exp(log_value - log_scale)
        second, first = np.partition(totals, -2)[-2:]
        if first > 0 and (first - second) / m > 2 * _beta(m, delta) - sigma:
            return int(totals.argmax()), m - 1


def _beta(m: int, delta: float) -> float:
    level = math.log(1 / delta)
    radicand = level + 3 * math.log(level) + 1.5 * math.log(math.log(math.e * m / 2))
    return math.sqrt(max(radicand, 0.0) / (2 * m))


class ParticleThompson:
    """Thompson sampling from P weighted prior particles in N lanes; Bernoulli rewards.

    Args:
        problem: where the prior and K come from.
        num_particles: P.
    """

    def __init__(self, problem: BanditProblem, num_particles: int) -> None:
        self.problem, self.num_particles = problem, num_particles

    def reset(self, num_lanes: int, *, seed: int) -> None:
        """Draw new particles."""
        self.rng = np.random.default_rng(seed)
        self.lanes = np.arange(num_lanes)
        shape = num_lanes, self.num_particles, self.problem.num_arms
        self.particles = self.problem.prior.sample(self.rng, shape)
        self.best_arms = self.particles.argmax(axis=2)
        self.log_weights = np.zeros(shape[:2])

    def act(self) -> np.ndarray:
        """Return (N,) arms."""
        top = self.log_weights.max(axis=1, keepdims=True)
        cumulative = np.exp(self.log_weights - top).cumsum(axis=1)
        targets = self.rng.random((len(self.lanes), 1)) * cumulative[:, -1:]
        actions: np.ndarray = self.best_arms[self.lanes, (cumulative > targets).argmax(axis=1)]
        return actions

    def observe(self, actions: np.ndarray, rewards: np.ndarray) -> None:
        """Learn (N,) rewards of 0 or 1."""
        means = self.particles[self.lanes, :, actions]
        likelihoods = np.where(rewards[:, None] == 1, means, 1 - means)
        self.log_weights += np.log(likelihoods)
