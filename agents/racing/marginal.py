"""A proposal for arms whose prior is not conjugate: each arm's own posterior, from a table.

Every arm is drawn from the posterior q_i that its marginal prior pi_i and its own data L_i give,
as if the arms were independent. `agents.posteriors.grid` keeps these one-dimensional laws as
tables, whatever their shape. The weight makes good what the arms have to do with each other, and
the errors of the tables with them, which are below 5e-3 or flagged:

    w(mu) = pi(mu) prod_i L_i(mu_i) / q_i(mu_i),

with q_i the density of the draws themselves. If the arms are independent this is constant but for
those errors, and a sample is as good as a draw from the posterior: where the prior itself says
what its arms are, it is taken for one. Where that they are independent was found out from draws of
the prior (`agents.racing.slices`), it may fail where none of these lie and the data lead: so it is
tried there too, at means that the likelihood alone would have, and the lane is flagged if it does.

Where the prior does not say what its marginals are, normal laws cut to the support of the means
stand in for them.

Letters: K arms, N lanes, R of them drawn for, m samples.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from agents.numerics.kernels import Draws, compare_means, make_draws
from agents.numerics.vector_math import log_all
from agents.posteriors.features import (
    Data,
    add_log_likelihood,
    add_multiple,
    set_features,
    set_means,
)
from agents.posteriors.grid import GridPosterior, density_of_table
from agents.posteriors.mesh_rows import EDGE, HEIGHT, Mesh
from agents.posteriors.points import invert_table
from agents.posteriors.quadrature import Coordinate
from agents.posteriors.tabulation import PosteriorTables
from agents.racing.proposal import Proposal, prior_log_density
from agents.racing.races import Races, feed_races
from agents.racing.slices import SlicedPrior
from bandit_gym.numerics.compiled import inner, kernel
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


class MarginalLaws(NamedTuple):
    """Posteriors of the arms of N lanes, each on its own.

    Attributes:
        mesh: the marginal priors, and the likelihood.
        tables: of N lanes and K arms, up to date.
        counts: (N, K) pulls.
        sums: (N, K) total rewards.
    """

    mesh: Mesh
    tables: PosteriorTables
    counts: np.ndarray
    sums: np.ndarray


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
        self.grid = GridPosterior(
            problem if self.has_equal_weights else replace(problem, prior=marginals)
        )

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Bring every lane to its data; see `Posterior.follow`.

        Raises:
            ValueError: if the data have probability 0 under the marginals.
        """
        super().follow(rng, counts, sums)
        self.grid.follow(rng, counts, sums)
        self._laws = MarginalLaws(self.grid.mesh, self.grid.tables, counts, sums)

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
        mesh, coordinate = self.grid.mesh, Coordinate(*self.grid.mesh.likelihood.ends.tolist())
        cells = [rows[: size + 1] for rows, size in zip(mesh.cells, mesh.sizes, strict=True)]
        low, high = np.array([rows[[0, -1], EDGE] for rows in cells]).T
        u = np.linspace(low, high, NUM_PLACES)
        heights = [
            np.interp(x, rows[:, EDGE], np.maximum(rows[:, HEIGHT], LOWEST))
            for x, rows in zip(u.T, cells, strict=True)
        ]
        return coordinate.means(u), np.column_stack(heights)

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Draw m weighted vectors of means for each lane; see `Proposal.draw`."""
        draws = make_draws(len(lanes), self.problem.num_arms, num_samples)
        laws = self._laws
        if self._is_exact:
            draw_exactly(rng, laws.tables, laws.mesh.likelihood.ends, lanes, draws)
        else:
            draw_marginals(rng, laws, lanes, draws)
            draws.log_weights[:] += prior_log_density(self.problem, draws.means)
        return draws

    def run_races(self, rng: Generator, races: Races, lanes: np.ndarray, chunk_size: int) -> bool:
        """Run races whose samples weigh the same; see `Proposal.run_races`."""
        if self._is_exact:
            run_exactly(rng, self._laws.tables, races, lanes, chunk_size)
        return self._is_exact

    def weigh(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the (R, m) log-weights of (R, K, m) means; see `Proposal.weigh`."""
        coordinate = Coordinate(*self.grid.mesh.likelihood.ends.tolist())
        u, by_draw = coordinate.positions(means), means.transpose(0, 2, 1)
        data = self.counts[lanes, None], self.sums[lanes, None]
        log_weights = self.problem.likelihood.log_likelihood(by_draw, *data).sum(axis=-1)
        log_weights += prior_log_density(self.problem, means) + coordinate.log_slope(u).sum(axis=1)
        for r, tables in enumerate(self.grid.tables.points[lanes]):
            for x, points in zip(u[r], tables, strict=True):
                with np.errstate(divide="ignore"):
                    log_weights[r] -= np.log(density_of_table(points, x))
        return log_weights


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
def draw_marginals(rng: Generator, laws: MarginalLaws, lanes: np.ndarray, draws: Draws) -> None:
    """Draw the means of all arms from their tables, weigh them, and find the best.

    Args:
        rng: source of randomness.
        laws: of N lanes.
        lanes: (R,) the lanes, of N, to draw for.
        draws: receives means and winners; to its log-weights are added the logs of likelihood over
            density of the draws, summed over arms.
    """
    num_lanes, num_arms, num_samples = draws.means.shape
    size = num_arms * num_samples  # arms side by side: short loops would cost more than their work
    likelihood, tables = laws.mesh.likelihood, laws.tables
    u, ratio, first = np.empty(size), np.empty(size), np.empty(size)
    second, spare, best = np.empty(size), np.empty(size), np.empty(num_samples)
    for r in range(num_lanes):
        lane, out = lanes[r], draws.log_weights[r]
        for arm in range(num_arms):
            points, guide = tables.points[lane, arm], tables.guides[lane, arm]
            for j in range(arm * num_samples, (arm + 1) * num_samples):
                u[j], ratio[j] = invert_table(points, guide, rng.random())
        x = draws.means[r].reshape(size)
        set_means(likelihood.ends, u, x, spare)
        invert_densities(likelihood.ends, x, ratio)
        log_all(ratio, spare)
        set_features(likelihood, u, first, second, spare)
        best[:] = -np.inf
        for arm in range(num_arms):
            part = slice(arm * num_samples, (arm + 1) * num_samples)
            add_multiple(1.0, ratio[part], out)
            data = Data(float(laws.counts[lane, arm]), laws.sums[lane, arm])
            if data.pulls > 0.0:
                add_log_likelihood(likelihood, data, first[part], second[part], out)
            compare_means(rng, draws.means[r], arm, best, draws.winners[r])


