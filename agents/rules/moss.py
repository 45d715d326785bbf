"""MOSS, the minimax optimal strategy in the stochastic case.

Letters: K arms, N lanes, T pulls in an episode, n_i of those so far on arm i.
"""

from __future__ import annotations

import numpy as np

from agents.base import Agent
from agents.rules.greedy import empirical_means
from agents.rules.horizon import DEFAULT_HORIZON, check_horizon, remaining_pulls
from bandit_gym.checks import check_real
from bandit_gym.problem import BanditProblem


class MOSS(Agent):
    """Pull the arm with the largest mean_i + scale sqrt(max(log(T / (K n_i)), 0) / n_i).

    Arguments:
        problem: likelihood and prior, of which only the number of arms is asked.
        horizon: T, the pulls in an episode.
        scale: width of the rewards' range, > 0. The bound is proved for rewards within an interval
            of that length; unbounded rewards have none, and `scale` is a tuning parameter there.

    References:
        Audibert and Bubeck (2009), "Minimax policies for adversarial and stochastic bandits".
    """

    def __init__(
        self, problem: BanditProblem, *, horizon: int = DEFAULT_HORIZON, scale: float = 1.0
    ) -> None:
        super().__init__(problem)
        self.horizon = check_horizon(horizon)
        self.scale = check_real("scale", scale, above=0.0)

    def _scores(self) -> np.ndarray:
        remaining_pulls(self, self.horizon)  # refuses to play on after the horizon
        pulls = np.maximum(self.lane_counts, 1)
        excess = np.log(np.maximum(self.horizon / (self.problem.num_arms * pulls), 1.0))
        return empirical_means(self) + self.scale * np.sqrt(excess / pulls)
