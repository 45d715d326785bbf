"""Priors under which the arms' means are independent and normal, or normal on an interval."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from bandit_gym.numerics import proposals, truncated_normal
from bandit_gym.priors.independent import IndependentPrior
from bandit_gym.priors.mass import check_mass
from bandit_gym.priors.parametric import columns
from bandit_gym.typing import BoolArray, FloatArray, IntArray, Parameter

_LOG_ROOT_TWO_PI = 0.5 * float(np.log(2 * np.pi))


@dataclass(frozen=True)
class _NormalShape(IndependentPrior):
    """A normal density, or a part of one."""

    mean: Parameter
    std: Parameter

    positive: ClassVar[tuple[str, ...]] = ("std",)

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return -(x - mean)^2 / (2 std^2) - log(std) - log(2 pi) / 2."""
        z = np.subtract(means, self.mean) / np.asarray(self.std)
        return -0.5 * np.square(z) - np.log(self.std) - _LOG_ROOT_TWO_PI

    def natural_parameters(self, num_arms: int) -> FloatArray:
        """Return (0, 0, mean / std^2, -1 / (2 std^2), 0) of each arm."""
        precision = 1 / np.square(self.std)
        return columns(num_arms, 0.0, 0.0, np.multiply(self.mean, precision), -precision / 2, 0.0)


@dataclass(frozen=True)
class Normal(_NormalShape):
    """Normal(mean, std) on the whole line."""

    name: ClassVar[str] = "normal"
    ends: ClassVar[tuple[float, float]] = (-inf, inf)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape."""
        return np.asarray(self.mean) + np.asarray(self.std) * rng.standard_normal(shape)

    def propose(self, uniforms: FloatArray, arms: IntArray) -> tuple[FloatArray, BoolArray]:
        """Make means by inverse CDF."""
        mean, std = self._of_arms(arms)
        means = mean + std * proposals.standard_normal(uniforms[0])
        return means, np.ones(means.shape, dtype=np.bool_)


@dataclass(frozen=True)
class TruncatedNormal(_NormalShape):
    """Normal(mean, std) given that it lies in [low, high].

    `mean` and `std` are those before truncation; `mean` may lie outside the interval.
    """

    low: Parameter = 0.0
    high: Parameter = 1.0

    name: ClassVar[str] = "truncated_normal"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_mass(self.mean, self.std, self.low, self.high)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape by inverse CDF, one uniform each."""
        return self._quantile(rng.random(shape), np.arange(shape[-1]))

    def propose(self, uniforms: FloatArray, arms: IntArray) -> tuple[FloatArray, BoolArray]:
        """Make means by inverse CDF."""
        return self._quantile(uniforms[0], arms), np.ones(uniforms[0].shape, dtype=np.bool_)

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the normal's log-density less the log of its mass in [low, high]."""
        x = np.asarray(means)
        mean, std, low, high = self._arrays()
        log_mass = truncated_normal.log_mass((low - mean) / std, (high - mean) / std)
        value = super().arm_log_density(x) - log_mass
        return np.where((x >= self.low) & (x <= self.high), value, -inf)

    def arm_support(self, num_arms: int) -> FloatArray:
        """Return [low, high] of each arm."""
        return columns(num_arms, self.low, self.high)

    def _quantile(self, uniforms: FloatArray, arms: IntArray) -> FloatArray:
        mean, std, low, high = self._of_arms(arms)
        inner = np.maximum(uniforms, 2.0**-54)
        z, _ = truncated_normal.quantile((low - mean) / std, (high - mean) / std, inner)
        return np.clip(mean + std * z, low, high)
