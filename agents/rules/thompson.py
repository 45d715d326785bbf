"""Thompson's rule: pull the arm that is best in one draw of the posterior.

Notation: K arms, N lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.posteriors.agent import PosteriorAgent
from bandit_gym.problem import BanditProblem


class Thompson(PosteriorAgent):
    """Draw the means from a posterior and pull the arm whose draw is best (Algorithm 1).

    `ExactThompson`, `SMCThompson` and `RacingThompson` are this rule on posteriors that they name.

    Arguments:
        problem: likelihood and prior.
        posterior: "exact", "smc", "racing", or "laplace" where arms have features (and no "smc");
            one of your own as `module:name`, a dict of such a name and options, or an object; see
            "The posterior of an agent" in the docs.
        discount: in (0, 1]; each reward multiplies the weight of the lane's earlier ones by it, so
            that about the last 1 / (1 - discount) of them matter: for environments that change. The
            prior stays as it is.
        window: w >= 1, to keep the last w rewards of a lane and nothing older; None keeps all.
            Totals of a `warm_start`, which have no order, stay.

    References:
        Thompson (1933); Chapelle and Li (2011).
    """

    uses_draws = True
    takes_features = True
    takes_available = True

    def _action_probabilities(self) -> np.ndarray:
        return self.belief().best_arm_probabilities(*self._available)

    def _choose(self) -> np.ndarray:
        if self._available:
            return self.belief().draw_best(self.rng, *self._available)
        return self.belief().draw_best(self.rng)


class SlidingWindow(Thompson):
    """Thompson sampling from the last w rewards of each lane (SW-TS).

    Older rewards leave the statistics one by one, so that the prior is all that is known of an arm
    that was not pulled for w steps. Other rules have a `window` too: `UCB1(problem, window=100)`
    is SW-UCB.

    Arguments:
        problem: likelihood and prior.
        window: w >= 1.
        posterior: see `Thompson`.

    References:
        Garivier and Moulines (2011), SW-UCB; Trovo et al. (2020), "Sliding-window Thompson sampling
        for non-stationary settings".
    """

    def __init__(
        self, problem: BanditProblem, *, window: int = 100, posterior: Any = "exact"
    ) -> None:
        super().__init__(problem, posterior=posterior, window=window)
