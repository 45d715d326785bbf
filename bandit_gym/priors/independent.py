"""Priors under which the arms' means are independent, and the families that are not normal."""

from abc import abstractmethod
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.random import Generator

from bandit_gym.checks import check_parameter, check_same_length
from bandit_gym.numerics import proposals
from bandit_gym.priors.parametric import ParametricPrior, columns
from bandit_gym.typing import BoolArray, FloatArray, IntArray, Parameter

_SMALLEST = float(np.finfo(np.float64).tiny)
_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class IndependentPrior(ParametricPrior):
    """A prior that is a product of one density per arm.

    Attributes:
        positive: names of the parameters that must be above 0.
        ends: lowest and highest mean of every arm.
    """

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

    @property
    def num_uniforms(self) -> int:
        """W, how many numbers `propose` takes for each arm."""
        return 1

    def propose(self, uniforms: FloatArray, arms: IntArray) -> tuple[FloatArray, BoolArray]:
        """Make means of uniform numbers, for environments: of the law once those not kept are gone.

        Asked of built-in priors alone; others draw by `sample`.

        Args:
            uniforms: (W, ...) numbers in [0, 1).
            arms: whose means they are, broadcast against (...).

        Returns:
            (...) means and which are kept, the same in any batch.
        """
        raise NotImplementedError(f"{self!r} draws its means by sample.")

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
        return columns(num_arms, *self.ends)

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the (...) normalised log-density of (..., K) means; -inf outside the support."""
        return np.asarray(self.arm_log_density(means).sum(axis=-1))

    def _of_arms(self, arms: IntArray) -> list[Any]:
        """Return each parameter, (...) values for the arms or one for all."""
        own = vars(self).values()  # not `_arrays`, which would take half of a single reset
        return [_of_arms(value, arms) if isinstance(value, tuple) else value for value in own]


def _of_arms(values: tuple[float, ...], arms: IntArray) -> Any:
    return np.array(values)[arms] if len(values) > 1 else values[0]  # as arrays broadcast


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

    @property
    def num_uniforms(self) -> int:
        """W: 1 for the uniform law, 5 if a parameter is below 1, else 3."""
        if self._is_uniform:
            return 1
        return 5 if _is_below_one(self.alpha) or _is_below_one(self.beta) else 3

    def propose(self, uniforms: FloatArray, arms: IntArray) -> tuple[FloatArray, BoolArray]:
        """Make means strictly between 0 and 1."""
        if self._is_uniform:
            means, is_kept = uniforms[0], np.ones(uniforms[0].shape, dtype=np.bool_)
        else:
            alpha, beta = self._of_arms(arms)
            means, is_kept = proposals.beta(alpha, beta, uniforms)
        return np.clip(means, _SMALLEST, 1.0 - 2.0**-53), is_kept

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return (alpha - 1) log x + (beta - 1) log(1 - x) - log B(alpha, beta)."""
        x = np.asarray(means, dtype=np.float64)
        alpha, beta = self._arrays()
        powers = scipy.special.xlogy(alpha - 1, x) + scipy.special.xlog1py(beta - 1, -x)
        return np.where((x >= 0) & (x <= 1), powers - scipy.special.betaln(alpha, beta), -inf)

    def natural_parameters(self, num_arms: int) -> FloatArray:
        """Return (alpha - 1, beta - 1, 0, 0, 0) of each arm."""
        alpha, beta = self._arrays()
        return columns(num_arms, alpha - 1, beta - 1, 0.0, 0.0, 0.0)

    @property
    def _is_uniform(self) -> bool:
        return self.alpha == self.beta == 1.0


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

    @property
    def num_uniforms(self) -> int:
        """W: 3 if a shape is below 1, else 2."""
        return 3 if _is_below_one(self.shape) else 2

    def propose(self, uniforms: FloatArray, arms: IntArray) -> tuple[FloatArray, BoolArray]:
        """Make means above 0."""
        shape, rate = self._of_arms(arms)
        logs, is_kept = proposals.log_gamma(shape, uniforms)
        with np.errstate(over="ignore"):  # a world refuses means that are not finite
            return np.maximum(proposals.exp(logs) / rate, _SMALLEST), is_kept

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return shape log(rate) - log Gamma(shape) + (shape - 1) log x - rate x."""
        x = np.asarray(means, dtype=np.float64)
        shape, rate = self._arrays()
        constant = shape * np.log(rate) - scipy.special.gammaln(shape)
        with np.errstate(invalid="ignore"):  # outside the support
            value = constant + scipy.special.xlogy(shape - 1, x) - rate * x
        return np.where((x >= 0) & (x < inf), value, -inf)

    def natural_parameters(self, num_arms: int) -> FloatArray:
        """Return (shape - 1, 0, -rate, 0, 0) of each arm."""
        shape, rate = self._arrays()
        return columns(num_arms, shape - 1, 0.0, -rate, 0.0, 0.0)


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

    @property
    def num_uniforms(self) -> int:
        """W: 3 if a shape is below 1, else 2."""
        return 3 if _is_below_one(self.shape) else 2

    def propose(self, uniforms: FloatArray, arms: IntArray) -> tuple[FloatArray, BoolArray]:
        """Make means above 0 and finite."""
        shape, scale = self._of_arms(arms)
        logs, is_kept = proposals.log_gamma(shape, uniforms)
        with np.errstate(over="ignore"):
            return np.clip(scale * proposals.exp(-logs), _SMALLEST, _LARGEST), is_kept

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return shape log(scale) - log Gamma(shape) - (shape + 1) log x - scale / x."""
        x = np.asarray(means, dtype=np.float64)
        shape, scale = self._arrays()
        constant = shape * np.log(scale) - scipy.special.gammaln(shape)
        with np.errstate(all="ignore"):  # outside the support, and near 0
            value = constant - (shape + 1) * np.log(x) - scale / x
        return np.where((x > 0) & (x < inf), value, -inf)

    def natural_parameters(self, num_arms: int) -> FloatArray:
        """Return (-shape - 1, 0, 0, 0, -scale) of each arm."""
        shape, scale = self._arrays()
        return columns(num_arms, -shape - 1, 0.0, 0.0, 0.0, -scale)


def _is_below_one(parameter: Parameter) -> bool:
    """Say whether some value is."""
    return (min(parameter) if isinstance(parameter, tuple) else parameter) < 1
