"""Arms that are independent under a prior that does not say so: found out, and taken apart.

A joint density is a product over arms exactly if all mixed differences of its logarithm vanish:

    l(a) + l(b) - l(a', b) - l(b', a) = 0,

where two vectors of means exchange the means of any set of arms. It is then the product of its
slices through one point, along each arm in turn.

Letters: K arms, M draws from the prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.random import Generator

from bandit_gym.priors import Prior
from bandit_gym.problem import BanditProblem

ROUNDING = 1e-10
"""Of a difference that vanishes, in sizes of the logarithms that it is made of."""

NUM_TWIN_POINTS = 100
"""At which the slices of two arms are compared."""


@dataclass(frozen=True, eq=False)
class SlicedPrior:
    """A prior that is the product of its slices, and says what they are.

    Args:
        prior: to take apart.
        point: (K,) means that the slices pass through, where the density is positive.
        ends: (K, 2) lowest and highest mean of each arm.
        means: (M,) of any arms, at which slices are compared.
    """

    prior: Prior
    point: np.ndarray
    ends: np.ndarray
    means: np.ndarray

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draw means of the given shape."""
        return self.prior.sample(rng, shape)

    def log_density(self, means: np.ndarray) -> np.ndarray:
        """Return the (...) log-density of (..., K) means."""
        return self.prior.log_density(means)

    def arm_support(self, num_arms: int) -> np.ndarray:
        """Return the (K, 2) lowest and highest mean of each arm."""
        return self.ends

    def arm_log_density(self, means: np.ndarray) -> np.ndarray:
        """Return the (..., K) log-densities of each arm, up to constants."""
        rows = means.reshape(-1, len(self.point))
        columns = [self._slice(self._twins[arm], x) for arm, x in enumerate(rows.T)]
        return np.column_stack(columns).reshape(means.shape)

    def is_product(self, means: np.ndarray) -> np.ndarray:
        """Return (M,) True where (M, K) means may be exchanged with the point's to no effect."""
        return exchange(self.prior, means, np.broadcast_to(self.point, means.shape))

    @cached_property
    def _twins(self) -> np.ndarray:
        """The (K,) first arms with the same slice, which is looked up once for all of them."""
        values = np.array([self._slice(arm, self.means) for arm in range(len(self.point))])
        values -= values.max(axis=1, keepdims=True)  # each is known up to a constant
        with np.errstate(invalid="ignore"):
            gaps = abs(values[:, None] - values)
            is_same = (values[:, None] == values) | (gaps <= ROUNDING * (1 + abs(values)))
        is_same &= (self.ends[:, None] == self.ends).all(axis=-1, keepdims=True)
        return is_same.all(axis=-1).argmax(axis=1)

    def _slice(self, arm: int, x: np.ndarray) -> np.ndarray:
        """Return the log-density of one arm at (M,) means; once, where they are all the same."""
        is_constant = len(x) > 0 and (x == x[0]).all()
        means = np.tile(self.point, (1 if is_constant else len(x), 1))
        means[:, arm] = x[: len(means)]
        return np.broadcast_to(self.prior.log_density(means), x.shape)


def take_apart(problem: BanditProblem, draws: np.ndarray) -> BanditProblem:
    """Return the problem with its prior as the product of its slices, or as it is if it is none.

    Args:
        problem: likelihood and prior.
        draws: (M, K) from the prior, of which pairs exchange the means of random sets of arms.
    """
    half = len(draws) // 2
    first, second = draws[:half], draws[half : 2 * half]
    if not exchange(problem.prior, first, second).all():
        return problem
    point = first[np.argmax(problem.prior.log_density(first))]
    some = draws.ravel()[:NUM_TWIN_POINTS]
    return replace(problem, prior=SlicedPrior(problem.prior, point, problem.arm_support(), some))


def exchange(prior: Prior, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return (M,) True where two of (M, K) means have no mixed difference, to rounding.

    Each pair exchanges a random set of arms, which of two arms is one of them half the time. What
    the prior excludes must stay excluded.
    """
    is_moved = np.random.default_rng(0).random(first.shape) < 0.5
    swapped = np.where(is_moved, second, first), np.where(is_moved, first, second)
    with np.errstate(invalid="ignore"):
        terms = np.array([prior.log_density(means) for means in (first, second, *swapped)])
        differences = abs(terms[0] + terms[1] - terms[2] - terms[3])
    sizes = 1 + abs(terms).sum(axis=0)
    is_impossible = np.isneginf(terms[:2]).any(axis=0) & np.isneginf(terms[2:]).any(axis=0)
    return np.asarray((np.isfinite(sizes) & (differences <= ROUNDING * sizes)) | is_impossible)
