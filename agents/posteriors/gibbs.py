"""Gibbs sampling of the arm means under a truncated multivariate normal prior.

Given the other means, arm i's has a density in the five features of `agents.posteriors.conjugate`,

    log p(x) = c_0 log x + c_1 log(1 - x) + c_2 x + c_3 x^2 + c_4 / x + constant  on [low, high],

to which the likelihood of its own data and the normal prior, conditioned on the others, both add
their coefficients. One such density after the other is drawn from by slice sampling, which needs
neither tables nor tuning, and leaves the posterior invariant exactly.

Compiled: a sweep over 10 arms takes 1.5 to 3 microseconds, against 380 for the plain function.

Letters: K arms, L lanes (chains that know nothing of each other).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.random import Generator

from agents.posteriors.quadrature import ToleranceError
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Likelihood, Poisson
from bandit_gym.priors import TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

MARGIN = 0.1
"""How far inside a box the guess at an arm's mean is kept, in prior standard deviations or, if that
is less, widths of the box: at its edge rewards may have no variance, and a slice no width."""

FAR = 1000.0
"""Standard deviations, of a mean given the arm's data alone, beyond which no chain starts."""

NUM_CHAINS = 16
NUM_BATCHES = 32
FIRST_BATCH = 16
MAX_BATCH = 1 << 16
LARGEST_VARIANCE_RATIO = 4.0
"""Of chain averages, against what their batches promise: an F statistic with 15 and 496 degrees of
freedom, above 4 once in a million for a given arm when the chains agree."""


class GibbsTarget(NamedTuple):
    """The posterior of L lanes, in the form the kernels read.

    Attributes:
        coefficients: (L, K, 5) of the likelihood, in the features log x, log(1 - x), x, x^2, 1/x.
        widths: (L, K) rough widths of the conditional densities, first guesses of the slices.
        mean: (K,) of the prior before truncation.
        precision: (K, K) of the prior before truncation.
        box: (K, 2) lowest and highest means.
    """

    coefficients: FloatArray
    widths: FloatArray
    mean: FloatArray
    precision: FloatArray
    box: FloatArray


def make_target(problem: BanditProblem, counts: FloatArray, sums: FloatArray) -> GibbsTarget:
    """Return the posterior of L lanes, given their (L, K) statistics.

    Raises:
        TypeError: if the prior is not a `TruncatedMultivariateNormal`.
    """
    prior = problem.prior
    if not isinstance(prior, TruncatedMultivariateNormal):
        raise TypeError(f"problem.prior must be a TruncatedMultivariateNormal, got {prior!r}.")
    mean = np.broadcast_to(np.asarray(prior.mean, dtype=np.float64), problem.num_arms).copy()
    precision = np.ascontiguousarray(prior.precision)
    box = np.ascontiguousarray(prior.arm_support(problem.num_arms))
    _, information = guess_means(problem, counts, sums)
    widths = 2 / np.sqrt(information + np.diag(precision))
    coefficients = likelihood_coefficients(problem.likelihood, counts, sums)
    return GibbsTarget(coefficients, widths, mean, precision, box)


