"""Links: how the mean of a reward follows from a linear predictor, for rewards with features.

The mean of arm a is g^-1(eta) with eta = x_a . theta, where x_a are the arm's features and theta
the coefficients: a generalised linear model.

| likelihood  | link     | mean             | log-likelihood of n rewards of sum s         |
|-------------|----------|------------------|----------------------------------------------|
| bernoulli   | logit    | 1 / (1 + e^-eta) | s eta - n log(1 + e^eta)                     |
| gaussian    | identity | eta              | -n (s / n - eta)^2 / (2 std^2)               |
| poisson     | log      | e^eta            | s eta - n e^eta                              |
| exponential | log      | e^eta            | -n eta - s e^-eta                            |

Terms without eta are left out. All but the last are canonical.

References:
    McCullagh and Nelder (1989), "Generalized Linear Models", chapter 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from bandit_gym.checks.typing import FloatArray, RealArray
from bandit_gym.likelihoods.built_in import Bernoulli, Exponential, Gaussian, Likelihood, Poisson

MAX_LOG_MEAN = 700.0
"""Of a linear predictor under the log link: e^eta overflows at 709."""

LinkFormula = Callable[[FloatArray, RealArray, RealArray, float], FloatArray]
"""Of linear predictors, counts n, sums s, and the std of Gaussian noise."""


@dataclass(frozen=True)
class Link:
    """A link with the derivatives that fits of coefficients need; all of it works elementwise.

    Attributes:
        name: "logit", "identity" or "log".
        mean: of a reward, given linear predictors eta.
        log_likelihood: of n rewards of sum s, given eta and the std of Gaussian noise; terms
            without eta are left out.
        score: its derivative by eta.
        information: minus its second derivative by eta.
    """

    name: str
    mean: Callable[[FloatArray], FloatArray]
    log_likelihood: LinkFormula
    score: LinkFormula
    information: LinkFormula


def _mean_of_log(eta: FloatArray) -> FloatArray:
    return np.exp(np.clip(eta, -MAX_LOG_MEAN, MAX_LOG_MEAN))


def _softplus(eta: FloatArray) -> FloatArray:
    """Return log(1 + e^eta), for a fourth of the cost of `logaddexp`."""
    return np.asarray(np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))))


def _logistic_weight(eta: FloatArray) -> FloatArray:
    mean = scipy.special.expit(eta)
    return np.asarray(mean * scipy.special.expit(-np.asarray(eta)))


def _canonical(name: str, mean: Any, log_partition: Any, variance: Any) -> Link:
    """Return the link under which the log-likelihood is s eta - n A(eta), given A, A' and A''."""
    return Link(
        name,
        mean,
        lambda eta, n, s, _: s * eta - n * log_partition(eta),
        lambda eta, n, s, _: s - n * mean(eta),
        lambda eta, n, s, _: n * variance(eta),
    )


def _gaussian(eta: FloatArray, n: RealArray, s: RealArray, std: float) -> FloatArray:
    """Complete the square, because n eta^2 - 2 s eta would cancel for large n."""
    return np.asarray(-0.5 * n * np.square((np.divide(s, np.maximum(n, 1)) - eta) / std))


LINKS: Mapping[type[Likelihood], Link] = {
    Bernoulli: _canonical("logit", scipy.special.expit, _softplus, _logistic_weight),
    Gaussian: Link(
        "identity",
        lambda eta: np.asarray(eta, dtype=np.float64),
        _gaussian,
        lambda eta, n, s, std: (s - n * eta) / std**2,
        lambda eta, n, s, std: n * np.full(np.shape(eta), std**-2.0),
    ),
    Poisson: _canonical("log", _mean_of_log, _mean_of_log, _mean_of_log),
    Exponential: Link(
        "log",
        _mean_of_log,
        lambda eta, n, s, _: -n * eta - s * _mean_of_log(-eta),
        lambda eta, n, s, _: s * _mean_of_log(-eta) - n,
        lambda eta, n, s, _: s * _mean_of_log(-eta),
    ),
}
"""The link of each likelihood that takes features."""
