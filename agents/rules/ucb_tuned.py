"""UCB-Tuned: UCB1 with the variance that the rewards have shown.

Letters: K arms, N lanes, t pulls so far in a lane, n_i of them on arm i.
"""

from __future__ import annotations

import numpy as np

from agents.base import Agent
from agents.rules.greedy import empirical_means
from bandit_gym.checks import message
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.problem import BanditProblem


class UCBTuned(Agent):
    """Pull the arm with the largest mean_i + sqrt(log t / n_i min(1/4, V_i)).

    V_i is the variance of the arm's rewards so far plus sqrt(2 log t / n_i), and 1/4 the largest
    variance that rewards in [0, 1] can have. Squares of 0 and 1 are what they are squares of, so
    that counts and sums tell the variance; other rewards would need one more sum, and are refused.

    Arguments:
        problem: Bernoulli rewards; the prior is not asked.

    References:
        Auer, Cesa-Bianchi and Fischer (2002), Section 4.
    """

    def __init__(self, problem: BanditProblem) -> None:
        super().__init__(problem)
        if not isinstance(problem.likelihood, Bernoulli):
            condition = "be Bernoulli() for UCBTuned, whose variances are those of 0 and 1"
            raise ValueError(message("problem.likelihood", condition, problem.likelihood))

    def _scores(self) -> np.ndarray:
        pulls = np.maximum(self.lane_counts, 1)
        averages = self.lane_sums / pulls
        log_t = np.log(np.maximum(self.lane_counts.sum(axis=1, keepdims=True), 1))
        variances = averages * (1 - averages) + np.sqrt(2 * log_t / pulls)  # V_j(s) in the paper
        bonus = np.sqrt(log_t / pulls * np.minimum(0.25, variances))
        return empirical_means(self) + bonus