def guess_means(
    problem: BanditProblem, counts: FloatArray, sums: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (L, K) means strictly inside the box, near what each arm paid, and their precisions.

    The prior's mean counts as one reward, and the precisions are those of the data alone.
    """
    prior: Any = problem.prior
    low, high = prior.arm_support(problem.num_arms).T
    margin = MARGIN * np.minimum(np.sqrt(np.diag(prior.covariance)), high - low)
    guess = (sums + np.clip(prior.mean, low + margin, high - margin)) / (counts + 1)
    guess = np.clip(guess, np.nextafter(low, high), np.nextafter(high, low))
    return guess, counts / problem.likelihood.reward_std(guess) ** 2


def bring_near(
    problem: BanditProblem, means: FloatArray, counts: FloatArray, sums: FloatArray
) -> FloatArray:
    """Return (L, K) means, to start chains from, moved to within FAR deviations of the data's.

    Slices are looked for in steps as short as the posterior is narrow, and from where a draw of the
    prior lies that may take for ever.
    """
    guess, information = guess_means(problem, counts, sums)
    with np.errstate(divide="ignore"):
        reach = FAR / np.sqrt(information)
    near: FloatArray = np.clip(means, guess - reach, guess + reach)
    return near


def likelihood_coefficients(
    likelihood: Likelihood, counts: FloatArray, sums: FloatArray
) -> FloatArray:
    """Return the (..., K, 5) coefficients of the log-likelihood, given (..., K) statistics."""
    coefficients = np.zeros((*counts.shape, 5))
    match likelihood:
        case Bernoulli():
            coefficients[..., 0], coefficients[..., 1] = sums, counts - sums
        case Exponential():
            coefficients[..., 0], coefficients[..., 4] = -counts, -sums
        case Gaussian():
            precision = 1 / likelihood.std**2
            coefficients[..., 2], coefficients[..., 3] = sums * precision, -counts * precision / 2
        case Poisson():
            coefficients[..., 0], coefficients[..., 2] = sums, -counts
        case _:
            raise TypeError(f"likelihood must be one of the built-in four, got {likelihood!r}.")
    return coefficients


@njit(cache=True)
def log_density(c: FloatArray, x: float) -> float:
    """Return c . (log x, log(1 - x), x, x^2, 1/x), without the terms whose coefficient is 0."""
    value: float = (c[2] + c[3] * x) * x
    if c[0] != 0.0:
        value += c[0] * math.log(x)
    if c[1] != 0.0:
        value += c[1] * math.log1p(-x)
    if c[4] != 0.0:
        value += c[4] / x
    return value


@njit(cache=True)
def draw_from_slice(
    rng: Generator, x: float, c: FloatArray, low: float, high: float, width: float
) -> float:
    """Return the successor of x under slice sampling of exp(c . features) on (low, high).

    The slice is bracketed by stepping out from a randomly placed interval of the given width,
    which must not depend on x, then shrunk towards x (Neal 2003, Section 4).
    """
    level = log_density(c, x) - rng.standard_exponential()
    left = x - width * rng.random()
    right = left + width
    while left > low and log_density(c, left) > level:
        left -= width
    while right < high and log_density(c, right) > level:
        right += width
    left, right = max(left, low), min(right, high)
    while True:
        candidate = left + (right - left) * rng.random()
        if log_density(c, candidate) >= level:
            return candidate
        if candidate < x:
            left = candidate
        else:
            right = candidate


@njit(cache=True)
def condition(target: GibbsTarget, lane: int, arm: int, means: FloatArray, c: FloatArray) -> None:
    """Write the coefficients of one arm's density, given the (K,) means of the others, to c."""
    precision = target.precision[arm]
    pull = precision[arm] * target.mean[arm]
    for j in range(means.size):
        if j != arm:
            pull -= precision[j] * (means[j] - target.mean[j])
    c[:] = target.coefficients[lane, arm]
    c[2] += pull
    c[3] -= 0.5 * precision[arm]


@njit(cache=True)
def gibbs_sweep(rng: Generator, means: FloatArray, target: GibbsTarget, num_sweeps: int) -> None:
    """Renew every lane's means, one arm after the other, `num_sweeps` times.

    Args:
        rng: source of randomness.
        means: (L, K) strictly inside the box; overwritten.
        target: posterior of each lane, left invariant.
        num_sweeps: renewals of each mean.
    """
    c = np.empty(5)
    for lane in range(means.shape[0]):
        x = means[lane]
        for _ in range(num_sweeps):
            for i in range(x.size):
                condition(target, lane, i, x, c)
                low, high = target.box[i]
                x[i] = draw_from_slice(rng, x[i], c, low, high, target.widths[lane, i])


@njit(cache=True)
def count_wins(
    rng: Generator, means: FloatArray, target: GibbsTarget, num_sweeps: int
) -> FloatArray:
    """Sweep on and return the (L, K) number of sweeps after which each arm was the best."""
    wins = np.zeros(means.shape)
    for _ in range(num_sweeps):
        gibbs_sweep(rng, means, target, 1)
        for lane in range(len(means)):
            wins[lane, np.argmax(means[lane])] += 1
    return wins


def gibbs_probabilities(
    problem: BanditProblem, counts: FloatArray, sums: FloatArray, *, tolerance: float
) -> tuple[FloatArray, float]:
    """Return the (K,) probabilities that each arm is the best, and two standard errors.

    Chains start from draws of the prior, or as near to them as the data allow. Each round is twice
    as long as all before it, which are forgotten, until the chains agree with one another and the
    error is small enough. The generator is fixed, so that the result is a function of the problem
    and the data.

    Args:
        problem: its prior is a `TruncatedMultivariateNormal`.
        counts: (K,) pulls.
        sums: (K,) total rewards.
        tolerance: largest error accepted.

    Raises:
        ToleranceError: if chains of MAX_BATCH * NUM_BATCHES sweeps still disagree or are still too
            noisy.
    """
    rng = np.random.default_rng(0)
    shape = (NUM_CHAINS, problem.num_arms)
    target = make_target(problem, np.tile(counts, (NUM_CHAINS, 1)), np.tile(sums, (NUM_CHAINS, 1)))
    means = bring_near(problem, problem.prior.sample(rng, shape), counts, sums)
    batch = FIRST_BATCH
    while True:
        wins = [count_wins(rng, means, target, batch) for _ in range(NUM_BATCHES)]
        frequencies = np.array(wins) / batch
        error, ratio = monte_carlo_error(frequencies)
        agrees = ratio <= LARGEST_VARIANCE_RATIO
        if agrees and error <= tolerance and batch > FIRST_BATCH:
            return frequencies.mean(axis=(0, 1)), error
        batch *= 2
        if batch > MAX_BATCH:
            raise ToleranceError(_failure(tolerance, error, ratio), error)


def monte_carlo_error(frequencies: FloatArray) -> tuple[float, float]:
    """Return two standard errors of the average, and how much more the chains differ than they may.

    Args:
        frequencies: (B, L, K) averages of consecutive batches of each of L chains.

    Returns:
        Twice the larger of the standard errors by batches and by chains, largest over arms; and
        the largest ratio of the variance of chain averages to what their batches promise.
    """
    num_batches, num_chains, _ = frequencies.shape
    promised = frequencies.var(axis=0, ddof=1).mean(axis=0) / num_batches
    seen = frequencies.mean(axis=0).var(axis=0, ddof=1)
    error = 2 * np.sqrt(np.maximum(promised, seen).max() / num_chains)
    ratios = np.divide(seen, promised, out=np.zeros_like(seen), where=promised > 0)
    return float(error), float(ratios.max())


def _failure(tolerance: float, error: float, ratio: float) -> str:
    chains = "agree" if ratio <= LARGEST_VARIANCE_RATIO else "disagree"
    return (
        f"tolerance must be within reach of {NUM_CHAINS} Gibbs chains of "
        f"{MAX_BATCH * NUM_BATCHES} sweeps, got {tolerance!r} where two standard errors are "
        f"{error:.2g} and the chains {chains} (variance ratio {ratio:.2g})."
    )
