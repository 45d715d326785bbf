"""Best-arm probabilities of many visitors, from one pool of weighted draws of the coefficients.

The draws of a block are scrambled Sobol points, taken through the distribution that its fit
proposes, and weighted as those of a race. Blocks are independent a posteriori, so draw j of all
blocks is one draw of all coefficients, and its weight is the product over the blocks that matter.
Where no two arms use a block in common, their predictors are independent, and all combinations of
the arms' draws count: with weights w_ij and values v_ij of arm i,

    P_i = sum_j w_ij prod_{k != i} F_k(v_ij),    F_k(v) = sum_j w_kj 1{v_kj < v}.

Predictors are counted in bins, as if uniform in each, which takes a tenth of the time of sorting.
Where the arms' predictors are normal and independent, no draws are needed.

A pool is a function of the data and one integer, so it need not be saved. It is kept until rewards
arrive.

Notation: N lanes, n visitors of a lane, K arms, d features, B blocks, m draws.

References:
    Owen (1995), "Randomly permuted (t, m, s)-nets and (t, s)-sequences".
"""

from __future__ import annotations

import copy
import math
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.random import Generator
from scipy import special

from agents.numerics.best_arm import conjugate_best_arms
from agents.numerics.distributions import NORMAL, MeanDistributions
from agents.posteriors.base import FeatureBelief, Posterior
from agents.posteriors.weighted_draws import normalise_weights
from agents.regression.draws import (
    FEW_DEGREES,
    MANY_DEGREES,
    MANY_FEATURES,
    add_likelihood,
    add_normal_prior,
    log_noise,
    predict_linearly,
    weigh_draws,
)
from agents.regression.likelihoods import LinkCode
from agents.regression.normal_fit import Data, Fit, find_rows
from bandit_gym.numerics.compiled import inner, kernel

LOG_NUM_DRAWS = 12
"""Of the draws of a pool that are worth as many; there are up to 4 times as many of others."""

WIDTH = 1.1
"""Of proposals, beside those of a race: arms that are best in the tails have more draws. With four
arms of ten coefficients, it takes a tenth off the relative errors of probabilities below 0.01."""

FIXED_SEED, NUM_SCRAMBLES = 0, 8
"""Integer of the pools of answers that are to move nothing; it and the next ones state errors."""

MAX_POOL_BYTES = 2**28
"""Of all lanes' pools together, to be kept: 256 MB."""

MIN_BINS, MAX_BINS = 64, 4096
BIN_WIDTH = 0.05
"""Of the least standard deviation of an arm that may be best; where bins would be too many for
that, predictors are sorted."""


class Pool(NamedTuple):
    """Weighted draws of a lane's coefficients.

    Attributes:
        theta: (d, m) draws.
        log_weights: (B, m) of each block.
        order: (d,) coefficients, block by block.
        starts: (B + 1,) where blocks begin in it.
        parts: what was last taken of it, by the blocks that arms used.
    """

    theta: np.ndarray
    log_weights: np.ndarray
    order: np.ndarray
    starts: np.ndarray
    parts: dict[bytes, Part]


class Part(NamedTuple):
    """What arms use of a pool: A of them if they are independent, else one for all.

    Attributes:
        columns: A arrays of coefficients.
        theta: (A, c, m) draws of these, 0 beyond an arm's own.
        weights: (A, m), which sum to 1.
        covariances: (A, c, c) of the draws, as if their weights were equal.
    """

    columns: list[np.ndarray]
    theta: np.ndarray
    weights: np.ndarray
    covariances: np.ndarray


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
        posterior, link, shape = self.posterior, self.problem.link, values.shape
        masks = np.ones(shape, dtype=bool) if available is None else available
        out = np.zeros(shape)
        for i, (features, mask) in enumerate(zip(self.features, masks, strict=True)):
            arms, pool = np.flatnonzero(mask), posterior.find_pool(i % posterior.num_lanes)
            part, predictors = predict_in_pool(pool, features, mask)
            worth = values[i, arms, None] * link.mean(predictors) - costs[i, arms, None]
            if len(part.weights) > 1:
                out[i, arms] = compare_ordered(worth, part.weights)
            else:
                is_best = worth == worth.max(axis=0)
                out[i, arms] = (is_best / is_best.sum(axis=0)) @ part.weights[0]
        return out[:, None] / out.sum(axis=1)[:, None, None]

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
def find_sobol_bits(size: int, log_length: int) -> np.ndarray:
    """Return (2^log_length, size) points of 32 bits; other shifts of their bits are other ones."""
    from scipy.stats import qmc  # which takes half a second to load

    points = qmc.Sobol(size, rng=FIXED_SEED).random_base2(log_length)
    return np.asarray(np.ldexp(points, 32), dtype=np.uint32)


