"""Likelihoods: the base class, all that come with the project, and their links to features.

A likelihood is a natural exponential family of rewards with its mean as parameter. Each built-in
distribution is drawn by inverse CDF from one uniform per pull, so that two agents that meet the
same uniforms meet the same noise for any arms they choose.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
import scipy

from bandit_gym.checks import (
    check_object,
    check_real,
    load_named,
    make_named,
    message,
    split_name,
)
from bandit_gym.checks.typing import BoolArray, FloatArray, RealArray
from bandit_gym.numerics.variates import (
    MAX_FLOAT,
    beta_quantile,
    poisson_quantile,
    standard_normal,
)

__all__ = [
    "LIKELIHOODS",
    "LINKS",
    "Bernoulli",
    "Exponential",
    "Gaussian",
    "Likelihood",
    "Link",
    "Poisson",
    "likelihood_from_dict",
    "make_likelihood",
]

Settings = Mapping[str, Any] | None

MAX_SQUARED = 1e150
"""Of rewards whose squares are added up."""

_STEP = 0.005
"""Of numerical derivatives, in units of what the derivative varies over."""


class Likelihood(ABC):
    """The distribution of a reward given its arm's mean x, in a natural exponential family.

    There log p(rewards | x) = s theta(x) - n A(x) + a term without x, where n is the number of
    rewards and s their sum. So an agent need remember only counts and sums. A subclass defines the
    abstract methods, `name` and `support`; the rest has defaults. Everything works elementwise and
    broadcasts. An element's result never depends on the others, so lanes may be batched in any way.

    Attributes:
        name: the name used in dicts and messages, e.g. "bernoulli".
        support: lowest and highest mean.
        reward_rule: what rewards are possible, in words that follow "must be".
        has_whole_rewards: whether all rewards are whole numbers, and therefore their sums.
        needs_squares: whether the deviation of rewards is unknown beside the mean, so that agents
            also need the squares of rewards.
        default_prior: settings of the prior of environments that are given none, if there is one.
    """

    name: ClassVar[str]
    support: ClassVar[tuple[float, float]]
    reward_rule: ClassVar[str] = "possible"
    has_whole_rewards: ClassVar[bool] = False
    needs_squares: ClassVar[bool] = False
    default_prior: ClassVar[Settings] = None

    @abstractmethod
    def is_possible(self, rewards: RealArray) -> BoolArray:
        """Return which rewards can occur under some mean; NaN and infinity never can."""

    @abstractmethod
    def log_likelihood(self, means: RealArray, counts: RealArray, sums: RealArray) -> FloatArray:
        """Return the log-likelihood of `counts` rewards that add up to `sums`.

        Terms without the mean are left out; the formula holds for any real `sums` between
        `counts * support`. Minus infinity where `contains(means)` is False, NaN included, or where
        these rewards are impossible under the mean; 0 * log(0) counts as 0.
        """

    @abstractmethod
    def sample(self, means: RealArray, uniforms: RealArray) -> FloatArray:
        """Return the rewards at quantiles `uniforms`, nondecreasing in both arguments.

        Args:
            means: possible means, broadcast against `uniforms`.
            uniforms: values in [0, 1), multiples of 2^-53 as `Generator.random` makes them.
        """

    def contains(self, means: RealArray) -> BoolArray:
        """Return which means are possible: the finite ones from end to end of `support`."""
        values, (low, high) = np.asarray(means, dtype=np.float64), self.support
        return (values >= max(low, -MAX_FLOAT)) & (values <= min(high, MAX_FLOAT))

    def _where_possible(self, means: RealArray, log_likelihood: FloatArray) -> FloatArray:
        """Return the log-likelihoods, -inf under impossible means; hardly ever is there one."""
        is_possible = self.contains(means)
        return log_likelihood if is_possible.all() else np.where(is_possible, log_likelihood, -inf)

    def is_possible_sum(self, counts: RealArray, sums: RealArray) -> BoolArray:
        """Return where `counts` possible rewards can add up to `sums`.

        By default where the sum is finite, whole if rewards are, and its average within `support`.
        """
        totals, (low, high) = np.asarray(sums, dtype=np.float64), self.support
        averages = totals / np.maximum(counts, 1)
        is_possible = np.isfinite(totals) & (averages >= low) & (averages <= high)
        if self.has_whole_rewards:
            is_possible &= totals == np.floor(totals)
        return np.where(np.equal(counts, 0), totals == 0, is_possible)

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return the standard deviation of one reward, in reward units.

        By default it is the root of V(x) = 1 / theta'(x), differentiated numerically. The step is a
        small part of the distance to the nearest end of the support, or of the standard deviation
        where there is no end. At an end every reward equals the mean.
        """
        x = np.asarray(means, dtype=np.float64)
        end_distance = np.minimum(x - self.support[0], self.support[1] - x)
        std = np.ones(x.shape)
        with np.errstate(all="ignore"):
            for _ in range(2):
                width = np.where(np.isinf(end_distance), std, end_distance)
                std = 1 / np.sqrt(self._slope(x, width))
        return np.where(end_distance > 0, std, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, from which `likelihood_from_dict` makes an equal one.

        For your own likelihood the dict only describes it: `likelihood_from_dict` cannot rebuild
        it.
        """
        return {"name": self.name, **vars(self)}

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({parameters})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def _slope(self, x: FloatArray, width: FloatArray) -> FloatArray:
        """Return theta'(x) by a five-point rule; theta(y) is what the sum of rewards multiplies."""

        def theta(y: FloatArray) -> FloatArray:
            above, below = (self.log_likelihood(y, 1, x + s * width) for s in (0.5, -0.5))
            return (above - below) / width

        h = _STEP * width
        inner_difference = theta(x + h) - theta(x - h)
        outer_difference = theta(x + 2 * h) - theta(x - 2 * h)
        return (8 * inner_difference - outer_difference) / (12 * h)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Bernoulli(Likelihood):
    """Reward 1 with probability `mean`, otherwise 0; or a fraction of success, if graded.

    A graded reward r in [0, 1] counts as r successes and 1 - r failures, by the same likelihood of
    counts and sums. That is not the density of such rewards, and the posterior is a quasi-posterior
    (Wedderburn 1974): it centres on the mean of rewards of any distribution, but its width is that
    of rewards of 0 or 1, the most that rewards in [0, 1] can vary. With rewards that vary less it
    is too wide, and an agent explores more than it need. Environments pay rewards of
    Beta(concentration * mean, concentration * (1 - mean)), whose variance is that of 0 and 1
    divided by concentration + 1. What plans on the next reward being 0 or 1, such as a Gittins
    index, refuses graded rewards; so does `fit_prior`.

    Args:
        graded: whether rewards are fractions of success in [0, 1].
        concentration: > 0, of the graded rewards that environments pay; None is 10. Agents do not
            use it.

    References:
        Wedderburn (1974), "Quasi-likelihood functions, generalized linear models, and the
        Gauss-Newton method"; Papke and Wooldridge (1996) for fractions.
    """

    graded: ClassVar[bool] = False
    concentration: ClassVar[float]

    name: ClassVar[str] = "bernoulli"
    support: ClassVar[tuple[float, float]] = (0.0, 1.0)
    default_prior: ClassVar[Settings] = {"name": "beta", "alpha": 1.0, "beta": 1.0}

    def __init__(self, *, graded: bool = False, concentration: float | None = None) -> None:
        if not isinstance(graded, bool):
            raise TypeError(message("graded", "be True or False", graded))
        if graded:  # only then: rewards of 0 or 1 have no parameters, in dicts as well
            given = 10.0 if concentration is None else concentration
            known = check_real("concentration", given, above=0.0)
            vars(self).update(graded=True, concentration=known)
        elif concentration is not None:
            raise ValueError(message("concentration", "be None without graded=True", concentration))

    @property
    def reward_rule(self) -> str:  # type: ignore[override]  # of this object
        """What rewards are possible, in words that follow "must be"."""
        return "a number from 0 to 1" if self.graded else "0 or 1"

    @property
    def has_whole_rewards(self) -> bool:  # type: ignore[override]
        """Whether all rewards are whole numbers."""
        return not self.graded

    def is_possible(self, rewards: RealArray) -> BoolArray:
        """Return whether the reward is 0 or 1, or between them if graded."""
        if self.graded:
            values = np.asarray(rewards, dtype=np.float64)
            return (values >= 0.0) & (values <= 1.0)
        return (rewards == 0.0) | (rewards == 1.0)  # type: ignore[return-value]  # or a bool

    def log_likelihood(self, means: RealArray, counts: RealArray, sums: RealArray) -> FloatArray:
        """Return s log(mean) + (n - s) log(1 - mean)."""
        value = scipy.special.xlog1py(np.subtract(counts, sums), np.negative(means))
        value += scipy.special.xlogy(sums, means)
        return self._where_possible(means, value)

    def sample(self, means: RealArray, uniforms: RealArray) -> FloatArray:
        """Return 1 where 1 - uniform <= mean (1 - uniform is exact, 1 - mean is not).

        Graded rewards are the quantiles of their Beta distribution; at the means 0 and 1, the mean.
        """
        if self.graded:
            inside = np.clip(means, 1e-300, 1 - 2.0**-53)
            first, second = self.concentration * inside, self.concentration * (1 - inside)
            rewards = np.clip(beta_quantile(first, second, uniforms), 0.0, 1.0)
            return np.where(inside == means, rewards, means)
        return (np.subtract(1.0, uniforms) <= means).astype(np.float64)

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return sqrt(mean (1 - mean)); graded rewards have at most that, which agents assume."""
        return np.sqrt(np.multiply(means, np.subtract(1.0, means)))


@dataclass(frozen=True)
class Exponential(Likelihood):
    """Exponential reward, given by its mean (the scale, not the rate)."""

    name: ClassVar[str] = "exponential"
    support: ClassVar[tuple[float, float]] = (0.0, inf)
    reward_rule: ClassVar[str] = "a finite number of at least 0"
    default_prior: ClassVar[Settings] = {"name": "inverse_gamma", "shape": 3.0, "scale": 2.0}

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
        return self._where_possible(means, value)

    def sample(self, means: RealArray, uniforms: RealArray) -> FloatArray:
        """Return -mean log(1 - uniform)."""
        # scipy's log1p, not NumPy's: the latter may round differently in long and in short arrays.
        return np.multiply(means, -scipy.special.log1p(np.negative(uniforms)))

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return the mean: an exponential's standard deviation is its mean."""
        return np.array(means, dtype=np.float64)


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """Normal reward, with a standard deviation that is known or not.

    An unknown one needs a `NormalInverseGamma` prior, of mean and deviation. Each arm then has its
    own; arms with features share one.

    Args:
        std: observation standard deviation, > 0, in reward units; None if it is not known.
    """

    std: float | None = 1.0

    name: ClassVar[str] = "gaussian"
    support: ClassVar[tuple[float, float]] = (-inf, inf)

    def __post_init__(self) -> None:
        if self.std is not None:
            object.__setattr__(self, "std", check_real("std", self.std, above=0.0))

    @property
    def needs_squares(self) -> bool:  # type: ignore[override]  # of this object
        """Whether the deviation is unknown."""
        return self.std is None

    @property
    def reward_rule(self) -> str:  # type: ignore[override]
        """What rewards are possible, in words that follow "must be"."""
        limits = f"from -{MAX_SQUARED:g} to {MAX_SQUARED:g}"
        return f"a number {limits}" if self.needs_squares else "a finite number"

    @property
    def default_prior(self) -> Settings:  # type: ignore[override]
        """Settings of the prior of environments that are given none: means of variance 1."""
        if self.needs_squares:
            variance = {"shape": 3.0, "scale": 2.0}
            return {"name": "normal_inverse_gamma", "mean": 0.0, "precision": 1.0, **variance}
        return {"name": "normal", "mean": 0.0, "std": 1.0}

    @property
    def known_std(self) -> float:
        """The standard deviation; refused in words where it is unknown."""
        if self.std is None:
            condition = "have a known std where its density is asked for"
            raise ValueError(message("likelihood", condition, self))
        return self.std

    def is_possible(self, rewards: RealArray) -> BoolArray:
        """Return whether the reward is finite, and its square too if std is unknown."""
        if self.needs_squares:
            return np.abs(rewards) <= MAX_SQUARED
        return np.isfinite(rewards)

    def log_likelihood(self, means: RealArray, counts: RealArray, sums: RealArray) -> FloatArray:
        """Return -n (mean - s / n)^2 / (2 std^2).

        The square is completed because n mean^2 - 2 s mean would cancel for large n.
        """
        with np.errstate(all="ignore"):  # an overflow to -inf is right, and outside all is
            averages = np.divide(sums, np.where(np.equal(counts, 0), 1, counts))  # may fade below 1
            value = -0.5 * np.multiply(counts, np.square((averages - means) / self.known_std))
        return self._where_possible(means, value)

    def sample(
        self, means: RealArray, uniforms: RealArray, stds: RealArray | None = None
    ) -> FloatArray:
        """Return mean + std * z, with z the standard normal quantile.

        Args:
            means: of the rewards.
            uniforms: see `Likelihood.sample`.
            stds: deviations of the rewards where `std` is None.
        """
        return np.add(means, (self.known_std if stds is None else stds) * standard_normal(uniforms))

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return `std`, in the shape of `means`."""
        return np.full(np.shape(means), self.known_std)


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Poisson reward: a count with the given mean."""

    name: ClassVar[str] = "poisson"
    support: ClassVar[tuple[float, float]] = (0.0, inf)
    reward_rule: ClassVar[str] = "an integer of at least 0"
    has_whole_rewards: ClassVar[bool] = True
    default_prior: ClassVar[Settings] = {"name": "gamma", "shape": 2.0, "rate": 1.0}

    def is_possible(self, rewards: RealArray) -> BoolArray:
        """Return whether the reward is a whole number of at least 0."""
        values = np.asarray(rewards, dtype=np.float64)
        return (values >= 0.0) & (values < inf) & (values == np.floor(values))

    def log_likelihood(self, means: RealArray, counts: RealArray, sums: RealArray) -> FloatArray:
        """Return s log(mean) - n mean."""
        with np.errstate(all="ignore"):  # an overflow to -inf is right, and outside all is
            value = scipy.special.xlogy(sums, means) - np.multiply(counts, means)
        return self._where_possible(means, value)

    def sample(self, means: RealArray, uniforms: RealArray) -> FloatArray:
        """Return the smallest count whose distribution function exceeds the uniform."""
        return poisson_quantile(means, uniforms)

    def reward_std(self, means: RealArray) -> FloatArray:
        """Return sqrt(mean)."""
        return np.sqrt(np.asarray(means, dtype=np.float64))


def is_binary(likelihood: Likelihood) -> bool:
    """Say whether every reward is 0 or 1, so that counts are all that can ever be known."""
    return isinstance(likelihood, Bernoulli) and not likelihood.graded


BUILT_IN: tuple[type[Likelihood], ...] = (Bernoulli, Exponential, Gaussian, Poisson)
LIKELIHOODS = {likelihood.name: likelihood for likelihood in BUILT_IN}

MAX_LOG_MEAN = 700.0
"""Of a linear predictor under the log link: e^eta overflows at 709."""

LinkFormula = Callable[[FloatArray, RealArray, RealArray, float], FloatArray]
"""Of linear predictors, counts n, sums s, and the std of Gaussian noise."""


@dataclass(frozen=True)
class Link:
    """How a mean follows from a linear predictor, for rewards with features; all is elementwise.

    The mean of arm a is g^-1(eta) with eta = x_a . theta, where x_a are the arm's features and
    theta the coefficients: a generalised linear model.

    ===========  ========  ================  ====================================
    likelihood   link      mean              log-likelihood of n rewards of sum s
    ===========  ========  ================  ====================================
    bernoulli    logit     1 / (1 + e^-eta)  s eta - n log(1 + e^eta)
    gaussian     identity  eta               -n (s / n - eta)^2 / (2 std^2)
    poisson      log       e^eta             s eta - n e^eta
    exponential  log       e^eta             -n eta - s e^-eta
    ===========  ========  ================  ====================================

    Terms without eta are left out. All but the last are canonical.

    Attributes:
        name: "logit", "identity" or "log".
        mean: of a reward, given linear predictors eta.
        log_likelihood: of n rewards of sum s, given eta and the std of Gaussian noise.

    References:
        McCullagh and Nelder (1989), "Generalized Linear Models", chapter 2.
    """

    name: str
    mean: Callable[[FloatArray], FloatArray]
    log_likelihood: LinkFormula


def _mean_of_log(eta: FloatArray) -> FloatArray:
    return np.exp(np.clip(eta, -MAX_LOG_MEAN, MAX_LOG_MEAN))


def _softplus(eta: FloatArray) -> FloatArray:
    """Return log(1 + e^eta), for a fourth of the cost of `logaddexp`."""
    return np.asarray(np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))))


