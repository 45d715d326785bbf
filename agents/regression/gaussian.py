"""The closed form: coefficients under a normal prior and Gaussian rewards of known deviation.

With prior N(m_0, S_0), rewards y_i under features x_i and their deviation s, the posterior of the
coefficients is normal, with

    precision  A = S_0^-1 + sum_i x_i x_i' / s^2,
    mean       m = A^-1 (S_0^-1 m_0 + sum_i y_i x_i / s^2).

The means of arms with features X are X theta, which is N(X m, X A^-1 X'). What is kept is the root
of A, see `agents.numerics.roots`.

Notation: K arms, N lanes, d features, m draws.

References:
    Bishop (2006), "Pattern Recognition and Machine Learning", Section 3.3.1.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import special

from agents.base.rows import Rows
from agents.numerics.choices import argmax_probabilities
from agents.numerics.roots import Roots, describe_arms, join_prior
from agents.posteriors.base import NUM_ANSWER_DRAWS, Belief, count_answer_draws
from agents.posteriors.factory import find_methods
from agents.regression.comparison import Pool, compare_normals
from agents.regression.pool import NUM_DRAWS, SeededPools, draw_points
from bandit_gym.checks import check_choice, message
from bandit_gym.checks.typing import FloatArray
from bandit_gym.doubts import Doubt
from bandit_gym.numerics.streams import make_generator
from bandit_gym.priors import MultivariateNormal, Normal
from bandit_gym.priors.independent import keeps_draws
from bandit_gym.problem import ContextualProblem

SOURCE = "the normal distribution"
SOURCE_OF_MANY_ARMS = f"{SOURCE} and, of best arms that share coefficients, {NUM_DRAWS:,} draws"

MAX_PRODUCTS = 10**9
"""Of features, in the matrices of all lanes: 8 GB of them."""

MIN_SPREAD = 1e-150
"""Of a difference of two means; its square is a normal number."""


class NormalBelief(Belief):
    """Means that are X theta with normal coefficients theta, whose answers are formulas.

    Best-arm probabilities are exact for two arms, and frequencies in draws of more.

    Arguments:
        features: (N, K, d), X.
        roots: of the precision matrices of the coefficients.
        posterior: that has pools of these, if more than two arms are to be compared.
    """

    def __init__(
        self, features: FloatArray, roots: Roots, posterior: GaussianCoefficients | None = None
    ) -> None:
        self._features, self._posterior = features, posterior
        self._prices: tuple[FloatArray, ...] = ()
        self._is_drawn = np.zeros(1, dtype=bool)  # by the last comparison
        # The means are `_mean` + `_spread` z with z standard normal.
        described = describe_arms(roots, np.ascontiguousarray(features))
        self._mean, self._spread, self._is_ill_conditioned = described
        self._roots = roots
        self.has_exact_probabilities = self._mean.shape[1] <= 2
        self.has_exact_priced_probabilities = self.has_exact_probabilities
        self.source = SOURCE if self.has_exact_probabilities else SOURCE_OF_MANY_ARMS

    @property
    def coefficients(self) -> NormalBelief:
        """What is known of the (N, d) coefficients."""
        identity = np.broadcast_to(np.eye(self._roots.shift.shape[1]), self._roots.root.shape)
        return NormalBelief(identity, self._roots)

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw of the means."""
        return np.asarray(self.sample_many(rng, 1)[0])

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws of the means."""
        noise = rng.standard_normal((size, len(self._mean), self._spread.shape[2], 1))
        return self._mean + (self._spread @ noise)[..., 0]

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations of the means."""
        return self._mean

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations of the means; 0 of an arm whose features are 0."""
        return np.asarray(np.linalg.norm(self._spread, axis=2))

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles of the means."""
        return np.asarray(self._mean + self._width() * self._quantile(p))

    def density(self, x: np.ndarray) -> np.ndarray:
        """Return the (M, N, K) densities of the means at (M,) places."""
        width = self._width()
        return np.asarray(self._density((x[:, None, None] - self._mean) / width) / width)

    def _width(self) -> np.ndarray:
        """Return the (N, K) spreads of the means."""
        return np.asarray(np.maximum(np.linalg.norm(self._spread, axis=2), MIN_SPREAD))

    def _quantile(self, p: Any) -> Any:
        """Return quantiles of z, the standard variable of a mean or a difference of means."""
        return special.ndtri(p)

    def _cdf(self, z: np.ndarray) -> Any:
        """Return distribution functions of z."""
        return special.ndtr(z)

    def _density(self, z: np.ndarray) -> Any:
        """Return densities of z."""
        return np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)

    def _tail(self, z: np.ndarray) -> Any:
        """Return the part of the expectation of z that is above a value."""
        return self._density(z)

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) probabilities that each arm has the largest mean; ties are shared."""
        if not self.has_exact_probabilities:
            return self._compare_many(available)
        gaps = self._mean - self._mean[:, ::-1]
        std = np.linalg.norm(self._spread - self._spread[:, ::-1], axis=2)
        is_certain = std < MIN_SPREAD
        best = self._cdf(gaps / np.where(is_certain, 1.0, std))
        best = np.where(is_certain, argmax_probabilities(self._mean), best)
        if available is None:
            return best
        return np.where(available.all(axis=1, keepdims=True), best, available)  # or one of two arms

    def priced_probabilities(
        self, values: np.ndarray, costs: np.ndarray, top: int, available: np.ndarray | None
    ) -> np.ndarray | None:
        """Return the (N, 1, K) probabilities, of means that are mapped normals."""
        if top > 1:
            return None
        mapped = copy.copy(self)
        mapped._mean, mapped._spread = values * self._mean - costs, values[..., None] * self._spread
        mapped._answers, mapped._prices = None, (values, costs)
        return mapped.best_arm_probabilities(available)[:, None]

    def _compare_many(self, available: np.ndarray | None) -> np.ndarray:
        """Return (N, K) probabilities of more arms: from a pool, unless these are independent."""
        mask = np.ones((1, 1), dtype=bool) if available is None else available
        mask = np.broadcast_to(mask, self._mean.shape)
        is_exact, variance = self._find_independent(mask)
        out = np.full(mask.shape, np.nan)
        if is_exact.any():
            out[is_exact] = self._compare_independent(is_exact, np.sqrt(variance), mask)
        self._is_drawn = np.isnan(out).any(axis=1)  # also where integrals have no panels
        rest = np.flatnonzero(self._is_drawn)
        if self._posterior is None:
            if rest.size:
                out[rest] = super().best_arm_probabilities(available)[rest]
            return out
        num_lanes = self._posterior.num_lanes
        for lane in np.unique(rest % num_lanes):
            rows = rest[rest % num_lanes == lane]
            given = lane, self._features[rows], mask[rows]
            if self._prices:
                prices = [each[rows] for each in self._prices]
                out[rows] = self._posterior.find_priced_probabilities(*given, *prices)
            else:
                out[rows] = self._posterior.find_probabilities(*given)
        return out

    def _find_independent(self, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (N,) where available arms are independent, and the (N, K) variances of these."""
        spread = self._spread * available[..., None]
        products = np.abs(spread @ spread.swapaxes(1, 2))
        variance = np.diagonal(products, axis1=1, axis2=2)
        is_alone = (products.sum(axis=2) == variance).all(axis=1)
        return is_alone & ((variance > MIN_SPREAD) | ~available).all(axis=1), variance

    def _compare_independent(
        self, chosen: np.ndarray, spread: np.ndarray, available: np.ndarray
    ) -> np.ndarray:
        """Return the probabilities of the (N,) chosen rows, of arms without covariances."""
        return compare_normals(self._mean[chosen], spread[chosen], available[chosen])

    def expected_loss(self) -> np.ndarray:
        """Return the (N, K) expected regrets of stopping with each arm.

        Of two arms they are a formula, of more an average over draws, 6,144 if there is room.
        """
        if not self.has_exact_probabilities:
            num_lanes, *sizes = self._spread.shape
            size = count_answer_draws(NUM_DRAWS, num_lanes * max(sizes))
            draws = self.sample_many(make_generator("draws for answers"), size)
            return np.asarray((draws.max(axis=2, keepdims=True) - draws).mean(axis=0))
        gaps = self._mean[:, ::-1] - self._mean
        std = np.linalg.norm(self._spread - self._spread[:, ::-1], axis=2)
        z = gaps / np.maximum(std, MIN_SPREAD)
        return np.asarray(np.maximum(gaps * self._cdf(z) + std * self._tail(z), 0.0))

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) what best-arm probabilities are worth; inf for formulas and integrals."""
        if self.has_exact_probabilities:
            return np.full(len(self._mean), np.inf)
        is_exact, _ = self._find_independent(np.ones(self._mean.shape, dtype=bool))
        size = NUM_ANSWER_DRAWS if self._posterior is None else NUM_DRAWS
        return np.where(is_exact & ~self._is_drawn, np.inf, size)

    def doubts(self) -> np.ndarray:
        """Return (N,) where rounding may have decided, or draws are too few for what was asked."""
        return super().doubts() | np.where(self._is_ill_conditioned, Doubt.ILL_CONDITIONED, 0)


class GaussianCoefficients(SeededPools):
    """The normal posterior of coefficients, kept as a root of its precision matrix.

    Arguments:
        problem: Gaussian rewards, and a `Normal` or `MultivariateNormal` prior of coefficients.
        method: "conjugate", or "auto", which is the same.

    Raises:
        ValueError: if the problem is another; names the agent that takes it.
    """

    method = "conjugate"
    source = SOURCE
    keeps_state = False
    can_discount = True
    takes_features = True
    decides_many = True

    problem: ContextualProblem

    def __init__(self, problem: ContextualProblem, *, method: str = "auto") -> None:
        check_choice("method", method, ("auto", self.method))
        self.problem = problem
        if not find_methods(problem):
            condition = "have Gaussian rewards and a normal prior for an exact posterior"
            remedy = "RacingThompson takes any, and other rules do by posterior='racing'"
            raise ValueError(message("problem", condition, problem, remedy))
        self._set_prior()
        self.max_lanes = MAX_PRODUCTS // problem.num_features**2
        self.has_exact_probabilities = problem.num_arms == 2

    def _set_prior(self) -> None:
        self._std = float(self.problem.likelihood.std)  # type: ignore[attr-defined]
        self._prior_rows = make_prior_rows(self.problem)

    def update(self, rng: Generator, evidence: Rows) -> None:  # type: ignore[override]
        """Take note of the rows."""
        self.evidence, self.num_lanes = evidence, len(evidence.counts)
        self._answers, self._shortages = None, 0

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Forget pools; rows are all there is beside."""
        self._forget_pools()

    def data_version(self) -> float:
        """Return a number of the data, see `SeededPools`."""
        return self.evidence.data_version()

    def draw_pool(self, lane: int, rng: Generator) -> Pool:
        """Return a new pool of a lane, whose draws have equal weights."""
        size = self.problem.num_features
        belief = self.predict(np.broadcast_to(np.eye(size), (self.num_lanes, size, size)))
        noise = self._draw_points(rng, lane)
        theta = belief._mean[lane] + noise @ belief._spread[lane].T
        return Pool(theta.T, np.zeros((1, len(theta))), np.arange(size), np.array([0, size]), {})

    def _draw_points(self, rng: Generator, lane: int) -> np.ndarray:
        """Return (m, d) standard variables of a lane."""
        return draw_points(rng, self.problem.num_features, NUM_DRAWS, is_normal=True)

    def predict(self, features: np.ndarray) -> NormalBelief:  # type: ignore[override]  # no None
        """Return the belief of the means of arms with (N, K, d) features."""
        roots = join_prior(self.evidence.roots(), self._std, self._prior_rows)
        return NormalBelief(features, roots, self)

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, d) draw of the coefficients, whose link is the identity."""
        size = self.problem.num_features
        return self.predict(np.broadcast_to(np.eye(size), (self.num_lanes, size, size))).sample(rng)


def is_normal(prior: Any) -> bool:
    """Say whether coefficients are normal before data."""
    return isinstance(prior, Normal | MultivariateNormal) and keeps_draws(prior)


def make_prior_rows(problem: ContextualProblem) -> FloatArray:
    """Return the (d, d + 1) rows [W | W m_0] of a normal prior N(m_0, (W'W)^-1)."""
    prior: Any = problem.prior
    mean = np.broadcast_to(np.asarray(prior.mean), problem.num_features)
    if isinstance(prior, MultivariateNormal):
        return join_mean(np.linalg.inv(np.linalg.cholesky(np.asarray(prior.covariance))), mean)
    return join_mean(np.diag(1 / np.broadcast_to(prior.std, problem.num_features)), mean)


def join_mean(whitening: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the (d, d + 1) rows [W | W m_0] of a (d, d) matrix W and a (d,) mean."""
    return np.column_stack([whitening, whitening @ mean])
