"""Distributions of a mean: formulas in plain NumPy, and Table 1's for kernels too.

These have a log-density that is linear in five features of the mean x,

    log p(x) = c_0 log x + c_1 log(1 - x) + c_2 x + c_3 x^2 + c_4 / x + constant,

so a prior, the likelihood of the data and their product, the posterior, differ by coefficients
alone. Two parameters name a member of a distribution, and the coefficients are linear in them too.

A distribution from outside needs no more than a frozen distribution of SciPy. Nothing is compiled
for it: it draws in NumPy, and tables are made from its quantiles.

The functions below the distributions are for kernels: `agents.numerics.kernels` compiles them, so
that this module needs no numba. Each chooses by the code of a distribution, and an unknown one is
an error.

Notation: m draws or places.

References:
    Marsaglia and Tsang (2000), "A simple method for generating gamma variables".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy import special

from bandit_gym.checks import message

BETA, INVERSE_GAMMA, NORMAL, GAMMA = range(4)
"""Codes of the distributions that are built in, for kernels."""

NUM_FEATURES = 5
TINY = 1e-300
ALMOST_ONE = 1 - 2.0**-53

Formula = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Distribution:
    """A two-parameter distribution of a mean; arguments and results broadcast.

    Only the frozen distribution is needed. The other formulas take its place where they are given,
    and are several times as fast.

    Attributes:
        scipy_distribution: (stats, first, second) -> the distribution as `scipy.stats` has it.
        code: BETA, INVERSE_GAMMA, NORMAL or GAMMA; None for a distribution from outside.
        feature_matrix: (5, 3) makes the coefficients of the features from (1, first, second).
        mean_formula: (first, second) -> expectation, inf where there is none.
        quantile_formula: (first, second, p) -> quantile.
        partial_moment_formula: (first, second, x) -> P(mean <= x), and the part of the expectation.
        match_moments_formula: (mean, variance) -> (first, second) of the member with these moments.
        evidence_formula: (first, second, what data add to each) -> log-probability of the data, up
            to a constant that the data alone decide.
        draw_formula: (rng, first, second, size) -> draws.
    """

    scipy_distribution: Formula
    code: int | None = None
    feature_matrix: np.ndarray | None = None
    mean_formula: Formula | None = None
    quantile_formula: Formula | None = None
    partial_moment_formula: Formula | None = None
    match_moments_formula: Formula | None = None
    evidence_formula: Formula | None = None
    draw_formula: Formula | None = None

    def __reduce__(self) -> Any:
        """Pickle and copy built-in distributions by their code: there is one of each."""
        return super().__reduce__() if self.code is None else (get_distribution, (self.code,))

    def frozen(self, first: np.ndarray, second: np.ndarray) -> Any:
        """Return the distribution as a frozen distribution of SciPy, for all that is not hot."""
        from scipy import stats  # which takes half a second to load

        return self.scipy_distribution(stats, first, second)

    def mean(self, first: np.ndarray, second: np.ndarray) -> Any:
        """Return the expectation, inf where there is none."""
        return self._find(self.mean_formula, "mean", first, second)

    def std(self, first: np.ndarray, second: np.ndarray) -> Any:
        """Return the standard deviation."""
        return self.frozen(first, second).std()

    def log_density(self, first: np.ndarray, second: np.ndarray, x: np.ndarray) -> Any:
        """Return the log-density."""
        return self.frozen(first, second).logpdf(x)

    def quantile(self, first: np.ndarray, second: np.ndarray, p: Any) -> Any:
        """Return the quantile."""
        return self._find(self.quantile_formula, "ppf", first, second, p)

    def _find(self, formula: Formula | None, name: str, first: Any, second: Any, *more: Any) -> Any:
        if formula is None:
            return getattr(self.frozen(first, second), name)(*more)
        return formula(first, second, *more)

    def partial_moment(self, first: np.ndarray, second: np.ndarray, x: np.ndarray) -> Any:
        """Return P(mean <= x), and the part of the expectation from there.

        Raises:
            NotImplementedError: for a distribution that has no formula of it.
        """
        if self.partial_moment_formula is None:
            condition = "be asked of a distribution with a formula"
            raise NotImplementedError(message("partial_moment", condition, self))
        return self.partial_moment_formula(first, second, x)

    def match_moments(self, mean: np.ndarray, variance: np.ndarray) -> Any:
        """Return (first, second) of the member with these moments.

        Raises:
            ValueError: for a distribution that has no formula of it.
        """
        if self.match_moments_formula is None:
            condition = "be asked of a distribution with a formula"
            raise ValueError(message("match_moments", condition, self))
        return self.match_moments_formula(mean, variance)

    def draw(self, rng: Generator, first: Any, second: Any, size: Any) -> Any:
        """Return draws of the given size."""
        if self.draw_formula is None:
            return self.frozen(first, second).rvs(size, random_state=rng)
        return self.draw_formula(rng, first, second, size)

    def coefficients(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the (..., 5) coefficients of the features."""
        if self.feature_matrix is None:
            condition = "be asked of a distribution with features"
            raise ValueError(message("coefficients", condition, self))
        first, second = np.broadcast_arrays(first, second)
        return np.stack([np.ones_like(first), first, second], axis=-1) @ self.feature_matrix.T


