"""Coefficients and the deviation of Gaussian rewards, both unknown: the closed form.

With s^2 ~ InverseGamma(a, b) and coefficients given s ~ N(m_0, s^2 P^-1), P diagonal, n rewards y_i
under features x_i leave

    A = P + sum_i x_i x_i',    m = A^-1 (P m_0 + sum_i y_i x_i),    a_n = a + n / 2,
    b_n = b + min over theta of [sum_i (y_i - x_i . theta)^2 + (theta - m_0)' P (theta - m_0)] / 2,

and coefficients that are m + (b_n / a_n)^1/2 A^-1/2 T, with T multivariate Student's t of 2 a_n
degrees of freedom: standard normal z times one stretch (a_n / g)^1/2, g ~ Gamma(a_n). The minimum
is what rotations leave of the rewards and of the prior, see `agents.numerics.roots`.

Notation: K arms, N lanes, d features, m draws, Q nodes.

References:
    Bishop (2006), "Pattern Recognition and Machine Learning", exercises 3.12 and 3.13; O'Hagan and
    Forster (2004), "Bayesian Inference", sections 11.4 to 11.6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import special

from agents.numerics.roots import Roots, join_prior
from agents.posteriors.student import student_log_density, student_std, student_tail
from agents.regression.comparison import compare_normals
from agents.regression.gaussian import GaussianCoefficients, NormalBelief, join_mean
from agents.regression.pool import NUM_DRAWS, draw_points
from bandit_gym.checks.typing import FloatArray
from bandit_gym.problem import ContextualProblem

MAX_MASS_LEFT = 1e-12
"""Of the distribution of log g, beyond either end of the nodes."""

MIN_GAMMA = 1e-200
"""Least g that the nodes meet: arms stretched further compare alike."""

NODE_STEP = 0.4
"""Between nodes of log g, or in its deviations 1 / sqrt(a_n): to 1e-10, as all is analytic."""


class StudentBelief(NormalBelief):
    """Means that are X theta with Student's t coefficients theta.

    Best-arm probabilities are computed for two arms and for arms without covariances, which the
    deviation that they share still makes dependent; those of others are frequencies in draws.

    Arguments:
        features: (N, K, d), X.
        roots: of the inverse scale matrices of the coefficients.
        df: (L,) degrees of freedom of each lane, those of rows in turn.
        deviations: (L,) (b_n / a_n)^1/2.
        posterior: see `NormalBelief`.
    """

    def __init__(
        self,
        features: FloatArray,
        roots: Roots,
        df: FloatArray,
        deviations: FloatArray,
        posterior: StudentCoefficients | None = None,
    ) -> None:
        super().__init__(features, roots, posterior)
        self._df = np.resize(df, len(features))[:, None]  # (N, 1)
        self._deviation = np.resize(deviations, len(features))[:, None]
        self.source = self.source.replace("normal", "Student's t", 1)

    @property
    def coefficients(self) -> StudentBelief:
        """What is known of the (N, d) coefficients."""
        identity = np.broadcast_to(np.eye(self._roots.shift.shape[1]), self._roots.root.shape)
        df, deviations = (each[: len(identity), 0] for each in (self._df, self._deviation))
        return StudentBelief(identity, self._roots, df, deviations)

    def sample_with_stds(self, rng: Generator, size: int) -> np.ndarray:
        """Return (2, size, N, K) draws of the means and of the deviation of rewards."""
        offsets, a = super().sample_many(rng, size) - self._mean, self._df / 2
        stretches = np.sqrt(a / np.maximum(rng.standard_gamma(a, (size, *a.shape)), MIN_GAMMA))
        stds = np.broadcast_to(self._deviation * stretches, offsets.shape)
        return np.stack([self._mean + stretches * offsets, stds])

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws of the means."""
        return np.asarray(self.sample_with_stds(rng, size)[0])

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations of the means; inf of 2 degrees of freedom."""
        return np.asarray(super().std() * student_std(self._df))

    def expected_loss(self) -> np.ndarray:
        """See `NormalBelief`; inf of 1 degree of freedom or fewer, but for arms that are equal."""
        with np.errstate(invalid="ignore"):
            loss = super().expected_loss()
        is_heavy = self._df[:, 0] <= 1.0
        if is_heavy.any():
            spread = self._spread[is_heavy]
            differs = (spread[:, :, None] != spread[:, None]).any(axis=(2, 3))
            loss[is_heavy] = np.where(differs, np.inf, 0.0)
        return loss

    def _quantile(self, p: Any) -> Any:
        return special.stdtrit(self._df, p)

    def _cdf(self, z: np.ndarray) -> Any:
        return special.stdtr(self._df, z)

    def _density(self, z: np.ndarray) -> Any:
        return np.exp(student_log_density(self._df, z))

    def _tail(self, z: np.ndarray) -> Any:
        return student_tail(self._df, z)

    def _compare_independent(
        self, chosen: np.ndarray, spread: np.ndarray, available: np.ndarray
    ) -> np.ndarray:
        """Return what normal means of stretched spreads have, integrated over stretches."""
        out = np.empty(available.shape)
        for df in np.unique(self._df[chosen]):
            rows = np.flatnonzero(chosen & (self._df[:, 0] == df))
            stretches, weights = find_stretch_rule(df)
            stretched = spread[rows] * stretches[:, None, None]  # (Q, n, K)
            shape = stretched.shape
            means, masks = (np.broadcast_to(each[rows], shape) for each in (self._mean, available))
            flat = [each.reshape(-1, shape[2]) for each in (means, stretched, masks)]
            best = compare_normals(*flat).reshape(shape)
            out[rows] = np.tensordot(weights, best, 1)
        return out[chosen]


def find_stretch_rule(df: float) -> tuple[FloatArray, FloatArray]:
    """Return (Q,) stretches (a / g)^1/2, a = df / 2, and weights: the trapezoidal rule of log g."""
    a = df / 2
    low, high = (f(a, MAX_MASS_LEFT) for f in (special.gammaincinv, special.gammainccinv))
    is_cut = low < MIN_GAMMA
    low = max(low, MIN_GAMMA)
    length = np.log(high / low)
    size = 2 + int(length / (NODE_STEP * min(1.0, 1 / np.sqrt(a))))
    log_g = np.linspace(np.log(low), np.log(high), size)
    log_weights = a * log_g - np.exp(log_g)
    weights = np.exp(log_weights - log_weights.max())
    if is_cut:
        weights[0] /= 2  # of an end where the rule's integrand is not 0
        below = special.gammainc(a, low)
        weights *= (1 - below) / weights.sum()
        weights[0] += below
    return np.sqrt(a / np.exp(log_g)), weights / weights.sum()


class StudentCoefficients(GaussianCoefficients):
    """The Student's t posterior of coefficients, by the same roots as the normal one.

    Arguments:
        problem: `Gaussian(std=None)`, and a `NormalInverseGamma` prior of coefficients.
        method: "conjugate", or "auto", which is the same.
    """

    source = "Student's t distribution"
    takes_squares = True

    def _set_prior(self) -> None:
        prior, size = self.problem.prior, self.problem.num_features
        deviations = np.sqrt(np.broadcast_to(prior.precision, size))  # type: ignore[attr-defined]
        self._prior_rows = join_mean(np.diag(deviations), np.broadcast_to(prior.mean, size))  # type: ignore[attr-defined]

    def predict(self, features: np.ndarray) -> StudentBelief:  # type: ignore[override]  # no None
        """Return the belief of the means of arms with (N, K, d) features."""
        root, shift, errors, residual = join_prior(self.evidence.roots(), 1.0, self._prior_rows)
        prior: Any = self.problem.prior
        a = self._find_shapes()
        squared = ((prior.scale + residual / 2) / a)[:, None, None]  # the scale of what is normal
        width = np.sqrt(squared)
        roots = Roots(root / width, shift / width[:, 0], errors / squared, residual)
        return StudentBelief(features, roots, 2 * a, width[:, 0, 0], self)

    def _draw_points(self, rng: Generator, lane: int) -> np.ndarray:
        """Return (m, d) multivariate t variables of a lane."""
        df = 2 * float(self._find_shapes()[lane])
        size = self.problem.num_features
        return draw_points(rng, size, NUM_DRAWS, is_normal=False, degrees=df)

    def _find_shapes(self) -> FloatArray:
        """Return (L,) a_n."""
        prior: Any = self.problem.prior
        return np.asarray(prior.shape + self.evidence.counts.sum(axis=1) / 2)


def exact_coefficients(problem: ContextualProblem, *, method: str = "auto") -> GaussianCoefficients:
    """Return the posterior of coefficients that has a closed form, see `GaussianCoefficients`."""
    kind = StudentCoefficients if problem.likelihood.needs_squares else GaussianCoefficients
    return kind(problem, method=method)
