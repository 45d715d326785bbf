"""Posteriors of coefficients, and what they say of the means of arms with given features.

`CoefficientRace` plays the best arm of one among weighted draws that are worth twelve draws of the
posterior, `LaplaceCoefficients` that of one draw of the Laplace approximation.

Notation: N lanes, K arms, d features, B blocks, m draws.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator

from agents.numerics.choices import random_argmax
from agents.posteriors.base import Belief, Posterior
from agents.posteriors.weighted_draws import WeightedDraws
from agents.racing.stopping import EFFECTIVE_SAMPLES
from agents.regression.draws import choose_coefficients
from agents.regression.fits import CoefficientFits
from agents.regression.rows import Rows
from bandit_gym.checks import check_real
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import ContextualProblem

MAX_FIT_VALUES = 10**8
"""Entries of all lanes' covariances: 2.4 GB with their factors and the work on them."""

NUM_EFFECTIVE = 1000
"""Draws for answers are worth so many of the posterior."""


class CoefficientBelief(Belief):
    """What coefficients say of the means of arms with given features.

    Arguments:
        posterior: of the coefficients, at the evidence that it has been brought to.
        features: (N, K, d).
    """

    source = "weighted draws"

    def __init__(self, posterior: CoefficientPosterior, features: np.ndarray) -> None:
        self.posterior, self.features = posterior, features

    @property
    def coefficients(self) -> CoefficientDraws:
        """What is known of the (N, d) coefficients, by weighted draws."""
        return CoefficientDraws(self.posterior.coefficients, self.doubts(), self.source)

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw of the means, as `draw_best` compares them."""
        return self.posterior.problem.means(self.posterior.sample(rng), self.features)

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws of the means: of the weighted ones, by weight."""
        return self._draws().resample(rng, size)

    def draw_best(self, rng: Generator) -> np.ndarray:
        """Return the (N,) arms with the largest predictor under one draw, ties at random."""
        theta = self.posterior.sample(rng)[..., None]
        return random_argmax(rng, (self.features @ theta)[..., 0])

    def doubts(self) -> np.ndarray:
        """Return (N,) why draws may not follow the posterior."""
        return np.bitwise_or(self.posterior.doubts(), self._shortages)

    def diagnostics(self) -> dict[str, np.ndarray]:
        """Return how many draws a decision takes, what they are worth, and what is doubted."""
        return self.posterior.report_draws() | super().diagnostics()

    def fork(self) -> Self:
        """Return a copy whose posterior may move on; the features are shared."""
        return type(self)(self.posterior.fork(), self.features)

    def _draws(self) -> WeightedDraws:
        if self._answers is None:
            draws = self.coefficients
            means = self.posterior.problem.means(draws.means, self.features[:, None])
            self._answers = WeightedDraws(means, draws.log_weights)
        return self._answers


class CoefficientDraws(Belief):
    """What weighted draws say of the (N, d) coefficients, which stand in the place of means.

    Arguments:
        draws: `means` (N, m, d) and `log_weights` (N, m).
        doubts: (N,) why they may not follow the posterior.
        source: what they are, in words.
    """

    def __init__(self, draws: WeightedDraws, doubts: np.ndarray, source: str) -> None:
        self.means, self.log_weights = draws.means, draws.log_weights
        self._answers, self._shortages, self.source = draws, doubts, source

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, d) draw, taken by weight."""
        return np.asarray(self.sample_many(rng, 1)[0])

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, d) draws, each taken by its weight."""
        return self._draws().resample(rng, size)


