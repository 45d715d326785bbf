"""The proposals that races draw from, and those that suit a problem.

The paper's is conjugate. A table is of one arm, as if arms were independent; a mixture has one for
each component of its prior. For arms that depend on each other closely, there is a truncated normal
distribution.

Notation: K arms, N lanes, R of these lanes in a call, m samples.

References:
    Geweke (1991), "Efficient simulation from the multivariate normal and Student-t distributions
    subject to linear constraints".
    Gibson, Glasbey and Elston (1994), "Monte Carlo evaluation of multivariate normal integrals and
    sensitivity to variate ordering".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from agents.base.conjugacy import is_compiled, is_conjugate
from agents.numerics.choices import random_argmax
from agents.numerics.distributions import NORMAL_DISTRIBUTION, MeanDistributions
from agents.numerics.kernels import copy_array, draw_chunk
from agents.posteriors.conjugate import (
    ConjugatePosterior,
    conjugate_posterior,
    matched_posterior,
    reference_posterior,
)
from agents.posteriors.grid import GridPosterior
from agents.posteriors.mixture import MixturePosterior
from agents.racing.races import Draws, Proposal, add_statistics, draw_weighted
from bandit_gym.checks import check_choice, message
from bandit_gym.numerics.compiled import inner, kernel
from bandit_gym.numerics.streams import make_generator
from bandit_gym.priors import Prior, TruncatedNormal
from bandit_gym.problem import BanditProblem

NUM_FIT_DRAWS, NUM_TRIAL_SAMPLES = 10_000, 1000
NUM_FIT_MEANS = 1_000_000
"""Means, of all arms together, from which on a fit has fewer than NUM_FIT_DRAWS draws of the prior;
but never fewer than a trial has samples."""

TARGET_EFFICIENCY, MIN_RIVAL_EFFICIENCY = 0.5, 0.1
"""Efficiencies without data: from the first on a table will do, even if a normal
distribution is better; below the second a proposal cannot check another."""

MAX_SUPPORT_DEVIATIONS = 1000.0
"""Standard deviations from the mean at which an approximating prior cuts an unbounded support."""

SITE_POWER = 0.9
"""Below 1, so that sites have heavier tails than the likelihood."""

MIN_EXTRA_PULLS, EXTRA_FRACTION = 2.0, 0.5
"""Pulls of the prior's average that are added to an arm's own for the mean of its site: at least so
many, as the curvature at a mode near the end of the support is far more than half a deviation
inside; and this fraction of those that the prior is worth."""

VARIANCE_STEP = 1e-4
"""Step for the slope of the rewards' variance, as a share of the way to the nearer end."""

MIN_MASS = 1e-300
"""Stands in for a probability that rounding makes 0."""

MASS_DIGITS = 9
"""To which masses are compared, so that rounding decides no order."""

LEAST_REST = 2.0**-50
"""Of an arm's variance what is left given other arms, at least; by rounding it may be negative."""

LOGISTIC_SLOPE = 1.7
"""Slope of a logistic distribution, per standard deviation of the normal one that it replaces. If
the interval is further out than so many deviations, the slope is the normal one there."""


