"""Reward laws given an arm's mean: Bernoulli, exponential, Gaussian and Poisson.

Each law is drawn by inverse CDF from one uniform per pull, so that two agents that meet the same
uniforms meet the same noise whatever arms they choose.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
import scipy

from bandit_gym.checks import (
    check_arguments,
    check_real,
    load_named,
    make_named,
    message,
    split_name,
)
from bandit_gym.checks.typing import BoolArray, FloatArray, RealArray
from bandit_gym.likelihoods.base import Likelihood, inner_uniforms
from bandit_gym.numerics.variates import poisson_quantile


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Reward 1 with probability `mean`, otherwise 0."""

    name: ClassVar[str] = "bernoulli"
    support: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reward_rule: ClassVar[str] = "0 or 1"
    has_whole_rewards: ClassVar[bool] = True
    conjugate_prior: ClassVar[str] = "beta"

    def is_possible(self, rewards: RealArray) -> BoolArray:
        """Return whether the reward is 0 or 1."""
        return (rewards == 0.0) | (rewards == 1.0)  # type: ignore[return-value]  # or a bool

    def log_likelihood(self, means: RealArray, counts: RealArray, sums: RealArray) -> FloatArray:
        """Return s log(mean) + (n - s) log(1 - mean)."""
        failures = np.subtract(counts, sums)
        value = scipy.special.xlogy(sums, means) + scipy.special.xlog1py(
            failures, np.negative(means)
        )
        return np.where(self.contains(means), value, -inf)

    def sample(self, means: RealArray, uniforms: RealArray) -> FloatArray:
        """Return 1 where 1 - uniform <= mean (1 - uniform is exact, 1 - mean is not)."""
        return (np.subtract(1.0, uniforms) <= means).astype(np.float64)

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return sqrt(mean (1 - mean))."""
        return np.sqrt(np.multiply(means, np.subtract(1.0, means)))


@dataclass(frozen=True)
class Exponential(Likelihood):
    """Exponential reward, given by its mean (the scale, not the rate)."""

    name: ClassVar[str] = "exponential"
    support: ClassVar[tuple[float, float]] = (0.0, inf)
    reward_rule: ClassVar[str] = "a finite number of at least 0"
    conjugate_prior: ClassVar[str] = "inverse_gamma"

    def contains(self, means: RealArray) -> BoolArray:
        """Return whether 0 < mean < infinity; there is no density at mean 0."""
        values = np.asarray(means, dtype=np.float64)
        return (values > 0.0) & (values < inf)

    def is_possible(self, rewards: RealArray) -> BoolArray:
        """Return whether 0 <= reward < infinity."""
        values = np.asarray(rewards, dtype=np.float64)
        return (values >= 0.0) & (values < inf)

    def log_likelihood(self, means: RealArray, counts: RealArray, sums: RealArray) -> FloatArray:
        """Return -n log(mean) - s / mean."""
        with np.errstate(all="ignore"):  # an overflow to -inf is right, and outside all is
            value = -np.multiply(counts, np.log(means)) - np.divide(sums, means)
        return np.where(self.contains(means), value, -inf)

    def sample(self, means: RealArray, uniforms: RealArray) -> FloatArray:
        """Return -mean log(1 - uniform)."""
        # scipy's log1p, not NumPy's: the latter may round differently in long and in short arrays.
        return np.multiply(means, -scipy.special.log1p(np.negative(uniforms)))

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return the mean: an exponential's standard deviation is its mean."""
        return np.array(means, dtype=np.float64)


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """Normal reward with a known standard deviation.

    Args:
        std: observation standard deviation, > 0, in reward units.
    """

    std: float = 1.0

    name: ClassVar[str] = "gaussian"
    support: ClassVar[tuple[float, float]] = (-inf, inf)
    reward_rule: ClassVar[str] = "a finite number"
    conjugate_prior: ClassVar[str] = "normal"

    def __post_init__(self) -> None:
        object.__setattr__(self, "std", check_real("std", self.std, above=0.0))

    def is_possible(self, rewards: RealArray) -> BoolArray:
        """Return whether the reward is finite."""
        return np.isfinite(rewards)

    def log_likelihood(self, means: RealArray, counts: RealArray, sums: RealArray) -> FloatArray:
        """Return -n (mean - s / n)^2 / (2 std^2).

        The square is completed because n mean^2 - 2 s mean would cancel for large n.
        """
        with np.errstate(all="ignore"):  # an overflow to -inf is right, and outside all is
            averages = np.divide(sums, np.where(np.equal(counts, 0), 1, counts))  # may fade below 1
            value = -0.5 * np.multiply(counts, np.square((averages - means) / self.std))
        return np.where(self.contains(means), value, -inf)

    def sample(self, means: RealArray, uniforms: RealArray) -> FloatArray:
        """Return mean + std * z, with z the standard normal quantile."""
        return np.add(means, self.std * scipy.special.ndtri(inner_uniforms(uniforms)))

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return `std`, in the shape of `means`."""
        return np.full(np.shape(means), self.std)


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Poisson reward: a count with the given mean."""

    name: ClassVar[str] = "poisson"
    support: ClassVar[tuple[float, float]] = (0.0, inf)
    reward_rule: ClassVar[str] = "an integer of at least 0"
    has_whole_rewards: ClassVar[bool] = True
    conjugate_prior: ClassVar[str] = "gamma"

    def is_possible(self, rewards: RealArray) -> BoolArray:
        """Return whether the reward is a whole number of at least 0."""
        values = np.asarray(rewards, dtype=np.float64)
        return (values >= 0.0) & (values < inf) & (values == np.floor(values))

    def log_likelihood(self, means: RealArray, counts: RealArray, sums: RealArray) -> FloatArray:
        """Return s log(mean) - n mean."""
        with np.errstate(all="ignore"):  # an overflow to -inf is right, and outside all is
            value = scipy.special.xlogy(sums, means) - np.multiply(counts, means)
        return np.where(self.contains(means), value, -inf)

    def sample(self, means: RealArray, uniforms: RealArray) -> FloatArray:
        """Return the smallest count whose distribution function exceeds the uniform."""
        return poisson_quantile(means, inner_uniforms(uniforms))

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return sqrt(mean)."""
        return np.sqrt(np.asarray(means, dtype=np.float64))


LIKELIHOODS: dict[str, type[Likelihood]] = {
    likelihood.name: likelihood for likelihood in (Bernoulli, Exponential, Gaussian, Poisson)
}


def likelihood_from_dict(settings: Mapping[str, Any]) -> Likelihood:
    """Make the likelihood that a dict such as `{"name": "gaussian", "std": 1.0}` describes.

    Raises:
        TypeError: if a value is of the wrong kind.
        ValueError: if the name or a key is unknown, or a value is out of range.
    """
    return make_named("likelihood", settings, LIKELIHOODS)


def make_likelihood(settings: Any) -> Likelihood:
    """Make the likelihood that a dict or a name describes, or return one that is given.

    One's own is imported, which is to run it, where the name reads `module:name`.

    Raises:
        TypeError: if a value is of the wrong kind, or what is imported is no likelihood.
        ValueError: if the name or a key is unknown, or a value is out of range.
    """
    if isinstance(settings, Likelihood):
        return settings
    name, options = split_name(
        "likelihood", {"name": settings} if isinstance(settings, str) else settings
    )
    if not isinstance(name, str) or ":" not in name:
        return likelihood_from_dict({"name": name, **options})
    make = load_named("likelihood", name)
    if not (isinstance(make, type) and issubclass(make, Likelihood)):
        remedy = "a subclass of bandit_gym.likelihoods.Likelihood"
        raise TypeError(message(f"likelihood {name}", "be a likelihood's class", make, remedy))
    check_arguments(f"likelihood {name}", make, {"name": name, **options})
    return make(**options)
