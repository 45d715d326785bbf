"""A proposal for arms that depend on each other closely: a truncated normal.

Arms drawn each from a law of its own seldom look like draws from a prior under which they move
together, and nearly all the weight then falls on a few of them. Here the prior is a normal law cut
to a box, or stood in for by one, and the likelihood L_i of arm i's data by a normal factor, its
*site*

    g_i(x) = exp(h_i x - tau_i x^2 / 2),

so that prior times sites is again a normal law cut to the box, of precision P + diag(tau). Its
arms are drawn one after the other, each from its law given those before, cut to its own interval
("GHK"). What the proposal gets wrong the weight makes good, exactly:

    w(mu) = pi(mu) / N(mu; m, P^-1)  *  prod_i L_i(mu_i) / g_i(mu_i)  *  prod_k mass_k(mu),

with mass_k the probability of arm k's interval given the arms before it. A site is the ratio of two
normal laws, those with the moments of arm i's marginal with and without its data, to the power
SITE_POWER: where a proposal has lighter tails than the posterior, weights have heavy ones. It
depends on the statistics of one arm alone.

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
from numba import njit
from numpy.random import Generator

from agents.gibbs import likelihood_coefficients, log_density
from agents.kernels import compare_means
from agents.proposals import Proposal, prior_log_density
from bandit_gym.minimax_tilting import most_restricted_first
from bandit_gym.priors import TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem

SITE_POWER = 0.8
"""Ten near-singular Bernoulli arms, 100 pulls, two histories: with the power 1, 0.8 and 0.6, a
sample was worth 0.30, 0.59 and 0.48 effective samples in one and 0.52, 0.66, 0.54 in the other."""

NUM_NODES, MAX_ZOOMS, LOG_REACH = 64, 12, 18.0
WIDEST = 12.0
"""Standard deviations from the mean at which an interval is cut when moments are looked for."""

FAR = 25.0
"""Where the tail of the normal law is taken from its asymptotic series."""


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
        self._law = _order_law(mean, covariance, self._precision, box)
        self._marginals = _describe_marginals(mean, np.diag(covariance), box)
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


def find_box(problem: BanditProblem) -> np.ndarray:
    """Return the (K, 2) ends of the arms' intervals."""
    prior: Any = problem.prior
    if hasattr(prior, "arm_support"):
        return np.array(prior.arm_support(problem.num_arms), dtype=np.float64)
    return np.tile(problem.likelihood.support, (problem.num_arms, 1)).astype(np.float64)


def _order_law(
    mean: np.ndarray, covariance: np.ndarray, precision: np.ndarray, box: np.ndarray
) -> NormalLaw:
    """Propose the arms that the box restricts most first, which keeps masses alike."""
    first = most_restricted_first(covariance, box[:, 0] - mean, box[:, 1] - mean)
    order = np.ascontiguousarray(first[::-1])
    pull = (precision @ mean)[order]
    return NormalLaw(order, np.ascontiguousarray(precision[np.ix_(order, order)]), pull, box[order])


