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

A site depends on the statistics of one arm alone, see `agents.racing.sites`; what is gained by
logistic laws, `agents.racing.logistic` says.

Letters: K arms, N lanes, R of them drawn for, m samples.

References:
    Geweke (1991), "Efficient simulation from the multivariate normal and Student-t distributions
    subject to linear constraints".
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from agents.numerics.kernels import Draws, compare_means, fill, make_draws
from agents.numerics.laws import TINY
from agents.numerics.vector_math import log_all
from agents.posteriors.conjugate import likelihood_coefficients
from agents.racing.logistic import CutLaw, LogisticDraws, draw_logistic, log_logistic
from agents.racing.proposal import Proposal, prior_log_density
from agents.racing.sites import make_sites, update_sites
from agents.racing.weighing import add_rational
from bandit_gym.numerics.compiled import inner, kernel
from bandit_gym.numerics.truncated_normal import most_restricted_first
from bandit_gym.problem import BanditProblem

WIDEST = 12.0
"""Standard deviations from its most likely point at which an interval is cut, to look at it."""


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


class SitedLaws(NamedTuple):
    """The prior times the sites of each of N lanes, and what that leaves out of the posterior.

    Attributes:
        prior: of the arms in all lanes.
        sites: (N, K, 2) h and tau of each arm's site.
        coefficients: (N, K, 5) of log(L / g), in the features.
    """

    prior: NormalLaw
    sites: np.ndarray
    coefficients: np.ndarray


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

    draw_cost = 20.0

    def __init__(self, problem: BanditProblem, draws: np.ndarray) -> None:
        super().__init__(problem)
        prior: Any = problem.prior
        self.is_exact = problem.offers("normal_box")
        if self.is_exact:
            mean = np.broadcast_to(np.asarray(prior.mean, dtype=np.float64), problem.num_arms)
            covariance = np.asarray(prior.covariance)
        else:
            mean, covariance = draws.mean(axis=0), np.cov(draws, rowvar=False)
        np.linalg.cholesky(covariance)
        self._mean, self._precision = mean, np.linalg.inv(covariance)
        variance, box = np.diag(covariance), problem.arm_support()
        near = _cut_box(mean, variance, box)
        self._law = _order_law(mean, covariance, self._precision, box, near)
        self._sites = make_sites(0, np.column_stack([mean, variance, near]))

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Bring every lane to its data; see `Posterior.follow`."""
        super().follow(rng, counts, sums)
        coefficients = likelihood_coefficients(self.problem.likelihood, counts, sums)
        if len(self._sites.values) != len(counts):
            self._sites = make_sites(len(counts), self._sites.marginals)
        update_sites(self._sites, counts, sums, coefficients)
        sites = self._sites.values
        coefficients[..., 2] -= sites[..., 0]
        coefficients[..., 3] += sites[..., 1] / 2
        self._laws = SitedLaws(self._law, sites, coefficients)

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Draw m weighted vectors of means for each lane; see `Proposal.draw`."""
        draws = make_draws(len(lanes), self.problem.num_arms, num_samples)
        draw_chain(rng, self._laws, lanes, draws)
        if not self.is_exact:
            off, log_weights = draws.means.transpose(0, 2, 1) - self._mean, draws.log_weights
            log_weights += 0.5 * np.einsum("...i,ij,...j->...", off, self._precision, off)
            log_weights += prior_log_density(self.problem, draws.means)
        return draws

    def weigh(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the (R, m) log-weights of (R, K, m) means; see `Proposal.weigh`."""
        data = self.counts[lanes, None], self.sums[lanes, None]
        by_draw = means.transpose(0, 2, 1)
        log_weights = self.problem.likelihood.log_likelihood(by_draw, *data).sum(axis=-1)
        log_weights += prior_log_density(self.problem, means)
        for r, lane in enumerate(lanes):
            log_weights[r] -= log_chain(self._law, self._sites.values[lane], means[r])
        return log_weights


def log_chain(law: NormalLaw, sites: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return the log-density that `draw_chain` draws (K, m) means from, given (K, 2) sites."""
    factor, centre = law.precision.copy(), law.pull + sites[law.order, 0]
    factor += np.diag(sites[law.order, 1])
    factorise(factor, centre)
    off, total = means[law.order] - centre[:, None], np.zeros(means.shape[1])
    for k, scale in enumerate(np.diag(factor)):
        shift = -factor[k + 1 :, k] @ off[k + 1 :] / scale
        low, high = ((end - centre[k] - shift) * scale for end in law.box[k])
        total += log_logistic((off[k] - shift) * scale, low, high) + np.log(scale)
    return total


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


@kernel
def draw_chain(rng: Generator, laws: SitedLaws, lanes: np.ndarray, draws: Draws) -> None:
    """Draw the means of all arms, weigh them for the normal prior, and find the best.

    Args:
        rng: source of randomness.
        laws: of N lanes.
        lanes: (R,) the lanes, of N, to draw for.
        draws: receives means, strictly inside the box, and winners; to its log-weights are added
            the logs of L / g and of phi / q, summed over arms.
    """
    num_lanes, num_arms, num_samples = draws.means.shape
    prior, best = laws.prior, np.empty(num_samples)
    off, ratios = np.empty((num_arms, num_samples)), np.empty((num_arms, num_samples))
    spare, scratch = np.empty((5, num_samples)), np.empty((3, num_arms * num_samples))
    for r in range(num_lanes):
        means, log_weights = draws.means[r], draws.log_weights[r]
        factor, centre = prior.precision.copy(), prior.pull.copy()
        for k in range(num_arms):
            site = laws.sites[lanes[r], prior.order[k]]
            centre[k] += site[0]
            factor[k, k] += site[1]
        factorise(factor, centre)
        for k in range(num_arms - 1, -1, -1):
            low, high, scale = prior.box[k, 0], prior.box[k, 1], factor[k, k]
            fill(off[k], 0.0)
            for j in range(k + 1, num_arms):
                add_multiple(-factor[j, k] / scale, off[j], off[k])
            law = CutLaw(low - centre[k], high - centre[k], scale)
            draw_logistic(rng, law, LogisticDraws(off[k], ratios[k], log_weights), spare)
            lowest, highest = step_inside(low, high)
            x = means[prior.order[k]]
            for j in range(num_samples):
                x[j] = min(max(centre[k] + off[k, j], lowest), highest)
        log_all(ratios.reshape(scratch.shape[1]), scratch[0])
        fill(best, -np.inf)
        add_features(laws.coefficients[lanes[r]], means, scratch, log_weights)
        for i in range(num_arms):
            add_multiple(1.0, ratios[i], log_weights)
            compare_means(rng, means, i, best, draws.winners[r])


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


@inner
def add_multiple(factor: float, x: np.ndarray, out: np.ndarray) -> None:
    """Add factor * x (m,) to `out` (m,), and nothing if the factor is 0, whatever x."""
    if factor != 0.0:
        for j in range(x.size):
            out[j] += factor * x[j]
