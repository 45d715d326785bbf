"""Priors on the whole real line, for coefficients of features: heavy tails and covariances.

Under a `ContextualProblem` the last axis of `sample` and `log_density` are the d coefficients, in
place of the K arms; `Normal` serves there too.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from scipy.special import gammaln

from bandit_gym.checks import check_covariance, check_parameter, check_same_length
from bandit_gym.checks.typing import FloatArray, Parameter
from bandit_gym.priors.independent import IndependentPrior, ParametricPrior, stack_columns


@dataclass(frozen=True)
class UnknownPrior:
    """Stands for a prior where no one knows one, as of a table of visitors: agents need another."""

    is_unknown: ClassVar[bool] = True

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Refuse to draw."""
        raise ValueError(UNKNOWN)

    def log_density(self, means: FloatArray) -> FloatArray:
        """Refuse to tell."""
        raise ValueError(UNKNOWN)


UNKNOWN = (
    "prior must be given where the environment knows none, got None; "
    "pass one, as in RacingThompson(env, prior=Normal(0, 1)) or by a ContextualProblem."
)


@dataclass(frozen=True)
class StudentT(IndependentPrior):
    """Student's t with `df` degrees of freedom, moved by `mean` and scaled by `scale`."""

    df: Parameter
    mean: Parameter = 0.0
    scale: Parameter = 1.0

    name: ClassVar[str] = "student_t"
    positive: ClassVar[tuple[str, ...]] = ("df", "scale")
    ends: ClassVar[tuple[float, float]] = (-inf, inf)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw coefficients of the given shape, whose last axis is theirs."""
        df, mean, scale = self._arrays()
        return np.asarray(mean + scale * rng.standard_t(df, shape))

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the (..., d) normalised log-densities."""
        df, mean, scale = self._arrays()
        constant = gammaln(df / 2) - gammaln((df + 1) / 2) + np.log(scale * np.sqrt(df * np.pi))
        square = np.square((means - mean) / scale)
        return np.asarray(-0.5 * (df + 1) * np.log1p(square / df) - constant)


@dataclass(frozen=True)
class Laplace(IndependentPrior):
    """Laplace: density proportional to exp(-abs(x - mean) / scale)."""

    mean: Parameter = 0.0
    scale: Parameter = 1.0

    name: ClassVar[str] = "laplace"
    positive: ClassVar[tuple[str, ...]] = ("scale",)
    ends: ClassVar[tuple[float, float]] = (-inf, inf)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw coefficients of the given shape, whose last axis is theirs."""
        return np.asarray(rng.laplace(self.mean, self.scale, shape))

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the (..., d) normalised log-densities."""
        mean, scale = self._arrays()
        return np.asarray(-np.abs(means - mean) / scale - np.log(2 * scale))


@dataclass(frozen=True)
class MultivariateNormal(ParametricPrior):
    """Normal(mean, covariance) of coefficients that depend on each other.

    Args:
        mean: one number, or one per coefficient.
        covariance: d rows of d numbers, positive definite.
    """

    mean: Parameter
    covariance: tuple[tuple[float, ...], ...]

    name: ClassVar[str] = "multivariate_normal"

    def __post_init__(self) -> None:
        object.__setattr__(self, "covariance", check_covariance("covariance", self.covariance))
        object.__setattr__(self, "mean", check_parameter("mean", self.mean))
        check_same_length(covariance=self.covariance, mean=self.mean)

    @property
    def num_arms(self) -> int:
        """d, the size of the covariance."""
        return len(self.covariance)

    def arm_support(self, num_arms: int) -> FloatArray:
        """Return the (d, 2) ends, which are infinite."""
        return stack_columns(num_arms, -inf, inf)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw coefficients of the given shape, whose last axis is theirs."""
        noise: FloatArray = rng.standard_normal(shape)
        return np.asarray(self.mean + noise @ self._cholesky.T)

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the (...) normalised log-density of (..., d) coefficients."""
        off = np.asarray(means, dtype=np.float64) - self.mean
        whitened = off @ np.linalg.inv(self._cholesky).T
        constant = np.log(np.diag(self._cholesky)).sum() + 0.5 * self.num_arms * _LOG_2_PI
        return np.asarray(-0.5 * np.square(whitened).sum(axis=-1) - constant)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again, so that equal priors pickle alike."""
        return self._parameters()

    @cached_property
    def _cholesky(self) -> FloatArray:
        return np.linalg.cholesky(np.asarray(self.covariance))


_LOG_2_PI = math.log(2 * math.pi)
