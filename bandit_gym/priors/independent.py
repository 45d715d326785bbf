"""Priors of independent arms: the standard families, given by their parameters.

Under a `ContextualProblem` the last axis of `sample` and `log_density` are the d coefficients of
features, in place of the K arms.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from math import inf
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike

from bandit_gym.checks import (
    check_covariance,
    check_parameter,
    check_same_length,
    is_project_class,
    message,
)
from bandit_gym.checks.typing import BoolArray, FloatArray, Parameter
from bandit_gym.numerics.variates import LEAST_UNIFORM, MAX_FLOAT, MIN_FLOAT, beta_quantile

__all__ = [
    "Beta",
    "Gamma",
    "IndependentPrior",
    "InverseGamma",
    "Laplace",
    "Normal",
    "NormalInverseGamma",
    "StudentT",
    "TruncatedNormal",
]

POSITIVE_PARAMETERS = frozenset(
    {"alpha", "beta", "shape", "rate", "scale", "std", "df", "precision"}
)


@dataclass(frozen=True)
class ParametricPrior(ABC):
    """A prior whose fields are its parameters, and all there is to know of it.

    Subclasses are frozen dataclasses; a parameter is one number for all arms or a list with an
    entry per arm (kept as a tuple, so that priors compare, hash and pickle).

    Attributes:
        name: the name used in dicts, e.g. "beta".
        ends: lowest and highest mean of every arm, where no parameter says otherwise.
    """

    name: ClassVar[str]
    ends: ClassVar[tuple[float, float]] = (-inf, inf)

    def __post_init__(self) -> None:
        for key, value in self._parameters().items():
            if key == "covariance":
                checked: Any = check_covariance(key, value)
            else:
                checked = check_parameter(key, value, positive=key in POSITIVE_PARAMETERS)
            object.__setattr__(self, key, checked)
        check_same_length(**self._parameters())

    def arm_support(self, num_arms: int) -> FloatArray:
        """Return the (K, 2) lowest and highest mean of each arm."""
        return stack_columns(num_arms, *self.ends)

    @property
    def num_arms(self) -> int | None:
        """K if some parameter is given per arm, None if the prior fits any number of arms."""
        lengths = [len(value) for value in self._parameters().values() if isinstance(value, tuple)]
        return lengths[0] if lengths else None

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest mean over all arms."""
        low, high = self.arm_support(self.num_arms or 1).T
        return float(low.min()), float(high.max())

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-able dict from which `prior_from_dict` makes an equal prior."""
        listed = {key: np.asarray(value).tolist() for key, value in self._parameters().items()}
        return {"name": self.name, **listed}

    def _parameters(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _arrays(self) -> tuple[FloatArray, ...]:
        return tuple(np.asarray(value) for value in self._parameters().values())


def stack_columns(num_arms: int, *values: ArrayLike) -> FloatArray:
    """Return the values, each one number or (K,) numbers, side by side in K rows."""
    rows = [np.broadcast_to(np.asarray(value, dtype=np.float64), num_arms) for value in values]
    return np.stack(rows, axis=1)


def keeps_draws(prior: Any, base: type | None = None) -> bool:
    """Say whether no class of a user's draws otherwise than the one that it derives from.

    What such a class inherits beside `sample` and `log_density` is of other means.

    Args:
        prior: an object.
        base: one of its classes; None for the first of this project.
    """
    kinds = [*type(prior).__mro__]
    ends = [kind is base or (base is None and is_project_class(kind)) for kind in kinds]
    own = kinds[: ends.index(True)] if any(ends) else []
    names = [{*vars(kind)} for kind in own if not is_project_class(kind)]
    return not any({"sample", "log_density"} & each for each in names)


def has_own(prior: Any, method: str) -> bool:
    """Say whether a prior has a method, and it is not of the draws of another class."""
    if not callable(getattr(prior, method, None)):
        return False
    first = next((kind for kind in type(prior).__mro__ if method in vars(kind)), type(prior))
    return not is_project_class(first) or keeps_draws(prior)


def get_stated_support(prior: Any, num_arms: int) -> FloatArray:
    """Return the (K, 2) lowest and highest means that the prior states; infinite if it does not."""
    ends: Any = -np.inf, np.inf
    if getattr(prior, "arm_support", None) is not None:
        ends = prior.arm_support(num_arms)
    elif getattr(prior, "support", None) is not None:
        ends = prior.support
    return np.broadcast_to(np.asarray(ends, dtype=np.float64), (num_arms, 2))


@dataclass(frozen=True)
class IndependentPrior(ParametricPrior):
    """A prior that is a product of one density per arm."""

    @abstractmethod
    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, whose last axis is the K arms.

        Draws that would round to an end of the support where the density may be infinite are moved
        to the nearest number inside.
        """

    @abstractmethod
    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the (..., K) normalised log-density of each arm's mean; -inf outside."""

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the (...) normalised log-density of (..., K) means; -inf outside the support."""
        return np.asarray(self.arm_log_density(means).sum(axis=-1))


@dataclass(frozen=True)
class Beta(IndependentPrior):
    """Beta(alpha, beta): density proportional to x^(alpha - 1) (1 - x)^(beta - 1) on [0, 1]."""

    alpha: Parameter
    beta: Parameter

    name: ClassVar[str] = "beta"
    ends: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, strictly between 0 and 1."""
        return np.clip(rng.beta(self.alpha, self.beta, shape), MIN_FLOAT, 1.0 - 2.0**-53)

    def quantile(self, uniforms: FloatArray) -> FloatArray:
        """Return quantiles strictly between 0 and 1."""
        means = beta_quantile(self.alpha, self.beta, uniforms)
        return np.clip(means, MIN_FLOAT, 1.0 - 2.0**-53)

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return (alpha - 1) log x + (beta - 1) log(1 - x) - log B(alpha, beta)."""
        x = np.asarray(means, dtype=np.float64)
        alpha, beta = self._arrays()
        powers = scipy.special.xlogy(alpha - 1, x) + scipy.special.xlog1py(beta - 1, -x)
        return np.where((x >= 0) & (x <= 1), powers - scipy.special.betaln(alpha, beta), -inf)

    def natural_parameters(self, num_arms: int) -> FloatArray:
        """Return (alpha - 1, beta - 1, 0, 0, 0) of each arm."""
        alpha, beta = self._arrays()
        return stack_columns(num_arms, alpha - 1, beta - 1, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Gamma(IndependentPrior):
    """Gamma(shape, rate): density proportional to x^(shape - 1) e^(-rate x) on [0, infinity)."""

    shape: Parameter
    rate: Parameter

    name: ClassVar[str] = "gamma"
    ends: ClassVar[tuple[float, float]] = (0.0, inf)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, above 0."""
        draws: FloatArray = rng.standard_gamma(self.shape, shape) / np.asarray(self.rate)
        return np.maximum(draws, MIN_FLOAT)

    def quantile(self, uniforms: FloatArray) -> FloatArray:
        """Return quantiles above 0."""
        with np.errstate(over="ignore"):  # an environment refuses means that are not finite
            means = scipy.special.gammaincinv(self.shape, uniforms) / np.asarray(self.rate)
        return np.maximum(means, MIN_FLOAT)

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
        return stack_columns(num_arms, shape - 1, 0.0, -rate, 0.0, 0.0)