@lru_cache(maxsize=32)
def find_stretches(degrees: float, length: int) -> np.ndarray:
    """Return (length,) quantiles of what makes normal variables Student's t."""
    levels = (np.arange(length) + 0.5) / length
    return np.sqrt(0.5 * degrees / special.gammaincinv(0.5 * degrees, levels))


def draw_points(
    rng: Generator, size: int, log_length: int, is_normal: bool, degrees: float | None = None
) -> np.ndarray:
    """Return (2^log_length, size) standard normal or t variables, of scrambled Sobol points.

    Their order is random, so that several such arrays are independent of each other.
    """
    shift = rng.integers(2**32, size=size + 1, dtype=np.uint32)
    bits = rng.permutation(find_sobol_bits(size + 1, log_length)) ^ shift
    points = special.ndtri((bits[:, 1:] + 0.5) / 2**32)
    if not is_normal:
        degrees = degrees or (FEW_DEGREES if size < MANY_FEATURES else MANY_DEGREES)
        stretches = find_stretches(degrees, len(points))
        points *= stretches[bits[:, 0] >> np.uint32(32 - log_length)][:, None]
    return points


def draw_fitted_pool(fits: Any, lane: int, rng: Generator) -> Pool:
    """Return the pool of a lane of `CoefficientFits`, weighted by its posterior.

    Draws under a mixture are independent: which component they are of is no smooth function of
    points.
    """
    fit = fits.fit
    worth = max(float(fits.shares[lane].min()), 0.25)
    log_length = LOG_NUM_DRAWS + round(-math.log2(worth))
    if fits.components is not None:
        fit, data = take_lane(fit, fits.data, lane)
        lengths = np.full((1, fits.shares.shape[1]), 2**log_length)
        options = fit, fits.components, lengths, fits.has_normal_prior
        draws, log_weights = weigh_draws(rng, fits.link, data, *options)
    else:
        draws = np.empty((1, fit.order.size, 2**log_length))
        log_weights = np.zeros((1, fit.starts.size - 1, 2**log_length))
        for block, own in enumerate(np.split(fit.order, fit.starts[1:-1])):
            is_prior = fits.has_normal_prior and fits.num_rewards[lane, block] == 0
            noise = draw_points(rng, own.size, log_length, is_prior)
            part = slice(fit.starts[block], fit.starts[block + 1])
            theta = (
                fit.mean[lane, part]
                + (1.0 if is_prior else WIDTH) * noise @ fit.factor[lane, part, part].T
            )
            draws[0, own] = theta.T
            if not is_prior:
                of_block = fits.data, fit, (lane, block), fits.has_normal_prior
                weigh_points(fits.link, *of_block, noise, theta, log_weights[0, block])
    if not fits.has_normal_prior:
        log_weights += fits.log_prior(draws)
    return Pool(draws[0], log_weights[0], fit.order, fit.starts, {})


def take_lane(fit: Fit, data: Data, lane: int) -> tuple[Fit, Data]:
    """Return the fit and the rows of one lane alone."""
    own = {name: each[lane : lane + 1] for name, each in fit._asdict().items()}
    alike = {"order": fit.order, "starts": fit.starts, "prior": fit.prior}
    return Fit(**(own | alike)), Data(*(each[lane : lane + 1] for each in data))


@kernel
def weigh_points(
    link: LinkCode,
    data: Data,
    fit: Fit,
    index: tuple[int, int],
    has_normal_prior: bool,
    noise: np.ndarray,
    theta: np.ndarray,
    out: np.ndarray,
) -> None:
    """Set (m,) log-weights of (m, size) coefficients of a block, made of t variables."""
    lane, block = index
    for j in range(len(noise)):
        out[j] = -log_noise(noise[j])
    if has_normal_prior:
        add_normal_prior(fit, index, theta, out)
    own = fit.order[fit.starts[block] : fit.starts[block + 1]]
    add_likelihood(link, data, lane, find_rows(fit, lane, block), own, theta, out)


