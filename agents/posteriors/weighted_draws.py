"""Posterior summaries from weighted draws of the means, and functions that normalise and resample.

Particles, states of a Markov chain and samples of a race share one form: m weighted vectors of
means in each lane.

Notation: N lanes, m draws, K arms.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.random import Generator

from agents.numerics.choices import hide_arms

WEIGHTS_PER_BLOCK = 32
"""Weights per block in the two-level search of a cumulative sum."""

BELOW_ONE = math.nextafter(1.0, 0.0)
"""Largest float below 1: the upper limit of a fraction that rounding may raise to 1."""


MIN_DRAWS_BEYOND = 4
"""Least effective sample size in the tail beyond a quantile estimate."""

TARGET_BEST_ARM_ERROR, MAX_BEST_ARM_ERROR = 0.02, 0.05
"""Errors of best-arm probabilities. More draws are taken until the error is below the first, or
their limit is reached. An error above the second raises a doubt."""

PRODUCT_ROUNDING = 1e-9
"""Relative tolerance for rounding in a product that should be an integer."""


def normalise_weights(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weights that sum to one, and the logarithms of their sums before that.

    Args:
        log_weights: (..., m), -inf for a draw that rules out the data.

    Returns:
        (..., m) weights and (...) logarithms of their sums. If all log-weights of a row are -inf,
        its weights are equal and the logarithm is -inf.
    """
    weights, top = scale_weights(log_weights)
    total = weights.sum(axis=-1)
    weights /= total[..., None]
    return weights, top + np.log(total)


