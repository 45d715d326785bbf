"""Uniform, greedy and epsilon-greedy play, on posterior means or on averages.

Notation: K arms, N lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base import Agent
from agents.numerics.choices import draw_arms, share_evenly
from agents.posteriors.agent import PosteriorAgent
from agents.posteriors.factory import find_methods
from bandit_gym.checks import check_choice, check_real, message
from bandit_gym.problem import BanditProblem, ContextualProblem, check_problem

ESTIMATES = ("average", "posterior")


class UniformRandom(Agent):
    """Pull an arm uniformly at random, regardless of the data."""

    takes_features = True
    takes_available = True
    takes_values = True
    takes_squares = True

    def _choose(self) -> np.ndarray:
        return draw_any(self)

    def _action_probabilities(self) -> np.ndarray:
        return share_any(self)


class Greedy(PosteriorAgent):
    """Pull the arm with the highest estimate of its mean.

    Arguments:
        problem: likelihood and prior.
        estimate: "posterior" is the expectation under the posterior; "average" is the average
            reward so far, infinite for an arm without any. None is "posterior" where there is one,
            else "average". Infinite expectations come first. Where arms have features it is
            "posterior", of the Laplace approximation unless there is an exact one: `posterior=
            "racing"` has no error but chance, at six times the cost.
        posterior: see `Thompson`.
        discount: in (0, 1], see `Thompson`.
        window: w >= 1, likewise.

    Diagnostics, for "posterior": `doubts` and `is_unreliable`, where the posterior cannot represent
    what it holds.
    """

    uses_draws = False
    takes_features = True
    takes_available = True
    takes_values = True
    takes_squares = True

    def __init__(
        self,
        problem: BanditProblem,
        *,
        estimate: str | None = None,
        posterior: Any = "exact",
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        has_features = isinstance(check_problem(problem), ContextualProblem)
        if has_features and estimate == "average":
            condition = "be 'posterior' where arms have features"
            raise ValueError(message("estimate", condition, estimate))
        if estimate is None and posterior == "exact" and not find_methods(problem):
            estimate, posterior = ("posterior", "laplace") if has_features else ("average", None)
        estimate = "posterior" if estimate is None else estimate
        self.estimate = check_choice("estimate", estimate, ESTIMATES)
        if estimate == "average":
            posterior = None
        super().__init__(problem, posterior=posterior, discount=discount, window=window)

    def _scores(self) -> np.ndarray:
        return empirical_means(self) if self._posterior is None else self.belief().mean()


class EpsilonGreedy(Greedy):
    """Pull a uniformly random arm with probability epsilon, otherwise be greedy.

    Arguments:
        problem: likelihood and prior.
        epsilon: share of random pulls, in [0, 1].
        estimate: see `Greedy`.
        posterior: see `Greedy`.
        discount: see `Greedy`.
        window: see `Greedy`.
    """

    def __init__(
        self,
        problem: BanditProblem,
        *,
        epsilon: float = 0.1,
        estimate: str | None = None,
        posterior: Any = "exact",
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        options: Any = {"discount": discount, "window": window}
        super().__init__(problem, estimate=estimate, posterior=posterior, **options)
        self.epsilon = check_real("epsilon", epsilon, minimum=0.0, maximum=1.0)

    def _choose(self) -> np.ndarray:
        greedy = super()._choose()
        random = draw_any(self)
        return np.where(self.rng.random(self.num_lanes) < self.epsilon, random, greedy)

    def _action_probabilities(self) -> np.ndarray:
        greedy = super()._action_probabilities()
        return self.epsilon * share_any(self) + (1 - self.epsilon) * greedy


def draw_any(agent: Agent) -> np.ndarray:
    """Return (N,) arms, each of the available ones with the same probability."""
    if agent._available:
        return draw_arms(agent.rng, share_any(agent))
    return agent.rng.integers(agent._num_arms, size=agent.num_lanes)


def share_any(agent: Agent) -> np.ndarray:
    """Return the (N, K) probabilities of `draw_any`."""
    if agent._available:
        return share_evenly(*agent._available)
    return np.full((agent.num_lanes, agent._num_arms), 1 / agent._num_arms)


def empirical_means(agent: Agent) -> np.ndarray:
    """Return (N, K) average rewards, infinite for an arm that has no pulls, or forgotten ones."""
    return np.where(agent.lane_counts > 0, agent.lane_sums / positive_counts(agent), np.inf)


def positive_counts(agent: Agent) -> np.ndarray:
    """Return the (N, K) pulls of each arm, or what is left of them; 1 where there are none."""
    return np.where(agent.lane_counts > 0, agent.lane_counts, 1)
