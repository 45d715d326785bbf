"""A proposal for arms that depend on each other closely: nearly a truncated normal.

Arms drawn each from a law of its own seldom look like draws from a prior under which they move
together, and nearly all the weight then falls on a few of them. Here the prior is a normal law cut
to a box, or stood in for by one, and the likelihood L_i of arm i's data by a normal factor, its
*site*

    g_i(x) = exp(h_i x - tau_i x^2 / 2),

so that prior times sites is again a normal law cut to the box, of precision P + diag(tau): a chain
of normal laws phi_k, of arm k given the arms before it. The arms are drawn one after the other in
that order (as in GHK), arm k from a logistic law q_k of the same centre and width, cut to the arm's
own interval. What the proposal gets wrong the weight makes good, exactly:

    w(mu) = pi(mu) / N(mu; m, P^-1)  *  prod_i L_i(mu_i) / g_i(mu_i)  *  prod_k phi_k / q_k.

A cut logistic law takes a few exponentials and logarithms, of many samples at once, where the cut
normal law itself would take rejection or its quantile function; and where a proposal has lighter
tails than the posterior, weights have heavy ones. So its tails are no loss: on the histories of
SITE_POWER below an effective sample took 1.99 samples from normal laws and 1.93 from logistic ones.

A site is the ratio of two normal laws, those with the moments of arm i's marginal with and without
its data, to the power SITE_POWER. It depends on the statistics of one arm alone.

Letters: K arms, N lanes, R races (rows), m samples.

References:
    Geweke (1991), "Efficient simulation from the multivariate normal and Student-t distributions
    subject to linear constraints". Minka (2001), "Expectation propagation for approximate Bayesian
    inference" (of which a site here is the first step).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from agents.numerics.compiled import inner, kernel
from agents.numerics.kernels import TINY, add_rational, compare_means, fill
from agents.numerics.vector_math import exp_all, log_all
from agents.posteriors.chains import log_density
from agents.posteriors.conjugate import likelihood_coefficients
from agents.posteriors.features import add_multiple
from agents.racing.proposal import Proposal, find_box, prior_log_density
from bandit_gym.numerics.minimax_tilting import most_restricted_first
from bandit_gym.priors import TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem

SITE_POWER = 0.8
"""Ten near-singular Bernoulli arms, 28 histories of 0 to 10,000 pulls: with the power 1, 0.8 and
0.6 an effective sample took 2.10, 1.93 and 2.18 samples on average."""

NUM_NODES, MAX_ZOOMS, LOG_REACH = 64, 12, 18.0
WIDEST = 12.0
"""Standard deviations from its most likely point at which an interval is cut, to look at it."""

SLOPE = 1.7
"""Of a logistic law, per standard deviation of the normal law that it stands in for. With 1.6, 1.7
and 1.8 an effective sample took 2.03, 1.93 and 1.94 samples on those histories. Where the interval
is further out than that many deviations, the slope is as large as the normal law's there."""


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
    """Draws arm means from a truncated normal and weighs them for the problem's own prior.

    Arguments:
        problem: likelihood and prior. A truncated multivariate normal is taken as it is. Any other
            prior is stood in for by the normal law with the moments of its draws, cut to the means'
            support.
        draws: (M, K) from the prior, for the moments.

    Raises:
        numpy.linalg.LinAlgError: if the covariance of the draws is singular.
    """

    has_tables, draw_cost = False, 20.0

    def __init__(self, problem: BanditProblem, draws: np.ndarray) -> None:
        self.problem = problem
        prior: Any = problem.prior
        self.is_exact = isinstance(prior, TruncatedMultivariateNormal)
        if self.is_exact:
            mean = np.broadcast_to(np.asarray(prior.mean, dtype=np.float64), problem.num_arms)
            covariance = np.asarray(prior.covariance)
        else:
            mean, covariance = draws.mean(axis=0), np.cov(draws, rowvar=False)
        np.linalg.cholesky(covariance)
        self._precision = np.linalg.inv(covariance)
        self._mean, box = mean, find_box(problem)
        near = _cut_box(mean, np.diag(covariance), box)
        self._law = _order_law(mean, covariance, self._precision, box, near)
        self._marginals = _describe_marginals(mean, np.diag(covariance), near)
        self._keys, self._sites = np.empty((0, 0, 2)), np.empty((0, 0, 2))

    def parameters(self, counts: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sites (N, K, 2) and the coefficients (N, K, 5) of log(L / g) in the features.

        Args:
            counts: (N, K) pulls of each arm.
            sums: (N, K) total reward of each arm.
        """
        coefficients = likelihood_coefficients(self.problem.likelihood, counts, sums)
        if self._keys.shape[:2] != counts.shape:
            self._keys = np.zeros((*counts.shape, 2))
            self._sites = np.zeros((*counts.shape, 2))
        update_sites(self._keys, self._sites, counts, sums, coefficients, self._marginals)
        coefficients[..., 2] -= self._sites[..., 0]
        coefficients[..., 3] += self._sites[..., 1] / 2
        return self._sites, coefficients

    def draw_rows(
        self,
        rng: Generator,
        rows: np.ndarray,
        parameters: tuple[np.ndarray, np.ndarray],
        tables: Any,
        num_samples: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw m vectors of means for each race; as `Proposal.draw_rows`, which uses the tables."""
        means = np.empty((len(rows), self.problem.num_arms, num_samples))
        winners = np.empty((len(rows), num_samples), dtype=np.int64)
        log_weights = np.zeros(winners.shape)
        draw_normal_rows(rng, self._law, *parameters, rows, means, log_weights, winners)
        if not self.is_exact:
            off = means.transpose(0, 2, 1) - self._mean
            log_weights += 0.5 * np.einsum("...i,ij,...j->...", off, self._precision, off)
            log_weights += prior_log_density(self.problem, means)
        return log_weights, winners


def _cut_box(mean: np.ndarray, variance: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return the (K, 2) parts of the intervals within WIDEST of their most likely point."""
    low, high = box.T
    likely, reach = np.clip(mean, low, high), WIDEST * np.sqrt(variance)
    return np.stack([np.maximum(low, likely - reach), np.minimum(high, likely + reach)], axis=1)


def _order_law(
    mean: np.ndarray,
    covariance: np.ndarray,
    precision: np.ndarray,
    box: np.ndarray,
    near: np.ndarray,
) -> NormalLaw:
    """Propose the arms that the box restricts most first, which keeps masses alike."""
    first = most_restricted_first(covariance, near[:, 0] - mean, near[:, 1] - mean)
    order = np.ascontiguousarray(first[::-1])
    pull = (precision @ mean)[order]
    return NormalLaw(order, np.ascontiguousarray(precision[np.ix_(order, order)]), pull, box[order])


def _describe_marginals(mean: np.ndarray, variance: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Return (K, 6): each arm's mean and variance, those in its interval, and the interval's ends.

    Args:
        mean: (K,) before truncation.
        variance: (K,) before truncation.
        near: (K, 2) the intervals, see `_cut_box`.
    """
    marginals = np.column_stack([mean, variance, mean, variance, near])
    for row in marginals:
        row[2:4] = find_moments(np.zeros(5), row)
    return marginals


@kernel
def find_moments(c: np.ndarray, marginal: np.ndarray) -> tuple[float, float]:
    """Return mean and variance of a marginal times exp(c . features), by the midpoint rule.

    The interval shrinks until half of its nodes have a part in the mass.
    """
    mean, variance, low, high = marginal[0], marginal[1], marginal[4], marginal[5]
    values = np.empty(NUM_NODES)
    for _ in range(MAX_ZOOMS):
        step = (high - low) / NUM_NODES
        for j in range(NUM_NODES):
            x = low + (j + 0.5) * step
            values[j] = log_density(c, x) - 0.5 * (x - mean) ** 2 / variance
        top = values.max()
        first, last = 0, NUM_NODES - 1
        while values[first] < top - LOG_REACH:
            first += 1
        while values[last] < top - LOG_REACH:
            last -= 1
        if last - first >= NUM_NODES // 2:
            break
        high = min(high, low + (last + 1.5) * step)
        low = max(low, low + (first - 0.5) * step)
    total = average = spread = 0.0
    for j in range(NUM_NODES):
        weight, x = math.exp(values[j] - top), (j + 0.5) * step
        total += weight
        average += weight * x
        spread += weight * x * x
    average /= total
    return low + average, max(spread / total - average * average, 1e-3 * step * step)


@kernel
def update_sites(
    keys: np.ndarray,
    sites: np.ndarray,
    counts: np.ndarray,
    sums: np.ndarray,
    coefficients: np.ndarray,
    marginals: np.ndarray,
) -> None:
    """Renew the sites of the arms whose statistics have changed.

    Args:
        keys: (N, K, 2) statistics that the sites are for, at first 0, as the sites are.
        sites: (N, K, 2) h and tau of each site.
        counts: (N, K) pulls.
        sums: (N, K) total rewards.
        coefficients: (N, K, 5) of the log-likelihoods.
        marginals: (K, 6), see `_describe_marginals`.
    """
    for n in range(counts.shape[0]):
        for i in range(counts.shape[1]):
            key, site = keys[n, i], sites[n, i]
            if key[0] == counts[n, i] and key[1] == sums[n, i]:
                continue
            key[0], key[1] = counts[n, i], sums[n, i]
            mean, variance = find_moments(coefficients[n, i], marginals[i])
            mean_before, variance_before = marginals[i, 2], marginals[i, 3]
            if variance < variance_before:
                site[0] = SITE_POWER * (mean / variance - mean_before / variance_before)
                site[1] = SITE_POWER * (1.0 / variance - 1.0 / variance_before)
            else:
                site[0] = SITE_POWER * (mean - mean_before) / variance_before
                site[1] = 0.0


@kernel
def draw_normal_rows(
    rng: Generator,
    law: NormalLaw,
    sites: np.ndarray,
    coefficients: np.ndarray,
    rows: np.ndarray,
    means: np.ndarray,
    log_weights: np.ndarray,
    winners: np.ndarray,
) -> None:
    """Draw the means of all arms, weigh them for the normal prior, and find the best.

    Args:
        rng: source of randomness.
        law: the prior.
        sites: (N, K, 2) h and tau.
        coefficients: (N, K, 5) of log(L / g).
        rows: (R,) the lanes, of N, to draw for.
        means: (R, K, m) receives the draws, strictly inside the box.
        log_weights: (R, m) receives the logs of L / g and of phi / q, summed over arms.
        winners: (R, m) receives the arm with the largest mean, ties broken at random.
    """
    num_rows, num_arms, num_samples = means.shape
    off, best = np.empty((num_arms, num_samples)), np.empty(num_samples)
    ratios = np.empty((num_arms, num_samples))
    spare, scratch = np.empty((5, num_samples)), np.empty((3, num_arms * num_samples))
    for r in range(num_rows):
        factor, centre = law.precision.copy(), law.pull.copy()
        for k in range(num_arms):
            site = sites[rows[r], law.order[k]]
            centre[k] += site[0]
            factor[k, k] += site[1]
        factorise(factor, centre)
        for k in range(num_arms - 1, -1, -1):
            low, high, scale = law.box[k, 0], law.box[k, 1], factor[k, k]
            fill(off[k], 0.0)
            for j in range(k + 1, num_arms):
                add_multiple(-factor[j, k] / scale, off[j], off[k])
            draw_logistic(
                rng, low - centre[k], high - centre[k], scale,
                off[k], ratios[k], log_weights[r], spare,
            )  # fmt: skip
            lowest, highest = step_inside(low, high)
            x = means[r, law.order[k]]
            for j in range(num_samples):
                x[j] = min(max(centre[k] + off[k, j], lowest), highest)
        log_all(ratios.reshape(scratch.shape[1]), scratch[0])
        fill(best, -np.inf)
        add_features(coefficients[rows[r]], means[r], scratch, log_weights[r])
        for i in range(num_arms):
            add_multiple(1.0, ratios[i], log_weights[r])
            compare_means(rng, means[r], i, best, winners[r])


@inner
def draw_logistic(
    rng: Generator,
    low: float,
    high: float,
    scale: float,
    off: np.ndarray,
    ratio: np.ndarray,
    out: np.ndarray,
    spare: np.ndarray,
) -> None:
    """Draw an arm's mean from logistic laws cut to its interval, one for each of m samples.

    With F(y) = 1 / (1 + e^-y). The line is turned so that the interval's far end is on the right,
    and 1 - F is divided by e^-c, c being the point of the interval nearest to 0: so nothing
    cancels and nothing is lost, however far out the interval lies.

    Args:
        rng: source of randomness.
        low: end of the interval, from the arm's mean given no other.
        high: its other end.
        scale: one over the arm's standard deviation given the arms before it.
        off: (m,) how far the arms before it move its mean; receives how far off it is itself.
        ratio: (m,) receives 1 / q, up to a constant.
        out: (m,) log phi is added to it, up to a constant.
        spare: (5, m) scratch space.
    """
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
        out[j] -= 0.5 * z * z
        off[j] += z / scale


@inner
def add_features(c: np.ndarray, x: np.ndarray, spare: np.ndarray, out: np.ndarray) -> None:
    """Add the sum over arms of c . (log x, log(1 - x), x, x^2, 1/x) to `out` (m,).

    Args:
        c: (K, 5), where the terms whose coefficient is 0 are left out.
        x: (K, m) means.
        out: added to.
        spare: (3, K m) scratch space.
    """
    log_x, log_rest, flat = spare[0], spare[1], x.reshape(x.size)
    has_log = has_log_rest = False
    for i in range(x.shape[0]):
        has_log |= c[i, 0] != 0.0
        has_log_rest |= c[i, 1] != 0.0
    if has_log:
        for j in range(flat.size):
            log_x[j] = flat[j]
        log_all(log_x, spare[2])
    if has_log_rest:
        for j in range(flat.size):
            log_rest[j] = 1.0 - flat[j]
        log_all(log_rest, spare[2])
    for i in range(x.shape[0]):
        part = slice(i * out.size, (i + 1) * out.size)
        add_multiple(c[i, 0], log_x[part], out)
        add_multiple(c[i, 1], log_rest[part], out)
        add_rational(c[i, 2], c[i, 3], c[i, 4], x[i], out)


@kernel
def factorise(matrix: np.ndarray, vector: np.ndarray) -> None:
    """Replace a positive definite A by its Cholesky factor L, and b by the solution of A x = b."""
    size = vector.size
    for k in range(size):
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


@kernel
def step_inside(low: float, high: float) -> tuple[float, float]:
    """Return the nearest numbers strictly inside an interval, none too small for `log_all`."""
    lowest = np.nextafter(low, high)
    return (max(lowest, TINY) if low == 0.0 else lowest), np.nextafter(high, low)
