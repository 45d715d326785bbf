"""Optimistic Gittins indices: of arms that tell all after one pull, with less and less discount.

Letters: K arms, N lanes, t pulls so far in a lane.
"""

from __future__ import annotations

import numpy as np

from agents.posteriors.base import PosteriorAgent
from agents.posteriors.choosing import exact_posterior
from bandit_gym.checks import check_real
from bandit_gym.problem import BanditProblem

MOST_STEPS = 50
TOLERANCE = 1e-9
"""Of an index, in deviations of the posterior."""


class OptimisticGittins(PosteriorAgent):
    """Pull the arm of the largest v with v = mean_i + gamma_t E(v - x_i)^+, x_i its unknown mean.

    The Gittins index is the sure payment for which one would give an arm up. This is what it would
    be if the arm's mean came to light after its next pull, which is too good: an upper bound, with
    K = 1 in the paper's letters, at the discount gamma_t = 1 - 1 / (pace + t + 1).

    Arguments:
        problem: likelihood and prior, one that `ExactThompson` takes, with independent arms.
        pace: makes the first discount, 1 - 1 / (pace + 1); the paper's experiments have 100.

    References:
        Gutin and Farias (2016), "Optimistic Gittins indices", with one step of look-ahead.
    """

    def __init__(self, problem: BanditProblem, *, pace: float = 100.0) -> None:
        self.pace = check_real("pace", pace, minimum=0.0)
        super().__init__(problem, exact_posterior(problem)[1])

    def indices(self) -> np.ndarray:
        """Return the (N, K) indices; infinite where the mean is."""
        discount = 1 - 1 / (self.pace + self.lane_counts.sum(axis=1, keepdims=True) + 1)
        posterior = self.up_to_date()
        mean = posterior.mean()
        # The gap v - mean - discount E(v - x)^+ is concave in v: Newton's steps rise to its root.
        v, limit = mean.copy(), TOLERANCE * np.where(np.isfinite(mean), posterior.std(), np.inf)
        for _ in range(MOST_STEPS):
            below, shortfall = posterior.shortfall(v)
            with np.errstate(invalid="ignore"):
                step = (discount * shortfall + mean - v) / (1 - discount * below)
            v = np.where(np.isfinite(step), v + step, v)
            if not (np.abs(step) > limit).any():
                break
        return v

    def _scores(self) -> np.ndarray:
        return self.indices()
