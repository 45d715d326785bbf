"""A proposal for arms whose prior is not conjugate: each arm's own posterior, from a table.

Every arm is drawn from the posterior that its marginal prior pi_i and its own data give, as if the
arms were independent. `agents.posteriors.grid` keeps these one-dimensional laws as tables, whatever
their shape. The weight makes good what the arms have to do with each other: the likelihood of the
data is in both posteriors and cancels,

    w(mu) = pi(mu) / prod_i pi_i(mu_i).

Tables vouch for their own errors, which are below 5e-3 or flagged. If the arms are independent the
weight is constant, and a sample is as good as a draw from the posterior: where the prior itself
says what its arms are, it is taken for one. Where that they are independent was found out from
draws of the prior (`agents.racing.slices`), it may fail where none of these lie and the data lead:
so it is tried there too, at means that the likelihood alone would have, and the lane is flagged if
it does.

Where the prior does not say what its marginals are, normal laws cut to the support of the means
stand in for them.

Letters: K arms, N lanes, R of them drawn for, m samples.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator

from agents.numerics.kernels import Draws, compare_means, make_draws
from agents.posteriors.coordinate import mean_at
from agents.posteriors.grid import GridPosterior
from agents.posteriors.tables import Tables, invert
from agents.racing.proposal import Proposal, prior_log_density
from agents.racing.slices import SlicedPrior
from bandit_gym.numerics.compiled import kernel
from bandit_gym.priors import Prior, TruncatedNormal
from bandit_gym.problem import BanditProblem

NUM_PLACES, NUM_LEVELS = 1024, 16
"""Along an arm at which its likelihood is looked at, and levels of it that are tried."""

TEMPER = 0.1
"""Power of the prior's density that counts beside the likelihood, for arms with few data."""

