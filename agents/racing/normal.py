"""A proposal for arms that depend on each other closely: nearly a truncated normal distribution.

Independent draws of arms seldom look like draws from a prior under which arms move together. Nearly
all weight then falls on a few of them. Here the prior is, or is replaced by, a normal
distribution truncated to a box. The likelihood of arm i's data is replaced by a normal factor, the
*site*

    exp(h_i x - tau_i x^2 / 2),  h = SITE_POWER (g + H m),  tau = SITE_POWER H,

with the slope g and the curvature -H of the log-likelihood at a mean m. So prior times sites is
again a normal distribution truncated to the box. The arms are drawn one after the other, each given
those before it (as in GHK). Each draw is from a logistic distribution of the same centre and width,
truncated to the arm's own interval. The arms that the box restricts most come first, so that the
mass in their intervals does not depend on other draws.

A truncated logistic draw takes a few exponentials and logarithms; a truncated normal one would take
rejection or the quantile function. The logistic's heavier tails also keep the weights small. With
F(y) = 1 / (1 + e^-y), the line is mirrored so that an interval's far end is on the right. 1 - F is
divided by e^-c, with c the interval's point nearest to 0. So nothing cancels and nothing is lost,
however far out the interval lies.

Notation: K arms, N lanes, R of them drawn for, m samples.

References:
    Geweke (1991), "Efficient simulation from the multivariate normal and Student-t distributions
    subject to linear constraints".
    Gibson, Glasbey and Elston (1994), "Monte Carlo evaluation of multivariate normal integrals and
    sensitivity to variate ordering".
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import log_expit

from agents.numerics.distributions import TINY
from agents.numerics.kernels import compare_means, fill_array
from agents.racing.proposals import Draws, Proposal
from bandit_gym.numerics.compiled import inner, kernel
from bandit_gym.problem import BanditProblem

SITE_POWER = 0.9
"""Below 1, so that sites have heavier tails than the likelihood."""

MIN_EXTRA_PULLS, EXTRA_SHARE = 2.0, 0.5
"""Pulls of the prior's average that are added to an arm's own for the mean of its site: at least so
many, as the curvature at a mode near the end of the support is far more than half a deviation
inside; and this share of those that the prior is worth."""

VARIANCE_STEP = 1e-4
"""Step for the slope of the rewards' variance, as a share of the way to the nearer end."""

LOGISTIC_SLOPE = 1.7
"""Slope of a logistic distribution, per standard deviation of the normal one that it replaces. If
the interval is further out than so many deviations, the slope is the normal one there."""

MAX_TAIL_EXPONENT = 708.0


class OrderedNormals(NamedTuple):
    """Normal distributions truncated to a box, in R lanes, with arms in the order of drawing.

    Attributes:
        box: (K, 2) ends of each arm's interval.
        order: (R, K) arms.
        centre: (R, K) means of these before truncation.
        factor: (R, K, K) the Cholesky factor of their covariance.
    """

    box: np.ndarray
    order: np.ndarray
    centre: np.ndarray
    factor: np.ndarray


class NormalProposal(Proposal):
    """Draws arm means from nearly a truncated normal distribution.

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
        self._box, self._average = problem.arm_support(), draws.mean(axis=0)
        self._centre, self._covariance = centre, covariance
        prior_pulls = np.square(problem.likelihood.reward_std(self._average)) / np.diag(covariance)
        self._extra = np.maximum(MIN_EXTRA_PULLS, EXTRA_SHARE * prior_pulls)

    def update(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Find the sites of every arm, and the order of drawing; see `Posterior.update`."""
        super().update(rng, counts, sums)
        sites = self._sites_at((self._extra * self._average + sums) / (self._extra + counts))
        self._normals = order_arms(self._box, self._centre, self._covariance, sites)

    def _sites_at(self, means: np.ndarray) -> np.ndarray:
        """Return (N, K, 2) h and tau of the sites that approximate likelihoods at means.

        With V the variance of a reward, g = (s - n m) / V and H = (n + g V') / V.
        """
        low, high = self._box.T
        step = VARIANCE_STEP * np.minimum(np.minimum(means - low, high - means), 1.0)
        near = np.stack([means, means - step, means + step])
        variance, below, above = np.square(self.problem.likelihood.reward_std(near))
        slope = (self.sums - self.counts * means) / variance
        curvature = (self.counts + slope * (above - below) / (2 * step)) / variance
        tau = SITE_POWER * np.maximum(curvature, 0.0)
        return np.stack([SITE_POWER * slope + tau * means, tau], axis=-1)

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Draw m vectors of means for each lane; see `Proposal.draw`."""
        return Draws(*draw_ordered_normals(rng, self._normals_of(lanes), num_samples))

    def log_density(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the (R, m) log-densities of (R, K, m) means; see `Proposal.log_density`."""
        box, order, centre, factor = self._normals_of(lanes)
        off = np.take_along_axis(means, order[..., None], axis=1) - centre[..., None]
        z, total = np.empty(off.shape), np.zeros((len(lanes), means.shape[2]))
        for k in range(off.shape[1]):
            shift = np.matmul(factor[:, k, None, :k], z[:, :k])[:, 0]
            scale = factor[:, k, k, None]
            ends = box[order[:, k]].T[..., None] - centre[:, k, None] - shift
            z[:, k] = (off[:, k] - shift) / scale
            total += log_logistic(z[:, k], *(ends / scale))
        return total

    def _normals_of(self, lanes: np.ndarray) -> OrderedNormals:
        return OrderedNormals(self._box, *(part[lanes] for part in self._normals[1:]))


