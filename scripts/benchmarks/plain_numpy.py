"""What a careful user would write in plain NumPy: the contestants that need no library.

Each does the work and nothing beside it: no checks, no diagnostics, no masks, no seeds per lane.
Letters as everywhere: K arms, N lanes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator


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


ReferenceSampler = Callable[..., np.ndarray]


def reference_sampler(
    likelihood: str, rng: Generator, counts: np.ndarray, sums: np.ndarray
) -> ReferenceSampler:
    """Return the sampler of Table 1's posteriors of the means: `sampler(size=None)`.

    Args:
        likelihood: name of the distribution of the rewards; a Gaussian's standard deviation is 1.
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
