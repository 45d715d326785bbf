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

The logistic's heavier tails keep the weights small. The line is mirrored so that an interval's far
end is on the right, and the probability S(y) = 1 / (1 + e^y) beyond a point is kept as a logarithm.
So nothing is lost, however far out the interval lies.

Notation: K arms, N lanes, R of them drawn for, m samples.

References:
    Geweke (1991), "Efficient simulation from the multivariate normal and Student-t distributions
    subject to linear constraints".
    Gibson, Glasbey and Elston (1994), "Monte Carlo evaluation of multivariate normal integrals and
    sensitivity to variate ordering".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import expit, log_expit

from agents.numerics.choices import random_argmax
from agents.racing.proposals import Draws, Proposal
from bandit_gym.problem import BanditProblem

SITE_POWER = 0.9
"""Below 1, so that sites have heavier tails than the likelihood."""

MIN_EXTRA_PULLS, EXTRA_FRACTION = 2.0, 0.5
"""Pulls of the prior's average that are added to an arm's own for the mean of its site: at least so
many, as the curvature at a mode near the end of the support is far more than half a deviation
inside; and this fraction of those that the prior is worth."""

VARIANCE_STEP = 1e-4
"""Step for the slope of the rewards' variance, as a share of the way to the nearer end."""

MIN_LOG = 1e-300
"""Stands in for the log of a probability that rounding makes 1."""

MASS_DIGITS = 9
"""To which masses are compared, so that rounding decides no order."""