def log_logistic(z: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the (...) log-densities that `draw_logistic` draws from, in standard deviations."""
    is_turned = high < 0.0
    first, last = np.where(is_turned, -high, low), np.where(is_turned, -low, high)
    slope = np.maximum(first, LOGISTIC_SLOPE)
    above_first, above_last = log_expit(-slope * first), log_expit(-slope * last)
    log_mass = above_first + np.log1p(-np.exp(above_last - above_first))
    y = abs(slope * z)
    return np.asarray(np.log(slope) - y - 2 * np.log1p(np.exp(-y)) - log_mass)


@kernel
def order_arms(
    box: np.ndarray, mean: np.ndarray, covariance: np.ndarray, sites: np.ndarray
) -> OrderedNormals:
    """Return a normal prior times sites, with the arm next whose interval has the least mass.

    That is given those before, which are at their means; if these are outside the box, at its end.

    Args:
        box: (K, 2) ends of each arm's interval.
        mean: (K,) of the prior before truncation.
        covariance: (K, K) of the prior.
        sites: (R, K, 2) h and tau.
    """
    num_lanes, num_arms = len(sites), len(covariance)
    centres, factors = np.empty((num_lanes, num_arms)), np.zeros((num_lanes, num_arms, num_arms))
    orders = np.empty((num_lanes, num_arms), dtype=np.int64)
    rest, columns = np.empty((num_arms, num_arms)), np.empty((num_arms, num_arms))
    for r in range(num_lanes):
        centre, order = centres[r], orders[r]
        centre[:], rest[:] = mean, covariance
        for i in range(num_arms):
            h, tau = sites[r, i]
            share = 1.0 + tau * rest[i, i]
            columns[0] = rest[i]
            add_column(centre, rest, columns[0], (h - tau * centre[i]) / share, tau / share)
        expected, is_left = centre.copy(), np.ones(num_arms, dtype=np.bool_)
        for k in range(num_arms):
            first = find_most_restricted(box, expected, rest, is_left)
            order[k], scale, column = first, math.sqrt(rest[first, first]), columns[k]
            z = (min(max(expected[first], box[first, 0]), box[first, 1]) - expected[first]) / scale
            for i in range(num_arms):
                column[i] = rest[first, i] / scale if is_left[i] else 0.0
            add_column(expected, rest, column, z, 1.0)
            is_left[first] = False
        expected[:] = centre
        for k in range(num_arms):
            centre[k] = expected[order[k]]
            for j in range(k + 1):
                factors[r, k, j] = columns[j, order[k]]
    return OrderedNormals(box, orders, centres, factors)


@inner
def add_column(
    mean: np.ndarray, covariance: np.ndarray, column: np.ndarray, step: float, shrink: float
) -> None:
    """Add a multiple of a column to a mean, and subtract one of its square from a covariance."""
    for i in range(mean.size):
        mean[i] += step * column[i]
        for j in range(mean.size):
            covariance[i, j] -= shrink * column[i] * column[j]


@inner
def find_most_restricted(
    box: np.ndarray, mean: np.ndarray, covariance: np.ndarray, is_left: np.ndarray
) -> int:
    """Return the arm, of those left, with the least logistic mass in its interval."""
    first, min_mass = -1, math.inf
    for i in range(mean.size):
        if not is_left[i]:
            continue
        slope = LOGISTIC_SLOPE / math.sqrt(covariance[i, i])
        low, high = (box[i, 0] - mean[i]) * slope, (box[i, 1] - mean[i]) * slope
        low, high = (-high, -low) if low > 0.0 else (low, high)
        mass = 1.0 / (1.0 + math.exp(-high)) - 1.0 / (1.0 + math.exp(-low))
        if first < 0 or mass < min_mass:
            first, min_mass = i, mass
    return first


@kernel
def draw_ordered_normals(
    rng: Generator, normals: OrderedNormals, num_samples: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `Draws` of the means of all arms, strictly inside the box.

    Args:
        rng: source of randomness.
        normals: of R lanes.
        num_samples: m.
    """
    num_lanes, num_arms = normals.order.shape
    means = np.empty((num_lanes, num_arms, num_samples))
    winners = np.empty((num_lanes, num_samples), dtype=np.int64)
    log_densities = np.zeros(winners.shape)
    best, middle, z = np.empty(num_samples), np.empty(num_samples), np.empty(means.shape[1:])
    ends, workspace = np.empty((2, num_samples)), np.empty((2, num_samples))
    for r in range(num_lanes):
        for k in range(num_arms):
            arm, scale = normals.order[r, k], normals.factor[r, k, k]
            low, high = normals.box[arm, 0], normals.box[arm, 1]
            lowest, highest = np.nextafter(low, high), np.nextafter(high, low)
            lowest = TINY if low == 0.0 else lowest
            fill_array(middle, normals.centre[r, k])
            for i in range(k):
                for j in range(num_samples):
                    middle[j] += normals.factor[r, k, i] * z[i, j]
            for j in range(num_samples):
                ends[0, j], ends[1, j] = (low - middle[j]) / scale, (high - middle[j]) / scale
            draw_logistic(rng, ends, z[k], log_densities[r], workspace)
            for j in range(num_samples):
                means[r, arm, j] = min(max(middle[j] + scale * z[k, j], lowest), highest)
        fill_array(best, -np.inf)
        for i in range(num_arms):
            compare_means(rng, means[r], i, best, winners[r])
    return means, winners, log_densities


@inner
def draw_logistic(
    rng: Generator,
    ends: np.ndarray,
    z: np.ndarray,
    log_densities: np.ndarray,
    workspace: np.ndarray,
) -> None:
    """Draw from logistic distributions around 0, each truncated to an interval.

    A processor takes several samples at once through loops without exp, log or draws.

    Args:
        rng: source of randomness.
        ends: (2, m) of the intervals, in standard deviations of the normal ones that these stand in
            for; overwritten.
        z: (m,) receives the draws.
        log_densities: (m,) are added to.
        workspace: (2, m) is overwritten.
    """
    (left, right), (slope, u) = ends, workspace
    for j in range(z.size):
        is_turned = right[j] < 0.0
        first, last = (-right[j], -left[j]) if is_turned else (left[j], right[j])
        nearest = max(first, 0.0)
        steepness = max(nearest, LOGISTIC_SLOPE)
        left[j] = max(-abs(first) * steepness, -MAX_TAIL_EXPONENT)
        right[j] = max((nearest - last) * steepness, -MAX_TAIL_EXPONENT)
        z[j], slope[j] = (-nearest, -steepness) if is_turned else (nearest, steepness)
    for j in range(z.size):
        left[j], right[j], u[j] = math.exp(left[j]), math.exp(right[j]), rng.random()
    for j in range(z.size):
        unit, start = (left[j], 1.0) if z[j] != 0.0 else (1.0, 1.0 / left[j])
        below_first, below_last = 1.0 / (1.0 + unit * start), 1.0 / (1.0 + unit * right[j])
        mass = max((start - right[j]) * below_first * below_last, TINY)
        above = right[j] * below_last + u[j] * mass
        below = below_first + (1.0 - u[j]) * (unit * mass)
        left[j], right[j] = below / above, below * above * abs(slope[j]) / mass
    for j in range(z.size):
        z[j] += math.log(left[j]) / slope[j]
        log_densities[j] += math.log(right[j])
