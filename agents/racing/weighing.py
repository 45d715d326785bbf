"""Weights that compiled loops know: log w linear in five features of each arm's mean.

Between a prior with natural parameters and a conjugate one that is so for every draw,

    log w(mu) = sum_i c_i . (log mu_i, log(1 - mu_i), mu_i, mu_i^2, 1 / mu_i) + constant,

so that such weights need no call of the prior's `log_density`, and draws can be made, weighed and
raced in one loop.

Letters: K arms, N lanes, R of them drawn for, m samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agents.numerics.kernels import fill
from agents.numerics.laws import MeanLaws
from agents.numerics.vector_math import log_all
from bandit_gym.numerics.compiled import inner, kernel

X, REST, X_REST = range(3)


class LogWeight(NamedTuple):
    """A log-weight that is linear in the features.

    Attributes:
        coefficients: (L, K, 5) of the features log x, log(1 - x), x, x^2, 1/x.
        sets: (N, K) int8, which of the L sets of coefficients holds for an arm of a lane.
        support: (K, 2) interval outside which the weight is 0.
    """

    coefficients: np.ndarray
    sets: np.ndarray
    support: np.ndarray


class WeighedLaws(NamedTuple):
    """All that a compiled loop needs in order to draw means and to weigh them.

    Attributes:
        laws: (N, K) of them, to draw from.
        log_weight: of the draws.
    """

    laws: MeanLaws
    log_weight: LogWeight


class LogProducts(NamedTuple):
    """Sums over arms of c log(y), y = x, 1 - x or x (1 - x) by kind, kept as products of y.

    So there is one logarithm for all arms of a coefficient. It is taken when the coefficient
    changes, or before a product could leave the range of floating-point numbers.

    Attributes:
        coefficients: (3,) c of the products so far, of each kind.
        products: (4, m) products so far, of each kind, and scratch space.
        out: (m,) receives the logarithms of the products done with.
    """

    coefficients: np.ndarray
    products: np.ndarray
    out: np.ndarray


@kernel
def add_log_weights(
    log_weight: LogWeight, lanes: np.ndarray, means: np.ndarray, log_weights: np.ndarray
) -> None:
    """Add the log-weights, up to a constant, of (R, K, m) means for (R,) lanes of N to (R, m)."""
    num_lanes, num_arms, num_samples = means.shape
    coefficients, products = np.empty(3), np.empty((4, num_samples))
    fill(coefficients, 0.0)
    for kind in range(3):
        fill(products[kind], 1.0)
    for r in range(num_lanes):
        out = log_weights[r]
        logs = LogProducts(coefficients, products, out)
        for i in range(num_arms):
            x = means[r, i]
            c0, c1, c2, c3, c4 = log_weight.coefficients[log_weight.sets[lanes[r], i], i]
            if c0 == c1:
                multiply_logs(logs, X_REST, c0, x)
            else:
                multiply_logs(logs, X, c0, x)
                multiply_logs(logs, REST, c1, x)
            add_rational(c2, c3, c4, x, out)
            cut_support(log_weight.support[i, 0], log_weight.support[i, 1], x, out)
        for kind in range(3):
            flush_logs(logs, kind)


@inner
def multiply_logs(logs: LogProducts, kind: int, coefficient: float, x: np.ndarray) -> None:
    """Add coefficient * log(y) for x (m,), now or later."""
    if coefficient == 0.0:
        return
    product, num_extreme = logs.products[kind], 0
    if coefficient != logs.coefficients[kind]:
        flush_logs(logs, kind)
    for j in range(x.size):
        num_extreme += not 1e-250 < product[j] * factor(kind, x[j]) < 1e250
    if num_extreme > 0:
        flush_logs(logs, kind)
    logs.coefficients[kind] = coefficient
    for j in range(x.size):
        product[j] *= factor(kind, x[j])


@inner
def factor(kind: int, x: float) -> float:
    """Return y."""
    if kind == X:
        return x
    return 1.0 - x if kind == REST else x * (1.0 - x)


@inner
def flush_logs(logs: LogProducts, kind: int) -> None:
    """Take the logarithms of the products of a kind to `out`, and start again from 1."""
    coefficient, product, out = logs.coefficients[kind], logs.products[kind], logs.out
    if coefficient != 0.0:
        log_all(product, logs.products[3])
        for j in range(out.size):
            out[j] += coefficient * product[j]
        fill(product, 1.0)
        logs.coefficients[kind] = 0.0


@inner
def add_rational(c2: float, c3: float, c4: float, x: np.ndarray, out: np.ndarray) -> None:
    """Add c2 x + c3 x^2 + c4 / x."""
    if c2 != 0.0 or c3 != 0.0:
        for j in range(x.size):
            out[j] += (c2 + c3 * x[j]) * x[j]
    if c4 != 0.0:
        for j in range(x.size):
            out[j] += c4 / x[j]


@inner
def cut_support(low: float, high: float, x: np.ndarray, out: np.ndarray) -> None:
    """Put -inf where x is outside [low, high]."""
    if low > -np.inf or high < np.inf:
        for j in range(x.size):
            out[j] = -np.inf if x[j] < low or x[j] > high else out[j]
