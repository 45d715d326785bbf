"""Racing Thompson: Thompson sampling for any prior density (Zhou, Zhu and Zhuo, Algorithm 2).

Thompson sampling (TS) plays arm i with probability P_i = P(arm i is best | data). Let q be a
posterior of the means that is easy to sample, under a conjugate prior q_0 of our choosing. By
Bayes' rule the true posterior has density w(mu) = pi(mu) / prod_j q_0(mu_j) with respect to q, up
to a constant, so

    P_i  is proportional to  E_{mu ~ q}[ w(mu) 1{i = argmax mu} ],

and with eps_i i.i.d. Gumbel(0, 1), argmax_i (eps_i + log P_i) is a draw from P (the Gumbel-Max
trick, Eq. 3 of the paper). Choosing an arm thus means finding the largest of K expectations

    E[f_i],  f_i(mu) = e^{eps_i} w(mu) 1{i = argmax mu},

which are estimated by averages over the *same* samples of mu. How many samples are taken is all
that the default and the paper differ in, beside what they draw from. Algorithm 2 and where its
lines are:

    1   input: prior pi, delta, sigma, T    `RacingThompson.paper`
    2-3 t = 0, X_i empty                    `Agent.reset`
    4   while t < T                         the user's loop of `act` and `observe`
    5     draw eps_i from Gumbel(0, 1)      `Races.start` (agents/racing/races.py)
    6     m = 1, d empty                    `Races.start`
    7     loop                              `Races.run`
    8       draw mu from B_t, add it to d   `Races.run`, `Proposal.draw`
    9       m = m + 1                       `feed_races`, up to line 14
    10      f_i = sum_j f_i(d_j) / m
    11      find the best i_1, second i_2
    12      if f_{i_1} - f_{i_2} >          `Paper` (agents/racing/stopping.py)
               2 beta(m, delta) - sigma
    13        break
    14      end if
    15    end loop
    16    I_t = argmax_i f_i                `RacePosterior.draw_best` (agents/racing/posterior.py)
    17    take I_t, receive x_t, add it     `Agent.observe`
    18  end while

The default has no gap in line 12: a race ends at a length that pilots have fixed before it. Its arm
is then that of one draw, taken by weight: importance resampling. `docs/racing-thompson.md` says
what either promises, and where the printed formula fails.

Notation: K arms, N lanes. Weights live on the log scale, so the prior's density need not be
normalised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from agents.posteriors.base import favour_missing_arms
from agents.racing.races import Races
from agents.racing.stopping import EFFECTIVE_SAMPLES, MAX_SAMPLES_PER_RACE, Paper, Stop
from agents.rules.thompson import Thompson
from bandit_gym.checks import check_plain_options
from bandit_gym.problem import BanditProblem, ContextualProblem


class RacingThompson(Thompson):
    """Thompson sampling for every prior with a `log_density`, by weighted draws of a proposal.

    Where the proposal is the posterior itself, a conjugate one, tables of independent arms or a
    mixture of these, all weights are equal and one sample is exact Thompson sampling. Else a race
    takes as many samples as are worth `effective_samples` draws of the posterior, and more where
    weights are skewed. `RacingThompson.paper` is the paper's own setting. Where arms have features,
    samples are of their coefficients (see `agents.regression.posterior`), and of the options below
    only `effective_samples` is taken.

    Arguments:
        problem: likelihood and prior. The prior's density may be unnormalised.
        effective_samples: draws of the posterior that the samples of a race are to be worth, > 0.
            Pilots fix how many samples that takes before the race; 100,000 at most.
        proposal: what the race samples from. "matched" is each arm's own posterior, conjugate or
            from a table, or, where arms depend on each other closely, a truncated normal
            distribution with their correlation (see `agents.racing.matching.match_proposals`).
            "reference" is the paper's Table 1. Weights are exact for each; one near the true
            posterior needs few samples.
        stopping: another rule for the length of a race, in place of `effective_samples`: an
            integer fixes the number of samples, and a `Paper` of `agents.racing.stopping` or a dict
            of its options, such as `{"sigma": 0.2}`, is line 12 of Algorithm 2.
        unpulled_arms: the Gaussian and Poisson reference priors of Table 1 are improper, so that an
            arm without data has no posterior. "matched" draws such an arm from the conjugate prior
            with the moments of the problem's own; "pull" pulls every arm once first, in random
            order, as where the prior is improper itself. Ignored where the proposal is proper.

    Diagnostics: `num_samples` drawn, `effective_sample_size` of their weights, `is_capped`,
    `doubts` (see `bandit_gym.checks.doubts.Doubt`), `is_unreliable` where there are any, and
    `last_checked`, the pulls at which the lane's proposal was last checked
    (see `agents.racing.coverage`).

    Raises:
        ValueError: if no proposal can stand in for the prior, or a number is out of range.

    References:
        Zhou, Zhu and Zhuo, "Racing Thompson: an Efficient Algorithm for Thompson Sampling with
        Non-conjugate Priors", Algorithm 2.
    """

    def __init__(
        self,
        problem: BanditProblem,
        *,
        effective_samples: float = EFFECTIVE_SAMPLES,
        proposal: str = "matched",
        stopping: Stop | Mapping[str, Any] = None,
        unpulled_arms: str = "matched",
    ) -> None:
        posterior = {"name": "racing", "effective_samples": effective_samples}
        options = {"stopping": stopping, "proposal": proposal, "unpulled_arms": unpulled_arms}
        if isinstance(problem, ContextualProblem):
            plain = {"stopping": None, "proposal": "matched", "unpulled_arms": "matched"}
            check_plain_options(options, plain)
            options = {}
        super().__init__(problem, posterior=posterior | options)

    @classmethod
    def paper(
        cls,
        problem: BanditProblem,
        *,
        delta: float = 0.1,
        sigma: float = 0.1,
        threshold: str = "printed",
        scale: str = "value",
        max_samples: int = MAX_SAMPLES_PER_RACE,
        proposal: str = "reference",
        unpulled_arms: str = "matched",
        prior: Any = None,
    ) -> Self:
        """Race as in the paper: draw from the posterior of Table 1, and stop by line 12.

        Args:
            problem: likelihood and prior.
            delta: see `agents.racing.stopping.Paper`, as for the next four.
            sigma: slack.
            threshold: which reading of beta.
            scale: of the values.
            max_samples: of a race.
            proposal: see the class.
            unpulled_arms: see the class.
            prior: see `Agent`.

        Raises:
            ValueError: if the likelihood has no row in Table 1, or an option is out of range.
        """
        stopping = Paper(delta, sigma, threshold, scale, max_samples)
        options: Any = {"proposal": proposal, "unpulled_arms": unpulled_arms, "prior": prior}
        return cls(problem, stopping=stopping, **options)

    def race(self) -> Races:
        """Do lines 5 to 15 of Algorithm 2, one race per lane, and return how they ended."""
        self.belief()
        return self.inner.race(self.rng)  # type: ignore[no-any-return]

    def _action_probabilities(self) -> np.ndarray:
        probabilities = super()._action_probabilities()
        if self._has_features or not self.inner.pulls_first:
            return probabilities
        return favour_missing_arms(self.inner.raced.is_missing(self.lane_counts), probabilities)
