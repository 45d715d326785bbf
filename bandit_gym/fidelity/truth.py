"""The exact law of Thompson sampling's arm under a prior whose make is known.

Independent arms need one quadrature. A law that is one of several laws of independent arms, chosen
once for all arms, is their average, weighed by how well each foresees the data; so is a normal law
with one common factor, given the factor.

Letters: K arms.
"""

from functools import partial
from typing import Any

import numpy as np
from scipy import special

from bandit_gym.fidelity.landmarks import balances, data_landmarks, end_landmarks, prior_landmarks
from bandit_gym.fidelity.priors import Camps, DensityOnly, OneFactor
from bandit_gym.fidelity.quadrature import LogDensity, best_arm_law, shrinking_edges
from bandit_gym.likelihoods import Likelihood
from bandit_gym.priors import Beta, Gamma, Normal
from bandit_gym.priors.mixtures import HierarchicalBeta
from bandit_gym.typing import FloatArray

NUM_FACTORS, NUM_ZOOMS, REACH, DEPTH = 33, 3, 25.0, 30.0
"""Of a common factor: values looked at, times the interval narrows, its first end, and the log of
the evidence, below the largest, that is left out."""

FARTHEST = 1e5
"""Logarithm of odds or of means beyond which there is no mass."""

Data = tuple[FloatArray, FloatArray]
"""(K,) counts and (K,) sums."""


def exact_law(likelihood: Likelihood, prior: Any, data: Data) -> FloatArray:
    """Return the (K,) probabilities that each arm is the best."""
    if isinstance(prior, DensityOnly):
        return exact_law(likelihood, prior.law, data)
    if isinstance(prior, OneFactor):
        return factor_law(likelihood, prior, data)
    if isinstance(prior, HierarchicalBeta):
        laws = tuple(Beta(a, b) for a, b in zip(prior.alphas, prior.betas, strict=True))
        prior = Camps(laws, prior.weights or ())
    if isinstance(prior, Camps):
        found = [independent_law(likelihood, law, data) for law in prior.laws]
        return _average(np.log(prior.weights), found)
    return independent_law(likelihood, prior, data)[1]


def independent_law(
    likelihood: Likelihood, law: Any, data: Data, support: FloatArray | None = None
) -> tuple[float, FloatArray]:
    """Return the log-evidence and the (K,) law under independent arms.

    Args:
        likelihood: of rewards.
        law: with `arm_log_density`.
        data: counts and sums.
        support: (K, 2) ends of a box outside which there is no mass; default: the law's own.
    """
    counts, sums = data
    support = law.arm_support(len(counts)) if support is None else support
    support = np.clip(support, *likelihood.support)
    own, told = prior_landmarks(law, len(counts)), data_landmarks(likelihood, counts, sums)
    marks = np.concatenate([own, told, balances(own, told), end_landmarks(support)])
    edges = shrinking_edges(marks, (support[:, 0].min(), support[:, 1].max()))
    return best_arm_law(partial(_log_posterior, likelihood, law, data, support), edges)


def log_odds_law(prior: Beta, data: Data) -> FloatArray:
    """Return the (K,) law for Bernoulli rewards where mass lies nearer to 0 or 1 than numbers do.

    The densities are those of log(x / (1 - x)).
    """
    counts, sums = data
    alpha, beta = prior.alpha + sums, prior.beta + counts - sums
    return _law_on_line(
        lambda u: alpha * special.log_expit(u)[:, None] + beta * special.log_expit(-u)[:, None]
    )


def log_law(prior: Gamma, data: Data) -> FloatArray:
    """Return the (K,) law for Poisson rewards where mass lies nearer to 0 than numbers do."""
    counts, sums = data
    shape, rate = prior.shape + sums, prior.rate + counts
    with np.errstate(over="ignore"):
        return _law_on_line(lambda u: shape * u[:, None] - rate * np.exp(u)[:, None])


def _law_on_line(log_density: LogDensity) -> FloatArray:
    """Return the (K,) law of numbers without ends, whose bulks are some 0.001 to 100,000 wide."""
    steps = np.geomspace(1e-3, FARTHEST, 100)
    return best_arm_law(log_density, np.concatenate([-steps[::-1], [0.0], steps]))[1]


def _log_posterior(
    likelihood: Likelihood, law: Any, data: Data, support: FloatArray, points: FloatArray
) -> FloatArray:
    low, high = support.T
    means = np.broadcast_to(points[:, None], (len(points), len(low)))
    with np.errstate(all="ignore"):
        value = law.arm_log_density(means) + likelihood.log_likelihood(means, *data)
    return np.where((means >= low) & (means <= high), value, -np.inf)


def _average(log_weights: FloatArray, found: list[tuple[float, FloatArray]]) -> FloatArray:
    evidence = log_weights + np.array([log_evidence for log_evidence, _ in found])
    return np.asarray(special.softmax(evidence) @ np.array([law for _, law in found]))


def factor_law(
    likelihood: Likelihood, prior: OneFactor, data: Data, *, num_factors: int = NUM_FACTORS
) -> FloatArray:
    """Narrow the factor's interval to where the evidence is, then average over its values.

    The values lie so close that the order of the means changes little from one to the next.

    Args:
        likelihood: of rewards.
        prior: with the common factor.
        data: counts and sums.
        num_factors: values looked at, at least.
    """
    low, high = -REACH, REACH
    for _ in range(NUM_ZOOMS):
        factors = np.linspace(low, high, num_factors)
        evidence = _log_evidence(factors, _given_factor(likelihood, prior, data, factors))
        kept = factors[evidence > evidence.max() - DEPTH]
        step = factors[1] - factors[0]
        low, high = kept[0] - step, kept[-1] + step
    finest = prior.own_std / max(np.ptp(prior.loadings), prior.own_std)
    factors = np.linspace(low, high, num_factors + int((high - low) / finest))
    return _average(-(factors**2) / 2, _given_factor(likelihood, prior, data, factors))


def _given_factor(
    likelihood: Likelihood, prior: OneFactor, data: Data, factors: FloatArray
) -> list[tuple[float, FloatArray]]:
    """Return the log-evidence and the (K,) law given each value of the factor."""
    box = np.tile([prior.low, prior.high], (len(prior.loadings), 1))
    means = prior.mean + factors[:, None] * np.array(prior.loadings)
    laws = (Normal(tuple(mean), prior.own_std) for mean in means)
    return [independent_law(likelihood, law, data, box) for law in laws]


def _log_evidence(factors: FloatArray, found: list[tuple[float, FloatArray]]) -> FloatArray:
    return np.array([log_evidence for log_evidence, _ in found]) - factors**2 / 2