@kernel
def draw_exactly(
    rng: Generator, tables: PosteriorTables, ends: np.ndarray, lanes: np.ndarray, draws: Draws
) -> None:
    """Draw the means of all arms from their tables, and find the best; see `draw_marginals`.

    Args:
        rng: source of randomness.
        tables: of N lanes.
        ends: of the coordinate.
        lanes: (R,) the lanes, of N, to draw for.
        draws: receives means and winners; their weights are left as they are.
    """
    spare, best = np.empty(draws.means.shape[2]), np.empty(draws.means.shape[2])
    for r in range(lanes.size):
        draw_places(rng, tables, lanes[r], draws.means[r], best, draws.winners[r])
        for u in draws.means[r]:
            set_means(ends, u, u, spare)


@inner
def draw_places(
    rng: Generator,
    tables: PosteriorTables,
    lane: int,
    u: np.ndarray,
    best: np.ndarray,
    winners: np.ndarray,
) -> None:
    """Draw u (K, m), with which means rise, of all arms; find the `best` (m,) and its arm."""
    best[:] = -np.inf
    for arm in range(u.shape[0]):
        points, guide, places = tables.points[lane, arm], tables.guides[lane, arm], u[arm]
        for j in range(places.size):
            places[j], _ = invert_table(points, guide, rng.random())
        compare_means(rng, u, arm, best, winners)


@kernel
def run_exactly(
    rng: Generator, tables: PosteriorTables, races: Races, lanes: np.ndarray, chunk_size: int
) -> None:
    """Draw and race, a lane at a time; see `draw_places` and `run_lane_by_lane`."""
    num_arms = races.gumbels.shape[1]
    for r in range(lanes.size):
        lane, is_over = lanes[r : r + 1], False
        while not is_over:
            size = min(chunk_size, races.lengths[lane[0]] - races.num_samples[lane[0]])
            draws = make_draws(1, num_arms, size)
            draw_places(rng, tables, lane[0], draws.means[0], np.empty(size), draws.winners[0])
            is_over = feed_races(races, lane, draws.log_weights, draws.winners)[0]


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
