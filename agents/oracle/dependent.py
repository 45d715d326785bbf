"""Probability that each arm is the best where arms depend on each other, or may do so.

The components of a shared mixture have independent arms, so each is solved by quadrature. Given the
data, a component has its weight times its evidence, which is the integral of its density times the
likelihood.

Of any other prior no more is known than its draws and its density. Draws of the prior, weighted by
the likelihood, are enough while many of them have weight. Otherwise the draws are those of
`agents.oracle.importance`, in the coordinate of `agents.oracle.arms`: there the means have no ends,
and a density without bound has none.

Notation: K arms, M draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import softmax

from agents.oracle.arms import Arms, Line
from agents.oracle.chains import (
    Compared,
    PosteriorTarget,
    find_wins,
    require_digits,
    temper_draws,
)
from agents.oracle.importance import BATCH_SIZE, average_batches, weigh_mixture
from agents.oracle.panels import integrate_arms, require_tolerance
from bandit_gym.checks import message
from bandit_gym.checks.typing import FloatArray
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem

MIN_EFFICIENCY = 0.1
"""Effective draws of the prior, for each draw, above which nothing is fitted."""

END_LENGTH = 3.0
"""Of the coordinate, before either limit. Where the mass beyond a limit is more than 2e-3, so is
the mass on that length, unless the density falls by half or more over it."""

Solve = Callable[[FloatArray, FloatArray], tuple[FloatArray, float]]


# -- Shared mixtures -------------------------------------------------------------------------------


def make_mixture_solver(problem: BanditProblem, tolerance: float, prices: Any = None) -> Solve:
    """Return a function of (K,) counts and sums that returns (K,) probabilities and their error.

    A relative error of an evidence changes the probabilities by at most as much, times the
    component's posterior weight.

    Args:
        problem: its prior has `shared_components`.
        tolerance: largest error accepted.
        prices: see `Arms`.
    """
    prior: Any = problem.prior
    components, weights = prior.shared_components()
    no_data = np.zeros(problem.num_arms)
    parts = []
    for component, weight in zip(components, weights, strict=True):
        arms = Arms(replace(problem, prior=component), prices)
        before = integrate_arms(arms, tolerance, no_data, no_data)  # its density need not be normed
        parts.append((arms, np.log(weight) - before.log_evidence, before.evidence_error))

    def solve(counts: FloatArray, sums: FloatArray) -> tuple[FloatArray, float]:
        answers = [integrate_arms(arms, tolerance, counts, sums) for arms, *_ in parts]
        log_weights = [
            answer.log_evidence + log_weight
            for answer, (_, log_weight, _) in zip(answers, parts, strict=True)
        ]
        errors = [
            answer.error + answer.evidence_error + error
            for answer, (*_, error) in zip(answers, parts, strict=True)
        ]
        posterior_weights = softmax(log_weights)
        error = float(posterior_weights @ errors)
        require_tolerance(error, tolerance)
        probabilities = posterior_weights @ [answer.probabilities for answer in answers]
        return probabilities / probabilities.sum(), error

    return solve


# -- Any prior -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MeansTarget(PosteriorTarget):
    """The posterior of all means, in the coordinate of a line.

    Attributes:
        line: whose means the coordinates stand for.
        support: (K, 2) lowest and highest mean of each arm.
    """

    line: Line = field(kw_only=True)
    support: FloatArray = field(kw_only=True)

    def sample_prior(self, rng: Generator, size: int) -> FloatArray:
        """Return the (size, K) coordinates of draws of the prior."""
        return self.line.positions(super().sample_prior(rng, size))

    def log_prior(self, theta: FloatArray) -> FloatArray:
        """Return the (M,) log-densities of (M, K) coordinates, -inf outside the support."""
        means, (first, last) = self.line.means(np.clip(theta, *self.line.limits)), self.line.limits
        low, high = self.support.T
        is_inside = (means >= low) & (means <= high) & (theta >= first) & (theta <= last)
        with np.errstate(all="ignore"):
            values = np.asarray(self.problem.prior.log_density(means), dtype=np.float64)
        values = np.where(is_inside.all(axis=-1), values, -np.inf)
        if not (values < np.inf).all():
            at = np.argmin(values < np.inf)
            place = f" at the means {means[at].tolist()}"
            name = "problem.prior.log_density"
            raise ValueError(message(name, "be a number or -inf", values[at], place=place))
        return values + self.line.log_slope(theta).sum(axis=-1)

    def log_likelihoods(self, theta: FloatArray) -> FloatArray:
        """Return the (M,) log-likelihoods of (M, K) coordinates."""
        return super().log_likelihoods(self.line.means(theta))


def joint_probabilities(
    problem: BanditProblem,
    tolerance: float,
    prices: Any,
    counts: FloatArray,
    sums: FloatArray,
) -> tuple[FloatArray, float]:
    """Return the (K,) probabilities that each arm is the best, and their error.

    The error is that of the total variation distance: two standard errors, and what draws cannot
    tell: ties, mass near the ends of what numbers can hold, and modes that were missed.

    Args:
        problem: any.
        tolerance: largest error accepted.
        prices: see `Arms`.
        counts: (K,) pulls.
        sums: (K,) total rewards.

    Raises:
        ToleranceError: if the error is larger.
    """
    arms, rows, pulled = Arms(problem), np.eye(problem.num_arms), counts > 0
    priced = Arms(problem, prices)

    def find_worth(theta: FloatArray) -> FloatArray:
        return priced.worth(arms.line.means(theta))

    compared: Compared = rows if prices is None else find_worth
    data = rows[pulled], counts[pulled], sums[pulled]
    target = MeansTarget(problem, *data, line=arms.line, support=arms.support)
    rng = make_generator("importance sampling of the oracle")
    theta = target.sample_prior(rng, BATCH_SIZE)
    values = target.log_likelihoods(theta)
    if not np.isfinite(values.max()):
        require_digits(values)
    weights = softmax(values)
    if len(theta) * (weights @ weights) <= 1 / MIN_EFFICIENCY:
        require_digits(values.max(keepdims=True))
        is_best = theta == theta.max(axis=1, keepdims=True)
        unknown = float(weights[is_best.sum(axis=1) > 1].sum())
        probabilities, error = average_batches(
            partial(estimate_from_prior, rng, target, compared), tolerance
        )
    else:
        theta = temper_draws(rng, target)
        require_digits(target.log_likelihoods(theta))
        first, last = target.line.limits + [END_LENGTH, -END_LENGTH]
        unknown = float(((theta < first) | (theta > last)).any(axis=1).mean())
        probabilities, error = weigh_mixture(rng, target, theta, compared, tolerance)
    require_tolerance(error + unknown, tolerance)
    return probabilities, error + unknown


def estimate_from_prior(rng: Generator, target: MeansTarget, compared: Compared) -> FloatArray:
    """Return (K,) probabilities from a batch, less the bias that a ratio of averages has.

    The bias is inversely proportional to the number of draws, so halves have twice as much of it.
    """
    theta = target.sample_prior(rng, BATCH_SIZE)
    weights = softmax(target.log_likelihoods(theta))
    halves = weights.reshape(2, -1) / weights.reshape(2, -1).sum(axis=1, keepdims=True)
    wins = find_wins(theta, compared)
    return np.asarray((2 * weights - halves.ravel() / 2) @ wins)