LOWEST = -1e4
"""Log-density that stands for that of a mean which the prior excludes."""

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

    draw_cost = 20.0

    def __init__(self, problem: BanditProblem, draws: np.ndarray) -> None:
        super().__init__(problem)
        marginals = fit_marginals(problem, draws)
        self.has_equal_weights = marginals is problem.prior
        self.is_inferred = isinstance(marginals, SlicedPrior)
        self._is_exact = self.has_equal_weights and not self.is_inferred
        self.marginals: Any = marginals
        self.grid = GridPosterior(
            problem if self.has_equal_weights else replace(problem, prior=marginals)
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the tables again, which copies and pickles leave out."""
        self.__dict__.update(state)
        self.grid.follow(np.random.default_rng(0), self.counts, self.sums)

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Bring every lane to its data; see `Posterior.follow`.

        Raises:
            ValueError: if the data have probability 0 under the marginals.
        """
        super().follow(rng, counts, sums)
        self.grid.follow(rng, counts, sums)

    def is_unreliable(self) -> np.ndarray:
        """Return (N,) True where the tables cannot vouch for what they hold."""
        return self.grid.is_unreliable()

    def is_misled(self, lanes: np.ndarray) -> np.ndarray:
        """Return (R,) True where arms whose independence was inferred have none near the data."""
        if not self.is_inferred or not len(lanes):
            return super().is_misled(lanes)
        rng = np.random.default_rng(0)
        own = self.draw(rng, lanes, 2 * NUM_LEVELS).means.swapaxes(1, 2)
        places = np.concatenate([self._likely_means(lane, rng) for lane in lanes])
        led = places.reshape(own.shape)
        means = np.concatenate([led, np.where(rng.random(led.shape) < 0.5, led, own)], axis=1)
        prior: Any = self.problem.prior
        is_product = prior.is_product(means.reshape(-1, self.problem.num_arms))
        return ~is_product.reshape(len(lanes), -1).all(axis=1)

    def _likely_means(self, lane: int, rng: Generator) -> np.ndarray:
        """Return (2 NUM_LEVELS, K) means that the likelihood of a lane's data asks for.

        Half of them are at the same level in all arms, half at levels that are shuffled.
        """
        levels = np.tile((np.arange(NUM_LEVELS) + 0.5) / NUM_LEVELS, (self.problem.num_arms, 1)).T
        levels = np.concatenate([levels, rng.permuted(levels, axis=0)])
        x, log_prior = self._places
        logs = self.problem.likelihood.log_likelihood(x, self.counts[lane], self.sums[lane])
        logs += TEMPER * log_prior
        shares = np.exp(logs - logs.max(axis=0)).cumsum(axis=0)
        columns = zip(shares.T, x.T, levels.T, strict=True)
        return np.column_stack(
            [means[np.searchsorted(share, p * share[-1])] for share, means, p in columns]
        )

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """Means of each arm and the log-densities of their u, both (NUM_PLACES, K)."""
        cells = self.grid.cells
        edges, heights = cells.edges[cells.kind_of_arm], cells.heights[cells.kind_of_arm, :, 0]
        u = np.linspace(edges[:, 0], edges[:, -1], NUM_PLACES)
        columns = zip(u.T, edges, np.maximum(heights, LOWEST), strict=True)
        return self.grid.coordinate.means(u), np.column_stack([np.interp(*row) for row in columns])

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Draw m weighted vectors of means for each lane; see `Proposal.draw`."""
        draws = make_draws(len(lanes), self.problem.num_arms, num_samples)
        draw_from_tables(rng, self.grid.cells.ends, self.grid.tables, lanes, draws)
        if not self._is_exact:
            draws.log_weights[:] = self.weigh(lanes, draws.means)
        return draws

    def weigh(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the (R, m) log-weights of (R, K, m) means; see `Proposal.weigh`."""
        if self._is_exact:
            return np.zeros((means.shape[0], means.shape[2]))
        with np.errstate(invalid="ignore"):
            apart = self.marginals.arm_log_density(means.transpose(0, 2, 1)).sum(axis=-1)
            log_prior = prior_log_density(self.problem, means)
            return np.where(log_prior == -np.inf, -np.inf, log_prior - apart)


def fit_marginals(problem: BanditProblem, draws: np.ndarray) -> Prior:
    """Return a prior under which arms are independent, with marginals like those of the problem's.

    Args:
        problem: likelihood and prior.
        draws: (M, K) from the prior.
    """
    prior: Any = problem.prior
    if problem.offers("arm_log_density"):
        return problem.prior
    mean, std = draws.mean(axis=0), draws.std(axis=0)
    if problem.offers("normal_box"):
        mean = np.broadcast_to(np.asarray(prior.mean, dtype=np.float64), problem.num_arms)
        std = np.sqrt(np.diag(prior.covariance))
    low, high = problem.arm_support().T
    low, high = np.maximum(low, mean - FAR * std), np.minimum(high, mean + FAR * std)
    return TruncatedNormal(*(column.tolist() for column in (mean, std, low, high)))


@kernel
def draw_from_tables(
    rng: Generator, ends: np.ndarray, tables: Tables, lanes: np.ndarray, draws: Draws
) -> None:
    """Draw the means of all arms from their tables, and find the best.

    Args:
        rng: source of randomness.
        ends: of the coordinate.
        tables: of N lanes.
        lanes: (R,) the lanes, of N, to draw for.
        draws: receives means and winners; their weights are left as they are.
    """
    best = np.empty(draws.means.shape[2])
    for r in range(lanes.size):
        u = draws.means[r]  # with which means rise
        best[:] = -np.inf
        for arm in range(u.shape[0]):
            points, guide = tables.points[lanes[r], arm], tables.guides[lanes[r], arm]
            for j in range(best.size):
                u[arm, j] = invert(points, guide, rng.random())
            compare_means(rng, u, arm, best, draws.winners[r])
        for arm in range(u.shape[0]):
            for j in range(best.size):
                u[arm, j] = mean_at(ends, u[arm, j])
