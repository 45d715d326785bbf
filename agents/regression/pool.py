"""Best-arm probabilities of many visitors, from one pool of weighted draws of the coefficients.

The draws of a block are scrambled Sobol points, taken through the distribution that its fit
proposes, and weighted as those of a race. Blocks are independent a posteriori, so draw j of all
blocks is one draw of all coefficients, and its weight is the product over the blocks that matter.
How arms are compared by it is in `agents.regression.comparison`.

A pool is a function of the data, one integer and the lane's index, so it need not be saved. It is
kept until rewards arrive.

Notation: N lanes, n visitors of a lane, K arms, d features, B blocks, m draws.

References:
    Owen (1995), "Randomly permuted (t, m, s)-nets and (t, s)-sequences".
"""

from __future__ import annotations

import copy
import math
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from scipy import special

from agents.posteriors.base import FeatureBelief, Posterior
from agents.posteriors.weighted_draws import normalise_weights
from agents.regression.comparison import (
    Pool,
    compare_in_pool,
    compare_ordered,
    count_best,
    predict_in_pool,
)
from agents.regression.normal_fit import Fit
from agents.regression.proposals import find_degrees, log_noises

NUM_DRAWS = 6144
"""Of the draws of a pool that are worth as many; there are up to 4 times as many of others."""

FIXED_SEED, NUM_SCRAMBLES = 0, 8
"""Integer of the pools of answers that are to move nothing; it and the next ones state errors."""

MAX_POOL_BYTES = 2**28
"""Of all lanes' pools of one integer, to be kept: 256 MB."""


class PooledBelief(FeatureBelief):
    """What a posterior of coefficients says of arms with features; of best arms, by its pools.

    A single run may have the features of many visitors, (n, K, d).
    """

    posterior: PooledPosterior

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) probabilities that each arm has the largest mean; (n, K) of a run."""
        posterior, features = self.posterior, self.features
        if available is None:
            available = np.ones((1, features.shape[1]), dtype=bool)
        available = np.broadcast_to(available, features.shape[:2])
        if posterior.num_lanes == 1:
            return posterior.find_probabilities(0, features, available)
        lanes = zip(features[:, None], available[:, None], strict=True)
        return np.concatenate(
            [posterior.find_probabilities(i, *lane) for i, lane in enumerate(lanes)]
        )

    def priced_probabilities(
        self, values: np.ndarray, costs: np.ndarray, top: int, available: np.ndarray | None
    ) -> np.ndarray | None:
        """Return the (N, 1, K) probabilities by pools; None where there are more places."""
        if top > 1:
            return None
        posterior, out = self.posterior, np.empty(values.shape)
        mask = np.ones(values.shape, dtype=bool) if available is None else available
        for lane in range(posterior.num_lanes):
            rows = slice(lane, None, posterior.num_lanes)
            given = self.features[rows], mask[rows], values[rows], costs[rows]
            out[rows] = posterior.find_priced_probabilities(lane, *given)
        return out[:, None]

    def _count_independent_draws(self) -> np.ndarray:
        posterior, sizes = self.posterior, np.empty(len(self.features))
        for lane in range(posterior.num_lanes):
            weights = normalise_weights(posterior.find_pool(lane).log_weights)[0]
            sizes[lane :: posterior.num_lanes] = (1 / np.square(weights).sum(axis=1)).min()
        return sizes


class PooledPosterior(Posterior):
    """A posterior of coefficients with a pool for each of its lanes.

    Attributes:
        num_lanes: N.
    """

    num_lanes: int

    def find_pool(self, lane: int) -> Pool:
        """Return the pool of a lane."""
        raise NotImplementedError

    def find_probabilities(
        self, lane: int, features: np.ndarray, available: np.ndarray
    ) -> np.ndarray:
        """Return (n, K) best-arm probabilities of a lane's visitors.

        Args:
            lane: whose.
            features: (n, K, d) of the arms.
            available: (n, K) arms that may be best.
        """
        return compare_in_pool(self.find_pool(lane), features, available)

    def find_priced_probabilities(
        self,
        lane: int,
        features: np.ndarray,
        available: np.ndarray,
        values: np.ndarray,
        costs: np.ndarray,
    ) -> np.ndarray:
        """Return the (n, K) probabilities that values * means - costs are largest."""
        link: Any = self.problem.link  # type: ignore[attr-defined]
        pool, out = self.find_pool(lane), np.zeros(values.shape)
        for i, mask in enumerate(available):
            arms = np.flatnonzero(mask)
            part, predictors = predict_in_pool(pool, features[i], mask)
            worth = values[i, arms, None] * link.mean(predictors) - costs[i, arms, None]
            if len(part.weights) > 1:
                out[i, arms] = compare_ordered(worth, part.weights)
            else:
                out[i, arms] = count_best(worth, part.weights[0])
        return out / out.sum(axis=1, keepdims=True)

    def predict(self, features: np.ndarray | None = None) -> Any:
        """Return the belief for the next decision, see `Posterior.predict`."""
        belief = super().predict(features)
        return belief if features is None else PooledBelief(self, features)


class SeededPools(PooledPosterior):
    """A posterior whose pools are functions of its data and an integer, kept until rewards arrive.

    Attributes:
        pool_seed: the integer. Decisions by probabilities draw one each time the data have changed.
        seeded_at: `data_version` at which it was drawn, -1 of none.
    """

    state_names: ClassVar[tuple[str, ...]] = ("pool_seed", "seeded_at")
    other_seeds: ClassVar[range] = range(1, NUM_SCRAMBLES)
    pool_seed: int = FIXED_SEED
    seeded_at: float = -1

    def draw_pool(self, lane: int, rng: Generator) -> Pool:
        """Return a new pool of a lane."""
        raise NotImplementedError

    def data_version(self) -> float:
        """Return a number of the data in all lanes, another one after each reward."""
        raise NotImplementedError

    def find_pool(self, lane: int) -> Pool:
        """Return the pool of a lane, drawn anew if the data or the integer are others."""
        state, key = self.data_version(), (self.pool_seed, lane)
        pools = self._pools
        if pools.get("state") != state:
            pools.clear()
            pools["state"] = state
        if key not in pools:
            pool = self.draw_pool(lane, np.random.default_rng([self.pool_seed, lane]))
            if self.num_lanes * pool.theta.nbytes > MAX_POOL_BYTES:
                return pool
            pools[key] = pool
        return pools[key]  # type: ignore[no-any-return]

    def renew_draws(self, rng: Generator) -> None:
        """Draw another integer if data have changed since the last one was drawn."""
        if self.seeded_at != self.data_version():
            self.pool_seed = int(rng.integers(NUM_SCRAMBLES, 2**63 - 1))
            self.seeded_at = self.data_version()

    def fork(self) -> Self:
        """Return a copy that may move on, and answers from the pool of the fixed integer."""
        twin = super().fork()
        twin.pool_seed = FIXED_SEED
        return twin

    def fork_for_decision(self, evidence: Any, keeps_draws: bool = False) -> Self:
        """Return a copy that shares pools; see `Posterior.fork_for_decision`."""
        twin = self._share()
        if not keeps_draws:
            twin.pool_seed = FIXED_SEED
        return twin

    def _share(self) -> Self:
        """Return one that shares all that this one has, also its pools."""
        twin = copy.copy(self)
        twin.__dict__["_pools"] = self._pools
        return twin

    @property
    def _pools(self) -> dict[Any, Any]:
        """Pools by integer and lane, and the version of the data that they rest on."""
        return self.__dict__.setdefault("_pools", {})

    def _forget_pools(self) -> None:
        """Drop the pools, also where other data will have the same version."""
        self.seeded_at = -1
        self.__dict__["_pools"] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies and pickles have: no pools."""
        kept = {"_pools", "_ahead"}
        return {name: value for name, value in vars(self).items() if name not in kept}


