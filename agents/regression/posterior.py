"""Posteriors of coefficients, and what they say of the means of arms with given features.

`CoefficientRace` plays the best arm of one among weighted draws that are worth twelve draws of the
posterior, `LaplaceCoefficients` that of one draw of the Laplace approximation. Particles are in
`agents.regression.particles`.

Notation: N lanes, K arms, d features, B blocks, m draws.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from agents.posteriors.base import Belief, Posterior
from agents.posteriors.weighted_draws import WeightedDraws
from agents.racing.stopping import EFFECTIVE_SAMPLES
from agents.regression.draws import choose_coefficients, find_best_arms, race_blocks
from agents.regression.fits import MIN_SHARE, CoefficientFits
from agents.regression.rows import Rows
from bandit_gym.checks import check_choice, check_real
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import ContextualProblem

MAX_FIT_VALUES = 10**8
"""Entries of all lanes' covariances: 2.4 GB with their factors and the work on them."""

NUM_EFFECTIVE = 1000
"""Draws for answers are worth so many of the posterior."""

NUM_SHARED = 4096
"""Draws that many decisions are taken from are worth so many of the posterior."""


class CoefficientBelief(Belief):
    """What coefficients say of the means of arms with given features.

    Arguments:
        posterior: of the coefficients, at the evidence that it has been brought to.
        features: (N, K, d).
    """

    def __init__(self, posterior: CoefficientPosterior, features: np.ndarray) -> None:
        self.posterior, self.features, self.source = posterior, features, posterior.source
        self.has_exact_probabilities = posterior.has_exact_probabilities

    @property
    def coefficients(self) -> CoefficientDraws:
        """What is known of the (N, d) coefficients, by weighted draws."""
        return CoefficientDraws(self.posterior, self.features)

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw of the means, as `draw_best` compares them."""
        return self.posterior.problem.means(self.posterior.sample(rng), self.features)

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws of the means: of the weighted ones, by weight."""
        return self._draws().resample(rng, size)

    def draw_best(self, rng: Generator, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N,) arms with the largest predictor under one draw, ties at random."""
        features = self.features
        if available is not None:  # a predictor that is NaN is never the largest
            features = np.where(available[..., None], features, np.nan)
        return self.posterior.draw_best_arms(rng, features)

    def doubts(self) -> np.ndarray:
        """Return (N,) why draws may not follow the posterior."""
        return np.bitwise_or(self.posterior.doubts(), self._shortages)

    def diagnostics(self) -> dict[str, np.ndarray]:
        """Return how many draws a decision takes, what they are worth, and what is doubted."""
        return self.posterior.report_draws() | super().diagnostics()

    def weighted_draws(self) -> WeightedDraws:
        """Return draws of the means: those of the coefficients, under the features."""
        draws, problem = self.posterior.coefficients, self.posterior.problem
        predictors = problem.predictors(draws.means, self.features[:, None])
        return WeightedDraws(problem.link.mean(predictors), draws.log_weights, 0.0, predictors)


class CoefficientDraws(CoefficientBelief):
    """What weighted draws say of the (N, d) coefficients, which stand in the place of means."""

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, d) draw of the coefficients."""
        return self.posterior.sample(rng)

    def weighted_draws(self) -> WeightedDraws:
        """Return the draws of the coefficients."""
        return self.posterior.coefficients


