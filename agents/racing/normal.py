"""A proposal for arms that depend on each other closely: nearly a truncated normal.

Arms drawn each from a law of its own seldom look like draws from a prior under which they move
together, and nearly all the weight then falls on a few of them. Here the prior is a normal law cut
to a box, or stood in for by one, and the likelihood of arm i's data by a normal factor, its *site*

    exp(h_i x - tau_i x^2 / 2),  h = SITE_POWER s / V(m),  tau = SITE_POWER n / V(m),

with the slope and the Fisher information that n rewards of sum s and variance V have at a mean m.
It is that of all arms under sites at the mean that each arm's data alone give. So prior times sites
is again a normal law cut to the box, of precision P + diag(tau). The arms are drawn one after the
other (as in GHK), arm k given those before it from a logistic law of the same centre and width, cut
to the arm's own interval.

A cut logistic law takes a few exponentials and logarithms, where the cut normal law itself would
take rejection or its quantile function; and its heavier tails keep the weights light. Of F(y) =
1 / (1 + e^-y) the line is turned so that an interval's far end is on the right, and 1 - F is
divided by e^-c, c being the point of the interval nearest to 0: so nothing cancels and nothing is
lost, however far out the interval lies.

Letters: K arms, N lanes, R of them drawn for, m samples.

References:
    Geweke (1991), "Efficient simulation from the multivariate normal and Student-t distributions
    subject to linear constraints".
    Minka (2001), "Expectation propagation for approximate Bayesian inference" (of which a site here
    is the first step).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import log_expit

from agents.numerics.kernels import compare_means, fill
from agents.numerics.laws import TINY
from agents.racing.proposals import Draws, Proposal, make_draws
from agents.racing.weighing import split_lanes
from bandit_gym.numerics.compiled import inner, kernel
from bandit_gym.numerics.truncated_normal import most_restricted_first
from bandit_gym.problem import BanditProblem

SITE_POWER = 0.8
"""Ten arms of correlation 0.9, 56 histories of 1 to 10,000 pulls: with the power 1 and 0.8 an
effective sample took 1.86 and 1.58 samples for Bernoulli means near 0, 2.63 and 2.12 for
exponential ones (both of a few histories), 1.21 and 1.26 for Bernoulli means near a half."""

INSIDE = 0.8
"""Of the way to an end of its interval, how far an arm's site may be from its likely mean: at the
end itself rewards may not vary."""

WIDEST = 12.0
"""Standard deviations from its likeliest mean at which an interval is cut, to put arms in order."""

SLOPE = 1.7
"""Of a logistic law, per standard deviation of the normal law that it stands in for. With 1.6, 1.7
and 1.8 an effective sample took 2.03, 1.93 and 1.94 samples on 28 histories of ten near-singular
Bernoulli arms (with the sites of results version 8). Where the interval
is further out than that many deviations, the slope is as large as the normal law's there."""

# Without Intel's library numba takes `exp` and `log` one number at a time, in 6 to 10 nanoseconds.
# Polynomials, with the bits of numbers handled as integers, become vector code that takes 1 to 2;
# they are good to a few units in the 15th digit.
LARGEST_EXPONENT = 708.0

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
_ROUNDER = 6755399441055744.0
"""1.5 * 2^52: adding it leaves the nearest integer in the lowest bits."""
_ROUNDER_BITS = 0x4338000000000000


class NormalLaw(NamedTuple):
    """A normal law cut to a box, its arms in reverse order of proposal.

    Attributes:
        order: (K,) arms; the last is drawn first.
        precision: (K, K) before truncation.
        pull: (K,) precision times mean.
        box: (K, 2) ends of each arm's interval.
    """

    order: np.ndarray
    precision: np.ndarray
    pull: np.ndarray
    box: np.ndarray