def _gaussian(eta: FloatArray, n: RealArray, s: RealArray, std: float) -> FloatArray:
    """Complete the square, because n eta^2 - 2 s eta would cancel for large n."""
    averages = np.divide(s, np.where(np.equal(n, 0), 1, n))  # n may be a fraction
    return np.asarray(-0.5 * n * np.square((averages - eta) / std))


LINKS: Mapping[type[Likelihood], Link] = {
    Bernoulli: Link(
        "logit", scipy.special.expit, lambda eta, n, s, _: s * eta - n * _softplus(eta)
    ),
    Gaussian: Link("identity", lambda eta: np.asarray(eta, dtype=np.float64), _gaussian),
    Poisson: Link("log", _mean_of_log, lambda eta, n, s, _: s * eta - n * _mean_of_log(eta)),
    Exponential: Link("log", _mean_of_log, lambda eta, n, s, _: -n * eta - s * _mean_of_log(-eta)),
}
"""The link of each likelihood that takes features."""


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
    described = {"name": settings} if isinstance(settings, str) else settings
    name, _ = split_name("likelihood", described)
    makers = dict(LIKELIHOODS)
    if isinstance(name, str) and ":" in name:
        makers[name] = load_named("likelihood", name)
    made = make_named("likelihood", described, makers)
    return check_object(f"likelihood {name}", made, Likelihood)  # type: ignore[type-abstract]
