"""Distributions of a mean, by formulas in plain NumPy.

These have a log-density that is linear in five features of the mean x,

    log p(x) = c_0 log x + c_1 log(1 - x) + c_2 x + c_3 x^2 + c_4 / x + constant,

so a prior, the likelihood of the data and their product, the posterior, differ by coefficients
alone. Two parameters name a member of a distribution, and the coefficients are linear in them too.

A distribution from outside needs no more than a frozen distribution of SciPy. Nothing is compiled
for it: it draws in NumPy, and tables are made from its quantiles.

Nothing here needs numba. `agents.numerics.kernels` draws from Table 1's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy import special

from bandit_gym.numerics.variates import beta_quantile

NAMES = "BETA", "INVERSE_GAMMA", "NORMAL", "GAMMA"
BETA, INVERSE_GAMMA, NORMAL, GAMMA = range(4)
"""Codes of the distributions that are built in, for kernels."""

TINY = 1e-300

NEAR_0, NEAR_1 = 1e-20, 1e-8
"""Powers so near to 0 stand for 0: Gamma(a, z) is E_1(z), to rounding; and where a - 1 divides a
difference, whose rounding is as much."""

LOGITS = np.linspace(-28.0, 28.0, 113)
"""Of probabilities at which quantiles are integrated by the trapezoidal rule."""

Formula = Callable[..., Any]


class Distribution:
    """A two-parameter distribution of a mean; arguments and results broadcast.

    Only the frozen distribution is needed; a formula is several times as fast. Members with given
    moments, evidence and the coefficients of features are asked of built-in distributions alone.

    Arguments:
        scipy_distribution: (stats, first, second) -> the distribution as `scipy.stats` has it.
        code: BETA, INVERSE_GAMMA, NORMAL or GAMMA; None for a distribution from outside.
        feature_matrix: (5, 3) makes the coefficients of the features from (1, first, second).
        formulas: by the name of the method whose place each takes.

    Attributes:
        match_moments: (mean, variance) -> (first, second) of the member with these moments; none of
            an inverse gamma distribution, which is asked for none.
        evidence_formula: (first, second, what data add to each) -> log-probability of the data, up
            to a constant that the data alone decide.
    """

    match_moments: Formula
    evidence_formula: Formula

    def __init__(
        self,
        scipy_distribution: Formula,
        code: int | None = None,
        feature_matrix: Any = None,
        **formulas: Formula,
    ) -> None:
        self.scipy_distribution, self.code = scipy_distribution, code
        self.feature_matrix = feature_matrix
        vars(self).update(formulas)

    def __reduce__(self) -> Any:
        """Pickle and copy built-in distributions by their name: there is one of each."""
        return super().__reduce__() if self.code is None else f"{NAMES[self.code]}_DISTRIBUTION"

    def frozen(self, first: np.ndarray, second: np.ndarray) -> Any:
        """Return the distribution as a frozen distribution of SciPy, for all that is not hot."""
        from scipy import stats  # which takes half a second to load

        return self.scipy_distribution(stats, first, second)

    def mean(self, first: Any, second: Any) -> Any:
        """Return the expectation, inf where there is none."""
        return self.frozen(first, second).mean()

    def std(self, first: Any, second: Any) -> Any:
        """Return the standard deviation."""
        return self.frozen(first, second).std()

    def log_density(self, first: Any, second: Any, x: Any) -> Any:
        """Return the log-density."""
        return self.frozen(first, second).logpdf(x)

    def quantile(self, first: Any, second: Any, p: Any) -> Any:
        """Return the quantile."""
        return self.frozen(first, second).ppf(p)

    def cdf(self, first: Any, second: Any, x: Any) -> Any:
        """Return P(mean <= x)."""
        return self.frozen(first, second).cdf(x)

    def partial_moment(self, first: Any, second: Any, x: Any) -> tuple[Any, Any]:
        """Return P(mean <= x), and the part of the expectation there."""
        below, shares = self.cdf(first, second, x), special.expit(LOGITS)
        quantiles = self.quantile(first, second, np.multiply.outer(shares, below))
        weights = shares * (1 - shares) * (LOGITS[1] - LOGITS[0])
        return below, below * np.tensordot(weights, quantiles, 1)

    def draw(self, rng: Generator, first: Any, second: Any, size: Any) -> Any:
        """Return draws of the given size."""
        return self.frozen(first, second).rvs(size, random_state=rng)

    def coefficients(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the (..., 5) coefficients of the features."""
        first, second = np.broadcast_arrays(first, second)
        return np.stack([np.ones_like(first), first, second], axis=-1) @ self.feature_matrix.T


def _draw_gamma(rng: Generator, shape: Any, size: Any) -> np.ndarray:
    """Return Gamma(shape, 1) draws, those too small for a floating-point number made the least."""
    return np.maximum(rng.standard_gamma(shape, size), TINY)


