"""Table 1: the reference posteriors, against numerical integration of prior times likelihood."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from pages.command import Task
from pages.page import Section, Verdict, graded, markdown_table
from scipy import integrate

from agents.posteriors.conjugate import reference_posterior
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Likelihood, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal, Prior
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

Row = tuple[Likelihood, Prior, str]
"""A row: rewards, a prior that makes its problem proper, and the posterior as the paper has it."""

ROWS: tuple[Row, ...] = (
    (Bernoulli(), Beta(1.0, 1.0), "Beta(1+s, 1+n-s)"),
    (Exponential(), InverseGamma(1.0, 1.0), "λ ~ Γ(1+n, 1+s), so μ ~ InverseGamma(1+n, 1+s)"),
    (Gaussian(), Normal(0.0, 1.0), "Normal(s/n, 1/n)"),
    (Poisson(), Gamma(1.0, 1.0), "Γ(1/2+s, n)"),
)
VARIANCES: Mapping[type[Likelihood], Callable[[FloatArray], FloatArray]] = {
    Bernoulli: lambda mean: mean * (1 - mean),
    Exponential: np.square,
    Gaussian: np.ones_like,
    Poisson: lambda mean: mean,
}
"""Of a reward, by its mean."""

NUM_REWARDS = 12
PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)


def reproduce(task: Task) -> Section:
    """Compare the quantiles of each row with those found by quadrature."""
    del task
    errors = [quantile_error(row) for row in ROWS]
    rows = [
        {
            "rewards": likelihood.name,
            "posterior of the mean": name,
            "largest error of five quantiles (as probability)": f"{error:.1e}",
        }
        for (likelihood, _, name), error in zip(ROWS, errors, strict=True)
    ]
    return Section(
        title="Table 1: reference posteriors",
        text=f"{NUM_REWARDS} rewards at evenly spaced quantiles of an arm with mean 0.4. The "
        "paper calls Beta(1,1) and Γ(1,1) Jeffreys priors, which they are not (Beta(1/2,1/2) and "
        "1/λ); the table is implemented as printed.",
        body=[markdown_table(rows)],
        verdicts=[
            Verdict(
                "Table 1's posteriors follow from its priors",
                graded(max(errors) < 1e-6),
                f"quadrature of prior × likelihood agrees to {max(errors):.0e}",
            )
        ],
    )


def quantile_error(row: Row) -> float:
    """Return the largest |F(q_p) - p| of a row, F by quadrature of prior times likelihood."""
    likelihood, prior, _ = row
    posterior = reference_posterior(BanditProblem(likelihood, prior, 2))
    rewards = likelihood.sample(
        np.full(NUM_REWARDS, 0.4), (np.arange(NUM_REWARDS) + 0.5) / NUM_REWARDS
    )
    counts, sums = np.array([len(rewards)] * 2), np.array([rewards.sum()] * 2)
    posterior.follow(np.random.default_rng(0), counts[None], sums[None])
    quantiles = [float(posterior.quantile(p)[0, 0]) for p in PROBABILITIES]

    def log_density(x: float) -> float:
        value = likelihood.log_likelihood(x, counts[0], sums[0])
        return float(value + log_reference(likelihood, np.float64(x)))

    top = log_density(quantiles[2])
    low, high = likelihood.support
    edges = [low, *quantiles, high]
    parts = [
        integrate.quad(lambda x: np.exp(log_density(x) - top), a, b, epsabs=0, epsrel=1e-10)[0]
        for a, b in zip(edges, edges[1:], strict=False)
    ]
    shares = np.cumsum(parts)[:-1] / np.sum(parts)
    return float(np.abs(shares - PROBABILITIES).max())


def distance_from_jeffreys(likelihood: Likelihood) -> float:
    """Return how much the log-ratio of a row's prior and Jeffreys' varies over means in 0.1 to 0.9.

    The Fisher information of a mean is one over the variance of a reward, in all four families.
    """
    means = np.linspace(0.1, 0.9, 81)
    log_jeffreys = -0.5 * np.log(VARIANCES[type(likelihood)](means))
    return float(np.ptp(log_reference(likelihood, means) - log_jeffreys))


def log_reference(likelihood: Likelihood, means: np.ndarray) -> np.ndarray:
    """Return the log-density of Table 1's reference prior over each mean, up to a constant."""
    if isinstance(likelihood, Exponential):
        return -1 / means - 2 * np.log(means)  # of the mean; the table has its reciprocal
    if isinstance(likelihood, Bernoulli | Gaussian):
        return np.zeros_like(means)
    return -0.5 * np.log(means)
