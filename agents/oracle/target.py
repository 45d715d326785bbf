"""Posterior densities of coefficients and of means, for quadrature and for sampling.

Notation: K arms, d features, n distinct rows, M points, R rays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.random import Generator

from agents.oracle.arms import require_density
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.likelihoods import Gaussian
from bandit_gym.problem import BanditProblem, ContextualProblem

MAX_PREDICTORS = 1 << 18
"""That are held at once: 2 MB, which stay in the cache."""


@dataclass(frozen=True, eq=False)
class PosteriorTarget:
    """The posterior of all coefficients, or of a block that is independent of the others.

    Attributes:
        problem: likelihood and prior.
        rows: (n, d) features of the rewards.
        counts: (n,) rewards of each row.
        sums: (n,) total rewards, in reward units.
        chosen: (b,) coefficients of the block, all others being 0; None stands for all.
    """

    problem: ContextualProblem
    rows: FloatArray
    counts: FloatArray
    sums: FloatArray
    chosen: IntArray | None = None

    @property
    def num_coefficients(self) -> int:
        """How many coefficients the target has: d, or those of the block."""
        return self.rows.shape[1]

    def block(self, chosen: IntArray) -> PosteriorTarget:
        """Return the posterior of some coefficients, which must be independent of the others."""
        used = (self.rows[:, chosen] != 0).any(axis=1)
        rows = np.ascontiguousarray(self.rows[used][:, chosen])
        return PosteriorTarget(self.problem, rows, self.counts[used], self.sums[used], chosen)

    def compress(self) -> PosteriorTarget:
        """Return the target with d rows or fewer where rewards are Gaussian, otherwise itself.

        By QR of [X y], the squares of y - X theta add up to those of d rows and a constant.
        """
        if not isinstance(self.problem.likelihood, Gaussian) or not len(self.rows):
            return self
        roots = np.sqrt(self.counts)
        scaled = np.column_stack([self.rows * roots[:, None], self.sums / roots])
        kept = scipy.linalg.qr(scaled, mode="r")[0][: self.num_coefficients]
        return replace(self, rows=kept[:, :-1], counts=np.ones(len(kept)), sums=kept[:, -1])

    def sample_prior(self, rng: Generator, size: int) -> FloatArray:
        """Return (size, d) draws of the prior."""
        draws = self.problem.prior.sample(rng, (size, self.problem.num_features))
        return draws if self.chosen is None else draws[:, self.chosen]

    def log_prior(self, theta: FloatArray) -> FloatArray:
        """Return the (...) log-densities of (..., d) coefficients under the prior."""
        prior = self.problem.prior
        if self.chosen is None:
            return prior.log_density(theta)
        full = np.zeros((*theta.shape[:-1], self.problem.num_features))
        full[..., self.chosen] = theta
        return np.asarray(prior.arm_log_density(full)[..., self.chosen].sum(axis=-1))  # type: ignore[attr-defined]

    def log_likelihood(self, predictors: FloatArray) -> FloatArray:
        """Return the (...) log-likelihoods of (..., n) linear predictors."""
        std = getattr(self.problem.likelihood, "std", 1.0)
        terms = self.problem.link.log_likelihood(predictors, self.counts, self.sums, std)
        return np.asarray(terms.sum(axis=-1))

    def log_likelihoods(self, theta: FloatArray) -> FloatArray:
        """Return the (M,) log-likelihoods of (M, d) coefficients, a part of them at a time."""
        step = max(1, MAX_PREDICTORS // max(1, len(self.rows)))
        parts = [
            self.log_likelihood(theta[first : first + step] @ self.rows.T)
            for first in range(0, len(theta), step)
        ]
        return np.concatenate(parts)

    def log_density(self, theta: FloatArray, power: float = 1.0) -> FloatArray:
        """Return (M,) log-densities of (M, d) coefficients, the likelihood raised to a power."""
        return self.log_prior(theta) + power * self.log_likelihoods(theta)

    def log_density_on_rays(self, rays: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return the log of r^d f(r p), the density of log r along (R, d) rays p."""
        slopes = rays @ self.rows.T

        def density(log_radius: FloatArray) -> FloatArray:
            radius = np.exp(log_radius)
            theta = radius[..., None] * rays[:, None]
            parts = self.log_prior(theta) + self.log_likelihood(radius[..., None] * slopes[:, None])
            return parts + self.num_coefficients * log_radius

        return density


@dataclass(frozen=True, eq=False)
class MeansTarget:
    """The joint posterior of the means of all arms.

    Attributes:
        problem: likelihood and prior.
        counts: (K,) pulls.
        sums: (K,) total rewards, in reward units.
    """

    problem: BanditProblem
    counts: FloatArray
    sums: FloatArray

    def sample_prior(self, rng: Generator, size: int) -> FloatArray:
        """Return (size, K) draws of the prior."""
        return self.problem.prior.sample(rng, (size, self.problem.num_arms))

    def log_likelihoods(self, means: FloatArray) -> FloatArray:
        """Return the (M,) log-likelihoods of (M, K) means."""
        with np.errstate(all="ignore"):
            values = self.problem.likelihood.log_likelihood(means, self.counts, self.sums)
        require_density("the log-likelihood", values, means)
        return np.asarray(values.sum(axis=1))

    def log_density(self, means: FloatArray, power: float = 1.0) -> FloatArray:
        """Return (M,) log-densities of (M, K) means, the likelihood raised to a power."""
        return self.problem.prior.log_density(means) + power * self.log_likelihoods(means)


Target = PosteriorTarget | MeansTarget