def find_uses(
    order: np.ndarray, starts: np.ndarray, features: np.ndarray, available: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, K, B) which blocks available arms use, and (n,) whether arms are independent.

    They are where each of them uses blocks, and none that another one uses.
    """
    is_used = (features != 0)[..., order]
    uses = np.logical_or.reduceat(is_used, starts[:-1], axis=2) & available[..., None]
    is_apart = (uses.sum(axis=1) <= 1).all(axis=1)
    return uses, is_apart & (uses.any(axis=2) == available).all(axis=1)


def compare_in_pool(pool: Pool, features: np.ndarray, available: np.ndarray) -> np.ndarray:
    """Return (n, K) probabilities that arms are best, by a lane's pool.

    Visitors whose arms use the same blocks share weights.

    Args:
        pool: of the lane.
        features: (n, K, d).
        available: (n, K) arms that may be best.
    """
    uses, is_independent = find_uses(pool.order, pool.starts, features, available)
    keys = np.concatenate([available, uses.reshape(len(uses), -1)], axis=1)
    groups = [np.arange(len(keys))]
    if (keys != keys[:1]).any():
        _, which = np.unique(np.packbits(keys, axis=1), axis=0, return_inverse=True)
        groups = np.split(np.argsort(which, kind="stable"), np.bincount(which).cumsum()[:-1])
    out = np.zeros(available.shape)
    for rows in groups:
        arms, own = np.flatnonzero(available[rows[0]]), uses[rows[0]]
        parts = own[arms] if is_independent[rows[0]] else own.any(axis=0, keepdims=True)
        part, x = find_part(pool, parts), features[np.ix_(rows, arms)]
        if is_independent[rows[0]]:
            found = compare_independent(x, part)
        else:
            found = np.zeros(x.shape[:2])
            x = np.ascontiguousarray(x[..., part.columns[0]])
            count_best(x, part.theta[0], part.weights[0], found)
        out[np.ix_(rows, arms)] = found
    return out / out.sum(axis=1, keepdims=True)


def predict_in_pool(
    pool: Pool, features: np.ndarray, available: np.ndarray
) -> tuple[Part, np.ndarray]:
    """Return what a visitor's A arms use of a pool, and the (A, m) predictors of its draws.

    Args:
        pool: of the lane.
        features: (K, d).
        available: (K,) the A arms that may be best.
    """
    uses, is_independent = find_uses(pool.order, pool.starts, features[None], available[None])
    uses, arms = uses[0, available], features[available]
    part = find_part(pool, uses if is_independent[0] else uses.any(axis=0, keepdims=True))
    if not is_independent[0]:
        return part, arms[:, part.columns[0]] @ part.theta[0]
    pairs = zip(arms, part.columns, part.theta, strict=True)
    return part, np.array([x[columns] @ theta[: columns.size] for x, columns, theta in pairs])


def find_part(pool: Pool, uses: np.ndarray) -> Part:
    """Return what arms use of a pool, given (A, B) blocks of each; the last one is kept."""
    key = np.packbits(uses).tobytes()
    if key not in pool.parts:
        pool.parts.clear()
        pool.parts[key] = take_part(pool, uses)
    return pool.parts[key]


def take_part(pool: Pool, uses: np.ndarray) -> Part:
    """Return what arms use of a pool, given (A, B) blocks of each."""
    sizes = np.diff(pool.starts)
    columns = [pool.order[np.repeat(each, sizes)] for each in uses]
    shape = len(columns), max(each.size for each in columns)
    theta = np.zeros((*shape, pool.theta.shape[1]))
    for own, each in zip(theta, columns, strict=True):
        own[: each.size] = pool.theta[each]
    off = theta - theta.mean(axis=2, keepdims=True)
    covariances = off @ off.swapaxes(1, 2) / theta.shape[2]
    log_weights = np.array([pool.log_weights[each].sum(axis=0) for each in uses])
    return Part(columns, theta, normalise_weights(log_weights)[0], covariances)


@kernel
def count_best(x: np.ndarray, theta: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """Add to (n, K) the weights of draws in which an arm is best; equal arms share them.

    Args:
        x: (n, K, c) features.
        theta: (c, m) draws of their coefficients.
        weights: (m,).
        out: (n, K).
    """
    num_arms = x.shape[1]
    values = np.empty((num_arms, weights.size))
    for i in range(len(x)):
        for k in range(num_arms):
            predict_linearly(theta, x[i, k], values[k])
        for j in range(weights.size):
            best, num_best = -np.inf, 0
            for k in range(num_arms):
                best = max(best, values[k, j])
            for k in range(num_arms):
                num_best += values[k, j] == best
            for k in range(num_arms):
                if values[k, j] == best:
                    out[i, k] += weights[j] / num_best


def compare_independent(features: np.ndarray, part: Part) -> np.ndarray:
    """Return (n, K) probabilities that an arm of (n, K, d) features is best, of independent arms.

    A part of a pool has the draws of each.
    """
    x, own, weights = np.zeros((*features.shape[:2], part.theta.shape[1])), part.theta, part.weights
    for k, each in enumerate(part.columns):
        x[:, k, : each.size] = features[:, k, each]
    spreads = np.sqrt(np.einsum("nka,kab,nkb->nk", x, part.covariances, x, optimize=True))
    out, needs_order = np.zeros(spreads.shape), np.zeros(len(x), dtype=np.bool_)
    compare_in_bins(x, own, weights, spreads, out, needs_order)
    for i in np.flatnonzero(needs_order):
        out[i] = compare_ordered(np.einsum("kc,kcm->km", x[i], own), weights)
    return out


def compare_ordered(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return (K,) probabilities that an arm is best, over all combinations of (K, m) draws."""
    order = np.argsort(values, axis=1)
    below = np.take_along_axis(weights, order, axis=1).cumsum(axis=1)
    below = np.concatenate([np.zeros((len(below), 1)), below], axis=1)
    ordered, out = np.take_along_axis(values, order, axis=1), np.empty(len(values))
    for k, drawn in enumerate(values):
        others = [b[np.searchsorted(o, drawn)] for b, o in zip(below, ordered, strict=True)]
        others[k] = weights[k]
        out[k] = np.prod(others, axis=0).sum()
    return out


