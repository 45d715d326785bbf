"""Uniform play: what every other rule has to beat."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from agents.base import Agent
from agents.numerics.choices import among, random_argmax, share_evenly


class UniformRandom(Agent):
    """Pull an arm uniformly at random, whatever happened."""

    def _choose(self) -> np.ndarray:
        return uniform_arms(self.rng, self.lane_counts.shape, self._available)

    def _law(self) -> np.ndarray:
        return uniform_law(self.lane_counts.shape, self._available)


def uniform_arms(
    rng: Generator, shape: tuple[int, ...], available: np.ndarray | None
) -> np.ndarray:
    """Return (N,) random arms among the (N, K) available ones, given the shape (N, K)."""
    if available is None:
        return rng.integers(shape[1], size=shape[0])
    return random_argmax(rng, among(rng.random(shape), available))


def uniform_law(shape: tuple[int, ...], available: np.ndarray | None) -> np.ndarray:
    """Return the (N, K) law of `uniform_arms`."""
    return np.full(shape, 1 / shape[1]) if available is None else share_evenly(available)