LOGISTIC_SLOPE = 1.7
"""Slope of a logistic distribution, per standard deviation of the normal one that it replaces. If
the interval is further out than so many deviations, the slope is the normal one there."""


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
        self._extra = np.maximum(MIN_EXTRA_PULLS, EXTRA_FRACTION * prior_pulls)

    def update(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Find the sites of every arm, and the order of drawing; see `Posterior.update`."""
        super().update(rng, counts, sums)
        means = (self._extra * self._average + sums) / (self._extra + counts)
        h, tau = self._sites_at(means)
        precision = np.linalg.inv(self._covariance) + tau[..., None] * np.eye(len(self._box))
        covariance = np.linalg.inv(precision)
        push = h - tau * self._centre
        centre = self._centre + (covariance @ push[..., None])[..., 0]
        self._order, self._factor = order_arms(self._box, centre, covariance)
        self._ordered_centre = np.take_along_axis(centre, self._order, axis=1)
        self._ends = self._box.T[:, self._order]

    def _sites_at(self, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) h and tau of the sites that approximate likelihoods at means.

        With V the variance of a reward, g = (s - n m) / V and H = (n + g V') / V.
        """
        low, high = self._box.T
        step = VARIANCE_STEP * np.minimum(np.minimum(means - low, high - means), 1.0)
        near = np.stack([means, means - step, means + step])
        variance, below, above = np.square(self.problem.likelihood.reward_std(near))
        slope = (self.sums - self.counts * means) / variance
        curvature = (self.counts + slope * (above - below) / (2 * step)) / variance
        tau = SITE_POWER * np.maximum(curvature, 0.0)
        return SITE_POWER * slope + tau * means, tau

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Draw m vectors of means for each lane; see `Proposal.draw`."""
        levels = rng.random((len(self._box), len(lanes), num_samples))
        ordered, log_densities = self._draw_in_order(lanes, levels, None)
        means = np.empty((len(lanes), len(self._box), num_samples))
        means[np.arange(len(lanes))[:, None], self._order[lanes]] = ordered
        winners = random_argmax(rng, means.swapaxes(1, 2).reshape(-1, len(self._box)))
        return Draws(means, winners.reshape(log_densities.shape), log_densities)

    def log_density(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the (R, m) log-densities of (R, K, m) means; see `Proposal.log_density`."""
        given = np.take_along_axis(means, self._order[lanes][..., None], axis=1)
        return self._draw_in_order(lanes, None, given)[1]

    def _draw_in_order(
        self, lanes: np.ndarray, levels: np.ndarray | None, given: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (R, K, m) means in the order of drawing, and their (R, m) log-densities.

        Args:
            lanes: (R,).
            levels: (K, R, m) uniform variates, of which the means are quantiles; or None.
            given: (R, K, m) means whose densities are wanted, if there are no levels.
        """
        centre, factor = self._ordered_centre[lanes, :, None], self._factor[lanes]
        scale = np.diagonal(factor, axis1=1, axis2=2)[..., None]
        low, high = self._ends[:, lanes, :, None]
        lowest, highest = np.nextafter(low, high), np.nextafter(high, low)
        if given is None:
            assert levels is not None
            x = np.empty((len(lanes), *levels.shape[::2]))
        else:
            x = given
        z, log_density = np.empty(x.shape), np.zeros((len(lanes), x.shape[2]))
        for k in range(x.shape[1]):
            middle = centre[:, k] + (factor[:, k, None, :k] @ z[:, :k])[:, 0]
            first, last = (low[:, k] - middle) / scale[:, k], (high[:, k] - middle) / scale[:, k]
            own = None if levels is not None else (x[:, k] - middle) / scale[:, k]
            uniforms = None if levels is None else levels[k]
            z[:, k], log_densities = draw_logistic(first, last, uniforms, own)
            log_density += log_densities
            if levels is not None:
                np.clip(middle + scale[:, k] * z[:, k], lowest[:, k], highest[:, k], out=x[:, k])
        return x, log_density


def draw_logistic(
    low: np.ndarray, high: np.ndarray, levels: np.ndarray | None, given: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws from logistic distributions around 0 truncated to intervals, and log-densities.

    S is linear in the level between the ends, and y = log (1 - S) - log S.

    Args:
        low: (...) ends of the intervals, in standard deviations of the normal distributions that
            these stand in for.
        high: (...) the same.
        levels: (...) uniform variates, of which draws are quantiles; or None.
        given: (...) points in place of draws, if there are no levels.
    """
    sign = np.where(high < 0.0, -1.0, 1.0)
    first, last = np.minimum(sign * low, sign * high), np.maximum(sign * low, sign * high)
    slope = np.maximum(first, LOGISTIC_SLOPE)
    log_first, log_last = log_expit(-slope * first), log_expit(-slope * last)
    mass = -np.expm1(log_last - log_first)  # over S at the first end
    if levels is None:
        z = np.asarray(given)
    else:
        log_beyond = np.minimum(log_first + np.log1p(-levels * mass), -MIN_LOG)
        z = np.clip(sign * (np.log(-np.expm1(log_beyond)) - log_beyond) / slope, low, high)
    y = abs(slope * z)
    return z, np.log(slope) - y - 2 * np.log1p(np.exp(-y)) - log_first - np.log(mass)


def order_arms(
    box: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return orders in which the next arm is that whose interval has the least logistic mass.

    That is given those before, which are at their means; if these are outside the box, at its end.

    Args:
        box: (K, 2) ends of each arm's interval.
        mean: (R, K) of normal distributions before truncation.
        covariance: (R, K, K) of these.

    Returns:
        (R, K) arms, and (R, K, K) the Cholesky factors of their covariances in this order.
    """
    rows, (low, high) = np.arange(len(mean)), box.T
    expected, rest = mean.copy(), covariance.copy()
    is_left, order = np.ones(mean.shape, dtype=bool), np.empty(mean.shape, dtype=np.int64)
    columns = np.zeros(covariance.shape)
    for k in range(mean.shape[1]):
        variance = np.where(is_left, np.diagonal(rest, axis1=1, axis2=2), 1.0)
        slope = LOGISTIC_SLOPE / np.sqrt(variance)
        mass = expit((high - expected) * slope) - expit((low - expected) * slope)
        arm = np.where(is_left, mass.round(MASS_DIGITS), np.inf).argmin(axis=1)
        order[:, k], scale, own = arm, np.sqrt(variance[rows, arm]), expected[rows, arm]
        column = np.where(is_left, rest[rows, arm] / scale[:, None], 0.0)
        expected += ((np.clip(own, low[arm], high[arm]) - own) / scale)[:, None] * column
        rest -= column[:, :, None] * column[:, None]
        columns[:, :, k], is_left[rows, arm] = column, False
    return order, columns[rows[:, None], order]