def scale_weights(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (..., m) weights over their maximum, all 1 if it is 0, and the (...) log maxima."""
    top = np.maximum.reduce(log_weights, axis=-1, keepdims=True)
    is_void = top == -np.inf
    if np.count_nonzero(is_void):
        return scale_weights(np.where(is_void, 0.0, log_weights))[0], top[..., 0]
    weights = log_weights - top
    return np.exp(weights, out=weights), top[..., 0]


@dataclass(frozen=True)
class WeightedDraws:
    """Draws of the means of K arms, with weights.

    Attributes:
        means: (N, m, K) draws of the means.
        log_weights: (N, m) log-weights, up to a constant in each lane; -inf for a draw of weight 0.
        efficiency: (N,) independent draws that one of these is worth beside its weight, where they
            are correlated as the states of a Markov chain; 1 if independent.
        predictors: (N, m, K) by which arms are compared in place of their means, where these may be
            equal by rounding, as logistic ones near 1.
    """

    means: np.ndarray
    log_weights: np.ndarray
    efficiency: np.ndarray | float = 1.0
    predictors: np.ndarray | None = None

    @cached_property
    def weights(self) -> np.ndarray:
        """(N, m) weights that sum to 1 in each lane."""
        return normalise_weights(self.log_weights)[0]

    def mean(self) -> np.ndarray:
        """Return the (N, K) posterior means."""
        return np.einsum("nm,nmk->nk", self.weights, self.means)

    def std(self) -> np.ndarray:
        """Return the (N, K) posterior standard deviations."""
        off = self.means - self.mean()[:, None]
        return np.sqrt(np.einsum("nm,nmk->nk", self.weights, off * off))

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) p-quantiles of the weighted draws; p is a number or (N, K).

        That is the smallest draw whose cumulative weight is at least p.
        """
        order = np.argsort(self.means, axis=1)
        below = np.take_along_axis(self.weights[..., None], order, axis=1).cumsum(axis=1)
        levels = np.broadcast_to(p, below[:, 0].shape)[:, None]
        first = np.argmax(below >= levels * below[:, -1:], axis=1)[:, None]
        chosen = np.take_along_axis(order, first, axis=1)
        return np.take_along_axis(self.means, chosen, axis=1)[:, 0]

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return (N, K) total weights of the draws in which an arm is best; ties share evenly.

        Args:
            available: (N, K) arms that may be best; None for all.
        """
        scores = self._scores(available)
        is_best = scores == scores.max(axis=2, keepdims=True)
        return np.einsum("nm,nmk->nk", self.weights / is_best.sum(axis=2), is_best)

    def position_probabilities(self, top: int, available: np.ndarray | None = None) -> np.ndarray:
        """Return (N, top, K) weights of the draws in which arms have a place; ties share evenly.

        Args:
            top: how many places.
            available: (N, K) arms that have one; None for all.
        """
        scores = self._scores(available)
        found = np.empty((len(scores), top, scores.shape[2]))
        for j, levels in enumerate(np.moveaxis(-np.sort(-scores, axis=2)[:, :, :top], 2, 0)):
            has_place = scores == levels[..., None]
            found[:, j] = np.einsum("nm,nmk->nk", self.weights / has_place.sum(axis=2), has_place)
        return found

    def best_arm_moments(
        self, available: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) best-arm probabilities and (N, K, K) conditional means.

        Entry [lane, a, i] of the means is the mean of arm i given that arm a is best; ties share
        evenly. If a is best in no draw, it is the unconditional mean.

        Args:
            available: (N, K) arms that may be best; None for all.
        """
        scores = self._scores(available)
        is_best = scores == scores.max(axis=2, keepdims=True)
        weights = (self.weights / is_best.sum(axis=2))[..., None] * is_best
        best = weights.sum(axis=1)
        averages = np.einsum("nma,nmi->nai", weights, self.means)
        averages /= np.where(best > 0, best, 1.0)[..., None]
        return best, np.where(best[..., None] > 0, averages, self.mean()[:, None])

    def _scores(self, available: np.ndarray | None) -> np.ndarray:
        """Return (N, m, K) numbers of which the largest is that of the best arm."""
        scores = self.means if self.predictors is None else self.predictors
        return scores if available is None else hide_arms(scores, available[:, None])

    def lower_partial_moment(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) P(mean <= level) and (N, K) expected shortfalls E[(level - mean)+]."""
        gaps = level[:, None] - self.means
        below = np.einsum("nm,nmk->nk", self.weights, gaps >= 0)
        return below, np.einsum("nm,nmk->nk", self.weights, np.maximum(gaps, 0.0))

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) effective sample sizes; 0 where all weights are zero.

        That is 1 / sum of squared weights, times the efficiency of the draws.
        """
        sizes = self.efficiency / np.square(self.weights).sum(axis=1)
        return np.where(self.log_weights.max(axis=1) == -np.inf, 0.0, sizes)

    def has_few_beyond(self, p: np.ndarray | float) -> np.ndarray:
        """Return (N,) True where the tail beyond a p-quantile has too few effective draws."""
        counts = self.effective_sample_size()[:, None] * np.minimum(p, np.subtract(1.0, p))
        return np.asarray((counts < (1 - PRODUCT_ROUNDING) * MIN_DRAWS_BEYOND).any(axis=1))

    def best_arm_error(self) -> np.ndarray:
        """Return (N,) expected errors of best-arm probabilities; see the function of that name."""
        return best_arm_error(self.best_arm_probabilities(), self.effective_sample_size())

    def resample(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws, each chosen in proportion to its weight."""
        chosen = find_particles(self.weights, rng.random((len(self.weights), size)))
        return self.means[np.arange(len(chosen)), chosen.T]


def best_arm_error(probabilities: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return (N,) twice the expected total variation error of frequencies in independent draws.

    A frequency p in n draws has a mean absolute error of about sqrt(2 p (1 - p) / (pi n)). A
    pseudo-draw, shared evenly by all arms, keeps p away from 0 and 1.

    Args:
        probabilities: (N, K) frequencies.
        sizes: (N,) numbers of draws; inf where the probabilities are not from draws.
    """
    pseudo = 1 / (1 + sizes[:, None])  # the weight of the pseudo-draw
    p = np.minimum(probabilities + pseudo * (1 / probabilities.shape[1] - probabilities), 1.0)
    return np.asarray(np.sqrt(2 / np.pi * pseudo * p * (1 - p)).sum(axis=1))


def systematic_resample(rng: Generator, weights: np.ndarray) -> np.ndarray:
    """Return (R, P) indices of resampled particles, with P w expected copies of each.

    Resampling is systematic: one uniform offset serves all P strata of the cumulative weights. A
    particle of weight zero is never selected.

    Args:
        rng: source of randomness.
        weights: (R, P) normalised weights.

    References:
        Douc, Cappe and Moulines (2005).
    """
    num_rows, num_particles = weights.shape
    positions = (np.arange(num_particles) + rng.random((num_rows, 1))) / num_particles
    return find_particles(weights, positions)


def find_particles(weights: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return (R, M) indices at which the cumulative weights exceed (R, M) positions in [0, 1).

    A loop over rows is as fast as one search over all of them.
    """
    below = weights.cumsum(axis=1)
    positions = np.minimum(positions, BELOW_ONE) * below[:, -1:]  # rounding may make it 1
    rows = zip(below, positions, strict=True)
    return np.array([np.searchsorted(row, levels, side="right") for row, levels in rows])


def particle_best_arms(means: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return (K,) probabilities that an arm has the largest mean, from (K, P) populations.

    Populations are independent. Ties are broken at random: each tied arm gets a uniform variable,
    and the largest wins. Given an arm's variable u, its probability is a polynomial in u.
    Gauss-Legendre quadrature integrates it over u exactly.
    """
    positions = np.unique(means, return_inverse=True)[1].reshape(means.shape)
    masses = np.zeros((len(means), positions.max() + 1))
    np.add.at(masses, (np.arange(len(means))[:, None], positions), weights)
    num_nodes = (np.count_nonzero(masses, axis=0).max() + 1) // 2
    nodes, node_weights = np.polynomial.legendre.leggauss(num_nodes)
    probabilities = np.zeros(len(means))
    for node, node_weight in zip(nodes, node_weights / 2, strict=True):
        below = np.cumsum(masses, axis=1) - masses * (1 - node) / 2
        for arm, positions_of_arm in enumerate(positions):
            factors = below[:, positions_of_arm]
            factors[arm] = weights[arm]
            probabilities[arm] += node_weight * factors.prod(axis=0).sum()
    return probabilities


def draw_particles(rng: Generator, weights: np.ndarray) -> np.ndarray:
    """Return (R,) indices, one per row of (R, P) weights, drawn in proportion to weight.

    A search over sums of blocks finds a block, and a search inside it the index. With 1,000 weights
    this takes a fifth of the time of a full cumulative sum.
    """
    rows, size = np.arange(len(weights)), weights.shape[1]
    starts = np.arange(0, size, WEIGHTS_PER_BLOCK)
    sums = np.add.reduceat(weights, starts, axis=1)
    below = sums.cumsum(axis=1)
    levels = rng.random((len(weights), 1)) * below[:, -1:]
    block = (below > levels).argmax(axis=1)
    columns = starts[block, None] + np.arange(min(WEIGHTS_PER_BLOCK, size))
    part = np.where(columns < size, weights[rows[:, None], np.minimum(columns, size - 1)], 0.0)
    inside, block_sums = part.cumsum(axis=1), sums[rows, block]
    level = (levels[:, 0] - below[rows, block]) / block_sums + 1  # of the block's own sum
    level = np.clip(level, 0.0, BELOW_ONE)[:, None]  # rounding may lead out
    chosen: np.ndarray = starts[block] + (inside > level * inside[:, -1:]).argmax(axis=1)
    return chosen


def draw_particle(rng: Generator, weights: np.ndarray) -> int:
    """Return the index of `draw_particles` for one row of (P,) weights, by Python lists."""
    sums = np.add.reduceat(weights, np.arange(0, len(weights), WEIGHTS_PER_BLOCK)).tolist()
    below = list(accumulate(sums))
    level = rng.random() * below[-1]
    block = bisect_right(below, level) % len(below)
    first = WEIGHTS_PER_BLOCK * block
    inside = list(accumulate(weights[first : first + WEIGHTS_PER_BLOCK].tolist()))
    level = min(max((level - below[block]) / sums[block] + 1, 0.0), BELOW_ONE)
    return first + bisect_right(inside, level * inside[-1]) % len(inside)
