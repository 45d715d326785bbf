"""Reward laws given an arm's mean: Bernoulli, exponential, Gaussian and Poisson.

Each law is drawn by inverse CDF from one uniform per pull, so that two agents that meet the same
uniforms meet the same noise whatever arms they choose. Everything works elementwise and broadcasts;
an element's result never depends on the others, so that lanes may be batched in any way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from scipy import special

from bandit_gym.checks import check_choice, check_has_name, check_keys, check_real
from bandit_gym.numerics.poisson import poisson_quantile
from bandit_gym.typing import BoolArray, FloatArray, RealArray


@runtime_checkable
class Likelihood(Protocol):
    """The law of a reward given its arm's mean.

    Attributes:
        name: the name used in dicts, e.g. "bernoulli".
        support: lowest and highest mean.
        reward_rule: what rewards are possible, in words that follow "must be".
    """

    name: ClassVar[str]
    support: ClassVar[tuple[float, float]]
    reward_rule: ClassVar[str]

    def contains(self, means: RealArray) -> BoolArray:
        """Return which means are possible; ends of `support` may or may not be."""

    def sample(self, means: RealArray, uniforms: RealArray) -> FloatArray:
        """Return the rewards at quantiles `uniforms`, nondecreasing in both arguments.

        Args:
            means: possible means, broadcast against `uniforms`.
            uniforms: values in [0, 1), multiples of 2^-53 as `Generator.random` makes them.
        """

    def log_likelihood(self, means: RealArray, counts: RealArray, sums: RealArray) -> FloatArray:
        """Return the log-likelihood of `counts` rewards that add up to `sums`.

        Terms without the mean are left out. Minus infinity where the mean is impossible, or where
        these rewards are impossible under it; 0 * log(0) counts as 0.
        """

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return the standard deviation of one reward, in reward units."""

    def is_possible(self, rewards: RealArray) -> BoolArray:
        """Return which rewards can occur under some mean; NaN and infinity never can."""

    def is_possible_sum(self, counts: RealArray, sums: RealArray) -> BoolArray:
        """Return where `counts` possible rewards can add up to `sums`."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-able dict from which `likelihood_from_dict` makes an equal one."""


@dataclass(frozen=True)
class Bernoulli:
    """Reward 1 with probability `mean`, otherwise 0."""

    name: ClassVar[str] = "bernoulli"
    support: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reward_rule: ClassVar[str] = "0 or 1"

    def contains(self, means: RealArray) -> BoolArray:
        """Return whether 0 <= mean <= 1."""
        values = np.asarray(means, dtype=np.float64)
        return (values >= 0.0) & (values <= 1.0)

    def sample(self, means: RealArray, uniforms: RealArray) -> FloatArray:
        """Return 1 where 1 - uniform <= mean (1 - uniform is exact, 1 - mean is not)."""
        is_success = np.subtract(1.0, uniforms) <= means
        return is_success.astype(np.float64)

    def log_likelihood(self, means: RealArray, counts: RealArray, sums: RealArray) -> FloatArray:
        """Return s log(mean) + (n - s) log(1 - mean)."""
        x, successes = np.asarray(means, dtype=np.float64), np.asarray(sums, dtype=np.float64)
        value = special.xlogy(successes, x) + special.xlog1py(counts - successes, -x)
        return np.where(self.contains(x), value, -inf)

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return sqrt(mean (1 - mean))."""
        return np.sqrt(np.multiply(means, np.subtract(1.0, means)))

    def is_possible(self, rewards: RealArray) -> BoolArray:
        """Return whether the reward is 0 or 1."""
        return np.equal(rewards, 0.0) | np.equal(rewards, 1.0)

    def is_possible_sum(self, counts: RealArray, sums: RealArray) -> BoolArray:
        """Return whether the number of successes is whole and at most the number of pulls."""
        values = np.asarray(sums, dtype=np.float64)
        is_possible: BoolArray = (values >= 0.0) & (values <= counts) & (values == np.floor(values))
        return is_possible

    def to_dict(self) -> dict[str, Any]:
        """Return {"name": "bernoulli"}."""
        return {"name": self.name}


@dataclass(frozen=True)
class Exponential:
    """Exponential reward, given by its mean (the scale, not the rate)."""

    name: ClassVar[str] = "exponential"
    support: ClassVar[tuple[float, float]] = (0.0, inf)
    reward_rule: ClassVar[str] = "a finite number of at least 0"

    def contains(self, means: RealArray) -> BoolArray:
        """Return whether 0 < mean < infinity."""
        values = np.asarray(means, dtype=np.float64)
        return (values > 0.0) & (values < inf)

    def sample(self, means: RealArray, uniforms: RealArray) -> FloatArray:
        """Return -mean log(1 - uniform)."""
        # scipy's log1p, not NumPy's: the latter may round differently in long and in short arrays.
        return np.multiply(means, -special.log1p(np.negative(uniforms)))

    def log_likelihood(self, means: RealArray, counts: RealArray, sums: RealArray) -> FloatArray:
        """Return -n log(mean) - s / mean."""
        is_inside = self.contains(means)
        safe_means = np.where(is_inside, means, 1.0)
        with np.errstate(over="ignore"):  # an overflow to -inf is right
            value = -np.multiply(counts, np.log(safe_means)) - sums / safe_means
        return np.where(is_inside, value, -inf)

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return the mean: an exponential's standard deviation is its mean."""
        return np.array(means, dtype=np.float64)

    def is_possible(self, rewards: RealArray) -> BoolArray:
        """Return whether 0 <= reward < infinity."""
        values = np.asarray(rewards, dtype=np.float64)
        return (values >= 0.0) & (values < inf)

    def is_possible_sum(self, counts: RealArray, sums: RealArray) -> BoolArray:
        """Return whether the sum is a possible reward, and 0 where there are no rewards."""
        return self.is_possible(sums) & _is_zero_if_empty(counts, sums)

    def to_dict(self) -> dict[str, Any]:
        """Return {"name": "exponential"}."""
        return {"name": self.name}


