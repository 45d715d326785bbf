"""Racing Thompson: Thompson sampling for any prior density (Zhou, Zhu and Zhuo, Algorithm 2).

Thompson sampling (TS) plays arm i with probability P_i = P(arm i is best | data). Let q be a
posterior of the means that is easy to sample, under a conjugate prior q_0 of our choosing. By
Bayes' rule the true posterior has density w(mu) = pi(mu) / prod_j q_0(mu_j) with respect to q, up
to a constant, so

    P_i  is proportional to  E_{mu ~ q}[ w(mu) 1{i = argmax mu} ],

and with eps_i i.i.d. Gumbel(0, 1), argmax_i (eps_i + log P_i) is a draw from P (the Gumbel-Max
trick, Eq. 3 of the paper). Choosing an arm thus means finding the largest of K expectations

    E[v_i],  v_i = e^{eps_i} w(mu) 1{i = argmax mu},

which are estimated by averages over the *same* samples of mu until the leader is clear of the
second: f_1 - f_2 > 2 beta(m, delta) - sigma. That race is the algorithm. `docs/racing-thompson.md`
explains what the race guarantees, and where the printed formula fails.

Letters: K arms, N lanes, R races still on, m samples. Weights live on the log scale, so the
prior's density need not be normalised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from agents.posteriors.base import missing_first
from agents.racing.races import Races
from agents.racing.stopping import Paper, SelfNormalised, Stop, takes_options
from agents.rules.thompson import Thompson
from bandit_gym.problem import BanditProblem


class RacingThompson(Thompson):
    """Thompson sampling by racing, for every prior with a `log_density`.

    Where the proposal is the posterior itself, a conjugate law, tables of independent arms or a
    mixture of these, all weights are equal and this is exact Thompson sampling: a self-normalised
    race draws one sample (`Fixed` and `Paper` draw what they say). By default the race samples from
    a posterior that resembles the problem's, and ends by a stop that does not depend on the scale
    of the weights; `RacingThompson.paper` is the paper's own setting.

    Arguments:
        problem: likelihood and prior. The prior's density may be unnormalised.
        proposal: what the race samples from. "matched" is each arm's own posterior, conjugate or
            from a table, or, where arms depend on each other closely, a truncated normal law with
            their correlation (see `agents.racing.matching.match_proposal`). "reference" is the
            paper's Table 1. Weights are exact for each; one near the true posterior needs few
            samples.
        stopping: when a race is over. "self-normalised" knows no scale, "paper" is line 12 of
            Algorithm 2, and an integer fixes the number of samples per race. A dict such as
            `{"name": "paper", "sigma": 0.2}` or a `SelfNormalised`, `Paper` or `Fixed` of
            `agents.racing.stopping` sets the stop with its options.
        unpulled_arms: the Gaussian and Poisson reference priors of Table 1 are improper, so that an
            arm without data has no posterior. "matched" draws such an arm from the conjugate prior
            with the moments of the problem's own; "pull" pulls every arm once first, in random
            order, as where the prior is improper itself. Ignored where the proposal is proper.
        options: of the stop that is named, such as `delta` and `effective_samples` of
            `SelfNormalised`, `delta`, `sigma`, `threshold` and `scale` of `Paper`, and
            `max_samples` of both.

    Diagnostics: `num_samples` drawn, `effective_sample_size` of their weights, `is_capped`,
    `doubts` (see `bandit_gym.checks.doubts.Doubt`), `is_unreliable` where there are any, and
    `last_vetted`, the pulls at which the lane's proposal was last vetted
    (see `agents.racing.vetting`).

    Raises:
        ValueError: if no proposal can stand in for the prior, or the stop does not read an option.

    References:
        Zhou, Zhu and Zhuo, "Racing Thompson: an Efficient Algorithm for Thompson Sampling with
        Non-conjugate Priors", Algorithm 2.
    """

    @takes_options(SelfNormalised, Paper)
    def __init__(
        self,
        problem: BanditProblem,
        *,
        proposal: str = "matched",
        stopping: Stop | str | int | Mapping[str, Any] = "self-normalised",
        unpulled_arms: str = "matched",
        **options: Any,
    ) -> None:
        named = {"proposal": proposal, "stopping": stopping, "unpulled_arms": unpulled_arms}
        super().__init__(problem, posterior={"name": "racing", **named, **options})
        self.stopping: Stop = self.inner.stopping

    @classmethod
    @takes_options(Paper)
    def paper(
        cls, problem: BanditProblem, *, unpulled_arms: str = "matched", **options: Any
    ) -> Self:
        """Race as in the paper: draw from the posterior of Table 1, and stop by line 12.

        Args:
            problem: likelihood and prior.
            unpulled_arms: "matched" or "pull", see the class.
            options: of `agents.racing.stopping.Paper`.

        Raises:
            ValueError: if the likelihood has no row in Table 1, or an option is out of range.
        """
        readings = {"proposal": "reference", "stopping": "paper", **options}
        return cls(problem, unpulled_arms=unpulled_arms, **readings)

    def race(self) -> Races:
        """Do lines 5 to 15 of Algorithm 2, one race per lane, and return how they ended."""
        self.belief()
        return self.inner.race(self.rng)  # type: ignore[no-any-return]

    def _law(self) -> np.ndarray:
        law = super()._law()
        if not self.inner.pulls_first:
            return law
        return missing_first(self.inner.raced.is_missing(self.lane_counts), law)
