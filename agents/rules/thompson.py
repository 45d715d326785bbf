"""Thompson's rule: pull the arm that is best in one draw of the posterior.

Notation: K arms, N lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.numerics.choices import draw_arms
from agents.posteriors.agent import PosteriorAgent
from bandit_gym.problem import BanditProblem

MIN_DECISIONS_PER_ARM = 5
"""From so many on, probabilities of all arms cost less than a draw for each decision."""


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

    def _choose_many(self, size: int, features: np.ndarray | None) -> np.ndarray:
        """Return (n,) arms: by probabilities if these are exact, with features by one pool."""
        is_fast = features is not None and self.inner.decides_many
        if features is None and size >= MIN_DECISIONS_PER_ARM * self._num_arms:
            is_fast = self.has_exact_probabilities
        if not is_fast or type(self)._choose is not Thompson._choose:
            return super()._choose_many(size, features)
        if features is None:
            shares = self._action_probabilities()
            actions = draw_arms(self.rng, np.broadcast_to(shares, (size, self._num_arms)))
        else:
            self.evidence.offer(features)
            actions = self.belief().draw_best(self.rng)
        found = self._diagnostics.items()
        self._diagnostics = {name: np.broadcast_to(values, (1, size)) for name, values in found}
        return actions


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
