"""Compiled log-likelihoods of linear predictors, of one or of a tile of rows.

Same formulas as `bandit_gym.likelihoods.LINKS`, without what does not depend on the predictor. Of
a tile they take a quarter of the time that NumPy needs: exponentials are polynomials that the
compiler turns into vector instructions, and of rows of one reward the product of 1 + e^-|eta| is
taken before its logarithm, one logarithm for 512 rows.

Notation: eta linear predictor, n rewards of sum s in a row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from agents.numerics.distributions import TINY
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.numerics.compiled import inner
from bandit_gym.problem import ContextualProblem

KINDS = Bernoulli, Gaussian, Poisson, Exponential
LOGIT, IDENTITY, LOG_OF_POISSON, LOG_OF_EXPONENTIAL = range(len(KINDS))
"""Likelihoods, and the numbers by which kernels know their links."""

TILE_ROWS = 512
"""Rows taken at once: a product of so many factors of at most 2 does not overflow."""

MAX_EXPONENT = 700.0
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
ROUND_TO_INTEGER = 6755399441055744.0
"""1.5 * 2^52: adding it leaves the nearest integer in the lowest bits."""

ROUND_BITS = int(np.array(ROUND_TO_INTEGER).view(np.int64))


class LinkCode(NamedTuple):
    """Which log-likelihood, and by what it is multiplied.

    Attributes:
        kind: LOGIT, IDENTITY, LOG_OF_POISSON or LOG_OF_EXPONENTIAL.
        scale: 1 / std^2 of Gaussian noise, else 1.
    """

    kind: int
    scale: float


def make_link_code(problem: ContextualProblem) -> LinkCode:
    """Return how kernels know the problem's likelihood."""
    std = getattr(problem.likelihood, "std", 1.0)
    return LinkCode(KINDS.index(type(problem.likelihood)), float(std) ** -2.0)


@inner
def log_likelihood(link: LinkCode, eta: float, n: float, s: float) -> tuple[float, float, float]:
    """Return the log-likelihood of one row, its derivative, and minus its second derivative."""
    if link.kind == LOGIT:
        small = math.exp(-abs(eta))
        mean = (1.0 if eta > 0.0 else small) / (1.0 + small)
        value = s * eta - n * (max(eta, 0.0) + math.log1p(small))
        return value, s - n * mean, n * small / ((1.0 + small) * (1.0 + small))
    if link.kind == IDENTITY:
        return link.scale * (s - 0.5 * n * eta) * eta, link.scale * (s - n * eta), link.scale * n
    if link.kind == LOG_OF_POISSON:
        mean = n * math.exp(min(eta, MAX_EXPONENT))
        return s * eta - mean, s - mean, mean
    mean = s * math.exp(min(-eta, MAX_EXPONENT))
    return -n * eta - mean, mean - n, mean


@inner
def find_peak(link: LinkCode, n: float, s: float) -> float:
    """Return where the likelihood of one row is largest, or a number far out."""
    if link.kind == IDENTITY:
        return s / n
    if link.kind == LOG_OF_EXPONENTIAL and s == 0.0:
        return -math.inf  # it rises by n for each unit down
    rest = n - s if link.kind == LOGIT else n
    return math.log(max(s, TINY)) - math.log(max(rest, TINY))


@inner
def sum_log_likelihoods(
    link: LinkCode, eta: np.ndarray, data: np.ndarray, is_single: bool, buffer: np.ndarray
) -> float:
    """Return the log-likelihood of a tile of R rows.

    Args:
        link: whose.
        eta: (R,) linear predictors, overwritten.
        data: (2, at least R) n and s of each row.
        is_single: whether all n are 1.
        buffer: (2, at least R) overwritten.
    """
    n, s, value, total = data[0], data[1], buffer[0], eta.size
    # s eta - n e^eta of Poisson rewards; of exponential ones -n eta - s e^-eta.
    sign, slopes, sizes = (1.0, s, n) if link.kind == LOG_OF_POISSON else (-1.0, n, s)
    if link.kind == IDENTITY:
        for j in range(total):
            off = s[j] / n[j] - eta[j]  # s eta - n eta^2 / 2 would cancel for large n
            value[j] = -0.5 * link.scale * n[j] * off * off
        return fold_sum(value, total)
    for j in range(total):
        if link.kind == LOGIT:
            value[j] = s[j] * eta[j] - n[j] * max(eta[j], 0.0)
            eta[j] = -abs(eta[j])
        else:
            eta[j] *= sign
            value[j] = slopes[j] * eta[j]
    exponentiate_row(eta, buffer[1])
    if link.kind == LOGIT and is_single:
        for j in range(total):
            eta[j] += 1.0
        return fold_sum(value, total) - math.log(fold_product(eta, total))
    for j in range(total):
        value[j] -= n[j] * math.log1p(eta[j]) if link.kind == LOGIT else sizes[j] * eta[j]
    return fold_sum(value, total)


@inner
def exponentiate_row(x: np.ndarray, buffer: np.ndarray) -> None:
    """Replace (R,) numbers by their exponentials, to 1e-11 of them, clipped at e^-700 and e^700.

    x = k log 2 + r with |r| <= log(2) / 2; a polynomial gives e^r, and k goes into the exponent.
    """
    for j in range(x.size):
        x[j] = min(max(x[j], -MAX_EXPONENT), MAX_EXPONENT)
        buffer[j] = x[j] * LOG2_E + ROUND_TO_INTEGER
    for j in range(x.size):
        k = buffer[j] - ROUND_TO_INTEGER
        r = x[j] - k * LN2_HIGH - k * LN2_LOW
        p = 1 / 720 + r * (1 / 5040 + r * (1 / 40320 + r * (1 / 362880)))
        p = 1 / 6 + r * (1 / 24 + r * (1 / 120 + r * p))
        x[j] = 1.0 + r * (1.0 + r * (0.5 + r * p))
    for j in range(x.size):
        bits = np.float64(buffer[j]).view(np.int64) - ROUND_BITS + 1023
        x[j] *= np.int64(bits << 52).view(np.float64)


@inner
def fold_sum(x: np.ndarray, size: int) -> float:
    """Return the sum of the first numbers, halves onto halves: the same on any processor."""
    while size > 1:
        half = (size + 1) // 2
        for j in range(size - half):
            x[j] += x[half + j]
        size = half
    return x[0]


@inner
def fold_product(x: np.ndarray, size: int) -> float:
    """Return the product of the first numbers, as `fold_sum` does."""
    while size > 1:
        half = (size + 1) // 2
        for j in range(size - half):
            x[j] *= x[half + j]
        size = half
    return x[0]
