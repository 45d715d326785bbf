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
    """How a mean follows from a linear predictor, and the likelihood of that; both elementwise.

    Attributes:
        name: "logit", "identity" or "log".
        mean: of a reward, given linear predictors eta.
        log_likelihood: of n rewards of sum s, given eta and the std of Gaussian noise; terms
            without eta are left out.
    """

    name: str
    mean: Callable[[FloatArray], FloatArray]
    log_likelihood: LinkFormula


def _mean_of_log(eta: FloatArray) -> FloatArray:
    return np.exp(np.clip(eta, -MAX_LOG_MEAN, MAX_LOG_MEAN))


def _softplus(eta: FloatArray) -> FloatArray:
    """Return log(1 + e^eta), for a fourth of the cost of `logaddexp`."""
    return np.asarray(np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))))


def _gaussian(eta: FloatArray, n: RealArray, s: RealArray, std: float) -> FloatArray:
    """Complete the square, because n eta^2 - 2 s eta would cancel for large n."""
    return np.asarray(-0.5 * n * np.square((np.divide(s, np.maximum(n, 1)) - eta) / std))


LINKS: Mapping[type[Likelihood], Link] = {
    Bernoulli: Link(
        "logit", scipy.special.expit, lambda eta, n, s, _: s * eta - n * _softplus(eta)
    ),
    Gaussian: Link("identity", lambda eta: np.asarray(eta, dtype=np.float64), _gaussian),
    Poisson: Link("log", _mean_of_log, lambda eta, n, s, _: s * eta - n * _mean_of_log(eta)),
    Exponential: Link("log", _mean_of_log, lambda eta, n, s, _: -n * eta - s * _mean_of_log(-eta)),
}
"""The link of each likelihood that takes features."""
