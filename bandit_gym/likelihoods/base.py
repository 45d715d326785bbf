"""A likelihood is a natural exponential family of rewards with its mean as parameter."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from bandit_gym.checks.typing import BoolArray, FloatArray, RealArray

_LARGEST = float(np.finfo(np.float64).max)
_STEP = 0.005
"""Of numerical derivatives, in units of what the derivative varies over."""


class Likelihood(ABC):
    """The law of a reward given its arm's mean x, in a natural exponential family.

    There log p(rewards | x) = s theta(x) - n A(x) + a term without x, where n is the number of
    rewards and s their sum. So an agent need remember only counts and sums. A subclass defines the
    abstract methods, `name` and `support`; the rest has defaults. Everything works elementwise and
    broadcasts. An element's result never depends on the others, so lanes may be batched in any way.

    Attributes:
        name: the name used in dicts and messages, e.g. "bernoulli".
        support: lowest and highest mean.
        reward_rule: what rewards are possible, in words that follow "must be".
        has_whole_rewards: whether all rewards are whole numbers, and therefore their sums.
        conjugate_prior: name of the conjugate prior, if it is a built-in one.
    """

    name: ClassVar[str]
    support: ClassVar[tuple[float, float]]
    reward_rule: ClassVar[str] = "possible"
    has_whole_rewards: ClassVar[bool] = False
    conjugate_prior: ClassVar[str | None] = None

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
        return (values >= max(low, -_LARGEST)) & (values <= min(high, _LARGEST))

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
        room = np.minimum(x - self.support[0], self.support[1] - x)
        std = np.ones(x.shape)
        with np.errstate(all="ignore"):
            for _ in range(2):
                std = 1 / np.sqrt(self._slope(x, np.where(np.isinf(room), std, room)))
        return np.where(room > 0, std, 0.0)

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
        near, far = theta(x + h) - theta(x - h), theta(x + 2 * h) - theta(x - 2 * h)
        return (8 * near - far) / (12 * h)


def inner_uniforms(uniforms: RealArray) -> FloatArray:
    """Return the uniforms with 0, which stands for all of [0, 2^-53), moved to its cell's middle.

    Quantiles of laws without a lowest value are infinite at 0, or far below all that ever occurs.
    """
    return np.maximum(uniforms, 2.0**-54)
