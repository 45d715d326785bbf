"""A prior from earlier arms: empirical Bayes by marginal maximum likelihood.

Each arm's mean is a draw of the prior; its rewards have integrated it out. The likelihood of the
prior's two parameters is a product over arms, in closed form for the conjugate pairs and by
Gauss-Hermite quadrature for `logit_normal`.

Notation: K arms, n pulls and s total reward of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, special
from scipy.stats import norm, poisson

from bandit_gym.checks import check_choice, check_object, check_statistics, message
from bandit_gym.checks.typing import FloatArray
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Likelihood, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, LogitNormal, Normal, Prior

MAX_LOG = 14.0
"""Bound of the logarithm of a parameter, in the unit of the rewards: a maximum beyond it has run to
infinity."""

MIN_GAIN = 1e-6
"""Of log-likelihood over arms that are all the same; less is rounding."""

START_STEPS = (0.0, np.log(30.0), np.log(1000.0))
"""Where maxima are looked for: log of the pulls that a prior is worth, or of how much narrower it
is than the averages are."""

MAX_STD = 10.0
"""Of log-odds: nearly all means are 0 or 1 then, and quadrature has three digits."""

NODES, NODE_WEIGHTS = special.roots_hermitenorm(64)


def _logit_normal_bernoulli(
    mean: float, std: float, n: FloatArray, s: FloatArray, likelihood: Any
) -> FloatArray:
    # Nodes about the mode of each arm's posterior, with the curvature there.
    eta = np.full(len(n), mean)
    for _ in range(30):
        p = special.expit(eta)
        curvature = n * p * (1 - p) + std**-2
        eta = eta + np.clip((s - n * p - (eta - mean) / std**2) / curvature, -3.0, 3.0)
    width = 1 / np.sqrt(n * special.expit(eta) * special.expit(-eta) + std**-2)
    x = eta[:, None] + width[:, None] * NODES
    log_joint = s[:, None] * x - n[:, None] * np.logaddexp(0, x) - ((x - mean) / std) ** 2 / 2
    total: FloatArray = special.logsumexp(log_joint + NODES**2 / 2 + np.log(NODE_WEIGHTS), axis=1)
    return total + np.log(width / std) - np.log(2 * np.pi) / 2


def _log_bernoulli(mean: float, n: FloatArray, s: FloatArray, _: Any) -> FloatArray:
    return np.asarray(special.xlogy(s, mean) + special.xlogy(n - s, 1 - mean))


def _log_rising(a: float, n: FloatArray) -> FloatArray:
    """Return the log of a (a + 1) ... (a + n - 1) / n!, without what cancels for large n."""
    return np.asarray(-special.betaln(a, n + 1) - np.log(a + n))


@dataclass(frozen=True)
class Family:
    """A prior's family under a likelihood.

    Attributes:
        likelihood: the class of the likelihood.
        prior: the class of the prior.
        log_marginal: (first, second, n, s, likelihood) -> (K,) log-likelihoods, up to constants.
        log_alike: (mean, n, s, likelihood) -> (K,) those of arms that all have this mean, to which
            the others tend as the prior narrows.
        is_location: whether the first parameter is a location, else both are positive.
        unit_power: power of the rewards' unit that the second of two positive ones has.
    """

    likelihood: type[Any]
    prior: Callable[[float, float], Prior]
    log_marginal: Callable[..., FloatArray]
    log_alike: Callable[..., FloatArray]
    is_location: bool = False
    unit_power: int = 0


PRIOR_FAMILIES = {
    "beta": Family(
        Bernoulli,
        Beta,
        lambda a, b, n, s, _: special.betaln(a + s, b + n - s) - special.betaln(a, b),
        _log_bernoulli,
    ),
    "logit_normal": Family(
        Bernoulli, LogitNormal, _logit_normal_bernoulli, _log_bernoulli, is_location=True
    ),
    "normal": Family(
        Gaussian,
        Normal,
        lambda mean, std, n, s, rewards: norm.logpdf(
            s / n, mean, np.sqrt(std**2 + rewards.std**2 / n)
        ),
        lambda mean, n, s, rewards: norm.logpdf(s / n, mean, rewards.std / np.sqrt(n)),
        is_location=True,
    ),
    "gamma": Family(
        Poisson,
        Gamma,
        lambda a, b, n, s, _: _log_rising(a, s) + a * np.log(b / (b + n)) - s * np.log1p(b / n),
        lambda mean, n, s, _: poisson.logpmf(s, mean * n),
        unit_power=-1,
    ),
    "inverse_gamma": Family(
        Exponential,
        InverseGamma,
        lambda a, b, n, s, _: _log_rising(a, n) + a * np.log(b) - (a + n) * np.log(b + s),
        lambda mean, n, s, _: -n * np.log(mean) - s / mean - special.gammaln(n + 1),
        unit_power=1,
    ),
}
"""Name of a prior's family -> the likelihood that it goes with, and the marginal likelihood."""