class NormalProposal(Proposal):
    """Draws arm means from nearly a truncated normal law.

    Arguments:
        problem: likelihood and prior. A truncated multivariate normal is taken as it is. Any other
            prior is stood in for by the normal law with the moments of its draws, cut to the means'
            support.
        draws: (M, K) from the prior, for the moments.

    Raises:
        numpy.linalg.LinAlgError: if the covariance of the draws is singular.
    """

    has_likelihood = False

    def __init__(self, problem: BanditProblem, draws: np.ndarray) -> None:
        super().__init__(problem)
        prior: Any = problem.prior
        mean, covariance = draws.mean(axis=0), np.cov(draws, rowvar=False)
        if problem.offers("normal_box"):
            mean = np.broadcast_to(np.asarray(prior.mean, dtype=np.float64), problem.num_arms)
            covariance = np.asarray(prior.covariance)
        np.linalg.cholesky(covariance)
        self._law = _order_law(mean, covariance, problem.arm_support())
        self._centre, self._precision = mean, np.linalg.inv(covariance)
        self._mean, self._variance = draws.mean(axis=0), draws.var(axis=0)

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Find the sites of every arm; see `Posterior.update`."""
        super().follow(rng, counts, sums)
        worth = self._reward_variance(self._mean) / self._variance  # of the prior, in pulls
        likely = (worth * self._mean + sums) / (worth + counts)
        sites = self._sites_at(likely, counts, sums)
        parts = split_lanes(np.arange(len(counts)), self._precision.size)
        joint = np.concatenate([self._joint_means(sites[part]) for part in parts])
        low, high = self.problem.arm_support().T
        inside = np.clip(joint, likely - INSIDE * (likely - low), likely + INSIDE * (high - likely))
        self._sites = SITE_POWER * self._sites_at(inside, counts, sums)

    def _joint_means(self, sites: np.ndarray) -> np.ndarray:
        """Return the (R, K) means of prior times (R, K, 2) sites, before it is cut to the box."""
        precision = self._precision + sites[..., 1, None] * np.eye(len(self._mean))
        pull = self._precision @ self._centre + sites[..., 0]
        return np.asarray(np.linalg.solve(precision, pull[..., None])[..., 0])

    def _sites_at(self, means: np.ndarray, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return (N, K, 2) h and tau of normal factors that are like the likelihoods at means."""
        variance = self._reward_variance(means)
        return np.stack([sums / variance, counts / variance], axis=-1)

    def _reward_variance(self, means: np.ndarray) -> np.ndarray:
        return np.square(self.problem.likelihood.reward_std(means))

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Draw m vectors of means for each lane; see `Proposal.draw`."""
        means, winners, _ = make_draws(len(lanes), self.problem.num_arms, num_samples)
        log_densities = np.zeros(winners.shape)
        draw_chain(rng, self._law, self._sites[lanes], means, winners, log_densities)
        return Draws(means, winners, log_densities)

    def log_density(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the (R, m) log-densities of (R, K, m) means; see `Proposal.log_density`."""
        pairs = zip(self._sites[lanes], means, strict=True)
        return np.array([log_chain(self._law, sites, each) for sites, each in pairs])


def _order_law(mean: np.ndarray, covariance: np.ndarray, box: np.ndarray) -> NormalLaw:
    """Propose the arms that the box restricts most first, which keeps masses alike."""
    low, high = box.T
    likely, reach = np.clip(mean, low, high), WIDEST * np.sqrt(np.diag(covariance))
    low, high = np.maximum(low, likely - reach), np.minimum(high, likely + reach)
    first = most_restricted_first(covariance, low - mean, high - mean)
    order = np.ascontiguousarray(first[::-1])
    precision = np.linalg.inv(covariance)
    pull = (precision @ mean)[order]
    return NormalLaw(order, np.ascontiguousarray(precision[np.ix_(order, order)]), pull, box[order])


