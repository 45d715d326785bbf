"""Greedy and epsilon-greedy play."""

from __future__ import annotations

import numpy as np

from agents.base import Agent, random_argmax
from bandit_gym.checks import check_real
from bandit_gym.problem import BanditProblem


class Greedy(Agent):
    """Pull the arm with the highest average reward so far."""

    def _choose(self) -> np.ndarray:
        return random_argmax(self.rng, empirical_means(self))


class EpsilonGreedy(Agent):
    """Pull a uniformly random arm with probability epsilon, otherwise be greedy.

    Arguments:
        problem: likelihood and prior.
        epsilon: share of random pulls, in [0, 1].
    """

    def __init__(self, problem: BanditProblem, *, epsilon: float = 0.1) -> None:
        super().__init__(problem)
        self.epsilon = check_real("epsilon", epsilon, minimum=0.0, maximum=1.0)

    def _choose(self) -> np.ndarray:
        greedy = random_argmax(self.rng, empirical_means(self))
        random = self.rng.integers(self.problem.num_arms, size=self.num_lanes)
        return np.where(self.rng.random(self.num_lanes) < self.epsilon, random, greedy)


def empirical_means(agent: Agent) -> np.ndarray:
    """Return (N, K) average rewards, infinite for an arm never pulled."""
    means = agent.sums / np.maximum(agent.counts, 1)
    return np.where(agent.counts > 0, means, np.inf)
