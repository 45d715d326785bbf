"""Weighted draws of the means, and what they say of a posterior.

Particles, a chain's states, the draws of a race: all of them are m vectors of means in each lane,
with weights. What they say of the posterior is worked out here, and weights are normalised here.

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

WEIGHTS_PER_BLOCK = 32
"""Weights that are added up at once where one of many is searched."""

BELOW_ONE = math.nextafter(1.0, 0.0)
"""Of a sum: rounding may lead beyond it."""


MIN_DRAWS_BEYOND = 4
"""Effective draws beyond a quantile, without which it is not resolved."""

TARGET_BEST_ARM_ERROR, MAX_BEST_ARM_ERROR = 0.02, 0.05
"""Of best-arm probabilities: down to the first more draws are taken, up to their limit; above the
second their effective size is doubted."""

PRODUCT_ROUNDING = 1e-9
"""Of a product that should be a whole number."""


def normalise_weights(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weights that sum to one, and the logarithms of what they summed to before.

    Args:
        log_weights: (..., m), -inf for a draw that rules out the data.

    Returns:
        (..., m) weights, all equal where all log-weights are -inf; and (...) the logarithm of their
        sum, -inf there.
    """
    weights, top = scale_weights(log_weights)
    total = weights.sum(axis=-1)
    weights /= total[..., None]
    return weights, top + np.log(total)


def scale_weights(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (..., m) weights over the largest, all 1 where none is possible, and its (...) log."""
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
        means: (N, m, K).
        log_weights: (N, m), up to a constant in each lane; -inf for a draw of weight 0.
        autocorrelation: (N,) of successive draws, in [0, 1); 0 of independent ones.
    """

    means: np.ndarray
    log_weights: np.ndarray
    autocorrelation: np.ndarray | float = 0.0

    @cached_property
    def weights(self) -> np.ndarray:
        """(N, m) weights that sum to 1 in each lane."""
        return normalise_weights(self.log_weights)[0]

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

    def best_arm_probabilities(self) -> np.ndarray:
        """Return the (N, K) weights of the draws in which an arm is the best; ties are shared."""
        is_best = self.means == self.means.max(axis=2, keepdims=True)
        return np.einsum("nm,nmk->nk", self.weights / is_best.sum(axis=2), is_best)

    def best_arm_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) weights of the draws in which an arm is the best, and their averages.

        At [lane, a, i] of the (N, K, K) averages is that of arm i where a is best; where no draw
        has a as the best, that of all draws.
        """
        is_best = self.means.argmax(axis=2)[..., None] == np.arange(self.means.shape[2])
        weights = self.weights[..., None] * is_best
        best = weights.sum(axis=1)
        averages = np.einsum("nma,nmi->nai", weights, self.means)
        averages /= np.where(best > 0, best, 1.0)[..., None]
        return best, np.where(best[..., None] > 0, averages, self.mean()[:, None])

    def lower_partial_moment(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights at most (N, K) levels and the (N, K) expectations of what lacks."""
        gaps = level[:, None] - self.means
        below = np.einsum("nm,nmk->nk", self.weights, gaps >= 0)
        return below, np.einsum("nm,nmk->nk", self.weights, np.maximum(gaps, 0.0))

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) how many independent draws they are worth; 0 where none has weight.

        That is 1 / sum of squared weights, and less of a chain whose correlations fade like powers.
        """
        sizes = (1 - self.autocorrelation) / (1 + self.autocorrelation)
        sizes = sizes / np.square(self.weights).sum(axis=1)
        return np.where(self.log_weights.max(axis=1) == -np.inf, 0.0, sizes)

    def has_few_beyond(self, p: np.ndarray | float) -> np.ndarray:
        """Return (N,) True where too few draws are beyond a quantile p, (N, K) or one."""
        counts = self.effective_sample_size()[:, None] * np.minimum(p, np.subtract(1.0, p))
        return np.asarray((counts < (1 - PRODUCT_ROUNDING) * MIN_DRAWS_BEYOND).any(axis=1))

    def best_arm_error(self) -> np.ndarray:
        """Return (N,) how far off best-arm probabilities may be; see the function."""
        return best_arm_error(self.best_arm_probabilities(), self.effective_sample_size())

    def resample(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws, each taken by its weight."""
        chosen = find_particles(self.weights, rng.random((len(self.weights), size)))
        return self.means[np.arange(len(chosen)), chosen.T]