class CoefficientPosterior(Posterior):
    """A posterior of coefficients; see `CoefficientBelief`.

    Attributes:
        num_lanes: N.
    """

    problem: ContextualProblem
    takes_features = True
    decides_many = True
    num_lanes: int

    @property
    @abstractmethod
    def coefficients(self) -> WeightedDraws:
        """Weighted draws of the coefficients: `means` (N, m, d), `log_weights` (N, m)."""

    def predict(self, features: np.ndarray) -> Belief:  # type: ignore[override]  # asked at features
        """Return the belief of arms with (N, K, d) features."""
        return CoefficientBelief(self, features)

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, d) draw of the coefficients."""
        return np.asarray(self.sample_many(rng, 1)[0])

    def draw_best_arms(self, rng: Generator, features: np.ndarray) -> np.ndarray:
        """Return the (N,) arms of (N, K, d) features that are best under one draw.

        Of one lane with (n, K, d) features, the (n,) arms that are best under one draw each.
        """
        draws = self.sample_many(rng, len(features) // self.num_lanes)
        return np.asarray(find_best_arms(rng, features, draws.reshape(len(features), -1)))

    def report_draws(self) -> dict[str, np.ndarray]:
        """Return (N,) arrays by name: how many draws a decision takes, and their worth, if any."""
        return {}


class FittedCoefficients(CoefficientPosterior):
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
    is_laplace: ClassVar[bool] = False
    _coefficients: WeightedDraws | None = None

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

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Remove the data of the (N,) masked lanes."""
        self.fits.restart(mask)

    def update(self, rng: Generator, rows: Rows) -> None:  # type: ignore[override]  # evidence here
        """Bring every lane to its rows."""
        self.fits.update(rows)
        self.lengths, self._coefficients = self.fits.lengths, None

    @property
    def coefficients(self) -> WeightedDraws:
        """Weighted draws of the coefficients: `means` (N, m, d), `log_weights` (N, m)."""
        if self._coefficients is None:
            self._coefficients = self._draw_for_answers(make_generator("draws for answers"))
        return self._coefficients

    def _draw_for_answers(self, rng: Generator) -> WeightedDraws:
        """Return draws of the coefficients that answers rest on."""
        theta = self.sample_many(rng, NUM_EFFECTIVE).swapaxes(0, 1)
        return WeightedDraws(theta, np.zeros(theta.shape[:2]))

    def doubts(self) -> np.ndarray:
        """Return (N,) why draws may not follow the posterior."""
        return self.fits.doubts()


class CoefficientRace(FittedCoefficients):
    """Weighted draws of which one is taken: the race of `RacingThompson` in coefficient space.

    Arguments: those of `FittedCoefficients`.
    """

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, d) draws of the coefficients: of each block, by weight from one pool.

        The pool has as many draws as `size` decisions take alone, or what is enough for any number.
        """
        fits = self.fits
        enough = np.ceil(NUM_SHARED / np.maximum(fits.shares, MIN_SHARE)).astype(np.int64)
        self.lengths = np.minimum(size * fits.lengths, enough)
        chosen = choose_coefficients(rng, fits.fit, *fits.draw(rng, self.lengths), size)
        return np.asarray(chosen.swapaxes(0, 1))

    def draw_best_arms(self, rng: Generator, features: np.ndarray) -> np.ndarray:
        """Return the arms that are best under one draw; see `CoefficientPosterior`."""
        fits = self.fits
        if not fits.has_normal_prior or len(features) > len(fits.shares):
            return super().draw_best_arms(rng, features)
        options = fits.link, fits.data, fits.fit, fits.lengths, fits.has_normal_prior
        return np.asarray(race_blocks(rng, *options, features))

    def report_draws(self) -> dict[str, np.ndarray]:
        """Return (N,) draws to decide from, and what those of the worst block are worth."""
        worth = (self.lengths * self.fits.shares).min(axis=1)
        return {"num_samples": self.lengths.max(axis=1), "effective_sample_size": worth}

    def _draw_for_answers(self, rng: Generator) -> WeightedDraws:
        lengths = self.fits.find_lengths(NUM_EFFECTIVE)
        draws, log_weights = self.fits.draw(rng, lengths)
        if lengths.shape[1] == 1:
            return WeightedDraws(draws.swapaxes(1, 2), log_weights[:, 0])
        theta = choose_coefficients(rng, self.fits.fit, draws, log_weights, NUM_EFFECTIVE)
        return WeightedDraws(theta, np.zeros(theta.shape[:2]))


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
        fit, factor = self.fits.fit, self.fits.fit.factor
        if self.covariance == "diagonal":
            precisions = np.square(fit.root).sum(axis=1)
            factor = np.eye(precisions.shape[1]) / np.sqrt(precisions)[:, None]
        noise = rng.standard_normal((len(factor), size, fit.order.size))
        draws = np.empty(noise.shape)
        draws[..., fit.order] = fit.mean[:, None] + noise @ factor.swapaxes(1, 2)
        return draws.swapaxes(0, 1)
