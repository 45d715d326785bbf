"""Bayes-UCB: upper confidence bounds that are quantiles of a posterior."""

from __future__ import annotations

import numpy as np

from agents.base.forgetting import Forgetful
from agents.posteriors.base import PosteriorAgent, require_forgetting
from agents.posteriors.choosing import exact_posterior
from bandit_gym.checks import check_choice
from bandit_gym.problem import BanditProblem


class BayesUCB(Forgetful, PosteriorAgent):
    """Pull the arm whose posterior mean has the largest quantile 1 - 1 / (t + 1).

    An arm without a proper posterior comes before all others.

    Arguments:
        problem: likelihood and prior, one that `ExactThompson` takes.
        prior: "problem" takes quantiles of the posterior under the problem's own prior, "reference"
            of that under Table 1's reference prior, whatever the problem says.
        discount: in (0, 1], by which data fade; see `ExactThompson`. t is then what is left of it.

    References:
        Kaufmann, Cappe and Garivier (2012), Algorithm 1 with c = 0.
    """

    def __init__(
        self, problem: BanditProblem, *, prior: str = "problem", discount: float = 1.0
    ) -> None:
        self.prior = check_choice("prior", prior, ("problem", "reference"))
        super().__init__(problem, exact_posterior(problem, prior=prior)[1])
        self._set_discount(discount)

    def _let_forget(self) -> None:
        require_forgetting(self.problem, self.inner)

    def _scores(self) -> np.ndarray:
        level = 1 - 1 / (self.lane_counts.sum(axis=1, keepdims=True) + 1.0)
        return self.up_to_date().quantile(level)