@dataclass(frozen=True)
class InverseGamma(IndependentPrior):
    """InverseGamma(shape, scale): density proportional to x^(-shape - 1) e^(-scale / x), x > 0.

    The distribution of 1 / r for a rate r ~ Gamma(shape, rate=scale). Mean scale / (shape - 1).
    """

    shape: Parameter
    scale: Parameter

    name: ClassVar[str] = "inverse_gamma"
    ends: ClassVar[tuple[float, float]] = (0.0, inf)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, above 0 and finite."""
        rates = np.maximum(rng.standard_gamma(self.shape, shape), MIN_FLOAT)
        with np.errstate(over="ignore"):
            return np.clip(np.asarray(self.scale) / rates, MIN_FLOAT, MAX_FLOAT)

    def quantile(self, uniforms: FloatArray) -> FloatArray:
        """Return quantiles above 0, and finite, of what falls as the uniform rises."""
        rates = np.maximum(scipy.special.gammaincinv(self.shape, uniforms), MIN_FLOAT)
        with np.errstate(over="ignore"):
            return np.clip(np.asarray(self.scale) / rates, MIN_FLOAT, MAX_FLOAT)

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
        return stack_columns(num_arms, -shape - 1, 0.0, 0.0, 0.0, -scale)


_MAX_ROUNDING_ERROR = 1e-6


def check_mass(mean: Parameter, std: Parameter, low: Parameter, high: Parameter) -> None:
    """Refuse intervals that are empty, or whose mass under Normal(mean, std) rounding loses."""
    if not np.less(low, high).all():
        raise ValueError(message("low", f"be below high ({high!r})", low))
    m, s = np.asarray(mean), np.asarray(std)
    with np.errstate(over="ignore"):  # of an end that stands for none
        error = rounding_error((np.asarray(low) - m) / s, (np.asarray(high) - m) / s)
    if not (error < _MAX_ROUNDING_ERROR).all():
        condition = "leave the interval from low to high a mass that floating point can represent"
        settings = {"mean": mean, "std": std, "low": low, "high": high}
        raise ValueError(message("mean and std", condition, settings))


_LOG_ROOT_TWO_PI = 0.5 * float(np.log(2 * np.pi))


@dataclass(frozen=True)
class _NormalShape(IndependentPrior):
    """A normal density, or a part of one."""

    mean: Parameter
    std: Parameter

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return -(x - mean)^2 / (2 std^2) - log(std) - log(2 pi) / 2."""
        z = np.subtract(means, self.mean) / np.asarray(self.std)
        return -0.5 * np.square(z) - np.log(self.std) - _LOG_ROOT_TWO_PI

    def natural_parameters(self, num_arms: int) -> FloatArray:
        """Return (0, 0, mean / std^2, -1 / (2 std^2), 0) of each arm."""
        precision = 1 / np.square(self.std)
        slope = np.multiply(self.mean, precision)
        return stack_columns(num_arms, 0.0, 0.0, slope, -precision / 2, 0.0)


