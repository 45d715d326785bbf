"""Posteriors of coefficients, by fits of normal distributions.

`CoefficientRace` plays the best arm of one among weighted draws that are worth twelve draws of the
posterior, `LaplaceCoefficients` that of one draw of the Laplace approximation. Particles are in
`agents.regression.particles`.

Notation: N lanes, K arms, d features, B blocks, m draws.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator

from agents.base.rows import Rows
from agents.posteriors.weighted_draws import WeightedDraws, normalise_weights
from agents.racing.stopping import EFFECTIVE_SAMPLES
from agents.regression.comparison import Pool, compare_normals, find_uses
from agents.regression.draws import choose_coefficients, find_best_arms
from agents.regression.fits import MIN_EFFICIENCY, CoefficientFits
from agents.regression.normal_fit import MIN_TAU
from agents.regression.pool import (
    NUM_DRAWS,
    PooledBelief,
    PooledPosterior,
    SeededPools,
    draw_in_blocks,
    draw_points,
)
from bandit_gym.checks import check_choice, check_real
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import ContextualProblem

MAX_FIT_VALUES = 10**8
"""Entries of all lanes' covariances: 2.4 GB with their factors and the work on them."""

NUM_EFFECTIVE = 1000
"""Draws for answers are worth so many of the posterior."""

NUM_COMPARED = 10_000
"""Draws by which decisions are compared before rows are left out."""

_Z, _WEIGHT = np.polynomial.hermite_e.hermegauss(64)
_WEIGHT /= _WEIGHT.sum()
"""Nodes of standard normal variables."""

LIMIT_DEVIATIONS = 1.96
"""From an estimate to its upper limit."""

WIDTH = 1.1
"""Of the proposals of pools, beside those of a race: arms that are best in the tails have more
draws. With four arms of ten coefficients, it takes a tenth off the relative errors of probabilities
below 0.01."""

NUM_SHARED = 4096
"""Draws that many decisions are taken from are worth so many of the posterior."""


class CoefficientPosterior(PooledPosterior):
    """A posterior of coefficients that draws many at once, and finds the best arms compiled."""

    problem: ContextualProblem
    takes_features = True
    decides_many = True

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, d) draw of the coefficients."""
        return np.asarray(self.sample_many(rng, 1)[0])

    def draw_best_arms(self, rng: Generator, features: np.ndarray) -> np.ndarray:
        """Return the arms that are best under one draw; see `Posterior.draw_best_arms`."""
        draws = self.sample_many(rng, len(features) // self.num_lanes)
        return np.asarray(find_best_arms(rng, features, draws.reshape(len(features), -1)))


class FittedCoefficients(SeededPools, CoefficientPosterior):
    """A posterior of coefficients by fits of all lanes.

    Arguments:
        problem: likelihood, prior, and the number of features.
        effective_samples: how many draws of the posterior those of a decision are worth.

    Attributes:
        lengths: (N, B) draws of each block to decide from, as the last decisions did.
    """

    source = "weighted draws"
    state_names = ("fits",)
    min_file_format = 6
    can_discount = True
    is_laplace: ClassVar[bool] = False
    _ahead: Self | None = None  # a fork that was asked about rows which no decision has met yet

    def __init__(
        self, problem: ContextualProblem, *, effective_samples: float = EFFECTIVE_SAMPLES
    ) -> None:
        check_real("effective_samples", effective_samples, above=0.0)
        self.problem = problem
        self.fits = CoefficientFits(problem, effective_samples, self.is_laplace)
        self.max_lanes = MAX_FIT_VALUES // problem.num_features**2

    def start(self, rng: Generator, num_lanes: int) -> None:
        """Prepare for so many lanes without data."""
        self.num_lanes = num_lanes
        self.fits.start(num_lanes)
        self._forget_pools()
        self._ahead = None

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Remove the data of the (N,) masked lanes."""
        self.fits.restart(mask)
        self._forget_pools()
        self._ahead = None

    def update(self, rng: Generator, rows: Rows) -> None:  # type: ignore[override]  # evidence here
        """Bring every lane to its rows."""
        self.fits.update(rows)
        self.lengths, self._ahead = self.fits.lengths, None

    def fork_for_decision(self, evidence: Any, keeps_draws: bool = False) -> Self:
        """Return a copy that shares fits and pools, or those of a fork that knows the new rows."""
        if self.fits.has_seen(evidence):
            return super().fork_for_decision(evidence, keeps_draws)
        if self._ahead is None or not self._ahead.fits.has_seen(evidence):
            self._ahead = self.fork()
        return self._ahead._share()

    def data_version(self) -> float:
        """Return a number of the data that fits know, see `SeededPools`."""
        return self.fits.data_version()

    def draw_pool(self, lane: int, rng: Generator) -> Pool:
        """Return a new pool of a lane, weighted by its posterior.

        Draws under a mixture are independent: which component they are of is no smooth function of
        points.
        """
        worth = max(float(self.fits.efficiencies[lane].min()), 0.25)
        length = NUM_DRAWS * 2 ** round(-math.log2(worth))
        fits = self.fits.take_lane(lane)
        lengths = np.full((1, fits.fit.starts.size - 1), length)
        if fits.components is not None:
            draws, log_weights = fits.draw(rng, lengths)
        else:
            is_prior = (fits.num_rewards[lane] == 0) & fits.has_normal_prior
            draws, log_weights = draw_in_blocks(rng, fits.fit, length, is_prior, WIDTH)
            fits.weigh(rng, np.where(is_prior, 0, lengths), draws, log_weights)
        return Pool(draws[0], log_weights[0], fits.fit.order, fits.fit.starts, {})

    def doubts(self) -> np.ndarray:
        """Return (N,) why draws may not follow the posterior."""
        return np.bitwise_or(self.fits.doubts(), self._shortages)