class ConjugateProposal(Proposal):
    """The paper's proposal: a conjugate posterior, in which arms are independent.

    Arguments:
        problem: the likelihood, and the prior of the true posterior.
        distribution: the conjugate posterior to draw from.
        fallback: replaces `distribution` for an arm without data whose conjugate prior is improper.

    Attributes:
        coefficients: (K, 5) natural parameters of both these priors.
    """

    def __init__(
        self, problem: BanditProblem, distribution: ConjugatePosterior, fallback: ConjugatePosterior
    ) -> None:
        super().__init__(problem)
        self.distribution, self.fallback = distribution, fallback
        self._family: Any = distribution.distribution.code
        if is_conjugate(problem.likelihood, problem.prior):
            posterior = conjugate_posterior(problem)
            is_exact = np.array_equal(posterior.prior, distribution.prior)
            self.posterior = posterior if is_exact else None
        find = distribution.distribution.coefficients
        self.coefficients = [find(*q.prior.T) for q in (distribution, fallback)]
        if self.posterior is None and distribution.distribution is NORMAL_DISTRIBUTION:
            first, second = fallback.prior.T
            self._set_reference_means(first / second)

    def _set_reference_means(self, reference_means: np.ndarray) -> None:
        """Take means relative to (K,) others: squares of large means would cancel.

        With x = r + y, a x + b x^2 is (a + 2 b r) y + b y^2 and a constant.
        """
        log_densities = [*self.coefficients, *(self.natural_parameters or ())[:1]]
        if not any(terms[..., [0, 1, 4]].any() for terms in log_densities):  # logarithms and 1 / x
            self.reference_means = reference_means[:, None]
            for terms in log_densities:
                terms[..., 2] += 2 * reference_means * terms[..., 3]

    def is_missing(self, counts: np.ndarray) -> np.ndarray:
        """Return (N, K) True where an arm has no proper posterior, so that `fallback` is used."""
        return (counts == 0) & ~self.distribution.is_proper

    def update(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Compute the parameters of every arm's posterior; see `Posterior.update`."""
        super().update(rng, counts, sums)
        self._missing = self.is_missing(counts)
        proper, fallback = (q.parameters(counts, sums) for q in (self.distribution, self.fallback))
        pairs = zip(proper, fallback, strict=True)
        self._parameters = [np.where(self._missing, b, a) for a, b in pairs]

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Return m vectors of means for each lane; see `Proposal.draw`."""
        first, second = self._parameters
        means = np.empty((len(lanes), self.problem.num_arms, num_samples))
        winners = np.empty((len(lanes), num_samples), dtype=np.int64)
        draw_chunk(rng, MeanDistributions(self._family, first, second), lanes, means, winners)
        return Draws(means, winners)

    def log_density(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return (R, m) log-densities of the conjugate prior, without the likelihood."""
        (proper, fallback), missing = self.coefficients, self._missing[lanes]
        coefficients = np.where(missing[..., None], fallback, proper)
        return add_statistics(coefficients, self.centre(means))


class TableProposal(Proposal):
    """Product of the arms' tabulated posteriors, as if arms were independent.

    Arguments:
        problem: the likelihood, and the prior of the true posterior. If its arms are independent,
            the tables use its own marginals. Otherwise they use normal distributions truncated to
            the support, with the mean and variance of `draws`.
        draws: (M, K) draws from the prior.

    Raises:
        ValueError: if the marginals cannot be integrated, or are too rough for tables.
    """

    sampler: GridPosterior

    def __init__(self, problem: BanditProblem, draws: np.ndarray) -> None:
        super().__init__(problem)
        self.marginals: Any = fit_marginals(problem, draws)
        self.sampler = GridPosterior(replace(problem, prior=self.marginals))
        if self.marginals is problem.prior:
            self.posterior = self.sampler

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Return m vectors of means for each lane; see `Proposal.draw`."""
        shape = len(lanes), self.problem.num_arms, num_samples
        positions = self.sampler.positions(rng.random(shape), lanes)
        return Draws(self.sampler.coordinate.means(positions), positions.argmax(axis=1))

    def log_density(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return (R, m) log-densities of the marginal priors, without the likelihood."""
        with np.errstate(invalid="ignore"):  # one arm has density 0, another infinity
            return np.asarray(self.marginals.arm_log_density(means.swapaxes(1, 2)).sum(axis=-1))


class MixtureProposal(Proposal):
    """The exact posterior, for a prior that is a mixture with `shared_components`."""

    posterior: MixturePosterior

    def __init__(self, problem: BanditProblem) -> None:
        super().__init__(problem)
        self.sampler = self.posterior = MixturePosterior(problem)

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Return m vectors of means for each lane; see `Proposal.draw`."""
        means, winners = self.posterior.draw(rng, np.repeat(lanes, num_samples))
        means = means.reshape(len(lanes), num_samples, -1).swapaxes(1, 2)
        return Draws(np.ascontiguousarray(means), winners.reshape(len(lanes), num_samples))


def fit_marginals(problem: BanditProblem, draws: np.ndarray) -> Prior:
    """Return a prior with independent arms that approximates the marginals of the problem's.

    Args:
        problem: likelihood and prior.
        draws: (M, K) draws from the prior.
    """
    if problem.offers("arm_log_density"):
        return problem.prior
    mean, std = draws.mean(axis=0), draws.std(axis=0)
    (low, high), reach = problem.arm_support().T, MAX_SUPPORT_DEVIATIONS * std
    low, high = np.maximum(low, mean - reach), np.minimum(high, mean + reach)
    return TruncatedNormal(*(column.tolist() for column in (mean, std, low, high)))


class OrderedNormals(NamedTuple):
    """Normal distributions truncated to a box, in N lanes, with arms in the order of drawing.

    Attributes:
        box: (K, 2) ends of each arm's interval.
        order: (N, K) arms.
        centre: (N, K) means of these before truncation.
        factor: (N, K, K) Cholesky factors of their covariances.
    """

    box: np.ndarray
    order: np.ndarray
    centre: np.ndarray
    factor: np.ndarray


class NormalProposal(Proposal):
    """Draws arm means from nearly a truncated normal distribution, for arms that depend closely.

    Independent draws of arms seldom look like draws from a prior under which arms move together.
    Nearly all weight then falls on a few of them. Here the prior is, or is replaced by, a normal
    distribution truncated to a box. The likelihood of arm i's data is replaced by a normal factor,
    the *site*

        exp(h_i x - tau_i x^2 / 2),  h = SITE_POWER (g + H m),  tau = SITE_POWER H,

    with the slope g and the curvature -H of the log-likelihood at a mean m. So prior times sites is
    again a normal distribution truncated to the box. The arms are drawn one after the other, each
    given those before it (as in GHK). Each draw is from a logistic distribution of the same centre
    and width, truncated to the arm's own interval; its heavier tails keep the weights small. The
    arms that the box restricts most come first, so that the mass in their intervals does not depend
    on other draws.

    Arguments:
        problem: likelihood and prior. A truncated multivariate normal is taken as it is. Any other
            prior is replaced by the normal distribution with the moments of its draws, truncated to
            the means' support.
        draws: (M, K) from the prior, for the moments.

    Raises:
        numpy.linalg.LinAlgError: if the covariance of the draws is singular.
    """

    has_likelihood = False

    def __init__(self, problem: BanditProblem, draws: np.ndarray) -> None:
        super().__init__(problem)
        prior: Any = problem.prior
        centre, covariance = draws.mean(axis=0), np.cov(draws, rowvar=False)
        if problem.offers("normal_box"):
            centre = np.full(problem.num_arms, prior.mean, dtype=np.float64)
            covariance = np.asarray(prior.covariance)
        np.linalg.cholesky(covariance)
        self._precision = np.linalg.inv(covariance)
        self._box, self._average = problem.arm_support(), draws.mean(axis=0)
        self._centre = centre
        prior_pulls = np.square(problem.likelihood.reward_std(self._average)) / np.diag(covariance)
        self._extra = np.maximum(MIN_EXTRA_PULLS, EXTRA_FRACTION * prior_pulls)

    def update(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Find the sites of every arm, and the order of drawing; see `Posterior.update`.

        With V the variance of a reward, g = (s - n m) / V and H = (n + g V') / V.
        """
        super().update(rng, counts, sums)
        means = (self._extra * self._average + sums) / (self._extra + counts)
        low, high = self._box.T
        step = VARIANCE_STEP * np.minimum(np.minimum(means - low, high - means), 1.0)
        points = np.stack([means, means - step, means + step])
        variance, below, above = np.square(self.problem.likelihood.reward_std(points))
        slope = (sums - counts * means) / variance
        curvature = (counts + slope * (above - below) / (2 * step)) / variance
        tau = SITE_POWER * np.maximum(curvature, 0.0)
        h = SITE_POWER * slope + tau * means
        covariance = np.linalg.inv(self._precision + tau[..., None] * np.eye(len(low)))
        push = h - tau * self._centre
        centre = self._centre + (covariance @ push[..., None])[..., 0]
        self._normals = order_arms(self._box, centre, covariance)

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Draw m vectors of means for each lane; see `Proposal.draw`."""
        levels = rng.random((len(self._box), len(lanes), num_samples))
        means = np.empty((len(lanes), len(self._box), num_samples))
        log_densities = draw_in_order(self._normals, lanes, levels, means)
        winners = random_argmax(rng, means.swapaxes(1, 2).reshape(-1, len(self._box)))
        return Draws(means, winners.reshape(log_densities.shape), log_densities)

    def log_density(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the (R, m) log-densities of (R, K, m) means; see `Proposal.log_density`."""
        given = np.ascontiguousarray(means)
        return np.asarray(draw_in_order(self._normals, lanes, np.empty((0, 0, 0)), given))


@kernel
def draw_in_order(
    normals: OrderedNormals, lanes: np.ndarray, levels: np.ndarray, means: np.ndarray
) -> np.ndarray:
    """Draw the means of all arms, each given those before it, and return log-densities.

    With L the Cholesky factor and c the centre, the mean of the k-th arm in the order is

        x_k = c_k + sum_{i <= k} L_ki z_i,

    and z_k is drawn from between the ends of the box less all other terms, over L_kk.

    Args:
        normals: of N lanes.
        lanes: (R,) of these.
        levels: (K, R, m) uniform variates, of which means are quantiles; empty if means are given.
        means: (R, K, m) is written to, strictly inside the box; or is read.

    Returns:
        (R, m) log-densities of the means.
    """
    num_arms, num_samples, is_drawn = means.shape[1], means.shape[2], levels.size > 0
    log_densities, z = np.zeros((lanes.size, num_samples)), np.empty((num_arms, num_samples))
    for r in range(lanes.size):
        factor, order = normals.factor[lanes[r]], normals.order[lanes[r]]
        for k in range(num_arms):
            x, low, high = means[r, order[k]], normals.box[order[k], 0], normals.box[order[k], 1]
            lowest, highest = np.nextafter(low, high), np.nextafter(high, low)
            for j in range(num_samples):
                centre, scale = normals.centre[lanes[r], k], factor[k, k]
                for i in range(k):
                    centre += factor[k, i] * z[i, j]
                first, last = (low - centre) / scale, (high - centre) / scale
                value = levels[k, r, j] if is_drawn else (x[j] - centre) / scale
                z[k, j], log_density = draw_logistic(first, last, value, is_drawn)
                log_densities[r, j] += log_density
                if is_drawn:
                    x[j] = min(max(centre + scale * z[k, j], lowest), highest)
    return log_densities


@inner
def draw_logistic(low: float, high: float, value: float, is_level: bool) -> tuple[float, float]:
    """Return a draw from a truncated logistic distribution around 0, and its log-density.

    With slope a, y = a z, and S(y) = 1 / (1 + e^y) the probability beyond a point, the draw of
    level v in an interval from y_1 to y_2 has

        S(y) = v S(y_2) + (1 - v) S(y_1),    y = log((1 - S(y)) / S(y)),
        density of z = a S(y) (1 - S(y)) / (S(y_1) - S(y_2)).

    An interval below 0 is mirrored. Of one above 0, all S are multiplied by e^n, with n = y_1, so
    that nothing is lost, however far out it lies; else n is 0.

    Args:
        low: end of the interval, in standard deviations of the normal distribution that this stands
            in for.
        high: the same.
        value: the level, of which the draw is a quantile; or a point in its place.
        is_level: which of these.
    """
    sign = -1.0 if high < 0.0 else 1.0
    first, last = (-high, -low) if high < 0.0 else (low, high)
    nearest = max(first, 0.0)
    slope = max(nearest, LOGISTIC_SLOPE)
    n = slope * nearest
    exp_first, exp_last = math.exp(-slope * abs(first)), math.exp(n - slope * last)
    below_first, unit = exp_first / (1.0 + exp_first), 1.0  # 1 - S(y_1), and e^-n
    if first > 0.0:
        below_first, unit = 1.0 / (1.0 + exp_first), exp_first
    beyond_last = exp_last / (1.0 + unit * exp_last)  # e^n S(y_2)
    mass = max(1.0 / (1.0 + exp_first) - beyond_last, MIN_MASS)  # e^n (S(y_1) - S(y_2))
    z = value
    if is_level:
        below, beyond = below_first + value * unit * mass, beyond_last + (1.0 - value) * mass
        y = n + math.log(max(below, MIN_MASS) / beyond)
        z = min(max(sign * y / slope, low), high)
    y = abs(slope * z)
    sum_of_two = 1.0 + math.exp(-y)  # S(y) (1 - S(y)) is e^-|y| over its square
    return z, n - y + math.log(slope / (mass * sum_of_two * sum_of_two))


@kernel
def order_arms(box: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> OrderedNormals:
    """Return normal distributions, the next arm that whose interval has the least logistic mass.

    That is given those before, which are at their means; if these are outside the box, at its end.
    This is the Cholesky factorisation with pivots: after k arms the others have the covariance
    rest = Sigma - L L', the next column of L is that of the pivot over the root of its variance,
    and the means given the arms before are mean + L z.

    Args:
        box: (K, 2) ends of each arm's interval.
        mean: (N, K) of normal distributions before truncation.
        covariance: (N, K, K) of these.
    """
    num_lanes, num_arms = mean.shape
    order, centre = np.empty(mean.shape, dtype=np.int64), np.empty(mean.shape)
    factor, columns = np.empty(covariance.shape), np.empty((num_arms, num_arms))
    for n in range(num_lanes):
        expected, rest = mean[n].copy(), covariance[n].copy()
        is_left = np.ones(num_arms, dtype=np.bool_)
        for k in range(num_arms):
            pivot, least = -1, math.inf
            for i in range(num_arms):
                if is_left[i]:
                    slope = LOGISTIC_SLOPE / math.sqrt(rest[i, i])
                    high, low = (box[i, 1] - expected[i]) * slope, (box[i, 0] - expected[i]) * slope
                    mass = round((math.tanh(high / 2) - math.tanh(low / 2)) / 2, MASS_DIGITS)
                    if mass < least:
                        pivot, least = i, mass
            order[n, k], centre[n, k], scale = pivot, mean[n, pivot], math.sqrt(rest[pivot, pivot])
            nearest = min(max(expected[pivot], box[pivot, 0]), box[pivot, 1])
            z = (nearest - expected[pivot]) / scale
            for i in range(num_arms):
                columns[i, k] = rest[pivot, i] / scale if is_left[i] else 0.0
                expected[i] += z * columns[i, k]
            for i in range(num_arms):
                for j in range(num_arms):
                    rest[i, j] -= columns[i, k] * columns[j, k]
                rest[i, i] = max(rest[i, i], LEAST_REST * covariance[n, i, i])
            is_left[pivot] = False
        for k in range(num_arms):
            copy_array(columns[order[n, k]], factor[n, k])
    return OrderedNormals(box, order, centre, factor)


def make_proposals(problem: BanditProblem, kind: str) -> list[Proposal]:
    """Return the proposal that an argument of `RacingThompson` names, and others after it.

    Args:
        problem: likelihood and prior.
        kind: "reference" (Table 1) or "matched" (see `match_proposals`).

    Raises:
        ValueError: if the name is unknown, or nothing of that kind fits the problem.
    """
    if check_choice("proposal", kind, ("reference", "matched")) == "matched":
        return match_proposals(problem)
    if not is_compiled(problem.likelihood):
        name = problem.likelihood.name
        condition = f"be 'matched' for {name} rewards, which have no compiled row in Table 1"
        raise ValueError(message("proposal", condition, kind))
    proposals = [reference_proposal(problem)]
    with suppress(ValueError):  # if nothing resembles the prior
        others = match_proposals(problem)
        proposals += [other for other in others if not isinstance(other, ConjugateProposal)]
    return proposals


def reference_proposal(problem: BanditProblem) -> Proposal:
    """Return the paper's proposal, the posterior of Table 1."""
    posterior = reference_posterior(problem)
    fallback = posterior if posterior.has_proper_prior else matched_posterior(problem)
    return ConjugateProposal(problem, posterior, fallback)


def match_proposals(problem: BanditProblem) -> list[Proposal]:
    """Return the proposals that resemble the problem's own prior, the one to race with first.

    For a conjugate prior that is its posterior; for a mixture that gives its components, the
    posterior itself; for a prior of independent arms, a `TableProposal`. Else it is a
    `TableProposal` or a `NormalProposal`, by their efficiencies without data; TARGET_EFFICIENCY is
    enough for a table. The other one follows if its efficiency is at least MIN_RIVAL_EFFICIENCY,
    and then Table 1, which follows the data most. Likelihoods without a row in Table 1 have tables
    alone. Candidates are tried with generators of their own: the choice is a function of the
    problem.

    Raises:
        ValueError: if no candidate can stand in for the prior.
    """
    is_named = is_compiled(problem.likelihood)
    if is_named and is_conjugate(problem.likelihood, problem.prior):
        posterior = conjugate_posterior(problem)
        return [ConjugateProposal(problem, posterior, posterior)]
    if problem.offers("shared_components"):
        with suppress(ValueError):  # if a component is too rough for a table
            return [MixtureProposal(problem)]
    num_draws = min(NUM_FIT_DRAWS, max(NUM_TRIAL_SAMPLES, NUM_FIT_MEANS // problem.num_arms))
    rng = make_generator("draws of the prior to match")
    draws = problem.prior.sample(rng, (num_draws, problem.num_arms))
    kinds: list[Callable[..., Proposal]] = [TableProposal]
    if is_named and not problem.offers("arm_log_density"):
        kinds.append(NormalProposal)
    ranked: list[tuple[float, Proposal]] = []
    for kind in kinds:
        with suppress(ValueError):  # this prior is not of the kind that it can stand in for
            proposal = kind(problem, draws)
            efficiency = estimate_efficiency(proposal)
            ranked.append((min(efficiency, TARGET_EFFICIENCY), proposal))
    ranked.sort(key=lambda pair: -pair[0])  # stable
    chosen = [proposal for efficiency, proposal in ranked[:1] if efficiency > 0]
    if not chosen:
        raise ValueError(
            "problem.prior must have a density where tables or normal distributions can stand in "
            f"for it, for proposal='matched' and {problem.likelihood.name} rewards, got "
            f"{problem.prior!r}; use SMCThompson."
        )
    rivals = [rival for efficiency, rival in ranked[1:] if efficiency >= MIN_RIVAL_EFFICIENCY]
    if is_named and not (chosen[0].posterior or problem.offers("normal_box")):
        rivals.append(reference_proposal(problem))
    return chosen + rivals


def estimate_efficiency(proposal: Proposal) -> float:
    """Return a proposal's efficiency without data; 0 if no weight is positive."""
    rng, shape = make_generator("trial of a proposal"), (1, proposal.problem.num_arms)
    proposal.update(rng, np.zeros(shape, dtype=np.int64), np.zeros(shape))
    lane = np.arange(1)
    draws = draw_weighted(rng, proposal, lane, NUM_TRIAL_SAMPLES)
    return float(draws.effective_sample_size()[0] / NUM_TRIAL_SAMPLES)
