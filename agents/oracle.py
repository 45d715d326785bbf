"""The truth that samplers are measured against: the probability that each arm is the best.

For a prior independent across arms the posterior is independent too, and

    P_i = int p_i(x) prod_{j != i} F_j(x) dx

with p_i the posterior density of arm i's mean and F_j the distribution function of arm j's: one
integral per arm, by quadrature, for any number of pulls. For a truncated multivariate normal prior
the P_i are frequencies of a long Gibbs run. Either way the error is estimated, and an answer that
misses its tolerance is an exception, not a number.

Letters: K arms, M points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from agents.posteriors.choosing import oracle_method
from agents.posteriors.quadrature import (
    Coordinate,
    Panels,
    ToleranceError,
    best_arm_probabilities,
    first_edges,
    halve,
    log_prior,
    make_coordinate,
    require_density,
    resolve,
)
from bandit_gym.checks import check_real, check_statistics
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

NUM_DRAWS = 512
NUM_PEAKS = 8
QUADRATURE_TOLERANCE = 1e-6
GIBBS_TOLERANCE = 2e-3


def action_probabilities(
    problem: BanditProblem, counts: Any, sums: Any, *, tolerance: float | None = None
) -> FloatArray:
    """Return the probability that each arm has the largest mean, given the data.

    This is the law of the arm that exact Thompson sampling plays.

    Args:
        problem: likelihood and prior. The prior is either independent across arms and offers
            `arm_log_density(means (..., K)) -> (..., K)`, or a `TruncatedMultivariateNormal` beside
            a built-in likelihood.
        counts: (..., K) number of pulls of each arm.
        sums: (..., K) total reward of each arm, in reward units.
        tolerance: largest error of a probability that is accepted. Default 1e-6 for independent
            priors, 2e-3 for the dependent one, whose cost grows like 1 / tolerance^2.

    Returns:
        (..., K) probabilities, each row summing to one.

    Raises:
        ValueError: if the statistics are impossible (names the arm) or have another shape, or the
            density is NaN somewhere.
        TypeError: if the prior is of neither kind.
        ToleranceError: if the tolerance is out of reach, as for a posterior that does not
            integrate; says which error was achieved.
    """
    return action_probabilities_with_error(problem, counts, sums, tolerance=tolerance)[0]


def action_probabilities_with_error(
    problem: BanditProblem, counts: Any, sums: Any, *, tolerance: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return `action_probabilities` and, for each row, an estimate of its largest error.

    For quadrature the error is the sum of what refinement changes, of what the probabilities fail
    to sum to one by, and of the mass outside the grid. For Gibbs it is two standard errors.

    Returns:
        (..., K) probabilities and (...) errors, none above the tolerance.
    """
    shape, num_arms = np.shape(counts), problem.num_arms
    if shape[-1:] != (num_arms,):
        raise ValueError(f"counts must have shape (..., {num_arms}), got {shape!r}.")
    num_pulls, totals = check_statistics(counts, sums, problem.likelihood, shape)
    if tolerance is not None:
        check_real("tolerance", tolerance, above=0.0, below=1.0)
    solve = _make_solver(problem, tolerance)
    rows = np.stack([num_pulls, totals], axis=-2).reshape(-1, 2, num_arms)
    answers = [solve(*row) for row in rows]
    probabilities = np.array([p for p, _ in answers]).reshape(shape)
    return probabilities, np.array([error for _, error in answers]).reshape(shape[:-1])