def log_chain(law: NormalLaw, sites: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return the log-density that `draw_chain` draws (K, m) means from, given (K, 2) sites."""
    factor, centre = law.precision.copy(), law.pull.copy()
    factorise(factor, centre, law.order, sites)
    off, total = means[law.order] - centre[:, None], np.zeros(means.shape[1])
    for k, scale in enumerate(np.diag(factor)):
        shift = -factor[k + 1 :, k] @ off[k + 1 :] / scale
        low, high = ((end - centre[k] - shift) * scale for end in law.box[k])
        total += _log_logistic((off[k] - shift) * scale, low, high)
    return total


def _log_logistic(z: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the (m,) log-densities that `draw_logistic` draws from, in standard deviations."""
    is_turned = high < 0.0
    first, last = np.where(is_turned, -high, low), np.where(is_turned, -low, high)
    slope = np.maximum(first, SLOPE)
    y, above_first, above_last = slope * z, log_expit(-slope * first), log_expit(-slope * last)
    log_mass = above_first + np.log1p(-np.exp(above_last - above_first))
    return np.asarray(np.log(slope) + log_expit(y) + log_expit(-y) - log_mass)


@kernel
def draw_chain(
    rng: Generator,
    law: NormalLaw,
    sites: np.ndarray,
    means: np.ndarray,
    winners: np.ndarray,
    log_densities: np.ndarray,
) -> None:
    """Draw the means of all arms, with their densities, and find the best.

    Args:
        rng: source of randomness.
        law: of all lanes.
        sites: (R, K, 2) h and tau.
        means: (R, K, m) receives the draws, strictly inside the box.
        winners: (R, m) receives the best arms.
        log_densities: (R, m) are added to, up to a constant in each lane.
    """
    num_lanes, num_arms, num_samples = means.shape
    best, spare = np.empty(num_samples), np.empty((5, num_samples))
    off, ratios = np.empty((num_arms, num_samples)), np.empty((num_arms, num_samples))
    flat, scratch = ratios.reshape(num_arms * num_samples), np.empty(num_arms * num_samples)
    for r in range(num_lanes):
        factor, centre = law.precision.copy(), law.pull.copy()
        factorise(factor, centre, law.order, sites[r])
        for k in range(num_arms - 1, -1, -1):
            low, high, scale = law.box[k, 0], law.box[k, 1], factor[k, k]
            fill(off[k], 0.0)
            for j in range(k + 1, num_arms):
                add_multiple(-factor[j, k] / scale, off[j], off[k])
            ends = (low - centre[k], high - centre[k])
            draw_logistic(rng, ends, scale, off[k], ratios[k], spare)
            lowest, highest = np.nextafter(low, high), np.nextafter(high, low)
            lowest = max(lowest, TINY) if low == 0.0 else lowest
            x = means[r, law.order[k]]
            for j in range(num_samples):
                x[j] = min(max(centre[k] + off[k, j], lowest), highest)
        log_all(flat, scratch)
        fill(best, -np.inf)
        for i in range(num_arms):
            add_multiple(-1.0, ratios[i], log_densities[r])
            compare_means(rng, means[r], i, best, winners[r])


@inner
def draw_logistic(
    rng: Generator,
    ends: tuple[float, float],
    scale: float,
    off: np.ndarray,
    ratio: np.ndarray,
    spare: np.ndarray,
) -> None:
    """Draw from cut logistic laws, one for each of m samples.

    Args:
        rng: source of randomness.
        ends: of the interval.
        scale: one over the standard deviation of the normal laws.
        off: (m,) where the laws are centred; receives the draws.
        ratio: (m,) receives one over the densities, up to a constant.
        spare: (5, m) scratch space.
    """
    low, high = ends
    near, slope, left, right = spare[0], spare[1], spare[2], spare[3]
    for j in range(off.size):
        first, last = (low - off[j]) * scale, (high - off[j]) * scale
        is_turned = last < 0.0
        first, last = (-last if is_turned else first), (-first if is_turned else last)
        near[j] = max(first, 0.0)
        slope[j] = max(near[j], SLOPE)
        left[j], right[j] = -abs(first) * slope[j], (near[j] - last) * slope[j]
    exp_all(left, spare[4])
    exp_all(right, spare[4])
    for j in range(off.size):
        ratio[j] = rng.random()
    for j in range(off.size):
        is_beyond = near[j] > 0.0
        unit, start = (left[j] if is_beyond else 1.0), (1.0 if is_beyond else 1.0 / left[j])
        below_first, below_last = 1.0 / (1.0 + unit * start), 1.0 / (1.0 + unit * right[j])
        mass = max((start - right[j]) * below_first * below_last, TINY)
        above = right[j] * below_last + ratio[j] * mass
        below = below_first + (1.0 - ratio[j]) * (unit * mass)
        left[j] = below / above
        ratio[j] = mass / (below * above * slope[j])
    log_all(left, spare[4])
    for j in range(off.size):
        z = near[j] + left[j] / slope[j]
        z = -z if (high - off[j]) * scale < 0.0 else z
        off[j] += z / scale


@kernel
def factorise(matrix: np.ndarray, vector: np.ndarray, order: np.ndarray, sites: np.ndarray) -> None:
    """Add sites; replace the precision by its Cholesky factor, and the pull by the centre."""
    size = vector.size
    for k in range(size):
        vector[k] += sites[order[k], 0]
        matrix[k, k] += sites[order[k], 1]
        for i in range(k, size):
            for j in range(k):
                matrix[i, k] -= matrix[i, j] * matrix[k, j]
            matrix[i, k] = math.sqrt(matrix[k, k]) if i == k else matrix[i, k] / matrix[k, k]
        for j in range(k):
            vector[k] -= matrix[k, j] * vector[j]
        vector[k] /= matrix[k, k]
    for k in range(size - 1, -1, -1):
        for i in range(k + 1, size):
            vector[k] -= matrix[i, k] * vector[i]
        vector[k] /= matrix[k, k]


@inner
def add_multiple(factor: float, x: np.ndarray, out: np.ndarray) -> None:
    """Add factor * x (m,) to `out` (m,), and nothing if the factor is 0, whatever x."""
    if factor != 0.0:
        for j in range(x.size):
            out[j] += factor * x[j]


@inner
def exp_all(x: np.ndarray, spare: np.ndarray) -> None:
    """Replace x (m,) by e^x, with x clipped to +-708; `spare` (m,) is overwritten.

    e^x = 2^k e^r with k an integer and |r| < 0.35.
    """
    bits = spare.view(np.int64)
    for j in range(x.size):
        clipped = min(max(x[j], -LARGEST_EXPONENT), LARGEST_EXPONENT)
        shifted = clipped * _LOG2_E + _ROUNDER
        k = shifted - _ROUNDER
        r = (clipped - k * _LN2_HIGH) - k * _LN2_LOW
        spare[j] = shifted
        p = 1 / 3628800.0 + r * (1 / 39916800.0)
        p = 1 / 40320.0 + r * (1 / 362880.0 + r * p)
        p = 1 / 720.0 + r * (1 / 5040.0 + r * p)
        p = 1 / 24.0 + r * (1 / 120.0 + r * p)
        x[j] = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6.0 + r * p)))
    for j in range(x.size):
        bits[j] = (bits[j] - _ROUNDER_BITS + 1023) << 52
    for j in range(x.size):
        x[j] *= spare[j]


@inner
def log_all(x: np.ndarray, spare: np.ndarray) -> None:
    """Replace normal positive x (m,) by log(x); `spare` (m,) is overwritten.

    x = 2^k m with 0.7 < m < 1.42, and log m = 2 artanh((m - 1) / (m + 1)) by its series.
    """
    bits, powers = x.view(np.int64), spare.view(np.int64)
    for j in range(x.size):
        k = (bits[j] - _ROOT_HALF_BITS) >> 52
        powers[j] = k + _ROUNDER_BITS
        bits[j] -= k << 52
    for j in range(x.size):
        k = spare[j] - _ROUNDER
        s = (x[j] - 1.0) / (x[j] + 1.0)
        q = s * s
        p = 1 / 13.0 + q * (1 / 15.0 + q * (1 / 17.0 + q * (1 / 19.0)))
        p = 1 / 5.0 + q * (1 / 7.0 + q * (1 / 9.0 + q * (1 / 11.0 + q * p)))
        x[j] = k * _LN2_HIGH + (2.0 * s * (1.0 + q * (1 / 3.0 + q * p)) + k * _LN2_LOW)
