"""Probability that each arm is the best, by importance sampling in many dimensions.

A mixture of t distributions is fitted to draws of the posterior by chains. Draws of that mixture,
weighted by the posterior's density, give the probabilities. Six times as many draws without
weights, which cost next to nothing, are a control variate: they remove the mixture's own part of
the variance.

Notation: K arms, d coefficients, M draws, L chains.

References:
    Hesterberg (1995), "Weighted average importance sampling and defensive mixture distributions".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
import scipy
from numpy.random import Generator
from scipy.special import logsumexp

from agents.oracle.chains import Compared, PosteriorTarget, find_wins, temper_draws
from bandit_gym.checks.typing import FloatArray
from bandit_gym.numerics.streams import make_generator

BATCH_SIZE = 20_000
"""Draws of a batch with weights."""

NUM_UNWEIGHTED = 6
"""Draws without weights, for each with one."""

MIN_BATCHES, MAX_BATCHES = 16, 2000

GIVE_UP_RATIO = 2.0
"""Of the error that all batches would have, to the tolerance."""

LOW_DEGREES, HIGH_DEGREES, HIGH_DIMENSION = 8.0, 30.0, 10
"""Degrees of freedom of the main t distribution, below and from so many coefficients."""

WEIGHTS = np.array([0.85, 0.1, 0.05])
WIDENING, WIDE_DEGREES, COEFFICIENT_DEGREES = 1.5, 3.0, 2.0
"""Shares of the three t distributions; widening and degrees of the second; degrees of the third."""


class TMixture:
    """Three t distributions: one like some draws, a wider one, and one of independent coefficients.

    The last has the heaviest tails along each coefficient, as priors of independent coefficients
    have them: a multivariate t with as few degrees of freedom falls faster there.

    Arguments:
        draws: (L, d) that it is to be like.
    """

    def __init__(self, draws: FloatArray) -> None:
        self._mean, covariance = draws.mean(axis=0), np.atleast_2d(np.cov(draws.T))
        self._factor, unit = np.linalg.cholesky(covariance), np.eye(draws.shape[1])
        degrees = LOW_DEGREES if len(unit) < HIGH_DIMENSION else HIGH_DEGREES
        self._joint = (  # of L^-1 (theta - mean)
            scipy.stats.multivariate_t(shape=unit, df=degrees),
            scipy.stats.multivariate_t(shape=WIDENING**2 * unit, df=WIDE_DEGREES),
        )
        self._each = scipy.stats.t(COEFFICIENT_DEGREES, scale=np.sqrt(np.diag(covariance)))

    def sample(self, rng: Generator, size: int) -> FloatArray:
        """Return (size, d) draws, in antithetic pairs, whose means vary less."""
        *sizes, num_each = rng.multinomial(size // 2, WEIGHTS)
        parts = [
            part.rvs(n, rng).reshape(n, -1) @ self._factor.T
            for part, n in zip(self._joint, sizes, strict=True)
        ]
        draws = np.concatenate([*parts, self._each.rvs((num_each, len(self._mean)), rng)])
        return np.asarray(self._mean + np.concatenate([draws, -draws]))

    def log_density(self, theta: FloatArray) -> FloatArray:
        """Return the (M,) log-densities of (M, d) coefficients."""
        off = theta - self._mean
        z, shrinkage = np.linalg.solve(self._factor, off.T).T, np.log(np.diag(self._factor)).sum()
        logs = [part.logpdf(z) - shrinkage for part in self._joint]
        logs.append(self._each.logpdf(off).sum(axis=1))
        return np.asarray(logsumexp(np.stack(logs, axis=1) + np.log(WEIGHTS), axis=1))


def one_posterior(
    target: PosteriorTarget, arms: Compared, tolerance: float
) -> tuple[FloatArray, float]:
    """Return the (K,) probabilities of arms that share coefficients, and their error."""
    rng = make_generator("importance sampling of the oracle")
    return weigh_mixture(rng, target, temper_draws(rng, target), arms, tolerance)


def weigh_mixture(
    rng: Generator,
    target: PosteriorTarget,
    chains: FloatArray,
    arms: Compared,
    tolerance: float,
) -> tuple[FloatArray, float]:
    """Return the (K,) probabilities from draws of a mixture that is fitted to (L, d) chains.

    With normalised weights w_i, wins 1_i of an arm and P = sum_i w_i 1_i, the estimate is P less a
    multiple of the error of the mean of 1_i. Least squares give the multiple.

    The error adds the share of chains that would have more weight than any draw: they are where
    the mixture does not reach, as in a narrow mode.
    """
    mixture, largest = TMixture(chains), -np.inf

    def estimate() -> FloatArray:
        nonlocal largest
        theta, weights, top = _draw(rng, target, mixture)
        largest = max(largest, top)
        wins = find_wins(theta, arms)
        probabilities, centred = weights @ wins, wins - wins.mean(axis=0)
        influence = BATCH_SIZE * weights[:, None] * (wins - probabilities)
        spread = np.maximum(np.square(centred).sum(axis=0), 1.0)
        slopes = (influence * centred).sum(axis=0) / spread
        slopes *= NUM_UNWEIGHTED / (NUM_UNWEIGHTED + 1)
        known = find_wins(mixture.sample(rng, NUM_UNWEIGHTED * BATCH_SIZE), arms).mean(axis=0)
        return np.asarray(probabilities - slopes * (wins.mean(axis=0) - known))

    probabilities, error = average_batches(estimate, tolerance)
    is_missed = target.log_density(chains) - mixture.log_density(chains) > largest
    return probabilities, error + float(is_missed.mean())


def independent_arms(
    blocks: Sequence[PosteriorTarget], arms: FloatArray, tolerance: float
) -> tuple[FloatArray, float]:
    """Return the (K,) probabilities of arms with coefficients of their own, and their error.

    P_a is the integral of the distribution of arm a's predictor times the other arms' distribution
    functions, all of them from weighted draws.
    """
    rng = make_generator("importance sampling of the oracle")
    mixtures = [TMixture(temper_draws(rng, block)) for block in blocks]

    def estimate() -> FloatArray:
        predictors, weights = [], []
        for arm, block, mixture in zip(arms, blocks, mixtures, strict=True):
            theta, shares, _ = _draw(rng, block, mixture)
            predictors.append(theta @ arm[block.chosen])
            weights.append(shares)
        return combine_arms(predictors, weights)

    return average_batches(estimate, tolerance)


def combine_arms(predictors: Sequence[FloatArray], weights: Sequence[FloatArray]) -> FloatArray:
    """Return the (K,) probabilities of the largest of independent predictors.

    Args:
        predictors: for each arm (M,) draws.
        weights: for each arm (M,) weights that sum to one.
    """
    orders = [np.argsort(values) for values in predictors]
    positions = [values[order] for values, order in zip(predictors, orders, strict=True)]
    masses = [mass[order] for mass, order in zip(weights, orders, strict=True)]
    steps = [np.concatenate([[0.0], np.cumsum(mass)]) for mass in masses]
    for arm, other in permutations(range(len(predictors)), 2):
        below = np.searchsorted(positions[other], positions[arm])
        masses[arm] = masses[arm] * steps[other][below]
    return np.array([mass.sum() for mass in masses])


def average_batches(
    estimate: Callable[[], FloatArray], tolerance: float
) -> tuple[FloatArray, float]:
    """Return the (K,) mean of independent estimates, and two standard errors in total variation.

    There are as many as the tolerance needs, but few where all that are allowed would not do. Half
    the sum of two standard errors of each probability is more than twice the average total
    variation.
    """
    estimates: list[FloatArray] = []
    while True:
        estimates.append(estimate())
        if len(estimates) < MIN_BATCHES:
            continue
        error = float(np.std(estimates, axis=0, ddof=1).sum() / np.sqrt(len(estimates)))
        is_hopeless = error * np.sqrt(len(estimates) / MAX_BATCHES) > GIVE_UP_RATIO * tolerance
        if error <= tolerance or is_hopeless or len(estimates) == MAX_BATCHES:
            mean = np.maximum(np.mean(estimates, axis=0), 0.0)
            return mean / mean.sum(), error


def _draw(
    rng: Generator, target: PosteriorTarget, mixture: TMixture
) -> tuple[FloatArray, FloatArray, float]:
    """Return (M, d) draws of the mixture, (M,) weights that sum to one, and the largest log-ratio.

    Weights are in proportion to the ratio of the posterior's density to the mixture's.
    """
    theta = mixture.sample(rng, BATCH_SIZE)
    log_ratios = target.log_density(theta) - mixture.log_density(theta)
    return theta, scipy.special.softmax(log_ratios), float(log_ratios.max())