@lru_cache(maxsize=32)
def find_sobol_bits(size: int, length: int) -> np.ndarray:
    """Return (length, size) points of 32 bits; other shifts of their bits are other ones."""
    from scipy.stats import qmc  # which takes half a second to load

    points = qmc.Sobol(size, rng=FIXED_SEED).random_base2(math.ceil(math.log2(length)))[:length]
    return np.asarray(np.ldexp(points, 32), dtype=np.uint32)


@lru_cache(maxsize=32)
def find_stretches(degrees: float, length: int) -> np.ndarray:
    """Return (length,) quantiles of what makes normal variables Student's t."""
    levels = (np.arange(length) + 0.5) / length
    return np.minimum(np.sqrt(0.5 * degrees / special.gammaincinv(0.5 * degrees, levels)), 1e100)


def draw_points(
    rng: Generator, size: int, length: int, is_normal: bool, degrees: float | None = None
) -> np.ndarray:
    """Return (length, size) standard normal or t variables, of scrambled Sobol points.

    Their order is random, so that several such arrays are independent of each other.
    """
    shift = rng.integers(2**32, size=size + 1, dtype=np.uint32)
    bits = rng.permutation(find_sobol_bits(size + 1, length)) ^ shift
    points = special.ndtri((bits[:, 1:] + 0.5) / 2**32)
    if not is_normal:
        levels = (bits[:, 0] / 2**32 * length).astype(np.int64)
        points *= find_stretches(degrees or find_degrees(size), length)[levels, None]
    return points


def draw_in_blocks(
    rng: Generator, fit: Fit, length: int, is_prior: np.ndarray, width: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws around a lane's fit by Sobol points, and minus their log-densities.

    Args:
        rng: source of randomness.
        fit: of one lane.
        length: m.
        is_prior: (B,) blocks that are the normal prior itself, whose weights are equal.
        width: of the other blocks' draws, times the factor of their covariance.

    Returns:
        (1, d, m) draws and (1, B, m) log-weights.
    """
    draws = np.empty((1, fit.order.size, length))
    log_weights = np.zeros((1, is_prior.size, length))
    for block, columns in enumerate(np.split(fit.order, fit.starts[1:-1])):
        noise = draw_points(rng, columns.size, length, bool(is_prior[block]))
        part = slice(fit.starts[block], fit.starts[block + 1])
        spread = (1.0 if is_prior[block] else width) * noise @ fit.factor[0, part, part].T
        draws[0, columns] = (fit.mean[0, part] + spread).T
        if not is_prior[block]:
            log_weights[0, block] = -log_noises(noise)
    return draws, log_weights
