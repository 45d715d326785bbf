"""Bayes-UCB: upper confidence bounds that are quantiles of a posterior."""

from __future__ import annotations

import numpy as np

from agents.base import Agent, random_argmax
from agents.posteriors.conjugate import conjugate_posterior, reference_posterior
from bandit_gym.problem import BanditProblem


class BayesUCB(Agent):
    """Pull the arm whose posterior mean has the largest quantile 1 - 1 / (t + 1).

    The posterior is the exact one where the problem's prior is conjugate, and Table 1's reference
    posterior where it is not.

    References:
        Kaufmann, Cappe and Garivier (2012), Algorithm 1 with c = 0.
    """

    def __init__(self, problem: BanditProblem) -> None:
        super().__init__(problem)
        self._posterior = conjugate_posterior(problem) or reference_posterior(problem)

    def _choose(self) -> np.ndarray:
        level = 1 - 1 / (self.counts.sum(axis=1, keepdims=True) + 1.0)
        is_missing = (self.counts == 0) & ~self._posterior.is_proper()
        counts = np.where(is_missing, 1, self.counts)
        quantiles = self._posterior.quantile(counts, self.sums, level)
        return random_argmax(self.rng, np.where(is_missing, np.inf, quantiles))
