"""Thompson sampling from the last w rewards of a lane, for environments that change."""

from __future__ import annotations

from agents.exact_thompson import ExactThompson
from bandit_gym.problem import BanditProblem


class SlidingWindow(ExactThompson):
    """Draw the means from their posterior given the last w rewards of each lane (SW-TS).

    Older rewards leave the statistics one by one, so that the prior is all that is known of an arm
    that was not pulled for w steps. Other rules have a `window` too: `UCB1(problem, window=100)`
    is SW-UCB.

    Arguments:
        problem: likelihood and prior.
        window: w >= 1.
        method: see `ExactThompson`.

    References:
        Garivier and Moulines (2011), SW-UCB; Trovo et al. (2020), "Sliding-window Thompson sampling
        for non-stationary settings".
    """

    def __init__(
        self, problem: BanditProblem, *, window: int = 100, method: str = "auto"
    ) -> None:
        super().__init__(problem, method=method, window=window)