def _describe_marginals(mean: np.ndarray, variance: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return (K, 6): each arm's mean and variance, those in its interval, and the interval's ends.

    Ends beyond WIDEST standard deviations are moved there.
    """
    reach = WIDEST * np.sqrt(variance)
    low, high = np.maximum(box[:, 0], mean - reach), np.minimum(box[:, 1], mean + reach)
    marginals = np.stack([mean, variance, mean, variance, low, high], axis=1)
    for row in marginals:
        row[2:4] = find_moments(np.zeros(5), row)
    return marginals


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
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
    """Draw the means of all arms from prior times sites, weigh them, and find the best.

    Args:
        rng: source of randomness.
        law: the prior.
        sites: (N, K, 2) h and tau.
        coefficients: (N, K, 5) of log(L / g).
        rows: (R,) the lanes, of N, to draw for.
        means: (R, K, m) receives the draws, strictly inside the box.
        log_weights: (R, m) receives log(L / g) and the log of the masses, summed over arms.
        winners: (R, m) receives the arm with the largest mean, ties broken at random.
    """
    num_rows, num_arms, num_samples = means.shape
    off, best = np.empty((num_arms, num_samples)), np.empty(num_samples)
    for r in range(num_rows):
        precision, pull = law.precision.copy(), law.pull.copy()
        for k in range(num_arms):
            site = sites[rows[r], law.order[k]]
            pull[k] += site[0]
            precision[k, k] += site[1]
        factorise(precision, pull)
        centre, factor = pull, precision
        for k in range(num_arms - 1, -1, -1):
            arm, scale = law.order[k], factor[k, k]
            off[k] = 0.0
            for j in range(k + 1, num_arms):
                off[k] -= factor[j, k] / scale * off[j]
            low, high = (law.box[k, 0] - centre[k]) * scale, (law.box[k, 1] - centre[k]) * scale
            lowest, highest = step_inside(law.box[k, 0], law.box[k, 1])
            for j in range(num_samples):
                shift = off[k, j] * scale
                z, log_mass = draw_truncated(rng, low - shift, high - shift)
                off[k, j] += z / scale
                x = min(max(centre[k] + off[k, j], lowest), highest)
                means[r, arm, j] = x
                log_weights[r, j] += log_mass + log_density(coefficients[rows[r], arm], x)
        best[:] = -np.inf
        for i in range(num_arms):
            compare_means(rng, means[r], i, best, winners[r])


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def step_inside(low: float, high: float) -> tuple[float, float]:
    """Return the nearest numbers strictly inside an interval."""
    return np.nextafter(low, high), np.nextafter(high, low)


@njit(cache=True, error_model="numpy")
def draw_truncated(rng: Generator, low: float, high: float) -> tuple[float, float]:
    """Return a standard normal draw given that it is in [low, high], and the log of that chance.

    By rejection from a normal, a uniform or, in a tail, an exponential law (Robert 1995,
    "Simulation of truncated normal variables").
    """
    if high < 0.0:
        z, log_mass = draw_truncated_tail(rng, -high, -low)
        return -z, log_mass
    if low > 0.0:
        return draw_truncated_tail(rng, low, high)
    mass = 0.5 * (math.erf(high / math.sqrt(2.0)) - math.erf(low / math.sqrt(2.0)))
    if high - low > 2.5:
        z = rng.standard_normal()
        while not low <= z <= high:
            z = rng.standard_normal()
        return z, math.log(mass)
    z = low + (high - low) * rng.random()
    while rng.random() > math.exp(-0.5 * z * z):
        z = low + (high - low) * rng.random()
    return z, math.log(mass)


@njit(cache=True, error_model="numpy")
def draw_truncated_tail(rng: Generator, low: float, high: float) -> tuple[float, float]:
    """Do as `draw_truncated` for 0 <= low < high."""
    log_tail = log_upper_tail(low)
    log_mass = log_tail + math.log1p(-math.exp(min(log_upper_tail(high) - log_tail, 0.0)))
    width, z = high - low, np.inf
    if low * width < 1.0 and width < 1.5:
        z = low + width * rng.random()
        while rng.random() > math.exp(0.5 * (low * low - z * z)):
            z = low + width * rng.random()
    elif low < 0.5:
        while not low <= z <= high:
            z = abs(rng.standard_normal())
    else:
        rate = 0.5 * (low + math.sqrt(low * low + 4.0))
        while z > high or rng.random() > math.exp(-0.5 * (z - rate) ** 2):
            z = low + rng.standard_exponential() / rate
    return z, log_mass


@njit(cache=True, error_model="numpy")
def log_upper_tail(z: float) -> float:
    """Return log P(Z > z) for z >= 0."""
    if z < FAR:
        return math.log(0.5 * math.erfc(z / math.sqrt(2.0)))
    if z == np.inf:
        return -np.inf
    series = 1.0 - (1.0 - (3.0 - 15.0 / (z * z)) / (z * z)) / (z * z)
    return -0.5 * z * z - math.log(z * math.sqrt(2.0 * math.pi) / series)
