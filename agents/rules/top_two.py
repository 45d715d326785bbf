"""Top-two Thompson sampling: a leader, and a challenger drawn until it is another arm.

Notation: K arms, N lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.numerics.choices import argmax_probabilities, random_argmax
from agents.posteriors.agent import PosteriorAgent
from agents.posteriors.base import Belief
from bandit_gym.checks import check_integer, check_real
from bandit_gym.problem import BanditProblem


class TopTwoThompson(PosteriorAgent):
    """Pull the best arm of a draw with probability beta, otherwise the best of another arm's draw.

    It searches for the best arm rather than for reward: about a share 1 - beta of all pulls goes to
    other arms for ever. Recommend the arm with the largest `posterior().mean()`.

    Once an arm is almost surely the best, draws with another winner are rare. After `max_draws`
    failed draws the challenger is that of T3C (Shang et al. 2020): the arm with the smallest
    (mean_leader - mean_i) / sqrt(var_leader + var_i).

    Arguments:
        problem: likelihood and prior.
        beta: share of pulls of the leader, in (0, 1).
        max_draws: of a challenger, before it is looked for without draws.
        posterior: see `Thompson`.
        discount: in (0, 1], see `Thompson`.
        window: w >= 1, likewise.

    References:
        Russo (2020), "Simple Bayesian algorithms for best-arm identification", TTTS.
    """

    uses_draws = True
    takes_features = True
    takes_available = True
    takes_values = True
    takes_squares = True

    def __init__(
        self,
        problem: BanditProblem,
        *,
        beta: float = 0.5,
        max_draws: int = 30,
        posterior: Any = "exact",
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        self.beta = check_real("beta", beta, above=0.0, below=1.0)
        self.max_draws = check_integer("max_draws", max_draws, minimum=0)
        super().__init__(problem, posterior=posterior, discount=discount, window=window)

    def _choose(self) -> np.ndarray:
        posterior = self.belief()
        leaders = posterior.draw_best(self.rng, *self._available)
        actions, needs_challenger = leaders.copy(), self.rng.random(self.num_lanes) >= self.beta
        for _ in range(self.max_draws):
            if not needs_challenger.any():
                return actions
            draws = posterior.draw_best(self.rng, *self._available)
            is_found = needs_challenger & (draws != leaders)
            actions[is_found] = draws[is_found]
            needs_challenger &= ~is_found
        nearest = random_argmax(self.rng, self._hide(_closeness(posterior, leaders)))
        return np.where(needs_challenger, nearest, actions)

    def _action_probabilities(self) -> np.ndarray:
        """Return sum_i p_i (beta e_i + (1 - beta) c_i), c_i those of leader i's challenger.

        Of m draws the first other than i is arm j with probability p_j (1 - p_i^m) / (1 - p_i).
        """
        posterior = self.belief()
        best = posterior.best_arm_probabilities(*self._available)
        with np.errstate(invalid="ignore"):
            num_draws = np.where(best < 1, (1 - best**self.max_draws) / (1 - best), 0.0)
        drawn = best * ((best * num_draws).sum(axis=1, keepdims=True) - best * num_draws)
        no_challenger = best ** (self.max_draws + 1)
        for arm in range(best.shape[1]):
            closeness = _closeness(posterior, np.full(len(best), arm))
            nearest = argmax_probabilities(self._hide(closeness))
            drawn += no_challenger[:, arm, None] * nearest
        return self.beta * best + (1 - self.beta) * drawn


def _closeness(posterior: Belief, leaders: np.ndarray) -> np.ndarray:
    """Return (N, K) costs of taking an arm for the (N,) leaders; -inf for the leaders."""
    mean, variance = posterior.mean(), np.square(posterior.std())
    lanes = np.arange(len(leaders))
    with np.errstate(invalid="ignore", divide="ignore"):
        gaps = mean[lanes, leaders][:, None] - mean
        scores = gaps / np.sqrt(variance[lanes, leaders][:, None] + variance)
    scores = np.nan_to_num(scores, nan=0.0)  # of infinite moments, which are uninformative
    scores[lanes, leaders] = np.inf
    return -scores