@dataclass(frozen=True)
class Gaussian:
    """Normal reward with a known standard deviation.

    Args:
        std: observation standard deviation, > 0, in reward units.
    """

    std: float = 1.0

    name: ClassVar[str] = "gaussian"
    support: ClassVar[tuple[float, float]] = (-inf, inf)
    reward_rule: ClassVar[str] = "a finite number"

    def __post_init__(self) -> None:
        object.__setattr__(self, "std", check_real("std", self.std, above=0.0))

    def contains(self, means: RealArray) -> BoolArray:
        """Return whether the mean is finite."""
        return np.isfinite(means)

    def sample(self, means: RealArray, uniforms: RealArray) -> FloatArray:
        """Return mean + std * z, with z the standard normal quantile."""
        return np.add(means, self.std * special.ndtri(inner_uniforms(uniforms)))

    def log_likelihood(self, means: RealArray, counts: RealArray, sums: RealArray) -> FloatArray:
        """Return -n (mean - s / n)^2 / (2 std^2).

        The square is completed because n mean^2 - 2 s mean would cancel for large n.
        """
        is_inside = self.contains(means)
        safe_means = np.where(is_inside, means, 0.0)
        averages = np.divide(sums, np.maximum(counts, 1))
        with np.errstate(over="ignore"):  # an overflow to -inf is right
            value = -0.5 * np.multiply(counts, np.square((averages - safe_means) / self.std))
        return np.where(is_inside, value, -inf)

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return `std`, in the shape of `means`."""
        return np.full(np.shape(means), self.std)

    def is_possible(self, rewards: RealArray) -> BoolArray:
        """Return whether the reward is finite."""
        return np.isfinite(rewards)

    def is_possible_sum(self, counts: RealArray, sums: RealArray) -> BoolArray:
        """Return whether the sum is finite, and 0 where there are no rewards."""
        return np.isfinite(sums) & _is_zero_if_empty(counts, sums)

    def to_dict(self) -> dict[str, Any]:
        """Return {"name": "gaussian", "std": ...}."""
        return {"name": self.name, "std": self.std}


@dataclass(frozen=True)
class Poisson:
    """Poisson reward: a count with the given mean."""

    name: ClassVar[str] = "poisson"
    support: ClassVar[tuple[float, float]] = (0.0, inf)
    reward_rule: ClassVar[str] = "an integer of at least 0"

    def contains(self, means: RealArray) -> BoolArray:
        """Return whether 0 <= mean < infinity."""
        values = np.asarray(means, dtype=np.float64)
        return (values >= 0.0) & (values < inf)

    def sample(self, means: RealArray, uniforms: RealArray) -> FloatArray:
        """Return the smallest count whose distribution function exceeds the uniform."""
        return poisson_quantile(means, inner_uniforms(uniforms))

    def log_likelihood(self, means: RealArray, counts: RealArray, sums: RealArray) -> FloatArray:
        """Return s log(mean) - n mean."""
        is_inside = self.contains(means)
        safe_means = np.where(is_inside, means, 1.0)
        totals = np.asarray(sums, dtype=np.float64)
        with np.errstate(over="ignore"):  # an overflow to -inf is right
            value = special.xlogy(totals, safe_means) - np.multiply(counts, safe_means)
        return np.where(is_inside, value, -inf)

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return sqrt(mean)."""
        return np.sqrt(np.asarray(means, dtype=np.float64))

    def is_possible(self, rewards: RealArray) -> BoolArray:
        """Return whether the reward is a whole number of at least 0."""
        values = np.asarray(rewards, dtype=np.float64)
        is_possible: BoolArray = (values >= 0.0) & (values < inf) & (values == np.floor(values))
        return is_possible

    def is_possible_sum(self, counts: RealArray, sums: RealArray) -> BoolArray:
        """Return whether the sum is a possible reward, and 0 where there are no rewards."""
        return self.is_possible(sums) & _is_zero_if_empty(counts, sums)

    def to_dict(self) -> dict[str, Any]:
        """Return {"name": "poisson"}."""
        return {"name": self.name}


LIKELIHOODS: dict[str, type[Bernoulli | Exponential | Gaussian | Poisson]] = {
    likelihood.name: likelihood for likelihood in (Bernoulli, Exponential, Gaussian, Poisson)
}


def likelihood_from_dict(settings: Mapping[str, Any]) -> Likelihood:
    """Make the likelihood that a dict such as `{"name": "gaussian", "std": 1.0}` describes.

    Raises:
        TypeError: if a value is of the wrong kind.
        ValueError: if the name or a key is unknown, or a value is out of range.
    """
    check_has_name("likelihood", settings)
    cls = LIKELIHOODS[check_choice("likelihood name", settings["name"], LIKELIHOODS)]
    keys = [field.name for field in fields(cls)]
    check_keys("likelihood", settings, required=["name"], optional=keys)
    return cls(**{key: settings[key] for key in keys if key in settings})


def inner_uniforms(uniforms: RealArray) -> FloatArray:
    """Return the uniforms with 0, which stands for all of [0, 2^-53), moved to its cell's middle.

    Quantiles of laws without a lowest value are infinite at 0, or far below all that ever occurs.
    """
    return np.maximum(uniforms, 2.0**-54)


def _is_zero_if_empty(counts: RealArray, sums: RealArray) -> BoolArray:
    return np.not_equal(counts, 0) | np.equal(sums, 0.0)