@dataclass(frozen=True, eq=False)
class ArmPosteriors:
    """One-dimensional posteriors of arms that are independent a priori.

    Attributes:
        problem: likelihood and prior.
        counts: (K,) pulls.
        sums: (K,) total rewards.
    """

    problem: BanditProblem
    counts: FloatArray
    sums: FloatArray

    @cached_property
    def support(self) -> FloatArray:
        """(K, 2) interval of each arm's mean."""
        return self.problem.arm_support()

    @cached_property
    def draws(self) -> FloatArray:
        """(S, K) prior draws, sorted per arm, which show where the prior has its bulks.

        The generator is fixed so that the probabilities are a function of the problem and data.
        """
        shape = (NUM_DRAWS, len(self.counts))
        return np.sort(self.problem.prior.sample(np.random.default_rng(0), shape), axis=0)

    @cached_property
    def coordinate(self) -> Coordinate:
        """The coordinate shared by all arms."""
        return make_coordinate(self.support, self.draws)

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the (M, K) log-densities, up to a constant per arm, at (M, K) means."""
        prior = log_prior(self.problem, self.support, means)
        with np.errstate(all="ignore"):
            data = self.problem.likelihood.log_likelihood(means, self.counts, self.sums)
            values = np.where(prior == -np.inf, -np.inf, prior + data)
        require_density("the log-density of a posterior", values, means)
        return values

    def log_density_along(self, u: FloatArray) -> FloatArray:
        """Return the (M, K) log-densities of the coordinate at (M,) values of it."""
        means = np.broadcast_to(self.coordinate.means(u)[:, None], (len(u), len(self.counts)))
        return self.log_density(means) + self.coordinate.log_slope(u)[:, None]

    def edges(self) -> FloatArray:
        """Return first panel ends: a coarse grid and every place where an arm may have a bulk."""
        breaks = np.concatenate([self.support.ravel(), self._peaks()])
        return first_edges(self.coordinate, breaks)

    def _peaks(self) -> FloatArray:
        """Return the highest local maxima among the prior draws and the likelihood's maxima."""
        draws = self.coordinate.means(self.coordinate.positions(self.draws))
        heights = self.log_density(draws)
        padded = np.pad(heights, ((1, 1), (0, 0)), constant_values=-np.inf)
        is_peak = (heights > padded[:-2]) & (heights >= padded[2:])
        order = np.argsort(np.where(is_peak, -heights, np.inf), axis=0)[:NUM_PEAKS]
        pulled = self.counts > 0
        most_likely = self.sums[pulled] / self.counts[pulled]
        return np.concatenate([np.take_along_axis(draws, order, axis=0).ravel(), most_likely])


def _make_solver(
    problem: BanditProblem, tolerance: float | None
) -> Callable[[FloatArray, FloatArray], tuple[FloatArray, float]]:
    """Return the function from (K,) counts and sums to (K,) probabilities and their error."""
    if oracle_method(problem) == "gibbs":
        from agents.posteriors.gibbs import gibbs_probabilities  # brings numba

        return partial(gibbs_probabilities, problem, tolerance=tolerance or GIBBS_TOLERANCE)
    return partial(quadrature_probabilities, problem, tolerance=tolerance or QUADRATURE_TOLERANCE)


def quadrature_probabilities(
    problem: BanditProblem, counts: FloatArray, sums: FloatArray, *, tolerance: float
) -> tuple[FloatArray, float]:
    """Return the (K,) probabilities and their estimated error; raise if that misses `tolerance`.

    The panels are halved once more after they are fine enough, and the change is the estimate.
    """
    posteriors = ArmPosteriors(problem, counts, sums)
    error, edges = np.inf, posteriors.edges()
    for doubt in (1e-2 * tolerance, 1e-4 * tolerance):
        panels = resolve(posteriors.log_density_along, edges, doubt)
        finer = halve(posteriors.log_density_along, panels)
        probabilities, error = _compare(panels, finer, doubt)
        if error <= tolerance:
            return probabilities, error
    raise ToleranceError(
        f"tolerance must be within reach of quadrature, got {tolerance!r} where the error is "
        f"{error:.2g}; the posteriors are too narrow, too flat or do not integrate.",
        error,
    )


def _compare(panels: Panels, finer: Panels, doubt: float) -> tuple[FloatArray, float]:
    probabilities = best_arm_probabilities(finer)
    change = np.abs(probabilities - best_arm_probabilities(panels)).max()
    unresolved = np.where(finer.roughness > doubt, finer.roughness, 0.0).sum()
    total = probabilities.sum()
    error = change + abs(1 - total) + unresolved + finer.tails().sum()
    return probabilities / total, float(error)
