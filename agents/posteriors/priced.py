"""What is known of values * means - costs at a decision, where arms have these.

A rule asks this belief as it asks that of the means: the map is affine and, with values above 0,
increasing, so that moments and quantiles are mapped. Which arm is best is another question than
that of the means: it is asked of distributions where these are known, else of weighted draws.

Notation: K arms, N lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from agents.posteriors.base import NUM_ANSWER_DRAWS, Belief
from agents.posteriors.weighted_draws import WeightedDraws
from bandit_gym.numerics.streams import make_generator

NUM_DRAWS, MAX_NUMBERS = 2**14, 10**7
"""Draws of a posterior by tables; of all lanes and arms together."""


class PricedBelief(Belief):
    """The belief about values * means - costs.

    Arguments:
        belief: about the (N, K) means.
        values: (N, K) above 0.
        costs: (N, K).
    """

    def __init__(self, belief: Belief, values: np.ndarray, costs: np.ndarray) -> None:
        self.belief, self.values, self.costs = belief, values, costs
        self.source, self.keeps_state = belief.source, belief.keeps_state
        self.has_exact_probabilities = belief.has_exact_priced_probabilities

    def _map(self, means: np.ndarray) -> np.ndarray:
        """Return what (..., N, K) means are worth."""
        return self.values * means - self.costs

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw."""
        return self._map(self.belief.sample(rng))

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws."""
        return self._map(self.belief.sample_many(rng, size))

    def weighted_draws(self) -> WeightedDraws:
        """Return those of the means, mapped; of a posterior that is known there are more."""
        if self.belief.has_exact_probabilities and not self.belief.keeps_state:
            size = max(NUM_ANSWER_DRAWS, min(NUM_DRAWS, MAX_NUMBERS // self.values.size))
            means = self.sample_many(make_generator("draws for answers"), size).swapaxes(0, 1)
            return WeightedDraws(means, np.zeros(means.shape[:2]))
        draws = self.belief.weighted_draws()
        means = self.values[:, None] * draws.means - self.costs[:, None]
        return WeightedDraws(means, draws.log_weights, draws.efficiency)

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations."""
        return self._map(self.belief.mean())

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations."""
        return self.values * self.belief.std()

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles."""
        return self._map(self.belief.quantile(p))

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) probabilities that an arm is worth most."""
        known = self.belief.priced_probabilities(self.values, self.costs, 1, available)
        return super().best_arm_probabilities(available) if known is None else known[:, 0]

    def position_probabilities(self, top: int, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, top, K) probabilities of each place."""
        known = self.belief.priced_probabilities(self.values, self.costs, top, available)
        return super().position_probabilities(top, available) if known is None else known

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) how many draws answers about best arms are worth."""
        return np.asarray(self._draws().effective_sample_size())

    def doubts(self) -> np.ndarray:
        """Return (N,) why what is held may be wrong."""
        return np.bitwise_or(self.belief.doubts(), self._shortages)

    def diagnostics(self) -> dict[str, Any]:
        """Return those of the belief about the means, with what is doubted here."""
        return self.belief.diagnostics() | super().diagnostics()
