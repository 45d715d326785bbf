"""Uniform play: what every other rule has to beat."""

from __future__ import annotations

import numpy as np

from agents.base import Agent


class UniformRandom(Agent):
    """Pull an arm uniformly at random, whatever happened."""

    def _choose(self) -> np.ndarray:
        return self.rng.integers(self.problem.num_arms, size=self.num_lanes)

    def _law(self) -> np.ndarray:
        return np.full(self.counts.shape, 1 / self.problem.num_arms)