class CoefficientPosterior(Posterior):
    """A posterior of coefficients by fits of all lanes; see `CoefficientBelief`.

    Arguments:
        problem: likelihood, prior, and the number of features.
        effective_samples: how many draws of the posterior those of a decision are worth.
    """

    problem: ContextualProblem
    state_names = ("fits",)
    is_laplace: ClassVar[bool]

    def __init__(self, problem: ContextualProblem, effective_samples: float = 1.0) -> None:
        self.problem = problem
        self.fits = CoefficientFits(problem, effective_samples, self.is_laplace)
        self.max_lanes = MAX_FIT_VALUES // problem.num_features**2

    def start(self, rng: Generator, num_lanes: int) -> None:
        """Prepare for so many lanes without data."""
        self.fits.start(num_lanes)

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Remove the data of the (N,) masked lanes."""
        self.fits.restart(mask)

    def update(self, rng: Generator, rows: Rows) -> None:  # type: ignore[override]  # evidence here
        """Bring every lane to its rows."""
        self.fits.update(rows)
        self._coefficients: WeightedDraws | None = None

    def predict(self, features: np.ndarray) -> Belief:  # type: ignore[override]  # asked at features
        """Return the belief of arms with (N, K, d) features."""
        return CoefficientBelief(self, features)

    @property
    def coefficients(self) -> WeightedDraws:
        """Weighted draws of the coefficients: `means` (N, m, d), `log_weights` (N, m)."""
        if self._coefficients is None:
            self._coefficients = self._draw_for_answers(make_generator("draws for answers"))
        return self._coefficients

    @abstractmethod
    def report_draws(self) -> dict[str, np.ndarray]:
        """Return (N,) arrays by name: how many draws a decision takes, and their worth."""

    @abstractmethod
    def _draw_for_answers(self, rng: Generator) -> WeightedDraws:
        """Return draws of the coefficients that answers rest on."""

    def doubts(self) -> np.ndarray:
        """Return (N,) why draws may not follow the posterior."""
        return self.fits.doubts()


class CoefficientRace(CoefficientPosterior):
    """Weighted draws of which one is taken: the race of `RacingThompson` in coefficient space.

    Arguments:
        problem: likelihood, prior, and the number of features.
        effective_samples: how many draws of the posterior those of a decision are worth.
    """

    is_laplace = False

    def __init__(
        self, problem: ContextualProblem, *, effective_samples: float = EFFECTIVE_SAMPLES
    ) -> None:
        super().__init__(problem, check_real("effective_samples", effective_samples, above=0.0))

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, d) draw of the coefficients: of each block one, by its weight."""
        fit, draws = self.fits.fit, self.fits.draw(rng, self.fits.lengths)
        return np.asarray(choose_coefficients(rng, (fit.order, fit.starts), *draws, 1)[:, 0])

    def report_draws(self) -> dict[str, np.ndarray]:
        """Return (N,) draws that a decision takes, and what those of the worst block are worth."""
        worth = (self.fits.lengths * self.fits.shares).min(axis=1)
        return {"num_samples": self.fits.lengths.max(axis=1), "effective_sample_size": worth}

    def _draw_for_answers(self, rng: Generator) -> WeightedDraws:
        lengths = self.fits.find_lengths(NUM_EFFECTIVE)
        draws, log_weights = self.fits.draw(rng, lengths)
        if lengths.shape[1] == 1:
            return WeightedDraws(draws.swapaxes(1, 2), log_weights[:, 0])
        blocks = self.fits.fit.order, self.fits.fit.starts
        theta = choose_coefficients(rng, blocks, draws, log_weights, NUM_EFFECTIVE)
        return WeightedDraws(theta, np.zeros(theta.shape[:2]))


class LaplaceCoefficients(CoefficientPosterior):
    """The Laplace approximation: normal, centred at the mode, with the curvature there.

    This is what is deployed in practice, with an error that `CoefficientRace` does not have.

    References:
        Chapelle and Li (2011), "An empirical evaluation of Thompson sampling", algorithm 3.
    """

    is_laplace = True
    source = "a normal approximation"

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, d) draw of the coefficients."""
        return self._draw_for_answers(rng, 1).means[:, 0]

    def report_draws(self) -> dict[str, np.ndarray]:
        """Return nothing: one draw decides."""
        return {}

    def doubts(self) -> np.ndarray:
        """Return (N,) zeros: that it is an approximation is said by its name."""
        return np.zeros(len(self.fits.shares), dtype=np.int64)

    def _draw_for_answers(self, rng: Generator, size: int = NUM_EFFECTIVE) -> WeightedDraws:
        fit = self.fits.fit
        noise = rng.standard_normal((len(fit.mean), size, fit.order.size))
        theta = np.empty(noise.shape)
        theta[..., fit.order] = fit.mean[:, None] + noise @ fit.factor.swapaxes(1, 2)
        return WeightedDraws(theta, np.zeros(theta.shape[:2]))
