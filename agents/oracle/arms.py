"""Posteriors of arms that are independent a priori, as log-densities along one line.

Letters: K arms, S draws, M points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from agents.oracle.line import Line, make_line
from agents.posteriors.conjugate import has_row
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

NUM_DRAWS, FEWEST_DRAWS = 1 << 14, 64
"""Of the prior in all, and of each law that it is a mixture of."""


@dataclass(frozen=True, eq=False)
class Arms:
    """What is known of the arms before any data.

    Attributes:
        problem: likelihood, and a prior with `arm_log_density`.
    """

    problem: BanditProblem

    @cached_property
    def is_smooth(self) -> bool:
        """Whether densities are exponentials of five smooth features, whatever the data.

        Such a density has one bulk, or one at either end, and nothing that hides.
        """
        return self.problem.offers("natural_parameters") and has_row(self.problem.likelihood)

    @cached_property
    def support(self) -> FloatArray:
        """(K, 2) interval of each arm's mean."""
        return self.problem.arm_support()

    @cached_property
    def draws(self) -> FloatArray:
        """(S, K) prior draws, sorted per arm, which show where the prior has its bulks.

        A mixture shows each of its laws, however rare. The generator is fixed so that the
        probabilities are a function of the problem and data.
        """
        laws, rng = components(self.problem.prior), np.random.default_rng(0)
        num_draws = FEWEST_DRAWS if self.is_smooth else NUM_DRAWS // len(laws)
        shape = (max(num_draws, FEWEST_DRAWS), self.problem.num_arms)
        draws = np.concatenate([law.sample(rng, shape) for law in laws])
        return np.sort(np.clip(draws, *self.support.T), axis=0)

    @cached_property
    def line(self) -> Line:
        """The coordinate shared by all arms."""
        return make_line(self.support, self.draws)

    def log_prior(self, means: FloatArray) -> FloatArray:
        """Return the log-density of each arm at (M, K) means, -inf outside its support."""
        prior: Any = self.problem.prior
        with np.errstate(all="ignore"):
            values = np.asarray(prior.arm_log_density(means), dtype=np.float64)
        is_inside = (means >= self.support[:, 0]) & (means <= self.support[:, 1])
        values = np.where(is_inside, values, -np.inf)
        require_density("problem.prior.arm_log_density", values, means)
        return values


@dataclass(frozen=True, eq=False)
class ArmPosteriors:
    """One-dimensional posteriors of the arms.

    Attributes:
        arms: what is known before any data.
        counts: (K,) pulls.
        sums: (K,) total rewards.
    """

    arms: Arms
    counts: FloatArray
    sums: FloatArray

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the (M, K) log-densities, up to a constant per arm, at (M, K) means."""
        prior, likelihood = self.arms.log_prior(means), self.arms.problem.likelihood
        with np.errstate(all="ignore"):
            data = likelihood.log_likelihood(means, self.counts, self.sums)
            # No data say nothing, even at means whose squares overflow.
            values = np.where((prior == -np.inf) | (self.counts == 0), prior, prior + data)
        require_density("the log-density of a posterior", values, means)
        return values

    def along(self, u: FloatArray) -> FloatArray:
        """Return the (M, K) log-densities of the coordinate at (M,) values of it."""
        return self.log_density_along(np.repeat(u[:, None], len(self.counts), axis=1))

    def log_density_along(self, u: FloatArray) -> FloatArray:
        """Return the (M, K) log-densities of the coordinate at (M, K) values of it.

        Beyond its limits, where distances to an end have no digits left, they go on as straight
        lines: the law of a density that is a power of the distance.
        """
        inside = np.clip(u, *self.arms.line.limits)
        values = self._inside(inside)
        beyond = u - inside
        if beyond.any():
            with np.errstate(over="ignore"):
                values += np.where(beyond < 0, self._slopes[0], self._slopes[1]) * beyond
        return values

    @cached_property
    def _slopes(self) -> FloatArray:
        """(2, K) slopes of the log-densities at either limit, 0 where there is no density."""
        first, last = self.arms.line.limits
        ends = np.array([[first, first + 1.0], [last - 1.0, last]])
        u = np.repeat(self._rounded(ends).reshape(4, 1), len(self.counts), axis=1)
        values = self._inside(u).reshape(2, 2, -1)
        with np.errstate(invalid="ignore"):
            slopes = (values[:, 1] - values[:, 0]) / np.diff(u[:, 0].reshape(2, 2), axis=1)
        return np.where(np.isfinite(slopes), slopes, 0.0)

    def _inside(self, u: FloatArray) -> FloatArray:
        means = self.arms.line.means(u)
        # The slope is that where the rounded mean lies: near an end that is seen in the density.
        return self.log_density(means) + self.arms.line.log_slope(self.arms.line.positions(means))

    def _rounded(self, u: FloatArray) -> FloatArray:
        return self.arms.line.positions(self.arms.line.means(u))


def components(prior: Any) -> list[Any]:
    """Return the laws that a prior is a mixture of: itself alone where it is none."""
    laws = getattr(prior, "components", None)
    if isinstance(laws, tuple) and all(hasattr(law, "sample") for law in laws):
        return [law for each in laws for law in components(each)]
    return [prior]


def require_density(name: str, values: FloatArray, means: FloatArray) -> None:
    """Refuse (M, K) log-densities that are NaN or infinite at some of (M, K) means."""
    is_bad = np.isnan(values) | (values == np.inf)
    if is_bad.any():
        row, arm = np.argwhere(is_bad)[0]
        raise ValueError(
            f"{name} must be a number or -inf, got {values[row, arm]} for arm {arm} at the mean "
            f"{means[row, arm]}."
        )
