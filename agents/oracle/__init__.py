r"""The truth that samplers are measured against: the probability that each arm is the best.

For a prior independent across arms the posterior is independent too, and

.. math:: P_i = \int p_i(x) \prod_{j \neq i} F_j(x) \, dx

with p_i the posterior density of arm i's mean and F_j the distribution function of arm j's: one
integral per arm, by quadrature, for any number of pulls. For a mixture of such priors these are
averaged by the evidence of the components. For a truncated multivariate normal prior the P_i are
frequencies of long Markov chains, for any other of weighted draws. The error is always estimated,
and an answer that misses its tolerance is an exception, not a number.

It judges posteriors and races, and shares no code with them: a prior's density and draws and a
likelihood's log-likelihood are all that it is given.

Notation: K arms, M points.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from agents.oracle.arms import Arms
from agents.oracle.chains import means_probabilities
from agents.oracle.contextual import contextual_probabilities
from agents.oracle.importance import joint_probabilities, make_mixture_solver
from agents.oracle.panels import ToleranceError, integrate_arms
from bandit_gym.checks import (
    check_arm_order,
    check_arms,
    check_per_arm,
    check_real,
    check_squares,
    check_statistics,
    message,
)
from bandit_gym.checks.typing import FloatArray
from bandit_gym.problem import BanditProblem, ContextualProblem, check_problem

__all__ = ["ToleranceError", "action_probabilities", "action_probabilities_with_error"]

QUADRATURE_TOLERANCE, SAMPLING_TOLERANCE = 1e-6, 2e-3
"""Largest errors by default: by quadrature, and by chains or weighted draws."""


def action_probabilities(
    problem: BanditProblem,
    counts: Any,
    sums: Any,
    *,
    squares: Any = None,
    values: Any = None,
    costs: Any = None,
    tolerance: float | None = None,
) -> FloatArray:
    """Return the probability that each arm has the largest mean, given the data.

    This is the distribution of the arm that exact Thompson sampling plays.

    Args:
        problem: likelihood and prior. By quadrature if the prior offers
            `arm_log_density(means (..., K)) -> (..., K)` of independent arms, or is a mixture of
            such priors (`shared_components`). By Markov chains if it is a
            `TruncatedMultivariateNormal`, and otherwise by weighted draws.
        counts: (..., K) number of pulls of each arm. For a `ContextualProblem` all rewards, as a
            pair of (t, d) features and (t,) rewards.
        sums: (..., K) total reward of each arm, in reward units. For a `ContextualProblem` the
            (K, d) features of this decision.
        squares: (..., K) sums of the squares of the rewards, where their std is None and arms have
            no features, and only there.
        values: (K,) above 0: the arm is sought that has the largest value * mean - cost. None is 1.
        costs: (K,); None is 0. With values or costs, features are answered by sampling.
        tolerance: largest error of a probability that is accepted. Default 1e-6 by quadrature,
            otherwise 2e-3, where the cost grows like 1 / tolerance^2. With features that of the
            total variation distance: 1e-4 for d <= 3, otherwise 1e-3.

    Returns:
        (..., K) probabilities, each row summing to one.

    Raises:
        ValueError: if the statistics are impossible (names the arm) or have another shape, or the
            density is NaN somewhere.
        ToleranceError: if the tolerance is out of reach, as for a posterior that does not
            integrate, or one whose modes draws do not meet; says which error was achieved.
    """
    options: dict[str, Any] = {"squares": squares, "values": values, "costs": costs}
    options["tolerance"] = tolerance
    return action_probabilities_with_error(problem, counts, sums, **options)[0]


def action_probabilities_with_error(
    problem: BanditProblem,
    counts: Any,
    sums: Any,
    *,
    squares: Any = None,
    values: Any = None,
    costs: Any = None,
    tolerance: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return `action_probabilities` and, for each row, an estimate of its largest error.

    For quadrature the error adds the change under refinement, the deviation of the sum from one,
    unresolved panels, rounding, and the mass outside the grid. For chains it is two standard
    errors, and for weighted draws these and the mass that the draws did not meet. With features it
    is that of the total variation distance: by quadrature what more nodes change, by sampling two
    standard errors.

    Returns:
        (..., K) probabilities and (...) errors, none above the tolerance.
    """
    num_arms = check_problem(problem).num_arms
    if tolerance is not None:
        check_real("tolerance", tolerance, above=0.0, below=1.0)
    prices = None
    if values is not None or costs is not None:
        sizes = 1, len(sums) if isinstance(problem, ContextualProblem) else num_arms
        worth = check_per_arm("values", 1.0 if values is None else values, sizes, is_positive=True)
        prices = worth[0], check_per_arm("costs", 0.0 if costs is None else costs, sizes)[0]
    if isinstance(problem, ContextualProblem):
        if squares is not None:
            condition = "be left out where arms have features, whose rewards are all given"
            raise ValueError(message("squares", condition, squares))
        best, error = contextual_probabilities(problem, counts, sums, tolerance, prices)
        return best, np.array(error)
    shape = check_arms("counts", counts, num_arms)
    for name, given in (("counts", counts), ("sums", sums)):
        check_arm_order(name, given, num_arms)
    num_pulls, totals = check_statistics(counts, sums, problem.likelihood, shape)
    centred = check_squares(squares, num_pulls, totals, problem)
    solve: Callable[..., Any]  # the probabilities, their error, and more
    if problem.offers("arm_log_density"):
        solve = partial(integrate_arms, Arms(problem, prices), tolerance or QUADRATURE_TOLERANCE)
    elif problem.offers("shared_components"):
        solve = make_mixture_solver(problem, tolerance or QUADRATURE_TOLERANCE, prices)
    elif problem.offers("normal_box"):
        solve = partial(means_probabilities, problem, tolerance or SAMPLING_TOLERANCE, prices)
    else:
        solve = partial(joint_probabilities, problem, tolerance or SAMPLING_TOLERANCE, prices)
    statistics = [num_pulls, totals] + ([] if centred is None else [centred])
    data = np.stack(statistics, axis=-2).reshape(-1, len(statistics), num_arms)
    answers = [solve(*of_arms) for of_arms in data]
    probabilities, errors = (np.array([answer[i] for answer in answers]) for i in (0, 1))
    return probabilities.reshape(shape), errors.reshape(shape[:-1])
