"""Priors under which the arms' means are independent, each from a family with known density."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy import special

from bandit_gym.checks import check_interval, check_parameter, check_same_length
from bandit_gym.numerics import truncated_normal
from bandit_gym.priors.mass import check_mass
from bandit_gym.typing import FloatArray, Parameter

_SMALLEST = float(np.finfo(np.float64).tiny)
_LARGEST = float(np.finfo(np.float64).max)
_LOG_ROOT_TWO_PI = 0.5 * float(np.log(2 * np.pi))


@dataclass(frozen=True)
class IndependentPrior(ABC):
    """A prior that is a product of one density per arm.

    Subclasses are frozen dataclasses; each field is a parameter, one number for all arms or a list
    of one number per arm (kept as a tuple, so that priors compare, hash and pickle).

    Attributes:
        name: the name used in dicts, e.g. "beta".
        positive: names of the parameters that must be above 0.
        ends: lowest and highest mean of every arm.
    """

    name: ClassVar[str]
    positive: ClassVar[tuple[str, ...]]
    ends: ClassVar[tuple[float, float]]

    def __post_init__(self) -> None:
        for key, value in self._parameters().items():
            checked = check_parameter(key, value, positive=key in self.positive)
            object.__setattr__(self, key, checked)
        check_same_length(**self._parameters())

    @abstractmethod
    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, whose last axis is the K arms.

        Draws that would round to an end of the support where the density may be infinite are moved
        to the nearest number inside.
        """

    @abstractmethod
    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the (..., K) normalised log-density of each arm's mean; -inf outside."""

    @abstractmethod
    def natural_parameters(self, num_arms: int) -> FloatArray:
        """Return the coefficients of the log-density in five features.

        Inside the support, log p(x) = c . (log x, log(1 - x), x, x^2, 1 / x) + constant.

        Returns:
            (K, 5) coefficients c of each arm.
        """

    def arm_support(self, num_arms: int) -> FloatArray:
        """Return the (K, 2) lowest and highest mean of each arm."""
        return _columns(num_arms, *self.ends)

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the (...) normalised log-density of (..., K) means; -inf outside the support."""
        return np.asarray(self.arm_log_density(means).sum(axis=-1))

    @property
    def num_arms(self) -> int | None:
        """K if some parameter is given per arm, None if the prior fits any number of arms."""
        lengths = [len(value) for value in self._parameters().values() if isinstance(value, tuple)]
        return lengths[0] if lengths else None

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest mean over all arms."""
        limits = self.arm_support(self.num_arms or 1)
        return float(limits[:, 0].min()), float(limits[:, 1].max())

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-able dict from which `prior_from_dict` makes an equal prior."""
        parameters = self._parameters().items()
        listed = {key: list(v) if isinstance(v, tuple) else v for key, v in parameters}
        return {"name": self.name, **listed}

    def _parameters(self) -> dict[str, Parameter]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class Beta(IndependentPrior):
    """Beta(alpha, beta): density proportional to x^(alpha - 1) (1 - x)^(beta - 1) on [0, 1]."""

    alpha: Parameter
    beta: Parameter

    name: ClassVar[str] = "beta"
    positive: ClassVar[tuple[str, ...]] = ("alpha", "beta")
    ends: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, strictly between 0 and 1."""
        return np.clip(rng.beta(self.alpha, self.beta, shape), _SMALLEST, 1.0 - 2.0**-53)

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return (alpha - 1) log x + (beta - 1) log(1 - x) - log B(alpha, beta)."""
        x = np.asarray(means, dtype=np.float64)
        alpha, beta = np.asarray(self.alpha), np.asarray(self.beta)
        powers = special.xlogy(alpha - 1, x) + special.xlog1py(beta - 1, -x)
        return np.where((x >= 0) & (x <= 1), powers - special.betaln(alpha, beta), -inf)

    def natural_parameters(self, num_arms: int) -> FloatArray:
        """Return (alpha - 1, beta - 1, 0, 0, 0) of each arm."""
        alpha, beta = np.asarray(self.alpha), np.asarray(self.beta)
        return _columns(num_arms, alpha - 1, beta - 1, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Gamma(IndependentPrior):
    """Gamma(shape, rate): density proportional to x^(shape - 1) e^(-rate x) on [0, infinity)."""

    shape: Parameter
    rate: Parameter

    name: ClassVar[str] = "gamma"
    positive: ClassVar[tuple[str, ...]] = ("shape", "rate")
    ends: ClassVar[tuple[float, float]] = (0.0, inf)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, above 0."""
        draws: FloatArray = rng.standard_gamma(self.shape, shape) / np.asarray(self.rate)
        return np.maximum(draws, _SMALLEST)

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return shape log(rate) - log Gamma(shape) + (shape - 1) log x - rate x."""
        x = np.asarray(means, dtype=np.float64)
        shape, rate = np.asarray(self.shape), np.asarray(self.rate)
        is_inside = (x >= 0) & (x < inf)
        safe = np.where(is_inside, x, 1.0)
        constant = shape * np.log(rate) - special.gammaln(shape)
        value = constant + special.xlogy(shape - 1, safe) - rate * safe
        return np.where(is_inside, value, -inf)

    def natural_parameters(self, num_arms: int) -> FloatArray:
        """Return (shape - 1, 0, -rate, 0, 0) of each arm."""
        return _columns(num_arms, np.asarray(self.shape) - 1, 0.0, -np.asarray(self.rate), 0.0, 0.0)


@dataclass(frozen=True)
class InverseGamma(IndependentPrior):
    """InverseGamma(shape, scale): density proportional to x^(-shape - 1) e^(-scale / x), x > 0.

    The law of 1 / r for a rate r ~ Gamma(shape, rate=scale). Mean scale / (shape - 1).
    """

    shape: Parameter
    scale: Parameter

    name: ClassVar[str] = "inverse_gamma"
    positive: ClassVar[tuple[str, ...]] = ("shape", "scale")
    ends: ClassVar[tuple[float, float]] = (0.0, inf)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, above 0 and finite."""
        rates = np.maximum(rng.standard_gamma(self.shape, shape), _SMALLEST)
        with np.errstate(over="ignore"):
            return np.clip(np.asarray(self.scale) / rates, _SMALLEST, _LARGEST)

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return shape log(scale) - log Gamma(shape) - (shape + 1) log x - scale / x."""
        x = np.asarray(means, dtype=np.float64)
        shape, scale = np.asarray(self.shape), np.asarray(self.scale)
        is_inside = (x > 0) & (x < inf)
        safe = np.where(is_inside, x, 1.0)
        constant = shape * np.log(scale) - special.gammaln(shape)
        with np.errstate(over="ignore"):
            return np.where(is_inside, constant - (shape + 1) * np.log(safe) - scale / safe, -inf)

    def natural_parameters(self, num_arms: int) -> FloatArray:
        """Return (-shape - 1, 0, 0, 0, -scale) of each arm."""
        shape, scale = np.asarray(self.shape), np.asarray(self.scale)
        return _columns(num_arms, -shape - 1, 0.0, 0.0, 0.0, -scale)


@dataclass(frozen=True)
class Normal(IndependentPrior):
    """Normal(mean, std) on the whole line."""

    mean: Parameter
    std: Parameter

    name: ClassVar[str] = "normal"
    positive: ClassVar[tuple[str, ...]] = ("std",)
    ends: ClassVar[tuple[float, float]] = (-inf, inf)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape."""
        return np.asarray(self.mean) + np.asarray(self.std) * rng.standard_normal(shape)

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return -(x - mean)^2 / (2 std^2) - log(std) - log(2 pi) / 2."""
        return _normal_log_density(means, self.mean, self.std)

    def natural_parameters(self, num_arms: int) -> FloatArray:
        """Return (0, 0, mean / std^2, -1 / (2 std^2), 0) of each arm."""
        return _normal_natural_parameters(num_arms, self.mean, self.std)


@dataclass(frozen=True)
class TruncatedNormal(IndependentPrior):
    """Normal(mean, std) given that it lies in [low, high].

    `mean` and `std` are those before truncation; `mean` may lie outside the interval.
    """

    mean: Parameter
    std: Parameter
    low: Parameter = 0.0
    high: Parameter = 1.0

    name: ClassVar[str] = "truncated_normal"
    positive: ClassVar[tuple[str, ...]] = ("std",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self.low, self.high)
        check_mass(self.mean, self.std, self.low, self.high)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape by inverse CDF, one uniform each."""
        low, high = self._limits()
        uniforms = np.maximum(rng.random(shape), 2.0**-54)
        z, _ = truncated_normal.quantile(low, high, uniforms)
        return np.clip(np.asarray(self.mean) + np.asarray(self.std) * z, self.low, self.high)

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the normal's log-density less the log of its mass in [low, high]."""
        x = np.asarray(means)
        value = _normal_log_density(x, self.mean, self.std)
        value = value - truncated_normal.log_mass(*self._limits())
        return np.where((x >= self.low) & (x <= self.high), value, -inf)

    def natural_parameters(self, num_arms: int) -> FloatArray:
        """Return (0, 0, mean / std^2, -1 / (2 std^2), 0) of each arm."""
        return _normal_natural_parameters(num_arms, self.mean, self.std)

    def arm_support(self, num_arms: int) -> FloatArray:
        """Return [low, high] of each arm."""
        return _columns(num_arms, self.low, self.high)

    def _limits(self) -> tuple[FloatArray, FloatArray]:
        mean, std = np.asarray(self.mean), np.asarray(self.std)
        return (np.asarray(self.low) - mean) / std, (np.asarray(self.high) - mean) / std


def _columns(num_arms: int, *columns: ArrayLike) -> FloatArray:
    """Return the columns, each one number or (K,) numbers, side by side in K rows."""
    rows = [np.broadcast_to(np.asarray(column, dtype=np.float64), num_arms) for column in columns]
    return np.stack(rows, axis=1)


def _normal_log_density(x: FloatArray, mean: Parameter, std: Parameter) -> FloatArray:
    z = np.subtract(x, mean) / np.asarray(std)
    value: FloatArray = -0.5 * np.square(z) - np.log(std) - _LOG_ROOT_TWO_PI
    return value


def _normal_natural_parameters(num_arms: int, mean: Parameter, std: Parameter) -> FloatArray:
    precision = 1 / np.square(std)
    return _columns(num_arms, 0.0, 0.0, np.asarray(mean) * precision, -precision / 2, 0.0)