@dataclass(frozen=True)
class Normal(_NormalShape):
    """Normal(mean, std) on the whole line."""

    name: ClassVar[str] = "normal"

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape."""
        return np.asarray(self.mean) + np.asarray(self.std) * rng.standard_normal(shape)

    def quantile(self, uniforms: FloatArray) -> FloatArray:
        """Return quantiles."""
        return np.add(self.mean, np.multiply(self.std, scipy.special.ndtri(uniforms)))


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
        return self.quantile(np.maximum(rng.random(shape), LEAST_UNIFORM))

    def quantile(self, uniforms: FloatArray) -> FloatArray:
        """Return quantiles in [low, high]."""
        mean, std, low, high = self._arrays()
        z, _ = truncated_normal_quantile((low - mean) / std, (high - mean) / std, uniforms)
        return np.clip(mean + std * z, low, high)

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the normal's log-density less the log of its mass in [low, high]."""
        x = np.asarray(means)
        mean, std, low, high = self._arrays()
        inside = log_mass((low - mean) / std, (high - mean) / std)
        value = super().arm_log_density(x) - inside
        return np.where((x >= self.low) & (x <= self.high), value, -inf)

    def arm_support(self, num_arms: int) -> FloatArray:
        """Return [low, high] of each arm."""
        return stack_columns(num_arms, self.low, self.high)


# -- Heavy tails on the real line, for coefficients of features -----------------------------------


FAR_OUT = 1e100
"""Widths from the centre, beyond which squares might overflow."""


@dataclass(frozen=True)
class StudentT(IndependentPrior):
    """Student's t with `df` degrees of freedom, moved by `mean` and scaled by `scale`."""

    df: Parameter
    mean: Parameter = 0.0
    scale: Parameter = 1.0

    name: ClassVar[str] = "student_t"

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw coefficients of the given shape, whose last axis is theirs."""
        df, mean, scale = self._arrays()
        return np.asarray(mean + scale * rng.standard_t(df, shape))

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the (..., d) normalised log-densities."""
        df, mean, scale = self._arrays()
        half, next_half = scipy.special.gammaln([df / 2, (df + 1) / 2])
        constant = half - next_half + np.log(scale * np.sqrt(df * np.pi))
        off = abs(means - mean) / scale
        logs = np.log1p(np.square(np.minimum(off, FAR_OUT)) / df)
        logs += 2 * np.log(np.maximum(off / FAR_OUT, 1.0))
        return np.asarray(-0.5 * (df + 1) * logs - constant)