def best_arm_error(probabilities: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return (N,) twice the total variation to expect of frequencies in independent draws.

    A share p of n draws is off by sqrt(2 p (1 - p) / (pi n)) on average. One more draw, of all arms
    alike, keeps p away from 0 and 1.

    Args:
        probabilities: (N, K) frequencies.
        sizes: (N,) how many draws they are of; inf where they are none.
    """
    share = 1 / (1 + sizes[:, None])
    p = probabilities + share * (1 / probabilities.shape[1] - probabilities)
    return np.asarray(np.sqrt(2 / np.pi * share * p * (1 - p)).sum(axis=1))


def resample(rng: Generator, weights: np.ndarray) -> np.ndarray:
    """Return the (R, P) indices of the particles that go on; the expected number of copies is P w.

    By systematic resampling: at the same place of each P-th of the cumulative weights. A particle
    of weight zero never goes on.

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
    """Return the (R, M) particles at which the cumulative weights pass the (R, M) places in [0, 1).

    A row at a time is as fast as one search over all rows.
    """
    below = weights.cumsum(axis=1)
    positions = np.minimum(positions, BELOW_ONE) * below[:, -1:]  # rounding may make it 1
    rows = zip(below, positions, strict=True)
    return np.array([np.searchsorted(row, levels, side="right") for row, levels in rows])


def compare_populations(means: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return (K,) how likely each of K independent (K, P) populations has the largest mean.

    Arms that tie share it evenly: each is the best where its uniform u is, so that the chance is
    the integral over u of a polynomial, which Gauss's nodes give exactly.
    """
    positions = np.unique(means, return_inverse=True)[1].reshape(means.shape)
    masses = np.zeros((len(means), positions.max() + 1))
    np.add.at(masses, (np.arange(len(means))[:, None], positions), weights)
    num_nodes = (np.count_nonzero(masses, axis=0).max() + 1) // 2
    nodes, shares = np.polynomial.legendre.leggauss(num_nodes)
    chances = np.zeros(len(means))
    for node, share in zip(nodes, shares / 2, strict=True):
        below = np.cumsum(masses, axis=1) - masses * (1 - node) / 2
        for arm, own in enumerate(positions):
            others = below[:, own]
            others[arm] = weights[arm]
            chances[arm] += share * others.prod(axis=0).sum()
    return chances


def draw_particles(rng: Generator, weights: np.ndarray) -> np.ndarray:
    """Return (R,) places, one in each row of (R, P) weights, taken by its weight.

    Sums of blocks are searched first and then one block, in a fifth of the time that it takes to
    sum up a thousand weights one by one.
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
    share = (levels[:, 0] - below[rows, block]) / block_sums + 1
    share = np.clip(share, 0.0, BELOW_ONE)[:, None]  # rounding may lead out
    chosen: np.ndarray = starts[block] + (inside > share * inside[:, -1:]).argmax(axis=1)
    return chosen


def draw_particle(rng: Generator, weights: np.ndarray) -> int:
    """Return what `draw_particles` does for one row, (P,): the same sums, in lists of Python."""
    sums = np.add.reduceat(weights, np.arange(0, len(weights), WEIGHTS_PER_BLOCK)).tolist()
    below = list(accumulate(sums))
    level = rng.random() * below[-1]
    block = bisect_right(below, level) % len(below)
    inside = list(
        accumulate(weights[WEIGHTS_PER_BLOCK * block : WEIGHTS_PER_BLOCK * (block + 1)].tolist())
    )
    share = min(max((level - below[block]) / sums[block] + 1, 0.0), BELOW_ONE)
    return WEIGHTS_PER_BLOCK * block + bisect_right(inside, share * inside[-1]) % len(inside)
