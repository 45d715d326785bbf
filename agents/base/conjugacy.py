"""Table 1: the distributions that are conjugate to rewards, and the reference priors.

| likelihood (mean x)  | distribution of x          | reference prior    | posterior          |
|----------------------|----------------------------|--------------------|--------------------|
| Bernoulli            | Beta(alpha, beta)          | Beta(1, 1)         | alpha+s, beta+n-s  |
| exponential          | InverseGamma(shape, scale) | InverseGamma(1, 1) | shape+n, scale+s   |
| Gaussian, std v      | Normal(h/tau, 1/sqrt(tau)) | h = tau = 0 (flat) | h+s/v^2, tau+n/v^2 |
| Poisson              | Gamma(shape, rate)         | Gamma(1/2, 0)      | shape+s, rate+n    |

for n pulls with total reward s. Table 1 states the exponential in its rate, lambda ~ Gamma(1, 1);
as the prior is over *means*, that is InverseGamma(1, 1) in x = 1/lambda, Jacobian included. The
paper calls Beta(1, 1) and Gamma(1, 1) Jeffreys priors; they are not, and are used as printed. The
Gaussian and Poisson references are improper: an arm without data has no reference posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.random import Generator

from agents.numerics.distributions import (
    BETA_DISTRIBUTION,
    GAMMA_DISTRIBUTION,
    INVERSE_GAMMA_DISTRIBUTION,
    NORMAL_DISTRIBUTION,
    Distribution,
)
from bandit_gym import likelihoods, priors
from bandit_gym.checks import message
from bandit_gym.likelihoods import Likelihood
from bandit_gym.priors import Prior
from bandit_gym.priors.independent import keeps_draws

REFERENCE = "reference"
"""What `prior=` calls the reference prior."""


class ImproperPrior:
    """A prior that does not integrate: it has a density and no draws."""

    def __post_init__(self) -> None:
        """Take parameters that no distribution has."""

    def to_dict(self) -> dict[str, Any]:
        """Return its name; environments have no such prior."""
        return {"name": REFERENCE}

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> Any:
        """Refuse to draw."""
        require_proper_prior(self)


def require_proper_prior(prior: Any) -> None:
    """Refuse a prior that is improper."""
    if isinstance(prior, ImproperPrior):
        remedy = "ExactThompson and RacingThompson take it"
        condition = "integrate, for an agent that draws from it"
        raise ValueError(message("prior", condition, REFERENCE, remedy))


@dataclass(frozen=True)
class ImproperNormal(ImproperPrior, priors.Normal):
    """The limit of normal distributions."""


@dataclass(frozen=True)
class ImproperGamma(ImproperPrior, priors.Gamma):
    """The limit of Gamma distributions."""


@dataclass(frozen=True, eq=False)
class ConjugateRow:
    """One row of Table 1: all that makes a likelihood conjugate.

    A user's likelihood has its row as the attribute `conjugate_row` of its class.

    Attributes:
        distribution: of the mean.
        prior: the class of such priors.
        parameters: returns first and second parameter of such a prior.
        update_matrix: (2, 2) what a pull and a unit of reward add to the first and second
            parameter; in units of the inverse variance, if that is known.
        reference: the reference prior, if there is one.
    """

    distribution: Distribution
    prior: type
    parameters: Callable[[Any], tuple[Any, Any]]
    update_matrix: tuple[tuple[float, float], tuple[float, float]]
    reference: Prior | None = None


def _normal_parameters(prior: Any) -> tuple[np.ndarray, np.ndarray]:
    precision = 1 / np.square(prior.std)
    return np.asarray(prior.mean) * precision, precision


TABLE_1: dict[type, ConjugateRow] = {
    likelihoods.Bernoulli: ConjugateRow(
        distribution=BETA_DISTRIBUTION,
        prior=priors.Beta,
        parameters=attrgetter("alpha", "beta"),
        update_matrix=((0, 1), (1, -1)),
        reference=priors.Beta(1.0, 1.0),
    ),
    likelihoods.Exponential: ConjugateRow(
        distribution=INVERSE_GAMMA_DISTRIBUTION,
        prior=priors.InverseGamma,
        parameters=attrgetter("shape", "scale"),
        update_matrix=((1, 0), (0, 1)),
        reference=priors.InverseGamma(1.0, 1.0),
    ),
    likelihoods.Gaussian: ConjugateRow(
        distribution=NORMAL_DISTRIBUTION,
        prior=priors.Normal,
        parameters=_normal_parameters,
        update_matrix=((0, 1), (1, 0)),
        reference=ImproperNormal(0.0, np.inf),
    ),
    likelihoods.Poisson: ConjugateRow(
        distribution=GAMMA_DISTRIBUTION,
        prior=priors.Gamma,
        parameters=attrgetter("shape", "rate"),
        update_matrix=((0, 1), (1, 0)),
        reference=ImproperGamma(0.5, 0.0),
    ),
}


def find_row(likelihood: Likelihood) -> Any:
    """Return a likelihood's row: Table 1's, or the one that its own class states, or None."""
    kind = type(likelihood)
    if likelihood.needs_squares:  # see `agents.posteriors.student`
        return None
    return TABLE_1.get(kind, vars(kind).get("conjugate_row"))


def is_compiled(likelihood: Likelihood) -> bool:
    """Say whether the likelihood's conjugate distribution is one that kernels know."""
    row = find_row(likelihood)
    return row is not None and row.distribution.code is not None


def find_update_matrix(likelihood: Likelihood) -> np.ndarray:
    """Return (2, 2) what a pull and a unit of reward add to the first and second parameter."""
    variance = likelihood.known_std**2 if isinstance(likelihood, likelihoods.Gaussian) else 1.0
    return np.array(find_row(likelihood).update_matrix, dtype=np.float64) / variance


def likelihood_coefficients(
    likelihood: Likelihood, counts: np.ndarray, sums: np.ndarray
) -> np.ndarray:
    """Return the (..., K, 5) coefficients of the log-likelihood in the five features."""
    distribution = find_row(likelihood).distribution
    (a, b), (c, d) = find_update_matrix(likelihood)
    updated = distribution.coefficients(a * counts + b * sums, c * counts + d * sums)
    return updated - distribution.coefficients(np.zeros(1), np.zeros(1))


def is_conjugate(likelihood: Likelihood, prior: Prior) -> bool:
    """Say whether a prior is conjugate to a likelihood."""
    row = find_row(likelihood)
    return row is not None and isinstance(prior, row.prior) and keeps_draws(prior, row.prior)


def reference_prior(likelihood: Likelihood) -> Prior:
    """Return Table 1's reference prior.

    Raises:
        ValueError: if the likelihood has none.
    """
    row = find_row(likelihood)
    if row is None or row.reference is None:
        rewards = f"{likelihood.name} rewards" + " of unknown std" * likelihood.needs_squares
        condition = f"be an object or a dict for {rewards}, which have no reference prior"
        raise ValueError(message("prior", condition, REFERENCE))
    return row.reference
