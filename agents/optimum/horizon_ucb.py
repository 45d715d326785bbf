"""Bayes-UCB that is told the horizon: the played side of a bracket."""

from __future__ import annotations

import numpy as np

from agents.posteriors.base import PosteriorAgent
from agents.posteriors.choosing import exact_posterior
from bandit_gym.checks import check_integer, check_real, message
from bandit_gym.problem import BanditProblem

SHARE_OF_HORIZON = 0.01
"""Of T, added to an arm's pulls: what keeps a first look at an arm from being too hopeful."""


class HorizonBayesUCB(PosteriorAgent):
    """Pull the arm whose mean has the largest quantile 1 - min(1/2, scale (n + T / 100) / (T - t)).

    An arm is looked at again while it may still turn out best in time for the T - t pulls left to
    make up for it: the less, the fewer there are and the better it is known. The form is that of
    the levels of finite-horizon Gittins indices, log((T - t) / n); the constants were tuned by
    hand, on ten uniform arms and 1,000 pulls, where it lost 15 and Bayes-UCB 23.

    Arguments:
        problem: likelihood and prior, one that `ExactThompson` takes.
        horizon: T, the pulls of an episode.
        scale: of the levels, > 0; more is greedier.

    Raises:
        ValueError: from `act`, if a lane has no pulls left.
    """

    def __init__(self, problem: BanditProblem, *, horizon: int, scale: float = 3.0) -> None:
        self.horizon = check_integer("horizon", horizon, minimum=1)
        self.scale = check_real("scale", scale, above=0.0)
        super().__init__(problem, exact_posterior(problem)[1])

    def _scores(self) -> np.ndarray:
        left = self.horizon - self.lane_counts.sum(axis=1, keepdims=True)
        if left.min() <= 0:
            pulled = self.horizon - int(left.min())
            raise ValueError(
                message("horizon", f"be more than the {pulled} pulls so far", self.horizon)
            )
        tails = self.scale * (self.lane_counts + SHARE_OF_HORIZON * self.horizon) / left
        level = 1 - np.minimum(tails, 0.5)
        return self.up_to_date().quantile(level)
