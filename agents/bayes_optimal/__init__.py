"""The best possible: what no rule can beat on average, and the agent that attains it.

With Bernoulli arms that are independent a priori, counts are all there is to know, so that the best
policy for T pulls follows by recursion over them (`agents.bayes_optimal.policy`). On two cores
and in 8 GB that reaches T = 1,000 for two arms, 100 for three, 70 for four and 40 for five arms,
the last two if the arms are alike; beyond, `agents.bayes_optimal.brackets` bounds it.
"""

from __future__ import annotations

from math import comb

import numpy as np

from agents.bayes_optimal.brackets import optimal_bracket
from agents.bayes_optimal.policy import Policy, find_policy, solvable_means, solve_recursion
from agents.bayes_optimal.regret import expected_regret
from agents.oracle.predictive import expected_best_mean
from agents.rules.horizon import HorizonRule, remaining_pulls
from bandit_gym.checks import message
from bandit_gym.problem import BanditProblem

__all__ = ["BayesOptimal", "expected_regret", "optimal_bracket", "optimal_regret", "optimal_value"]


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
    means = solvable_means(problem, horizon)
    *_, (_, values, _) = solve_recursion(means, horizon, problem.num_arms, with_choices=False)
    return float(values[0])


def optimal_regret(problem: BanditProblem, horizon: int) -> float:
    """Return the smallest expected regret of T pulls: T E max_i mu_i less `optimal_value`.

    Arguments and errors are those of `optimal_value`.
    """
    value = optimal_value(problem, horizon)
    return horizon * expected_best_mean(problem) - value


MAX_POLICY_STATES = 1e8
"""Of a policy for another number of pulls than the horizon: 219 pulls of two arms, 0.5 s."""


class BayesOptimal(HorizonRule):
    """Pull the arm that is best given all that can still be learnt and used in T pulls.

    Of arms that are equally good it pulls the lowest; values count as equal that rounding could
    have made different, see `agents.bayes_optimal.policy`.

    While rewards are on their way, it plays what is best for what it has seen and the decisions
    that are left, as if those rewards never came; equally good arms are drawn at random then. That,
    and what it plays after a `warm_start`, is a policy for as many pulls as have been observed and
    are left, solved when first needed, of at most 219 pulls of two arms and 62 of three.

    Arguments:
        problem: Bernoulli rewards, arms independent a priori: a prior with `arm_log_density`.
        horizon: T, decisions in an episode; data from elsewhere are none.

    Attributes:
        policy: what to pull in every state, from a file where there is one: see
            `agents.bayes_optimal.policy`.

    Raises:
        ValueError: as `optimal_value`; from `act`, if a lane has no pulls left.
    """

    takes_weights = False

    def __init__(self, problem: BanditProblem, *, horizon: int) -> None:
        super().__init__(problem, horizon=horizon)
        self.policy = find_policy(solvable_means(problem, horizon), horizon, problem.num_arms)
        self._policies = {horizon: self.policy}

    def _scores(self) -> np.ndarray:
        pulls = remaining_pulls(self)[:, 0] + self.lane_counts.sum(axis=1)
        is_best = np.empty(self.lane_counts.shape, dtype=bool)
        for num_pulls in np.unique(pulls).tolist():
            lanes = np.flatnonzero(pulls == num_pulls)
            policy = self._find_policy(num_pulls)
            is_best[lanes] = policy.best_arms(self.lane_counts[lanes], self.lane_sums[lanes])
        is_later = is_best.cumsum(axis=1) > 1
        return is_best & ~(is_later & (pulls == self.horizon)[:, None])

    def _find_policy(self, num_pulls: int) -> Policy:
        """Return the policy for so many pulls, those observed and those left."""
        num_arms = self.problem.num_arms
        if num_pulls not in self._policies:
            if comb(num_pulls - 1 + 2 * num_arms, 2 * num_arms) > MAX_POLICY_STATES:
                condition = f"leave few enough pulls with late rewards or earlier data, {num_pulls}"
                remedy = "take FiniteHorizonGittins, or put earlier data into the prior"
                raise ValueError(message("horizon", condition, self.horizon, remedy))
            means = solvable_means(self.problem, num_pulls)
            self._policies[num_pulls] = find_policy(means, num_pulls, num_arms)
        return self._policies[num_pulls]
