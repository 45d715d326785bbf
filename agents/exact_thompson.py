"""Thompson sampling by drawing from the exact posterior (Algorithm 1 of the paper)."""

from __future__ import annotations

import numpy as np

from agents.base import Agent
from agents.posteriors import (
    ConjugatePosterior,
    conjugate_family,
    conjugate_posterior,
    reference_posterior,
)
from bandit_gym.checks import check_choice
from bandit_gym.problem import BanditProblem


class ExactThompson(Agent):
    """Draw the means from their posterior and pull the arm whose draw is best.

    Arguments:
        problem: likelihood and prior.
        prior: "problem" samples the posterior under the problem's own prior, which must be
            conjugate to the likelihood. "reference" puts Table 1's reference prior in its place,
            whatever the problem says: the paper's "Thompson" baseline. Where that is improper
            (Gaussian, Poisson) every arm is pulled once first, in random order.

    Raises:
        ValueError: if the problem's prior is not conjugate to its likelihood.

    References:
        Thompson (1933); Chapelle and Li (2011).
    """

    def __init__(self, problem: BanditProblem, *, prior: str = "problem") -> None:
        super().__init__(problem)
        self.prior = check_choice("prior", prior, ("problem", "reference"))
        self._posterior = _find_posterior(problem, self.prior)

    def _choose(self) -> np.ndarray:
        from agents.kernels import draw_best

        is_missing = (self.counts == 0) & ~self._posterior.is_proper()
        first, second = self._posterior.parameters(self.counts, self.sums)
        actions = np.empty(self.num_lanes, dtype=np.int64)
        draw_best(self.rng, self._posterior.family, first, second, is_missing, actions)
        return actions


def _find_posterior(problem: BanditProblem, prior: str) -> ConjugatePosterior:
    if prior == "reference":
        return reference_posterior(problem)
    posterior = conjugate_posterior(problem)
    if posterior is None:
        raise ValueError(
            f"problem.prior must be conjugate to {problem.likelihood.name} rewards, a "
            f"{conjugate_family(problem.likelihood).__name__}, got {problem.prior!r}; "
            "RacingThompson and SMCThompson take any prior."
        )
    return posterior
