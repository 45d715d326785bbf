"""Mean and deviation of Gaussian rewards, both unknown: Student's t posteriors of the means.

With s^2 ~ InverseGamma(a, b) and the mean given s ~ Normal(m, s / sqrt(k)), after n rewards of
sum S whose squares around their average add up to q,

    k_n = k + n,   m_n = (k m + S) / k_n,   a_n = a + n / 2,
    b_n = b + (q + k n / k_n (S / n - m)^2) / 2,

and the mean is m_n + sqrt(b_n / (a_n k_n)) T with T Student's t of 2 a_n degrees of freedom. So the
prior is worth k rewards of average m; `merge_squares` has the bracket.

Notation: K arms, N lanes.

References:
    Murphy (2007), "Conjugate Bayesian analysis of the Gaussian distribution", section 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import special

from agents.base.evidence import CountsAndSums, merge_squares
from agents.numerics.best_arm import Arms, integrate_best_arms
from agents.numerics.distributions import Distribution
from agents.posteriors.conjugate import ConjugatePosterior
from agents.posteriors.weighted_draws import WeightedDraws
from bandit_gym.priors.independent import stack_columns
from bandit_gym.problem import BanditProblem


class StudentPosterior(ConjugatePosterior):
    """Posteriors of K arm means, where each arm's deviation is unknown too.

    Arguments:
        problem: `Gaussian(std=None)` with a `NormalInverseGamma` prior.
    """

    takes_squares = True

    def __init__(self, problem: BanditProblem) -> None:
        self.problem, self.likelihood = problem, problem.likelihood
        prior: Any = problem.prior
        parameters = prior.mean, prior.precision, prior.shape, prior.scale
        self.prior = stack_columns(problem.num_arms, *parameters)  # (K, 4)
        self.evidence = CountsAndSums(problem.num_arms, keeps_squares=True)
        self.counts, self.buffer = self.evidence.counts, None

    @property
    def distribution(self) -> Distribution:  # type: ignore[override]  # of the present data
        """Of a mean, in its location and its scale."""
        return student_distribution(2 * self.prior[:, 2] + self.evidence.counts)

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Do nothing: the statistics are all there is."""

    def sample_with_stds(self, rng: Generator, size: int) -> np.ndarray:
        """Return (2, size, N, K) draws of the means and of the deviations of rewards."""
        x, w, _ = self._current_parameters()
        counts = self.evidence.counts
        shape, precision = self.prior[:, 2] + counts / 2, self.prior[:, 1] + counts
        stretches = np.sqrt(shape / rng.standard_gamma(shape, (size, *shape.shape)))
        means = x + w * stretches * rng.standard_normal(stretches.shape)
        return np.stack([means, w * np.sqrt(precision) * stretches])

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws of the means."""
        return np.asarray(self.sample_with_stds(rng, size)[0])

    def expected_loss(self) -> np.ndarray:
        """Return the (N, K) expected regrets; inf where some mean has no expectation."""
        has_none = 2 * self.prior[:, 2] + self.evidence.counts <= 1  # degrees of freedom
        return np.where(has_none.any(axis=-1, keepdims=True), np.inf, super().expected_loss())

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) probabilities, to 1e-6.

        Integrals are over u with mean = c + e sinh(u), where heavy tails decay as exponentials do.
        """
        x, w, _ = self._current_parameters()
        centre, unit = np.median(x, axis=1, keepdims=True), w.min(axis=1, keepdims=True)
        distribution = self.distribution

        def density(u: np.ndarray) -> np.ndarray:
            logs = distribution.log_density(x, w, centre + unit * np.sinh(u))
            return np.asarray(np.exp(logs) * unit * np.cosh(u))

        def quantile(p: np.ndarray) -> np.ndarray:
            return np.arcsinh((distribution.quantile(x, w, p) - centre) / unit)

        found = integrate_best_arms(Arms(density, None, quantile), available)
        return self._answer_missed(found, WeightedDraws.best_arm_probabilities, available)

    def _current_parameters(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (N, K) locations and scales, and that no posterior is missing."""
        counts, sums, squares = self.evidence.counts, self.evidence.sums, self.evidence.squares
        mean, precision, shape, scale = self.prior.T
        known = precision + counts
        b = scale + merge_squares(counts, sums, squares, precision, precision * mean) / 2
        width = np.sqrt(b / ((shape + counts / 2) * known))
        return (precision * mean + sums) / known, width, np.zeros(known.shape, dtype=bool)


def student_std(df: np.ndarray) -> np.ndarray:
    """Return the standard deviations of T with df degrees of freedom; inf of 2 or fewer."""
    variance = np.divide(df, df - 2, out=np.full(df.shape, np.inf), where=df > 2)
    return np.asarray(np.sqrt(variance))


def student_log_density(df: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the log-densities of T with df degrees of freedom."""
    log_peak = -special.betaln(df / 2, 0.5) - np.log(df) / 2  # of gammas, digits would cancel
    return np.asarray(log_peak - (df + 1) / 2 * np.log1p(z * z / df))


def student_tail(df: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return E[T; T > z] = (df + z^2) / (df - 1) p(z); inf where there is no expectation."""
    factor = np.divide(df + z * z, df - 1, out=np.full(np.shape(df + z), np.inf), where=df > 1)
    return np.asarray(factor * np.exp(student_log_density(df, z)))


def student_distribution(df: np.ndarray) -> Distribution:
    """Return the distribution of x + w T, T Student's t, in its parameters x and w.

    Its mean is x; with df <= 1 degrees of freedom there is no expectation, and x is the median.

    Args:
        df: (N, K) degrees of freedom.
    """

    def partial_moment(x: Any, w: Any, at: Any) -> tuple[Any, Any]:
        z = (at - x) / w
        below = special.stdtr(df, z)
        return below, x * below - w * student_tail(df, z)

    return Distribution(
        mean=lambda x, w: x,
        std=lambda x, w: w * student_std(df),
        log_density=lambda x, w, at: student_log_density(df, (at - x) / w) - np.log(w),
        quantile=lambda x, w, p: x + w * special.stdtrit(df, p),
        cdf=lambda x, w, at: special.stdtr(df, (at - x) / w),
        partial_moment=partial_moment,
        scipy_distribution=lambda stats, x, w: stats.t(df, x, w),
    )