def _match_beta(mean: Any, variance: Any) -> Any:
    size = np.maximum(mean * (1 - mean) / variance - 1, 1e-3)
    return mean * size, (1 - mean) * size


def _partial_beta(alpha: Any, beta: Any, x: Any) -> Any:
    x = np.clip(x, 0.0, 1.0)
    share = alpha / (alpha + beta)
    return special.betainc(alpha, beta, x), share * special.betainc(alpha + 1, beta, x)


def _mean_inverse_gamma(shape: Any, scale: Any) -> Any:
    return np.where(shape > 1, scale / np.maximum(shape - 1, TINY), np.inf)


def _partial_inverse_gamma(shape: Any, scale: Any, x: Any) -> Any:
    """Return what `partial_moment` does, which is finite below a level without an expectation too.

    With a the shape and z = scale / x the second is scale Gamma(a - 1, z) / Gamma(a), of which

        Gamma(a - 1, z) = (Gamma(a, z) - z^(a - 1) e^-z) / (a - 1)    for a < 1, and E_1(z) for 1.
    """
    levels = scale / np.maximum(x, TINY)
    below, power = special.gammaincc(shape, levels), shape - 1
    above = np.maximum(power, NEAR_0)
    total = special.gammaincc(above, levels) / above
    under, z = np.clip(power, -1.0, -NEAR_1), np.maximum(levels, TINY)
    of_few = (below - z**under * np.exp(-z) / special.gamma(1 + under)) / under
    return below, scale * np.where(power < -NEAR_1, of_few, total)


def _partial_normal(h: Any, tau: Any, x: Any) -> Any:
    z = (x - h / tau) * np.sqrt(tau)
    below = special.ndtr(z)
    return below, h / tau * below - np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi * tau)


def _partial_gamma(shape: Any, rate: Any, x: Any) -> Any:
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


NO_FEATURE = 0, 0, 0
"""Of a feature that a distribution's log-density has not."""

BETA_DISTRIBUTION = Distribution(
    code=BETA,
    feature_matrix=np.array([[-1.0, 1, 0], [-1, 0, 1], NO_FEATURE, NO_FEATURE, NO_FEATURE]),
    mean=lambda alpha, beta: alpha / (alpha + beta),
    quantile=beta_quantile,
    partial_moment=_partial_beta,
    match_moments=_match_beta,
    evidence_formula=_evidence_beta,
    draw=Generator.beta,
    scipy_distribution=lambda stats, alpha, beta: stats.beta(alpha, beta),
)
INVERSE_GAMMA_DISTRIBUTION = Distribution(
    code=INVERSE_GAMMA,
    feature_matrix=np.array([[-1.0, -1, 0], NO_FEATURE, NO_FEATURE, NO_FEATURE, [0, 0, -1]]),
    mean=_mean_inverse_gamma,
    quantile=lambda shape, scale, p: scale / special.gammainccinv(shape, p),
    partial_moment=_partial_inverse_gamma,
    evidence_formula=_evidence_gamma,
    draw=lambda rng, shape, scale, size: scale / _draw_gamma(rng, shape, size),
    scipy_distribution=lambda stats, shape, scale: stats.invgamma(shape, scale=scale),
)
NORMAL_DISTRIBUTION = Distribution(  # h, the precision times the mean, and tau, the precision
    code=NORMAL,
    feature_matrix=np.array([NO_FEATURE, NO_FEATURE, [0.0, 1, 0], [0, 0, -0.5], NO_FEATURE]),
    mean=lambda h, tau: h / tau,
    quantile=lambda h, tau, p: h / tau + special.ndtri(p) / np.sqrt(tau),
    partial_moment=_partial_normal,
    match_moments=lambda mean, variance: (mean / variance, 1 / variance),
    evidence_formula=_evidence_normal,
    draw=lambda rng, h, tau, size: h / tau + rng.standard_normal(size) / tau**0.5,
    scipy_distribution=lambda stats, h, tau: stats.norm(h / tau, 1 / np.sqrt(tau)),
)
GAMMA_DISTRIBUTION = Distribution(
    code=GAMMA,
    feature_matrix=np.array([[-1.0, 1, 0], NO_FEATURE, [0, 0, -1], NO_FEATURE, NO_FEATURE]),
    mean=lambda shape, rate: shape / rate,
    quantile=lambda shape, rate, p: special.gammaincinv(shape, p) / rate,
    partial_moment=_partial_gamma,
    match_moments=lambda mean, variance: (mean**2 / variance, mean / variance),
    evidence_formula=_evidence_gamma,
    draw=lambda rng, shape, rate, size: _draw_gamma(rng, shape, size) / rate,
    scipy_distribution=lambda stats, shape, rate: stats.gamma(shape, scale=1 / rate),
)


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