@kernel
def compare_in_bins(
    x: np.ndarray,
    theta: np.ndarray,
    weights: np.ndarray,
    spreads: np.ndarray,
    out: np.ndarray,
    needs_order: np.ndarray,
) -> None:
    """Set (n, K) probabilities that arms are best, in bins; say where these are too many.

    In a bin, values are as if uniform, and Gauss's three nodes integrate products over it. Bins
    begin at the largest of the arms' least values, below which none is best.

    Args:
        x: (n, K, c) features.
        theta: (K, c, m) draws of their coefficients.
        weights: (K, m).
        spreads: (n, K) standard deviations of predictors.
        out: (n, K).
        needs_order: (n,) is set where the narrowest arm has less than a bin, of the most.
    """
    num_arms = len(weights)
    values, before = np.empty(weights.shape), np.empty(num_arms)
    masses, below, top = np.empty((num_arms, MAX_BINS)), np.empty(num_arms), np.empty(num_arms)
    for i in range(len(x)):
        low, high, spread = -np.inf, -np.inf, np.inf
        for k in range(num_arms):
            predict_linearly(theta[k], x[i, k], values[k])
            low, top[k] = max(low, values[k].min()), values[k].max()
        for k in range(num_arms):
            high = max(high, top[k])
            if top[k] >= low:
                spread = min(spread, spreads[i, k])
        wanted = (high - low) / (BIN_WIDTH * spread)
        needs_order[i] = not wanted < MAX_BINS
        if not needs_order[i]:
            num_bins = max(MIN_BINS, int(wanted) + 1)
            scale = num_bins / max(high - low, 1e-300)
            for k in range(num_arms):
                below[k] = fill_bins(values[k], weights[k], low, scale, masses[k, :num_bins])
            integrate_bins(masses[:, :num_bins], below, before, out[i])


@inner
def fill_bins(
    values: np.ndarray, weights: np.ndarray, low: float, scale: float, out: np.ndarray
) -> float:
    """Set the weight in each bin above `low`, of which `scale` are a unit long; return the rest."""
    below = 0.0
    for g in range(out.size):
        out[g] = 0.0
    for j in range(values.size):
        if values[j] < low:
            below += weights[j]
        else:
            out[min(int((values[j] - low) * scale), out.size - 1)] += weights[j]
    return below


@inner
def integrate_bins(
    masses: np.ndarray, below: np.ndarray, before: np.ndarray, out: np.ndarray
) -> None:
    """Add to (K,) the probabilities that arms are largest, of which (K,) have values below."""
    nodes = (0.5 - math.sqrt(0.15), 0.5, 0.5 + math.sqrt(0.15))
    node_weights = (5.0 / 18.0, 8.0 / 18.0, 5.0 / 18.0)
    for g in range(masses.shape[1]):
        for q in range(3):
            product = node_weights[q]
            for k in range(below.size):
                before[k] = product
                product *= below[k] + nodes[q] * masses[k, g]
            product = 1.0
            for k in range(below.size - 1, -1, -1):
                out[k] += masses[k, g] * before[k] * product
                product *= below[k] + nodes[q] * masses[k, g]
        for k in range(below.size):
            below[k] += masses[k, g]


def compare_normals(mean: np.ndarray, std: np.ndarray, available: np.ndarray) -> np.ndarray:
    """Return (n, K) probabilities that an arm is best, of independent normal predictors.

    Args:
        mean: (n, K).
        std: (n, K), above 0 of available arms.
        available: (n, K) arms that may be best.
    """
    precision = np.square(1 / np.where(available, std, 1.0))
    return conjugate_best_arms(MeanDistributions(NORMAL, mean * precision, precision), available)
