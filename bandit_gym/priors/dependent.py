"""Normal priors with a covariance: of means on a box, and of coefficients of features."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from bandit_gym.checks.typing import FloatArray, Parameter
from bandit_gym.numerics.truncated_normal import TiltedBox
from bandit_gym.priors.independent import ParametricPrior, check_mass, stack_columns

MIN_ACCEPTANCE = 1e-4
"""Of proposals for a draw: there it takes some 0.3 s with a hundred arms."""

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class _NormalWithCovariance(ParametricPrior):
    """A normal distribution of K means that depend on each other, or a part of one."""

    mean: Parameter
    covariance: Matrix

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again, so that equal priors pickle alike."""
        return self._parameters()

    @cached_property
    def _cholesky(self) -> np.ndarray:
        return np.linalg.cholesky(np.asarray(self.covariance))

    @cached_property
    def _whitening(self) -> FloatArray:
        """(K, K) upper triangular W with W W' = P, the inverse of the covariance."""
        return np.linalg.inv(self._cholesky).T


@dataclass(frozen=True)
class TruncatedMultivariateNormal(_NormalWithCovariance):
    """Normal(mean, covariance) given that all means lie in the box [low, high].

    Draws are exact and independent (see `numerics.truncated_normal`). `mean` and `covariance` are
    those before truncation; there is a density only if `covariance` is positive definite.

    Args:
        mean: one number, or one per arm.
        covariance: K rows of K numbers, for 500 arms at most.
        low: lower corner of the box, one number or one per arm.
        high: upper corner of the box.
    """

    low: Parameter = 0.0
    high: Parameter = 1.0

    name: ClassVar[str] = "truncated_multivariate_normal"

    def __post_init__(self) -> None:
        super().__post_init__()
        stds = tuple(np.sqrt(np.diag(self.covariance)).tolist())
        check_mass(self.mean, stds, self.low, self.high)
        acceptance = self._box.acceptance()
        if acceptance < MIN_ACCEPTANCE:
            raise ValueError(
                "covariance must be such that draws in the box are found in reasonable time, got "
                f"{len(stds)} arms of which {acceptance:.1g} of the proposals are accepted."
            )

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, whose last axis is the K arms."""
        draws = self._box.sample(rng, math.prod(shape[:-1])).reshape(shape)
        return np.clip(draws, self.low, self.high)  # rounding may lead out of the box

    def sample_each(self, rngs: Sequence[Generator]) -> FloatArray:
        """Draw (N, K) means, one vector from each of N generators.

        Bit for bit what `sample(rng, (K,))` draws from each, at a twentieth of the cost when there
        are many.
        """
        return np.clip(self._box.sample_each(rngs), self.low, self.high)

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return -(x - mean)' P (x - mean) / 2 of (..., K) means x; -inf outside the box.

        Not normalised: the probability of the box has no closed form.

        Returns:
            (...) log-densities, up to a constant.
        """
        x = np.asarray(means, dtype=np.float64)
        whitened = (x - self.mean) @ self._whitening
        value = -0.5 * np.einsum("...k,...k->...", whitened, whitened)
        is_inside = ((x >= self.low) & (x <= self.high)).all(axis=-1)
        return np.where(is_inside, value, -inf)

    def arm_support(self, num_arms: int) -> FloatArray:
        """Return the (K, 2) lowest and highest mean of each arm."""
        return stack_columns(num_arms, self.low, self.high)

    @cached_property
    def precision(self) -> FloatArray:
        """(K, K) inverse of the covariance."""
        return self._whitening @ self._whitening.T

    @cached_property
    def _box(self) -> TiltedBox:
        mean, low, high = stack_columns(len(self.covariance), self.mean, self.low, self.high).T
        return TiltedBox(mean, np.asarray(self.covariance), low, high)


@dataclass(frozen=True)
class MultivariateNormal(_NormalWithCovariance):
    """Normal(mean, covariance) of coefficients that depend on each other.

    Args:
        mean: one number, or one per coefficient.
        covariance: d rows of d numbers, positive definite.
    """

    name: ClassVar[str] = "multivariate_normal"

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw coefficients of the given shape, whose last axis is theirs."""
        noise: FloatArray = rng.standard_normal(shape)
        return np.asarray(self.mean + noise @ self._cholesky.T)

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the (...) normalised log-density of (..., d) coefficients."""
        off = np.asarray(means, dtype=np.float64) - self.mean
        whitened = off @ self._whitening
        log_det = np.log(np.diag(self._cholesky)).sum()
        constant = log_det + 0.5 * len(self.covariance) * math.log(2 * math.pi)
        return np.asarray(-0.5 * np.square(whitened).sum(axis=-1) - constant)
