"""Probability that each arm is the best where arms depend on each other, by importance sampling.

A mixture of t distributions is fitted to draws of the posterior by chains. Draws of that mixture,
weighted by the posterior's density, give the probabilities. Twice as many draws without weights are
a control variate: they remove the mixture's own part of the variance. All of them are quasi-random:
a batch is a scrambled Sobol sequence, and batches are independent, so that they tell the error.

Of a prior without features no more may be known than its draws and its density. Draws of the prior,
weighted by the likelihood, are enough while many of them have weight. Otherwise the mixture is
fitted in the coordinate of `agents.oracle.arms`: there the means have no ends, and a density
without bound has none.

The components of a shared mixture have independent arms, so each is solved by quadrature. Given the
data, a component has its weight times its evidence, which is the integral of its density times the
likelihood.

Notation: K arms, d coefficients or means, M draws, L chains.

References:
    Hesterberg (1995), "Weighted average importance sampling and defensive mixture distributions".
    Owen (1998), "Scrambling Sobol' and Niederreiter-Xing points".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator
from scipy.special import logsumexp, softmax

from agents.oracle.arms import Arms, Line
from agents.oracle.chains import Compared, PosteriorTarget, find_wins, require_digits, temper_draws
from agents.oracle.panels import ToleranceError, integrate_arms, require_tolerance
from bandit_gym.checks import message
from bandit_gym.checks.typing import FloatArray
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem

BATCH_SIZE = 1 << 14
"""Draws of a batch with weights."""

NUM_UNWEIGHTED = 2
"""Draws without weights, for each with one; a power of 2. To 1e-4 eight take 1.1 to 2.5 times as
long in six cases of `contextual-v1`."""

HALF_SOBOL_STEP = 2.0**-31
"""Is added to a sequence's numbers, multiples of a step from 0, so that no quantile is infinite."""

MIN_BATCHES, MAX_BATCHES = 16, 16000
"""The most bring twenty coefficients to a total variation error of 1e-4, in some half an hour."""

GIVE_UP_ERRORS = 3.0
"""An answer is given up where all batches would have more than the tolerance, by so many relative
standard errors of a standard error, which n batches know to 1 / sqrt(2 n)."""

LOW_DEGREES, HIGH_DEGREES, HIGH_DIMENSION = 8.0, 30.0, 10
"""Degrees of freedom of the main t distribution, below and from so many coefficients."""

WEIGHTS = np.array([0.85, 0.1, 0.05])
WIDENING, WIDE_DEGREES, COEFFICIENT_DEGREES = 1.5, 3.0, 2.0
"""Shares of the three t distributions; widening and degrees of the second; degrees of the third."""

MIN_EFFICIENCY = 0.1
"""Effective draws of the prior, for each draw, above which nothing is fitted."""

END_LENGTH = 3.0
"""Of the coordinate, before either limit. Where the mass beyond a limit is more than 2e-3, so is
the mass on that length, unless the density falls by half or more over it."""

Solve = Callable[[FloatArray, FloatArray], tuple[FloatArray, float]]


class TMixture:
    """Three t distributions: one like some draws, a wider one, and one of independent coefficients.

    The last has the heaviest tails along each coefficient, as priors of independent coefficients
    have them: a multivariate t with as few degrees of freedom falls faster there.

    Arguments:
        draws: (L, d) that it is to be like.
    """

    def __init__(self, draws: FloatArray) -> None:
        self._mean, covariance = draws.mean(axis=0), np.atleast_2d(np.cov(draws.T))
        try:
            self._factor, unit = np.linalg.cholesky(covariance), np.eye(draws.shape[1])
        except np.linalg.LinAlgError:
            text = "coefficients are determined too unequally for draws of them"
            raise ToleranceError(text, np.inf) from None
        degrees = LOW_DEGREES if len(unit) < HIGH_DIMENSION else HIGH_DEGREES
        self._parts = (degrees, 1.0), (WIDE_DEGREES, WIDENING)
        self._joint = [  # of L^-1 (theta - mean)
            scipy.stats.multivariate_t(shape=width**2 * unit, df=n) for n, width in self._parts
        ]
        self._each = scipy.stats.t(COEFFICIENT_DEGREES, scale=np.sqrt(np.diag(covariance)))

    def sample(self, rng: Generator, size: int) -> FloatArray:
        """Return (size, d) draws by a scrambled Sobol sequence, `size` being a power of 2.

        The first number of a point chooses the distribution, the second gives the chi-square
        variable of a joint one, and the others its normal variables z: z (degrees / chi^2)^(1/2).
        """
        sequence = scipy.stats.qmc.Sobol(2 + len(self._mean), rng=rng)
        points = sequence.random(size) + HALF_SOBOL_STEP
        which, rest = np.searchsorted(WEIGHTS[:-1].cumsum(), points[:, 0]), points[:, 2:]
        draws = np.empty_like(rest)
        for part, (degrees, width) in enumerate(self._parts):
            chosen = which == part
            gamma = scipy.special.gammaincinv(degrees / 2, points[chosen, 1])
            z = scipy.special.ndtri(rest[chosen]) * np.sqrt(degrees / 2 / gamma)[:, None]
            draws[chosen] = width * z @ self._factor.T
        is_each = which == len(self._parts)
        draws[is_each] = self._each.ppf(rest[is_each])
        return np.asarray(self._mean + draws)

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
        least = 1 - GIVE_UP_ERRORS / np.sqrt(2 * len(estimates))
        is_hopeless = least * error * np.sqrt(len(estimates) / MAX_BATCHES) > tolerance
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
    return theta, softmax(log_ratios), float(log_ratios.max())


