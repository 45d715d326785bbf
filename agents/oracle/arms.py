"""Posteriors of arms that are independent a priori, as log-densities along one line.

Notation: K arms, S draws, M points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from agents.oracle.line import Line, make_line
from bandit_gym.checks.typing import FloatArray
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem

NUM_ORACLE_DRAWS, MIN_ORACLE_DRAWS = 1 << 14, 64
"""Of the prior in all, and of each distribution that it is a mixture of."""


@dataclass(frozen=True, eq=False)
class Arms:
    """What is known of the arms before any data.

    Attributes:
        problem: likelihood, and a prior with `arm_log_density`.
    """

    problem: BanditProblem

    @cached_property
    def is_smooth(self) -> bool:
        """Whether densities are exponentials of five smooth features, for any data.

        Such a density has one mode, or one at either end, and nothing that hides.
        """
        has_features = type(self.problem.likelihood) in (Bernoulli, Exponential, Gaussian, Poisson)
        return self.problem.offers("natural_parameters") and has_features

    @cached_property
    def support(self) -> FloatArray:
        """(K, 2) interval of each arm's mean."""
        return self.problem.arm_support()

    @cached_property
    def draws(self) -> FloatArray:
        """(S, K) prior draws, sorted per arm, which show where the prior has its modes.

        A mixture shows each of its distributions, however rare. The generator is fixed so that the
        probabilities are a function of the problem and data.
        """
        parts, rng = find_components(self.problem.prior), make_generator("draws of the oracle")
        num_draws = MIN_ORACLE_DRAWS if self.is_smooth else NUM_ORACLE_DRAWS // len(parts)
        shape = (max(num_draws, MIN_ORACLE_DRAWS), self.problem.num_arms)
        draws = np.concatenate([part.sample(rng, shape) for part in parts])
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

    def shared_log_density(self, u: FloatArray) -> FloatArray:
        """Return the (M, K) log-densities of the coordinate at (M,) values of it."""
        return self.coordinate_log_density(np.repeat(u[:, None], len(self.counts), axis=1))

    def coordinate_log_density(self, u: FloatArray) -> FloatArray:
        """Return the (M, K) log-densities of the coordinate at (M, K) values of it.

        Beyond its limits, where distances to an end have no digits left, they go on as straight
        lines: the distribution of a density that is a power of the distance.
        """
        line = self.arms.line
        values = self._log_density_of_coordinate(line.means(np.clip(u, *line.limits)))
        for is_beyond, end in zip(
            (u < line.limits[0], u > line.limits[1]), self._ends, strict=True
        ):
            if is_beyond.any():
                with np.errstate(over="ignore"):
                    straight = end.values[0] + end.slopes[0] * (u - end.u[0])
                values = np.where(is_beyond, straight, values)
        return values

    def slope_changes(self) -> FloatArray:
        """Return (2, K) shares by which slopes still change in a unit of u before either limit."""
        slopes = np.array([end.slopes for end in self._ends])
        last, change = slopes[:, 0], np.abs(slopes[:, 1] - slopes[:, 0])
        return np.divide(change, np.abs(last), out=np.zeros_like(last), where=last != 0)

    @cached_property
    def _ends(self) -> tuple[_End, _End]:
        first, last = self.arms.line.limits
        return self._make_end(first, 1.0), self._make_end(last, -1.0)

    def _make_end(self, limit: float, step: float) -> _End:
        line = self.arms.line
        means = line.means(limit + step * np.arange(3.0))
        u = line.exact_positions(means)
        values = self._log_density_of_coordinate(
            np.repeat(means[:, None], len(self.counts), axis=1)
        )
        with np.errstate(invalid="ignore"):
            slopes = np.diff(values, axis=0) / np.diff(u)[:, None]
        return _End(u, values, np.where(np.isfinite(slopes), slopes, 0.0))

    def _log_density_of_coordinate(self, means: FloatArray) -> FloatArray:
        """Return the log-densities of u at (M, K) means.

        The slope of the line is that where the rounded mean lies: near an end that makes a
        difference, but hardly any to the density of u.
        """
        line = self.arms.line
        return self.log_density(means) + line.log_slope(line.exact_positions(means))


class _End(NamedTuple):
    """Log-densities at one limit of the line, and one and two units before it.

    Attributes:
        u: (3,) places, where rounded means lie.
        values: (3, K) log-densities of u.
        slopes: (2, K) between them, 0 where there is no density.
    """

    u: FloatArray
    values: FloatArray
    slopes: FloatArray


def find_components(prior: Any) -> list[Any]:
    """Return the distributions that a prior is a mixture of: itself alone where it is none."""
    parts = getattr(prior, "components", None)
    if isinstance(parts, tuple) and all(hasattr(part, "sample") for part in parts):
        return [part for each in parts for part in find_components(each)]
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