def _feature_matrix(*entries: tuple[int, int, float]) -> np.ndarray:
    """Return a (5, 3) matrix from (feature, 0 for constant or 1, 2 for a parameter, value)."""
    matrix = np.zeros((NUM_FEATURES, 3))
    for feature, parameter, value in entries:
        matrix[feature, parameter] = value
    return matrix


def _draw_gamma(rng: Generator, shape: Any, size: Any) -> np.ndarray:
    """Return Gamma(shape, 1) draws, those too small for a floating-point number made the least."""
    return np.maximum(rng.standard_gamma(shape, size), TINY)


def _match_beta(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    size = np.maximum(mean * (1 - mean) / variance - 1, 1e-3)
    return mean * size, (1 - mean) * size


def _match_inverse_gamma(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shape = 2 + mean**2 / variance
    return shape, mean * (shape - 1)


def _partial_beta(
    alpha: np.ndarray, beta: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    x = np.clip(x, 0.0, 1.0)
    share = alpha / (alpha + beta)
    return special.betainc(alpha, beta, x), share * special.betainc(alpha + 1, beta, x)


def _mean_inverse_gamma(shape: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.where(shape > 1, scale / np.maximum(shape - 1, TINY), np.inf)


def _partial_inverse_gamma(
    shape: np.ndarray, scale: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what `Distribution.partial_moment` does; the second is NaN without expectation."""
    levels = scale / np.maximum(x, TINY)
    total = scale / np.maximum(shape - 1, TINY) * special.gammaincc(shape - 1, levels)
    return special.gammaincc(shape, levels), np.where(shape > 1, total, np.nan)


def _partial_normal(h: np.ndarray, tau: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    z = (x - h / tau) * np.sqrt(tau)
    below = special.ndtr(z)
    return below, h / tau * below - np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi * tau)


def _partial_gamma(
    shape: np.ndarray, rate: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    levels = rate * np.maximum(x, 0.0)
    return special.gammainc(shape, levels), shape / rate * special.gammainc(shape + 1, levels)


def _evidence_beta(alpha: Any, beta: Any, wins: Any, losses: Any) -> Any:
    return special.betaln(alpha + wins, beta + losses) - special.betaln(alpha, beta)


def _evidence_gamma(shape: Any, rate: Any, more_shape: Any, more_rate: Any) -> Any:
    gained = special.gammaln(shape + more_shape) - special.gammaln(shape)
    return gained - more_shape * np.log(rate + more_rate) - shape * np.log1p(more_rate / rate)


def _evidence_normal(h: Any, tau: Any, more_h: Any, more_tau: Any) -> Any:
    """Return the log-density of the data's average, in which no large terms cancel."""
    off, share = more_h / np.maximum(more_tau, TINY) - h / tau, more_tau / tau
    return -0.5 * (np.log1p(share) + off**2 * more_tau / (1 + share))


BETA_DISTRIBUTION = Distribution(
    code=BETA,
    feature_matrix=_feature_matrix((0, 0, -1), (0, 1, 1), (1, 0, -1), (1, 2, 1)),
    mean_formula=lambda alpha, beta: alpha / (alpha + beta),
    quantile_formula=lambda alpha, beta, p: special.betaincinv(alpha, beta, p),
    partial_moment_formula=_partial_beta,
    match_moments_formula=_match_beta,
    evidence_formula=_evidence_beta,
    draw_formula=lambda rng, alpha, beta, size: rng.beta(alpha, beta, size),
    scipy_distribution=lambda stats, alpha, beta: stats.beta(alpha, beta),
)
INVERSE_GAMMA_DISTRIBUTION = Distribution(
    code=INVERSE_GAMMA,
    feature_matrix=_feature_matrix((0, 0, -1), (0, 1, -1), (4, 2, -1)),
    mean_formula=_mean_inverse_gamma,
    quantile_formula=lambda shape, scale, p: scale / special.gammainccinv(shape, p),
    partial_moment_formula=_partial_inverse_gamma,
    match_moments_formula=_match_inverse_gamma,
    evidence_formula=_evidence_gamma,
    draw_formula=lambda rng, shape, scale, size: scale / _draw_gamma(rng, shape, size),
    scipy_distribution=lambda stats, shape, scale: stats.invgamma(shape, scale=scale),
)
NORMAL_DISTRIBUTION = Distribution(  # h, the precision times the mean, and tau, the precision
    code=NORMAL,
    feature_matrix=_feature_matrix((2, 1, 1), (3, 2, -0.5)),
    mean_formula=lambda h, tau: h / tau,
    quantile_formula=lambda h, tau, p: h / tau + special.ndtri(p) / np.sqrt(tau),
    partial_moment_formula=_partial_normal,
    match_moments_formula=lambda mean, variance: (mean / variance, 1 / variance),
    evidence_formula=_evidence_normal,
    draw_formula=lambda rng, h, tau, size: h / tau + rng.standard_normal(size) / tau**0.5,
    scipy_distribution=lambda stats, h, tau: stats.norm(h / tau, 1 / np.sqrt(tau)),
)
GAMMA_DISTRIBUTION = Distribution(
    code=GAMMA,
    feature_matrix=_feature_matrix((0, 0, -1), (0, 1, 1), (2, 2, -1)),
    mean_formula=lambda shape, rate: shape / rate,
    quantile_formula=lambda shape, rate, p: special.gammaincinv(shape, p) / rate,
    partial_moment_formula=_partial_gamma,
    match_moments_formula=lambda mean, variance: (mean**2 / variance, mean / variance),
    evidence_formula=_evidence_gamma,
    draw_formula=lambda rng, shape, rate, size: _draw_gamma(rng, shape, size) / rate,
    scipy_distribution=lambda stats, shape, rate: stats.gamma(shape, scale=1 / rate),
)


DISTRIBUTIONS = (
    BETA_DISTRIBUTION,
    INVERSE_GAMMA_DISTRIBUTION,
    NORMAL_DISTRIBUTION,
    GAMMA_DISTRIBUTION,
)


def get_distribution(code: int) -> Distribution:
    """Return the distribution of a code."""
    return DISTRIBUTIONS[code]


class MeanDistributions(NamedTuple):
    """Built-in distributions of means: rows of Table 1, the data added.

    Attributes:
        family: BETA, INVERSE_GAMMA, NORMAL or GAMMA.
        first: first parameter of each distribution, as `ConjugatePosterior.parameters` returns it.
        second: second parameter of each, in an array of the same shape.
    """

    family: int
    first: np.ndarray
    second: np.ndarray


def draw_conjugate_means(
    rng: Generator, distributions: MeanDistributions, out: np.ndarray, workspace: np.ndarray
) -> None:
    """Fill `out` (m,) with a draw from each of m distributions, inside the means' support.

    `workspace` (m,) is overwritten.
    """
    first, second = distributions.first, distributions.second
    if distributions.family == NORMAL:
        for j in range(out.size):
            out[j] = first[j] / second[j] + rng.standard_normal() / math.sqrt(second[j])
        return
    draw_gammas(rng, first, out)
    if distributions.family == BETA:
        draw_gammas(rng, second, workspace)
        combine_gammas(rng, distributions, out, workspace)
    elif distributions.family == GAMMA:
        for j in range(out.size):
            out[j] = max(out[j] / second[j], TINY)
    elif distributions.family == INVERSE_GAMMA:
        for j in range(out.size):
            out[j] = second[j] / max(out[j], TINY)
    else:
        raise ValueError("no such distribution")


def combine_gammas(
    rng: Generator, distributions: MeanDistributions, out: np.ndarray, other: np.ndarray
) -> None:
    """Turn Gamma(alpha) variates in `out` and Gamma(beta) in `other` into Beta ones in `out`.

    Where both are too small for a floating-point number, so is the mean or its distance from 1.
    """
    alpha, beta, num_lost = distributions.first, distributions.second, 0
    for j in range(out.size):
        total = out[j] + other[j]
        num_lost += total == 0.0
        out[j] = min(max(out[j] / total, TINY), ALMOST_ONE)
    if num_lost > 0:
        for j in range(out.size):
            if np.isnan(out[j]):
                is_high = rng.random() * (alpha[j] + beta[j]) < alpha[j]
                out[j] = ALMOST_ONE if is_high else TINY


def draw_gammas(rng: Generator, shapes: np.ndarray, out: np.ndarray) -> None:
    """Fill `out` (m,) with Gamma(shape, 1) variates d (1 + y)^3, for normal x = y sqrt(9 d).

    With h = x^2 / 2 + d (1 - (1 + y)^3 + 3 log(1 + y)) such a draw is kept where log u < h. That is
    so if u < 1 + h, and h >= -3/4 d y^4 (1 + 0.8 z + 2 z^2), z = max(-y, 0), for y > -3/4, by the
    series of log(1 + y): a squeeze that settles more draws than Marsaglia and Tsang's, and nearly
    all where the shape is large. One u serves until a draw fails: as long as it is below the
    product of the chances to be kept so far, it is uniform below that product.

    Args:
        rng: source of randomness.
        shapes: (m,) shape of each, > 0; those below 1 are boosted to shape + 1.
        out: receives the variates.
    """
    u, chance = rng.random(), 1.0
    for j in range(out.size):
        shape = shapes[j]
        d = (shape + 1.0 if shape < 1.0 else shape) - 1.0 / 3.0
        x = rng.standard_normal()
        y = x / math.sqrt(9.0 * d)
        z = max(-y, 0.0)
        bound = 0.75 * d * (y * y) * (y * y) * (1.0 + z * (0.8 + 2.0 * z))
        rest = chance * (1.0 - bound) if y > -0.75 else 0.0
        if u < rest:
            out[j], chance = d * ((1.0 + y) * (1.0 + y) * (1.0 + y)), rest
        else:
            out[j] = reject_gamma(rng, d, x, u / chance)
            u, chance = rng.random(), 1.0
        if shape < 1.0:
            out[j] *= (1.0 - rng.random()) ** (1.0 / shape)


def reject_gamma(rng: Generator, d: float, x: float, u: float) -> float:
    """Return a Gamma(d + 1/3, 1) draw by the rejection itself, starting from these x and u."""
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        v = 1.0 + c * x
        v = v * v * v
        if v > 0.0 and math.log(max(u, TINY)) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return d * v
        x, u = rng.standard_normal(), rng.random()


def find_mode_and_curvature(family: int, first: float, second: float) -> tuple[float, float]:
    """Return the mode of the log-density on the family's line, and its curvature there.

    The line is the logit of a Beta mean, the logarithm of a gamma one, and a normal one as it is;
    there all four are log-concave.
    """
    if family == BETA:
        return math.log(first / second), first * second / (first + second)
    if family == GAMMA:
        return math.log(first / second), first
    if family == INVERSE_GAMMA:
        return math.log(second / first), first
    if family == NORMAL:
        return first / second, second
    raise ValueError("no such distribution")


def centred_log_density(family: int, first: float, second: float, off: float) -> float:
    """Return the log-density on the family's line, `off` from its mode, less that at the mode."""
    if family == BETA:  # by what x / (1 - x) has been multiplied by
        total, slope = first + second, (second if off > 0.0 else first)
        return -slope * abs(off) - total * math.log1p((slope / total) * math.expm1(-abs(off)))
    if family == GAMMA:
        return -first * (math.expm1(off) - off)
    if family == INVERSE_GAMMA:
        return -first * (math.expm1(-off) + off)
    if family == NORMAL:
        return -0.5 * second * off * off
    raise ValueError("no such distribution")


def reward_variance(family: int, mean: float) -> float:
    """Return the variance of a reward whose mean has a distribution of this family."""
    if family == BETA:
        return mean * (1.0 - mean)
    if family == GAMMA:
        return mean
    if family == INVERSE_GAMMA:
        return mean * mean
    raise ValueError("no such distribution, or one that says nothing of the variance")


def divergence(family: int, p: float, q: float) -> float:
    """Return kl(p, q) between rewards with these means, q > p > 0, in terms that vanish at p."""
    step = q - p
    above = math.log1p(step / p)
    if family == BETA:
        return -(1.0 - p) * math.log1p(-step / (1.0 - p)) - p * above
    if family == GAMMA:
        return step - p * above
    if family == INVERSE_GAMMA:
        return above - step / q
    raise ValueError("no such distribution, or one that says nothing of the divergence")


COMPILED = (
    reject_gamma,
    draw_gammas,
    combine_gammas,
    draw_conjugate_means,
    find_mode_and_curvature,
    centred_log_density,
    reward_variance,
    divergence,
)
"""What `agents.numerics.kernels` compiles."""