def make_mixture_solver(problem: BanditProblem, tolerance: float, prices: Any = None) -> Solve:
    """Return a function of (K,) counts and sums that returns (K,) probabilities and their error.

    A relative error of an evidence changes the probabilities by at most as much, times the
    component's posterior weight.

    Args:
        problem: its prior has `shared_components`.
        tolerance: largest error accepted.
        prices: see `Arms`.
    """
    prior: Any = problem.prior
    components, weights = prior.shared_components()
    no_data = np.zeros(problem.num_arms)
    parts = []
    for component, weight in zip(components, weights, strict=True):
        arms = Arms(replace(problem, prior=component), prices)
        before = integrate_arms(arms, tolerance, no_data, no_data)  # its density need not be normed
        parts.append((arms, np.log(weight) - before.log_evidence, before.evidence_error))
    of_components, log_weights, errors_before = zip(*parts, strict=True)

    def solve(counts: FloatArray, sums: FloatArray) -> tuple[FloatArray, float]:
        answers = [integrate_arms(arms, tolerance, counts, sums) for arms in of_components]
        posterior_weights = softmax(np.add(log_weights, [a.log_evidence for a in answers]))
        errors = np.add(errors_before, [a.error + a.evidence_error for a in answers])
        error = float(posterior_weights @ errors)
        require_tolerance(error, tolerance)
        probabilities = posterior_weights @ [answer.probabilities for answer in answers]
        return probabilities / probabilities.sum(), error

    return solve


@dataclass(frozen=True, eq=False)
class MeansTarget(PosteriorTarget):
    """The posterior of all means, in the coordinate of a line.

    Attributes:
        line: whose means the coordinates stand for.
        support: (K, 2) lowest and highest mean of each arm.
    """

    line: Line = field(kw_only=True)
    support: FloatArray = field(kw_only=True)

    def sample_prior(self, rng: Generator, size: int) -> FloatArray:
        """Return the (size, K) coordinates of draws of the prior."""
        return self.line.positions(super().sample_prior(rng, size))

    def log_prior(self, theta: FloatArray) -> FloatArray:
        """Return the (M,) log-densities of (M, K) coordinates, -inf outside the support."""
        means, (first, last) = self.line.means(np.clip(theta, *self.line.limits)), self.line.limits
        low, high = self.support.T
        is_inside = (means >= low) & (means <= high) & (theta >= first) & (theta <= last)
        with np.errstate(all="ignore"):
            values = np.asarray(self.problem.prior.log_density(means), dtype=np.float64)
        values = np.where(is_inside.all(axis=-1), values, -np.inf)
        if not (values < np.inf).all():
            at = np.argmin(values < np.inf)
            place = f" at the means {means[at].tolist()}"
            name = "problem.prior.log_density"
            raise ValueError(message(name, "be a number or -inf", values[at], place=place))
        return values + self.line.log_slope(theta).sum(axis=-1)

    def log_likelihoods(self, theta: FloatArray) -> FloatArray:
        """Return the (M,) log-likelihoods of (M, K) coordinates."""
        return super().log_likelihoods(self.line.means(theta))


def joint_probabilities(
    problem: BanditProblem,
    tolerance: float,
    prices: Any,
    counts: FloatArray,
    sums: FloatArray,
) -> tuple[FloatArray, float]:
    """Return the (K,) probabilities that each arm is the best, and their error.

    The error is that of the total variation distance: two standard errors, and what draws cannot
    tell: ties, mass near the ends of what numbers can hold, and modes that were missed.

    Args:
        problem: any.
        tolerance: largest error accepted.
        prices: see `Arms`.
        counts: (K,) pulls.
        sums: (K,) total rewards.

    Raises:
        ToleranceError: if the error is larger.
    """
    arms, unit, pulled = Arms(problem), np.eye(problem.num_arms), counts > 0
    priced = Arms(problem, prices)

    def find_worth(theta: FloatArray) -> FloatArray:
        return priced.worth(arms.line.means(theta))

    compared: Compared = unit if prices is None else find_worth
    data = unit[pulled], counts[pulled], sums[pulled]
    target = MeansTarget(problem, *data, line=arms.line, support=arms.support)
    rng = make_generator("importance sampling of the oracle")
    theta = target.sample_prior(rng, BATCH_SIZE)
    values = target.log_likelihoods(theta)
    if not np.isfinite(values.max()):
        require_digits(values)
    weights = softmax(values)
    if len(theta) * (weights @ weights) <= 1 / MIN_EFFICIENCY:
        require_digits(values.max(keepdims=True))
        is_best = theta == theta.max(axis=1, keepdims=True)
        unknown = float(weights[is_best.sum(axis=1) > 1].sum())
        probabilities, error = average_batches(
            partial(estimate_from_prior, rng, target, compared), tolerance
        )
    else:
        theta = temper_draws(rng, target)
        require_digits(target.log_likelihoods(theta))
        first, last = target.line.limits + [END_LENGTH, -END_LENGTH]
        unknown = float(((theta < first) | (theta > last)).any(axis=1).mean())
        probabilities, error = weigh_mixture(rng, target, theta, compared, tolerance)
    require_tolerance(error + unknown, tolerance)
    return probabilities, error + unknown


def estimate_from_prior(rng: Generator, target: MeansTarget, compared: Compared) -> FloatArray:
    """Return (K,) probabilities from a batch, less the bias that a ratio of averages has.

    The bias is inversely proportional to the number of draws, so halves have twice as much of it.
    """
    theta = target.sample_prior(rng, BATCH_SIZE)
    weights = softmax(target.log_likelihoods(theta))
    halves = weights.reshape(2, -1) / weights.reshape(2, -1).sum(axis=1, keepdims=True)
    wins = find_wins(theta, compared)
    return np.asarray((2 * weights - halves.ravel() / 2) @ wins)