class CoefficientRace(FittedCoefficients):
    """Weighted draws of which one is taken: the race of `RacingThompson` in coefficient space.

    Arguments: those of `FittedCoefficients`.
    """

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, d) draws of the coefficients: of each block, by weight from one pool.

        The pool has as many draws as `size` decisions take alone, or what is enough for any number.
        """
        fits = self.fits
        efficiencies = np.maximum(fits.efficiencies, MIN_EFFICIENCY)
        enough = np.ceil(NUM_SHARED / efficiencies).astype(np.int64)
        self.lengths = np.minimum(size * fits.lengths, enough)
        chosen = choose_coefficients(rng, fits.fit, *fits.draw(rng, self.lengths), size)
        return np.asarray(chosen.swapaxes(0, 1))

    def draw_best_arms(self, rng: Generator, features: np.ndarray) -> np.ndarray:
        """Return the arms that are best under one draw; see `Posterior.draw_best_arms`."""
        fits = self.fits
        if not fits.has_normal_prior or len(features) > len(fits.efficiencies):
            return super().draw_best_arms(rng, features)
        return fits.race(rng, features)

    def compact(self, evidence: Any, max_rows: int, features: np.ndarray) -> tuple[Any, float]:
        """Return evidence with sites in place of older rows; see `Posterior.compact`.

        Decisions are compared by the same draws, with weights W before and V after. With b_j the
        best arm of draw j and P_a, Q_a the sums of weights of draws whose best arm is a, the
        deviation of P_a - Q_a is the root of sum_j (W_j (1{b_j = a} - P_a) - V_j (1{b_j = a} -
        Q_a))^2.
        """
        fits = self.fits
        if not fits.has_normal_prior:
            return super().compact(evidence, max_rows, features)
        sites = fits.fit.sites[0]
        is_removed = np.arange(len(sites)) < evidence.sizes[0] - max_rows
        is_removed &= sites[:, 0] > MIN_TAU
        if not is_removed.any():
            return evidence, 0.0
        compacted = evidence.replace_rows(is_removed, sites)
        twin = self.fork()
        twin.fits.update(compacted)
        theta, (before, after) = self._weigh_both(twin.fits)
        largest = 0.0
        for x in features:
            values = x @ theta
            is_best = values.argmax(axis=0) == np.arange(len(x))[:, None]
            first, second = is_best @ before, is_best @ after
            terms = before * (is_best - first[:, None]) - after * (is_best - second[:, None])
            limits = abs(first - second) + LIMIT_DEVIATIONS * np.sqrt(np.square(terms).sum(axis=1))
            largest = max(largest, 0.5 * float(limits.sum()))
        return compacted, largest

    def _weigh_both(self, others: CoefficientFits) -> tuple[np.ndarray, np.ndarray]:
        """Return (d, m) draws, and (2, m) weights by these fits of one lane and by others."""
        rng = make_generator("draws for compacting")
        is_prior = np.zeros(self.lengths.shape[1], dtype=bool)
        draws, log_weights = draw_in_blocks(rng, self.fits.fit, NUM_COMPARED, is_prior, 1.0)
        lengths, totals = np.full(log_weights.shape[:2], NUM_COMPARED), []
        for fits in (self.fits, others):
            values = log_weights.copy()
            fits.weigh(rng, lengths, draws, values)
            totals.append(values[0].sum(axis=0))
        return draws[0], normalise_weights(np.array(totals))[0]

    def diagnostics(self) -> dict[str, np.ndarray]:
        """Return (N,) draws to decide from, what those of the worst block are worth, and doubts."""
        worth = (self.lengths * self.fits.efficiencies).min(axis=1)
        sizes = {"num_samples": self.lengths.max(axis=1), "effective_sample_size": worth}
        return sizes | super().diagnostics()

    def weighted_draws(self) -> WeightedDraws:
        """Return draws of the coefficients that answers rest on; of several blocks, by weight."""
        rng = make_generator("draws for answers")
        lengths = self.fits.find_lengths(NUM_EFFECTIVE)
        draws, log_weights = self.fits.draw(rng, lengths)
        if lengths.shape[1] == 1:
            return WeightedDraws(draws.swapaxes(1, 2), log_weights[:, 0])
        theta = choose_coefficients(rng, self.fits.fit, draws, log_weights, NUM_EFFECTIVE)
        return WeightedDraws(theta, np.zeros(theta.shape[:2]))


class LaplaceBelief(PooledBelief):
    """What the Laplace approximation says of arms with features: each predictor is normal."""

    posterior: LaplaceCoefficients

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations of the means, by Gauss-Hermite quadrature.

        Of clicks they are right to 1e-6 where predictors deviate by up to 3, and to 1e-3 at 7.
        """
        centre, std = self.posterior.find_normal_predictors(self.features)
        means = self.problem.link.mean(centre[..., None] + std[..., None] * _Z)
        return np.einsum("nkq,q->nk", means, _WEIGHT)


