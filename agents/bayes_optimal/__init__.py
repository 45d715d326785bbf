"""The best possible: what no rule can beat on average, and the agent that attains it.

With Bernoulli arms that are independent a priori, counts are all there is to know, so that the best
policy for T pulls follows by recursion over them (`agents.bayes_optimal.recursion`). On two cores
and in 8 GB that reaches T = 1,000 for two arms, 100 for three, 70 for four and 40 for five arms,
the last two if the arms are alike; beyond, `agents.bayes_optimal.brackets` bounds it.
"""

from __future__ import annotations

import numpy as np

from agents.base import Agent
from agents.bayes_optimal.brackets import optimal_bracket
from agents.bayes_optimal.policy import find_policy
from agents.bayes_optimal.predictive import check_solvable, expected_best_mean, predictive_means
from agents.bayes_optimal.recursion import check_memory, optimal_total
from agents.bayes_optimal.regret import expected_regret
from agents.rules.horizon import remaining_pulls
from bandit_gym.checks.typing import FloatArray
from bandit_gym.problem import BanditProblem

__all__ = [
    "BayesOptimal",
    "expected_regret",
    "optimal_bracket",
    "optimal_regret",
    "optimal_value",
]


def optimal_value(problem: BanditProblem, horizon: int) -> float:
    """Return the largest expected total reward of T pulls, over all policies.

    The relative error is below 1e-9 given the predictive means; those of priors that are not
    conjugate come from quadrature, to 1e-8.

    Args:
        problem: Bernoulli rewards, arms independent a priori: a prior with `arm_log_density`.
        horizon: T >= 1.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if the problem is another one, or the recursion has no room for it; says how
            much it would take.
    """
    return optimal_total(_solvable_means(problem, horizon), horizon, problem.num_arms)


def optimal_regret(problem: BanditProblem, horizon: int) -> float:
    """Return the smallest expected regret of T pulls: T E max_i mu_i less `optimal_value`.

    Arguments and errors are those of `optimal_value`.
    """
    value = optimal_value(problem, horizon)
    return horizon * expected_best_mean(problem) - value


class BayesOptimal(Agent):
    """Pull the arm that is best given all that can still be learnt and used in T pulls.

    Of arms that are equally good it pulls the lowest; values count as equal that rounding could
    have made different, see `agents.bayes_optimal.recursion`.

    Arguments:
        problem: Bernoulli rewards, arms independent a priori: a prior with `arm_log_density`.
        horizon: T, the pulls of an episode.

    Attributes:
        policy: what to pull in every state, from a file where there is one: see
            `agents.bayes_optimal.policy`.

    Raises:
        ValueError: as `optimal_value`; from `act`, if a lane has no pulls left.
    """

    def __init__(self, problem: BanditProblem, *, horizon: int) -> None:
        super().__init__(problem)
        self.horizon = horizon
        self.policy = find_policy(_solvable_means(problem, horizon), horizon, problem.num_arms)

    def _choose(self) -> np.ndarray:
        remaining_pulls(self, self.horizon)  # which refuses a lane that has none
        return self.policy.best_arms(self.lane_counts, self.lane_sums)

    def _law(self) -> np.ndarray:
        return np.eye(self.problem.num_arms)[self._choose()]


def _solvable_means(problem: BanditProblem, horizon: int) -> FloatArray:
    """Return the predictive means, if the recursion has room for the problem."""
    check_solvable(problem, horizon)
    check_memory(horizon, problem.num_arms, is_symmetric=True)  # before long tables are made
    means = predictive_means(problem, horizon)
    check_memory(horizon, problem.num_arms, len(means) == 1)
    return means
