"""Priors as users write them, `sample` and `log_density` and no more, for agents to be tried on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import special

from bandit_gym.priors import TruncatedMultivariateNormal
from bandit_gym.typing import FloatArray


@dataclass(frozen=True)
class DensityOnly:
    """A law of independent arms that does not say so: it gives `sample` and `log_density` alone."""

    law: Any

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest mean of any arm."""
        return self.law.support

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape."""
        return self.law.sample(rng, shape)

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the (...) log-density of (..., K) means."""
        return self.law.log_density(means)


@dataclass(frozen=True)
class Camps:
    """All arms' means come from one of several laws, chosen once for all arms: they depend.

    Args:
        laws: each with independent arms.
        weights: their probabilities.
    """

    laws: Sequence[Any]
    weights: Sequence[float]

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest mean over all laws."""
        lows, highs = zip(*(law.support for law in self.laws), strict=True)
        return min(lows), max(highs)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, one law for all arms of a draw."""
        chosen = rng.choice(len(self.laws), size=(*shape[:-1], 1), p=self.weights)
        draws = np.stack([law.sample(rng, shape) for law in self.laws])
        return np.take_along_axis(draws, chosen[None], axis=0)[0]

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the (...) log-density of (..., K) means."""
        terms = np.stack([law.log_density(means) for law in self.laws])
        shape = (-1, *(1,) * (terms.ndim - 1))
        return np.asarray(special.logsumexp(terms, b=np.reshape(self.weights, shape), axis=0))


@dataclass(frozen=True)
class OneFactor:
    """Means that share one normal factor: mean + loading * factor + own_std * noise, in a box.

    Given the factor the arms are independent, which gives an exact law where the covariance is all
    but singular.

    Args:
        mean: of every arm.
        loadings: (K,) of the factor, which is standard normal.
        own_std: standard deviation of what each arm has of its own.
        low: lower end of the box.
        high: upper end of the box.
    """

    mean: float
    loadings: tuple[float, ...]
    own_std: float
    low: float
    high: float

    def prior(self) -> TruncatedMultivariateNormal:
        """Return the law, as agents are told it."""
        own = self.own_std**2 * np.eye(len(self.loadings))
        covariance = np.outer(self.loadings, self.loadings) + own
        return TruncatedMultivariateNormal(self.mean, covariance.tolist(), self.low, self.high)