class LaplaceCoefficients(FittedCoefficients):
    """The Laplace approximation: normal, centred at the mode, with the curvature there.

    This is what is deployed in practice, with an error that `CoefficientRace` does not have.

    Arguments:
        problem: likelihood, prior, and the number of features.
        covariance: see `agents.LaplaceThompson`.

    References:
        Chapelle and Li (2011), "An empirical evaluation of Thompson sampling", algorithm 3.
    """

    is_laplace = True
    source = "a normal approximation"

    def __init__(self, problem: ContextualProblem, *, covariance: str = "full") -> None:
        super().__init__(problem)
        self.covariance = check_choice("covariance", covariance, ("full", "diagonal"))

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, d) draws of the coefficients."""
        fit, factor = self.fits.fit, self._factor()
        noise = rng.standard_normal((len(factor), size, fit.order.size))
        draws = np.empty(noise.shape)
        draws[..., fit.order] = fit.mean[:, None] + noise @ factor.swapaxes(1, 2)
        return draws.swapaxes(0, 1)

    def draw_pool(self, lane: int, rng: Generator) -> Pool:
        """Return a new pool of a lane, whose draws are of one block and equal weight."""
        fit = self.fits.fit
        noise = draw_points(rng, fit.order.size, NUM_DRAWS, is_normal=True)
        theta = np.empty((fit.order.size, len(noise)))
        theta[fit.order] = (fit.mean[lane] + noise @ self._factor()[lane].T).T
        starts = np.array([0, fit.order.size])
        return Pool(theta, np.zeros((1, len(noise))), fit.order, starts, {})

    def find_probabilities(
        self, lane: int, features: np.ndarray, available: np.ndarray
    ) -> np.ndarray:
        """Return (n, K) best-arm probabilities, those of independent arms without draws."""
        fit = self.fits.fit
        is_exact = find_uses(fit.order, fit.starts, features, available)[1]
        out = np.full(available.shape, np.nan)
        if is_exact.any():
            x = features[is_exact][..., fit.order]
            std = np.linalg.norm(x @ self._factor()[lane], axis=2)
            out[is_exact] = compare_normals(x @ fit.mean[lane], std, available[is_exact])
        rest = np.isnan(out).any(axis=1)  # also where integrals have no panels
        if rest.any():
            out[rest] = super().find_probabilities(lane, features[rest], available[rest])
        return out

    def predict(self, features: np.ndarray | None = None) -> Any:
        """Return the belief for the next decision, see `Posterior.predict`."""
        belief = super().predict(features)
        return belief if features is None else LaplaceBelief(self, features)

    def find_normal_predictors(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the (n, K) means and standard deviations of predictors, for (n, K, d) features.

        They are of a visitor in each lane in turn; of equal arms, equal, as in `predict_draws`.
        """
        fit, shape = self.fits.fit, features.shape[:2]
        x = features[..., fit.order].reshape(-1, self.num_lanes, *features.shape[1:])
        std = np.linalg.norm(np.einsum("rnkd,nde->rnke", x, self._factor()), axis=3)
        return np.einsum("rnkd,nd->rnk", x, fit.mean).reshape(shape), std.reshape(shape)

    def _factor(self) -> np.ndarray:
        """Return (N, d, d) factors of covariances, in the order of the fits."""
        if self.covariance == "full":
            return self.fits.fit.factor
        precisions = np.square(self.fits.fit.root).sum(axis=1)
        return np.eye(precisions.shape[1]) / np.sqrt(precisions)[:, None]
