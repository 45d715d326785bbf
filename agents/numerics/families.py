"""The four laws of a mean that are conjugate to a likelihood, and the five features they share.

Each has a log-density that is linear in five features of the mean x,

    log p(x) = c_0 log x + c_1 log(1 - x) + c_2 x + c_3 x^2 + c_4 / x + constant,

so a prior, the likelihood of the data and their product, the posterior, differ by coefficients
alone. Two parameters name a member of a law, and the coefficients are linear in them too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

BETA, INVERSE_GAMMA, NORMAL, GAMMA = range(4)
"""Codes of the laws, for kernels."""

NUM_FEATURES = 5
_TINY = 1e-300

Formula = Callable[..., Any]


@dataclass(frozen=True)
class Law:
    """A two-parameter law of a mean; arguments and results broadcast.

    Attributes:
        code: BETA, INVERSE_GAMMA, NORMAL or GAMMA.
        natural: (5, 3) makes the coefficients of the features from (1, first, second).
        mean: (first, second) -> expectation, inf where there is none.
        quantile: (first, second, p) -> quantile; several times as fast as SciPy's law.
        partial: (first, second, x) -> P(mean <= x), and the part of the expectation from there.
        match: (mean, variance) -> (first, second) of the member with these moments.
        draw: (rng, first, second, size) -> draws.
        scipy_law: (stats, first, second) -> the law as `scipy.stats` has it.
    """

    code: int
    natural: np.ndarray
    mean: Formula
    quantile: Formula
    partial: Formula
    match: Formula
    draw: Formula
    scipy_law: Formula

    def __reduce__(self) -> tuple[Callable[[int], Law], tuple[int]]:
        """Pickle and copy by the code: there is one of each."""
        return law_of, (self.code,)

    def coefficients(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the (..., 5) coefficients of the features."""
        first, second = np.broadcast_arrays(first, second)
        return np.stack([np.ones_like(first), first, second], axis=-1) @ self.natural.T

    def frozen(self, first: np.ndarray, second: np.ndarray) -> Any:
        """Return the law as a frozen distribution of SciPy, for all that is not hot."""
        from scipy import stats  # which takes half a second to load

        return self.scipy_law(stats, first, second)


def _natural(*entries: tuple[int, int, float]) -> np.ndarray:
    """Return a (5, 3) matrix from (feature, 0 for constant or 1, 2 for a parameter, value)."""
    matrix = np.zeros((NUM_FEATURES, 3))
    for feature, parameter, value in entries:
        matrix[feature, parameter] = value
    return matrix


def _positive(gammas: np.ndarray) -> np.ndarray:
    """Return the draws, those too small for a floating-point number made the smallest."""
    return np.maximum(gammas, _TINY)


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


def _partial_inverse_gamma(
    shape: np.ndarray, scale: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what `Law.partial` does; the second is NaN where there is no expectation."""
    places = scale / np.maximum(x, _TINY)
    total = scale / (shape - 1) * special.gammaincc(shape - 1, places)
    return special.gammaincc(shape, places), np.where(shape > 1, total, np.nan)


def _partial_normal(h: np.ndarray, tau: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    z = (x - h / tau) * np.sqrt(tau)
    below = special.ndtr(z)
    return below, h / tau * below - np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi * tau)


def _partial_gamma(
    shape: np.ndarray, rate: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    places = rate * np.maximum(x, 0.0)
    return special.gammainc(shape, places), shape / rate * special.gammainc(shape + 1, places)


BETA_LAW = Law(
    code=BETA,
    natural=_natural((0, 0, -1), (0, 1, 1), (1, 0, -1), (1, 2, 1)),
    mean=lambda alpha, beta: alpha / (alpha + beta),
    quantile=lambda alpha, beta, p: special.betaincinv(alpha, beta, p),
    partial=_partial_beta,
    match=_match_beta,
    draw=lambda rng, alpha, beta, size: rng.beta(alpha, beta, size),
    scipy_law=lambda stats, alpha, beta: stats.beta(alpha, beta),
)
INVERSE_GAMMA_LAW = Law(
    code=INVERSE_GAMMA,
    natural=_natural((0, 0, -1), (0, 1, -1), (4, 2, -1)),
    mean=lambda shape, scale: np.where(shape > 1, scale / np.maximum(shape - 1, _TINY), np.inf),
    quantile=lambda shape, scale, p: scale / special.gammainccinv(shape, p),
    partial=_partial_inverse_gamma,
    match=_match_inverse_gamma,
    draw=lambda rng, shape, scale, size: scale / _positive(rng.standard_gamma(shape, size)),
    scipy_law=lambda stats, shape, scale: stats.invgamma(shape, scale=scale),
)
NORMAL_LAW = Law(  # h, the precision times the mean, and tau, the precision
    code=NORMAL,
    natural=_natural((2, 1, 1), (3, 2, -0.5)),
    mean=lambda h, tau: h / tau,
    quantile=lambda h, tau, p: h / tau + special.ndtri(p) / np.sqrt(tau),
    partial=_partial_normal,
    match=lambda mean, variance: (mean / variance, 1 / variance),
    draw=lambda rng, h, tau, size: h / tau + rng.standard_normal(size) / tau**0.5,
    scipy_law=lambda stats, h, tau: stats.norm(h / tau, 1 / np.sqrt(tau)),
)
GAMMA_LAW = Law(
    code=GAMMA,
    natural=_natural((0, 0, -1), (0, 1, 1), (2, 2, -1)),
    mean=lambda shape, rate: shape / rate,
    quantile=lambda shape, rate, p: special.gammaincinv(shape, p) / rate,
    partial=_partial_gamma,
    match=lambda mean, variance: (mean**2 / variance, mean / variance),
    draw=lambda rng, shape, rate, size: _positive(rng.standard_gamma(shape, size)) / rate,
    scipy_law=lambda stats, shape, rate: stats.gamma(shape, scale=1 / rate),
)


def law_of(code: int) -> Law:
    """Return the law of a code."""
    return (BETA_LAW, INVERSE_GAMMA_LAW, NORMAL_LAW, GAMMA_LAW)[code]
