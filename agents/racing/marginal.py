"""A proposal for arms whose prior is not conjugate: each arm's own posterior, from a table.

Every arm is drawn from the posterior q_i that its marginal prior pi_i and its own data L_i give,
as if the arms were independent. `agents.posteriors.grid` keeps these one-dimensional laws as
tables, whatever their shape. The weight makes good what the arms have to do with each other, and
the errors of the tables with them:

    w(mu) = pi(mu) prod_i L_i(mu_i) / q_i(mu_i),

with q_i the density of the draws themselves. If the arms are independent this is constant but for
those errors, and a sample is as good as a draw from the posterior.

Where the prior does not say what its marginals are, normal laws cut to the support of the means
stand in for them.

Letters: K arms, N lanes, R races (rows), m samples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from agents.numerics.compiled import inner, kernel
from agents.numerics.kernels import compare_means
from agents.numerics.vector_math import log_all
from agents.posteriors.features import (
    Data,
    add_log_likelihood,
    add_multiple,
    set_features,
    set_means,
)
from agents.posteriors.grid import GridPosterior, Tables, invert_table
from agents.posteriors.mesh import Mesh
from agents.racing.proposal import Proposal, find_box, prior_log_density
from bandit_gym.priors import Prior, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.problem import BanditProblem

FAR = 1000.0
"""Standard deviations from the mean at which an unbounded support is cut for a stand-in."""


class MarginalProposal(Proposal):
    """Draws arm means from their marginal posteriors and weighs them for the problem's own prior.

    Arguments:
        problem: likelihood and prior. The marginals of an independent prior are known, those of a
            truncated multivariate normal are taken to be its own before truncation, cut; for any
            other prior they are normal laws with the moments of its draws, cut to the support.
        draws: (M, K) from the prior, for the moments.

    Raises:
        ValueError: if the marginals do not integrate or are too rough for tables.
    """

    has_tables, draw_cost = False, 20.0

    def __init__(self, problem: BanditProblem, draws: np.ndarray) -> None:
        self.problem = problem
        marginals = find_marginals(problem, draws)
        is_same = marginals is problem.prior
        self.tables = GridPosterior(problem if is_same else replace(problem, prior=marginals))

    def parameters(
        self, counts: np.ndarray, sums: np.ndarray
    ) -> tuple[Tables, np.ndarray, np.ndarray]:
        """Return the tables of all N lanes, and the (N, K) statistics themselves.

        Raises:
            ValueError: if the data have probability 0 under the marginals.
        """
        self.tables.follow(np.random.default_rng(0), counts, sums)
        return self.tables.tables, counts, sums

    def draw_rows(
        self,
        rng: Generator,
        rows: np.ndarray,
        parameters: tuple[Tables, np.ndarray, np.ndarray],
        tables: Any,
        num_samples: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw m vectors of means for each race; as `Proposal.draw_rows`, which uses the tables."""
        means = np.empty((len(rows), self.problem.num_arms, num_samples))
        winners = np.empty((len(rows), num_samples), dtype=np.int64)
        log_weights = np.zeros(winners.shape)
        mesh = self.tables.mesh
        draw_marginal_rows(rng, mesh, *parameters, rows, means, log_weights, winners)
        log_weights += prior_log_density(self.problem, means)
        return log_weights, winners


def find_marginals(problem: BanditProblem, draws: np.ndarray) -> Prior:
    """Return a prior under which arms are independent, with marginals like those of the problem's.

    Args:
        problem: likelihood and prior.
        draws: (M, K) from the prior.
    """
    prior: Any = problem.prior
    if hasattr(prior, "arm_log_density"):
        return problem.prior
    mean, std = draws.mean(axis=0), draws.std(axis=0)
    if isinstance(prior, TruncatedMultivariateNormal):
        mean = np.broadcast_to(np.asarray(prior.mean, dtype=np.float64), problem.num_arms)
        std = np.sqrt(np.diag(prior.covariance))
    low, high = find_box(problem).T
    low, high = np.maximum(low, mean - FAR * std), np.minimum(high, mean + FAR * std)
    return TruncatedNormal(*(column.tolist() for column in (mean, std, low, high)))


@kernel
def draw_marginal_rows(
    rng: Generator,
    mesh: Mesh,
    tables: Tables,
    counts: np.ndarray,
    sums: np.ndarray,
    rows: np.ndarray,
    means: np.ndarray,
    log_weights: np.ndarray,
    winners: np.ndarray,
) -> None:
    """Draw the means of all arms from their tables, weigh them, and find the best.

    Args:
        rng: source of randomness.
        mesh: the marginal priors.
        tables: of N lanes and K arms, up to date.
        counts: (N, K) pulls.
        sums: (N, K) total rewards.
        rows: (R,) the lanes, of N, to draw for.
        means: (R, K, m) receives the draws.
        log_weights: (R, m) receives the log of likelihood over density of the draws, summed over
            arms.
        winners: (R, m) receives the arm with the largest mean, ties broken at random.
    """
    num_rows, num_arms, num_samples = means.shape
    size = num_arms * num_samples  # arms side by side: short loops would cost more than their work
    u, ratio, first = np.empty(size), np.empty(size), np.empty(size)
    second, spare, best = np.empty(size), np.empty(size), np.empty(num_samples)
    for r in range(num_rows):
        lane = rows[r]
        for arm in range(num_arms):
            points, guide = tables.points[lane, arm], tables.guides[lane, arm]
            for j in range(arm * num_samples, (arm + 1) * num_samples):
                u[j], ratio[j] = invert_table(points, guide, rng.random())
        x = means[r].reshape(size)
        set_means(mesh.likelihood.ends, u, x, spare)
        invert_densities(mesh.likelihood.ends, x, ratio)
        log_all(ratio, spare)
        set_features(mesh.likelihood, u, first, second, spare)
        best[:] = -np.inf
        for arm in range(num_arms):
            part = slice(arm * num_samples, (arm + 1) * num_samples)
            add_multiple(1.0, ratio[part], log_weights[r])
            if counts[lane, arm] > 0:
                data = Data(float(counts[lane, arm]), sums[lane, arm])
                add_log_likelihood(mesh.likelihood, data, first[part], second[part], log_weights[r])
            compare_means(rng, means[r], arm, best, winners[r])


@inner
def invert_densities(ends: np.ndarray, x: np.ndarray, density: np.ndarray) -> None:
    """Replace the density of u (m,) by one over that of x(u), which is dx/du over it."""
    low, high, centre, scale = ends[0], ends[1], ends[2], ends[3]
    for j in range(x.size):
        if low > -np.inf and high < np.inf:
            slope = (x[j] - low) * ((high - x[j]) / (high - low))
        elif low > -np.inf:
            slope = x[j] - low
        elif high < np.inf:
            slope = high - x[j]
        else:
            slope = np.hypot(scale, x[j] - centre)
        density[j] = max(slope, 1e-300) / density[j]
