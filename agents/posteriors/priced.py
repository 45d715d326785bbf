"""What is known of values * means - costs at a decision, where arms have these.

A rule asks this belief as it asks that of the means: the map is affine and, with values above 0,
increasing, so that moments and quantiles are mapped. Which arm is best is another question than
that of the means: it is asked of distributions where these are known, else of weighted draws.

Notation: K arms, N lanes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from agents.numerics.choices import hide_arms, random_argmax
from agents.posteriors.base import Belief
from agents.posteriors.weighted_draws import WeightedDraws


class Prices(NamedTuple):
    """The two arrays of (N, K) numbers: values above 0, and costs."""

    values: np.ndarray
    costs: np.ndarray

    def worth(self, means: np.ndarray) -> np.ndarray:
        """Return values * means - costs of (..., N, K) means."""
        return self.values * means - self.costs


class PricedBelief(Belief):
    """The belief about values * means - costs.

    Arguments:
        belief: about the (N, K) means.
        prices: their values and costs.
    """

    def __init__(self, belief: Belief, prices: Prices) -> None:
        self.belief, self.prices, self.source = belief, prices, belief.source
        self.keeps_state = belief.keeps_state
        self.has_exact_probabilities = belief.has_exact_priced_probabilities

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw."""
        return self.prices.worth(self.belief.sample(rng))

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws."""
        return self.prices.worth(self.belief.sample_many(rng, size))

    def draw_best(self, rng: Generator, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N,) arms that are best in one draw, ties broken at random."""
        return random_argmax(rng, hide_arms(self.sample(rng), available))

    def weighted_draws(self) -> WeightedDraws:
        """Return those of the means, mapped."""
        draws, (values, costs) = self.belief.weighted_draws(), self.prices
        means = values[:, None] * draws.means - costs[:, None]
        return WeightedDraws(means, draws.log_weights, draws.efficiency)

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations."""
        return self.prices.worth(self.belief.mean())

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations."""
        return self.prices.values * self.belief.std()

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles."""
        return self.prices.worth(self.belief.quantile(p))

    def lower_partial_moment(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the (N, K) probabilities and partial moments."""
        values, costs = self.prices
        below, moment = self.belief.lower_partial_moment((level + costs) / values)
        return below, values * moment

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) probabilities that an arm is worth most."""
        known = self.belief.priced_probabilities(*self.prices, available)
        return super().best_arm_probabilities(available) if known is None else known

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) those of the belief about the means."""
        return self.belief.effective_sample_size()

    def _count_independent_draws(self) -> np.ndarray:
        return self.belief._count_independent_draws()

    def doubts(self) -> np.ndarray:
        """Return (N,) why what is held may be wrong."""
        return np.bitwise_or(self.belief.doubts(), self._shortages)

    def diagnostics(self) -> dict[str, Any]:
        """Return those of the belief about the means, with what is doubted here."""
        return self.belief.diagnostics() | super().diagnostics()