@dataclass(frozen=True)
class NormalInverseGamma(IndependentPrior):
    """Of the mean x and the deviation s of Gaussian rewards, `Gaussian(std=None)`.

    s^2 is InverseGamma(shape, scale), and x given s is Normal(mean, s / sqrt(precision)), as if
    `precision` rewards of the average `mean` were known. Without features each arm has an x and
    an s of its own. With features the x are coefficients, given one s that all rewards have; then
    shape and scale are one number each. Densities are of x, Student's t.
    """

    mean: Parameter = 0.0
    precision: Parameter = 1.0
    shape: Parameter = 3.0
    scale: Parameter = 2.0

    name: ClassVar[str] = "normal_inverse_gamma"

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape."""
        return self.sample_with_stds(rng, shape)[0]

    def sample_with_stds(
        self, rng: Generator, shape: tuple[int, ...], *, is_shared: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Draw means of the given shape, and the deviations of rewards.

        Args:
            rng: the only source of randomness.
            shape: of the means, whose last axis is the K arms or the d coefficients.
            is_shared: whether one deviation is that of the last axis, which then is 1 long in it.
        """
        mean, precision, _, _ = self._arrays()
        of_stds = (*shape[:-1], 1) if is_shared else shape
        stds = np.sqrt(InverseGamma(self.shape, self.scale).sample(rng, of_stds))
        return np.asarray(mean + stds / np.sqrt(precision) * rng.standard_normal(shape)), stds

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the (..., K) normalised log-densities of the means."""
        mean, precision, shape, scale = self._arrays()
        width = np.sqrt(scale / (shape * precision))
        marginal = StudentT(*(each.tolist() for each in (2 * shape, mean, width)))
        return marginal.arm_log_density(means)

    def log_likelihood(
        self, means: FloatArray, counts: FloatArray, sums: FloatArray, squares: FloatArray
    ) -> FloatArray:
        """Return the log-likelihood of the (..., K) means, the deviation integrated out.

        Given x, s^2 is InverseGamma(shape + 1/2, B) with B = scale + precision (x - mean)^2 / 2,
        so that of n rewards of sum S and squares q around their average it is, up to a constant,
        -(shape + 1/2 + n / 2) log(1 + C / B) - n / 2 log B with C = (q + n (S / n - x)^2) / 2.

        Args:
            means: x.
            counts: n.
            sums: S.
            squares: q.
        """
        mean, precision, shape, scale = self._arrays()
        b = scale + precision * np.square(means - mean) / 2
        averages = sums / np.where(np.equal(counts, 0), 1, counts)
        c = (squares + counts * np.square(averages - means)) / 2
        return np.asarray(-(shape + 0.5 + counts / 2) * np.log1p(c / b) - counts / 2 * np.log(b))


@dataclass(frozen=True)
class Laplace(IndependentPrior):
    """Laplace: density proportional to exp(-abs(x - mean) / scale)."""

    mean: Parameter = 0.0
    scale: Parameter = 1.0

    name: ClassVar[str] = "laplace"

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw coefficients of the given shape, whose last axis is theirs."""
        return np.asarray(rng.laplace(self.mean, self.scale, shape))

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the (..., d) normalised log-densities."""
        mean, scale = self._arrays()
        return np.asarray(-np.abs(means - mean) / scale - np.log(2 * scale))


BUILT_IN = Beta, Gamma, InverseGamma, Normal, TruncatedNormal, StudentT, Laplace, NormalInverseGamma
"""Every prior of independent arms that is a standard family."""


# -- The standard normal distribution on an interval -----------------------------------------------


def log_mass(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return log P(low < Z < high) of a standard normal Z, elementwise.

    An interval to the right of 0 is turned into its mirror image on the left, where the logarithm
    of the distribution function keeps its digits.

    Args:
        low: lower limits in standard deviations.
        high: upper limits, above `low`.
    """
    return _mirrored_log_masses(low, high)[1]


def truncated_normal_quantile(
    low: FloatArray, high: FloatArray, uniforms: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return quantiles of a standard normal given that it lies in an interval, elementwise.

    Args:
        low: lower limits in standard deviations.
        high: upper limits, above `low`.
        uniforms: values in (0, 1).

    Returns:
        The quantiles, in [low, high] and nondecreasing in `uniforms`; and `log_mass(low, high)`,
        which is needed on the way.
    """
    log_left, log_inside, is_mirrored = _mirrored_log_masses(low, high)
    # SciPy's log, as NumPy's may round differently in long and in short arrays.
    parts = np.where(is_mirrored, 1.0 - uniforms, uniforms)
    log_part = log_inside + scipy.special.xlogy(1.0, parts)
    values = scipy.special.ndtri_exp(np.logaddexp(log_left, log_part))
    return np.clip(np.where(is_mirrored, -values, values), low, high), log_inside


def rounding_error(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the relative error that rounding leaves in the mass of an interval, roughly.

    The logarithm far out is a large number, and a narrow interval is a small difference of two.
    """
    nearest = np.maximum(np.maximum(low, -high), 1.0)
    return np.finfo(float).eps * np.square(nearest) / np.minimum((high - low) * nearest, 1.0)


def _mirrored_log_masses(
    low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    is_mirrored = low + high > 0
    log_left = scipy.special.log_ndtr(np.where(is_mirrored, -high, low))
    log_right = scipy.special.log_ndtr(np.where(is_mirrored, -low, high))
    return log_left, log_right + np.log(-np.expm1(log_left - log_right)), is_mirrored
