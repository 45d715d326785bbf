"""Weighted draws of the means, and what they say of a posterior.

Particles, a chain's states, the draws of a race: all of them are m vectors of means in each lane,
with weights. What they say of the posterior is worked out here, and weights are normalised here.

Letters: N lanes, m draws, K arms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator

from agents.numerics.choices import among


def normalise(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weights that sum to one, and the logarithms of what they summed to before.

    Args:
        log_weights: (..., m), -inf for a draw that rules out the data.

    Returns:
        (..., m) weights, all equal where all log-weights are -inf; and (...) the logarithm of their
        sum, -inf there.
    """
    top = log_weights.max(axis=-1, keepdims=True)
    is_void = np.isneginf(top)
    weights = np.exp(log_weights - np.where(is_void, 0.0, top))
    weights[is_void[..., 0]] = 1.0
    total = weights.sum(axis=-1, keepdims=True)
    return weights / total, (top + np.log(total))[..., 0]


@dataclass(frozen=True)
class WeightedDraws:
    """Draws of the means of K arms, with weights.

    Attributes:
        means: (N, m, K).
        log_weights: (N, m), up to a constant in each lane; -inf for a draw of weight 0.
    """

    means: np.ndarray
    log_weights: np.ndarray

    @cached_property
    def weights(self) -> np.ndarray:
        """(N, m) weights that sum to 1 in each lane."""
        return normalise(self.log_weights)[0]

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations of the means."""
        return np.einsum("nm,nmk->nk", self.weights, self.means)

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations of the means."""
        off = self.means - self.mean()[:, None]
        return np.sqrt(np.einsum("nm,nmk->nk", self.weights, off * off))

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) smallest draws with at least the share p, (N, K) or one, at or below.

        The last draw in order stands for shares that rounding takes above the sum of all weights.
        """
        order = np.argsort(self.means, axis=1)
        below = np.take_along_axis(self.weights[..., None], order, axis=1).cumsum(axis=1)
        levels = np.broadcast_to(p, below[:, 0].shape)[:, None]
        first = np.argmax(below >= levels * below[:, -1:], axis=1)[:, None]
        chosen = np.take_along_axis(order, first, axis=1)
        return np.take_along_axis(self.means, chosen, axis=1)[:, 0]

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) weights of the draws in which an available arm is the best."""
        means = self.means if available is None else among(self.means, available[:, None])
        is_best = means.argmax(axis=2)[..., None] == np.arange(means.shape[2])
        return np.einsum("nm,nmk->nk", self.weights, is_best)

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) 1 / sum of squared weights, between 1 and m."""
        return 1 / np.square(self.weights).sum(axis=1)

    def resample(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws, each taken by its weight."""
        below = self.weights.cumsum(axis=1)
        levels = (rng.random((size, len(below))) * below[:, -1]).T
        pairs = zip(below, levels, strict=True)
        chosen = [np.searchsorted(row, level, side="right") for row, level in pairs]
        return self.means[np.arange(len(below)), np.array(chosen).T]