@dataclass(frozen=True)
class FittedPrior:
    """A prior, and how well it was found.

    Attributes:
        prior: at the maximum.
        log_likelihood: there, up to a constant of the data.
        num_arms: arms with data, from which it was fitted.
    """

    prior: Prior
    log_likelihood: float
    num_arms: int


def fit_prior(likelihood: Likelihood, counts: Any, sums: Any, family: str = "beta") -> FittedPrior:
    """Fit a prior to the totals of earlier arms, by marginal maximum likelihood.

    Args:
        likelihood: of the rewards.
        counts: (K,) pulls of each arm; arms without pulls say nothing.
        sums: (K,) total rewards.
        family: "beta" or "logit_normal" for Bernoulli rewards, "normal" for Gaussian, "gamma" for
            Poisson, "inverse_gamma" for exponential ones.

    Raises:
        ValueError: if the family does not go with the likelihood, fewer than two arms have data, or
            the maximum is at infinity, as where arms differ no more than chance makes them.

    References:
        Efron, "Large-Scale Inference" (2010), chapter 1.
    """
    check_object("likelihood", likelihood, Likelihood)  # type: ignore[type-abstract]
    if likelihood.needs_squares:
        condition = "have a known std, or a prior that is given and not fitted"
        raise ValueError(message("likelihood", condition, likelihood))
    if isinstance(likelihood, Bernoulli) and likelihood.graded:
        condition = "have rewards of 0 or 1 for fit_prior, as graded ones vary less"
        raise ValueError(message("likelihood", condition, likelihood))
    row = PRIOR_FAMILIES[check_choice("family", family, PRIOR_FAMILIES)]
    if not isinstance(likelihood, row.likelihood):
        families = PRIOR_FAMILIES.items()
        fitting = [name for name, each in families if isinstance(likelihood, each.likelihood)]
        condition = f"be one of {fitting} for {likelihood}" if fitting else "go with the likelihood"
        remedy = "" if fitting else f"{likelihood} has none, so give a prior"
        raise ValueError(message("family", condition, family, remedy))
    found_counts, found_sums = check_statistics(counts, sums, likelihood, (np.size(counts),))
    n, s = found_counts[found_counts > 0].astype(np.float64), found_sums[found_counts > 0]
    if len(n) < 2:
        raise ValueError(message("counts", "have at least 2 arms with pulls", counts))

    found = _maximize(row, n, s, likelihood)
    if found is None:
        condition = "have means that differ by more than chance, and by less than they can"
        remedy = "the likelihood has no maximum, so give a prior by hand"
        raise ValueError(message("sums", condition, sums, remedy))
    first, second, log_likelihood = found
    return FittedPrior(row.prior(first, second), log_likelihood, len(n))


def _maximize(
    row: Family, n: FloatArray, s: FloatArray, likelihood: Any
) -> tuple[float, float, float] | None:
    """Return a prior's two parameters and the log-likelihood at its maximum; None at infinity."""

    def read(x: FloatArray) -> tuple[float, float]:
        if row.is_location:  # a std far below is no other than 0, and rounding would make it one
            return float(x[0]), float(np.exp(np.clip(x[1], start[1] - MAX_LOG, 300.0)))
        first, second = np.exp(np.clip(x, -300.0, 300.0))  # whose squares do not overflow
        return float(first), float(second)

    def loss(x: FloatArray) -> float:
        return -float(row.log_marginal(*read(x), n, s, likelihood).sum())

    pooled = s.sum() / n.sum()
    start, widths, narrower = np.zeros(2), np.ones(2), np.ones(2)
    if row.unit_power and s.any():
        start[1] = row.unit_power * np.log(pooled)
    if row.prior is Beta and 0 < pooled < 1:
        start = np.log(np.array([pooled, 1 - pooled]) / min(pooled, 1 - pooled))
    if row.is_location:
        means = special.logit((s + 0.5) / (n + 1)) if row.prior is LogitNormal else s / n
        spread = max(means.std(), 1e-3 * abs(means.mean())) or 1.0
        start, widths = np.array([means.mean(), np.log(spread)]), np.array([spread, 1.0])
        narrower = np.array([0.0, -1.0])
    fits = []
    with np.errstate(all="ignore"):  # far out
        for step in START_STEPS:  # numbers of pulls that differ much make several maxima
            simplex = start + step * narrower + np.vstack([np.zeros(2), np.diag(widths)])
            options = {"xatol": 1e-7, "fatol": 1e-9, "maxiter": 4000, "initial_simplex": simplex}
            fits.append(optimize.minimize(loss, simplex[0], method="Nelder-Mead", options=options))
        alike = float(row.log_alike(pooled, n, s, likelihood).sum())
    best = min(fits, key=lambda fit: float(fit.fun))
    steps = best.x[1] - start[1] if row.is_location else np.abs(best.x - start).max()
    is_wide = row.prior is LogitNormal and best.x[1] > np.log(MAX_STD)
    if -best.fun <= alike + MIN_GAIN or is_wide or steps > MAX_LOG:
        return None
    return *read(best.x), -float(best.fun)
