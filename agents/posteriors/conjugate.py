"""Table 1: conjugate posteriors of the arm means, batched.

Everything here is an exponential family in five features of the mean x,

    log p(x) = c_0 log x + c_1 log(1 - x) + c_2 x + c_3 x^2 + c_4 / x + constant,

in which a prior, the likelihood of the data and their product, the posterior, differ by their
coefficients alone.

| likelihood (mean x)  | family of x                | reference prior    | posterior          |
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

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bandit_gym import likelihoods, priors
from bandit_gym.problem import BanditProblem

BETA, INVERSE_GAMMA, NORMAL, GAMMA = range(4)

_FAMILIES: dict[type, tuple[int, type, tuple[float, float]]] = {
    likelihoods.Bernoulli: (BETA, priors.Beta, (1.0, 1.0)),
    likelihoods.Exponential: (INVERSE_GAMMA, priors.InverseGamma, (1.0, 1.0)),
    likelihoods.Gaussian: (NORMAL, priors.Normal, (0.0, 0.0)),
    likelihoods.Poisson: (GAMMA, priors.Gamma, (0.5, 0.0)),
}


@dataclass(frozen=True, eq=False)
class ConjugatePosterior:
    """Posteriors of K arm means under a conjugate prior, one row of Table 1.

    Attributes:
        likelihood: of the rewards, given the mean.
        prior: (K, 2) parameters of the conjugate prior, in the letters of the table above.
    """

    likelihood: likelihoods.Likelihood
    prior: np.ndarray

    @cached_property
    def family(self) -> int:
        """BETA, INVERSE_GAMMA, NORMAL or GAMMA: the law of a mean."""
        return _FAMILIES[type(self.likelihood)][0]

    def is_proper(self) -> np.ndarray:
        """Return (K,) True where the prior itself, without data, is a distribution."""
        return self._first_is_proper() & (self.prior[:, 1] > 0)

    def _first_is_proper(self) -> np.ndarray:
        return np.full(len(self.prior), True) if self.family == NORMAL else self.prior[:, 0] > 0

    @cached_property
    def weights(self) -> np.ndarray:
        """(2, 2) what a pull and a unit of reward add to the first and to the second parameter."""
        nothing = replace(self, prior=np.zeros((1, 2)))  # parameters are linear in the data
        pull, unit = np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])
        return np.stack(nothing.parameters(pull, unit))[:, :, 0]

    def parameters(self, counts: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the two (..., K) posterior parameters, given (..., K) statistics.

        Returns:
            (alpha, beta), (shape, scale), (h, tau) or (shape, rate), as the table says.
        """
        first, second = self.prior[:, 0], self.prior[:, 1]
        if self.family == BETA:
            return first + sums, second + (counts - sums)
        if self.family == INVERSE_GAMMA:
            return first + counts, second + sums
        if self.family == NORMAL:
            assert isinstance(self.likelihood, likelihoods.Gaussian)
            variance = self.likelihood.std**2
            return first + sums / variance, second + counts / variance
        return first + sums, second + counts

    def natural_parameters(self) -> np.ndarray:
        """Return the (K, 5) coefficients of the prior's log-density in the five features."""
        first, second = self.prior.T
        coefficients = np.zeros((len(self.prior), 5))
        if self.family == BETA:
            coefficients[:, 0], coefficients[:, 1] = first - 1, second - 1
        elif self.family == INVERSE_GAMMA:
            coefficients[:, 0], coefficients[:, 4] = -first - 1, -second
        elif self.family == NORMAL:
            coefficients[:, 2], coefficients[:, 3] = first, -second / 2
        else:
            coefficients[:, 0], coefficients[:, 2] = first - 1, -second
        return coefficients

    def mean(self, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return the (..., K) posterior expectations of the means."""
        first, second = self.parameters(counts, sums)
        if self.family == BETA:
            return first / (first + second)
        if self.family == INVERSE_GAMMA:
            return np.where(first > 1, second / np.maximum(first - 1, 1e-300), np.inf)
        return first / second

    def quantile(
        self, counts: np.ndarray, sums: np.ndarray, probability: np.ndarray | float
    ) -> np.ndarray:
        """Return the (..., K) posterior quantiles of the means."""
        from scipy import special

        first, second = self.parameters(counts, sums)
        if self.family == BETA:
            return special.betaincinv(first, second, probability)
        if self.family == INVERSE_GAMMA:
            return second / special.gammainccinv(first, probability)
        if self.family == NORMAL:
            return first / second + special.ndtri(probability) / np.sqrt(second)
        return special.gammaincinv(first, probability) / second


def reference_posterior(problem: BanditProblem) -> ConjugatePosterior:
    """Return Table 1's reference posterior for the problem's likelihood, the same for all arms."""
    parameters = _FAMILIES[type(problem.likelihood)][2]
    return ConjugatePosterior(problem.likelihood, np.tile(parameters, (problem.num_arms, 1)))


def conjugate_family(likelihood: likelihoods.Likelihood) -> type:
    """Return the class of priors that are conjugate to the likelihood."""
    return _FAMILIES[type(likelihood)][1]


def likelihood_family(likelihood: likelihoods.Likelihood) -> int:
    """Return BETA, INVERSE_GAMMA, NORMAL or GAMMA, the family that is conjugate to it."""
    return _FAMILIES[type(likelihood)][0]


def conjugate_posterior(problem: BanditProblem) -> ConjugatePosterior | None:
    """Return the posterior under the problem's own prior where that is conjugate, else None."""
    family, prior_class, _ = _FAMILIES[type(problem.likelihood)]
    prior = problem.prior
    if not isinstance(prior, prior_class):
        return None
    if isinstance(prior, priors.Normal):
        precision = 1 / np.square(prior.std)
        pair = (np.asarray(prior.mean) * precision, precision)
    else:
        pair = tuple(vars(prior).values())
    columns = [np.broadcast_to(np.asarray(p, dtype=float), problem.num_arms) for p in pair]
    return ConjugatePosterior(problem.likelihood, np.stack(columns, axis=1))


def matched_posterior(problem: BanditProblem, num_draws: int = 10_000) -> ConjugatePosterior:
    """Return the posterior under the conjugate prior with the moments of the problem's prior.

    Each arm's mean and variance are those of `num_draws` draws from the prior (with a fixed
    generator of its own, so that the result is a function of the problem). A proposal built on
    the fit needs no accuracy from it: importance weights make up for the difference.
    """
    conjugate = conjugate_posterior(problem)
    if conjugate is not None:
        return conjugate
    draws = problem.prior.sample(np.random.default_rng(0), (num_draws, problem.num_arms))
    mean, variance = draws.mean(axis=0), np.maximum(draws.var(axis=0), 1e-300)
    family = _FAMILIES[type(problem.likelihood)][0]
    return ConjugatePosterior(problem.likelihood, _match_moments(family, mean, variance))


def _match_moments(family: int, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    if family == BETA:
        size = np.maximum(mean * (1 - mean) / variance - 1, 1e-3)
        return np.stack([mean * size, (1 - mean) * size], axis=1)
    if family == INVERSE_GAMMA:
        shape = 2 + mean**2 / variance
        return np.stack([shape, mean * (shape - 1)], axis=1)
    if family == NORMAL:
        return np.stack([mean / variance, 1 / variance], axis=1)
    return np.stack([mean**2 / variance, mean / variance], axis=1)
