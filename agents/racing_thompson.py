"""Racing Thompson: Thompson sampling for any prior density (Zhou, Zhu and Zhuo, Algorithm 2).

Thompson sampling (TS) plays arm i with probability P_i = P(arm i is best | data). Let q be a
posterior of the means that is easy to sample, under a conjugate prior q_0 of our choosing. By
Bayes' rule the true posterior has density w(mu) = pi(mu) / prod_j q_0(mu_j) with respect to q, up
to a constant, so

    P_i  is proportional to  E_{mu ~ q}[ w(mu) 1{i = argmax mu} ],

and with eps_i i.i.d. Gumbel(0, 1), argmax_i (eps_i + log P_i) is a draw from P (the Gumbel-Max
trick, Eq. 3 of the paper). Choosing an arm thus means finding the largest of K expectations

    E[f_i],  f_i(mu) = e^{eps_i} w(mu) 1{i = argmax mu},

which are estimated by averages over the *same* samples of mu. The paper's agent and the default
differ in the proposal q and in the number of samples. Algorithm 2 reads

    1   input: prior pi, delta, sigma, T    `RacingThompson.paper`
    2-3 t = 0, X_i empty                    `Agent.reset`
    4   while t < T                         the user's loop of `act` and `observe`
    5     draw eps_i from Gumbel(0, 1)
    6-16  the race                          `run_algorithm_2`, below
    17    take I_t, receive x_t, add it     `Agent.observe`
    18  end while

`run_algorithm_2` is the definition, for one run. The paper's agent does the same in all lanes at
once and in compiled code, see `agents.racing.stopping`; a test compares arms and numbers of
samples.

The default does not test line 12: pilot samples fix the number of samples before the race. Lines 5
to 16, in `agents.racing.races`, then pick one sample in proportion to its weight, by Gumbel's race,
and play its best arm: importance resampling. `docs/racing-thompson.md` states the guarantees of
both, and where the printed formula fails.

Notation: K arms, N lanes (independent copies of the agent). Weights are kept as logarithms. The
prior's density may be unnormalised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from agents.base.threads import atomic
from agents.racing.races import Races
from agents.racing.stopping import (
    EFFECTIVE_SAMPLES,
    MAX_SAMPLES_PER_RACE,
    Paper,
    Stop,
    threshold_function,
)
from agents.rules.thompson import Thompson
from bandit_gym.checks import check_plain_options, message
from bandit_gym.problem import BanditProblem, ContextualProblem


def run_algorithm_2(
    draw: Callable[[], np.ndarray],
    log_weight: Callable[[np.ndarray], float],
    gumbels: np.ndarray,
    *,
    delta: float = 0.1,
    sigma: float = 0.1,
    max_samples: int = MAX_SAMPLES_PER_RACE,
) -> tuple[int, int]:
    """Return the arm of lines 6 to 16 of Algorithm 2, and how many samples decided.

    Values f_i are divided by the largest so far. Line 12 needs a sample of positive weight.

    Args:
        draw: returns a (K,) sample mu from B_t.
        log_weight: returns log w(mu), up to a constant; -inf where the prior's density is 0.
        gumbels: (K,) eps_i, line 5.
        delta: error probability of the threshold beta, as printed.
        sigma: slack.
        max_samples: a race ends here in any case.
    """
    m, log_scale, totals = 1, -np.inf, np.zeros(len(gumbels))  # line 6
    while True:  # line 7
        mu = draw()  # line 8
        m += 1  # line 9
        winner = mu.argmax()
        log_f = gumbels[winner] + log_weight(mu)  # f_i(mu) = e^{eps_i} w(mu) 1{i = argmax mu}
        if log_f > log_scale:
            totals, log_scale = totals * np.exp(log_scale - log_f), log_f
        if log_f > -np.inf:
            totals[winner] += np.exp(log_f - log_scale)
        averages = totals / m  # line 10
        second, first = np.sort(averages)[-2:]  # line 11
        beta = threshold_function("printed", np.array(m), delta)
        is_over = first - second > 2 * beta - sigma and first > 0  # line 12
        if is_over or m - 1 == max_samples:
            return int(averages.argmax()), m - 1  # lines 13 to 16


class RacingThompson(Thompson):
    """Thompson sampling for every prior with a `log_density`, by importance sampling.

    The proposal may be the posterior itself: conjugate, tabulated for independent arms, or a
    mixture of these. Then all weights are equal, and one sample is exact Thompson sampling.
    Otherwise a race draws samples until their effective sample size is about `effective_samples`,
    and more if the weights are skewed. `RacingThompson.paper` has the paper's settings. If arms
    have features, the samples are regression coefficients (see `agents.regression.posterior`).
    `effective_samples`, `discount` and `window` are then the options below that may be set.

    Arguments:
        problem: likelihood and prior, or an environment that knows them. The prior's density may be
            unnormalised.
        effective_samples: target effective sample size of a race, > 0. The number of samples of
            a race, at most 100,000, is fixed by pilot samples.
        proposal: the distribution that a race samples from. "matched" is each arm's own posterior,
            conjugate or tabulated. For strongly dependent arms it is a truncated normal
            distribution with their correlations (see `agents.racing.proposals.match_proposals`).
            "reference" is the conjugate posterior of the paper's Table 1. Weights are exact for
            every proposal; a proposal near the true posterior needs fewer samples.
        stopping: a stopping rule that replaces `effective_samples`. An integer fixes the number of
            samples. A `Paper` of `agents.racing.stopping`, or a dict of its options such as
            `{"sigma": 0.2}`, is line 12 of Algorithm 2.
        unpulled_arms: what to do with an arm without data whose reference prior in Table 1 is
            improper (Gaussian and Poisson rewards). "matched" draws its mean from the conjugate
            prior with the mean and variance of the problem's prior. "pull" pulls every arm once
            first, in random order, as for an improper prior. Ignored if the proposal is proper.
        discount: see `Thompson`; for arms with features alone.
        window: see `Thompson`; for arms with features alone.

    Diagnostics: `num_samples` drawn, `effective_sample_size` of their weights, `is_capped` for a
    race that reached its maximal number of samples, `doubts` (`bandit_gym.doubts.Doubt`),
    `is_unreliable` if there are doubts, and `last_checked`, the pulls that the lane had
    when its proposal was last checked (see `agents.racing.coverage`).

    Raises:
        ValueError: if no proposal suits the prior, or a number is out of range.

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
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        posterior = {"name": "racing", "effective_samples": effective_samples}
        options = {"stopping": stopping, "proposal": proposal, "unpulled_arms": unpulled_arms}
        if isinstance(problem, ContextualProblem):
            plain = {"stopping": None, "proposal": "matched", "unpulled_arms": "matched"}
            check_plain_options(options, plain)
            options = {}
        forgetting: Any = {"discount": discount, "window": window}
        super().__init__(problem, posterior=posterior | options, **forgetting)
        self.takes_values &= stopping is None  # a race by a rule compares means

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
        """Return the paper's agent: proposals from Table 1, and the stopping rule of line 12.

        Args:
            problem: see the class.
            delta: error probability of the stopping rule; see `agents.racing.stopping.Paper`,
                also for the next four arguments.
            sigma: slack; the threshold is 2 beta - sigma.
            threshold: reading of the formula of beta.
            scale: divisor of the values f_i.
            max_samples: largest number of samples in a race.
            proposal: see the class.
            unpulled_arms: see the class.
            prior: see `Agent`.

        Raises:
            ValueError: if Table 1 has no compiled row of the likelihood, or an option is out of
                range.
        """
        stopping = Paper(delta, sigma, threshold, scale, max_samples)
        options: Any = {"proposal": proposal, "unpulled_arms": unpulled_arms, "prior": prior}
        return cls(problem, stopping=stopping, **options)

    @atomic
    def race(self) -> Races:
        """Return finished races, one per lane, after lines 5 to 15 of Algorithm 2.

        Raises:
            TypeError: if arms have features, where draws are weighted without a race.
        """
        if self._has_features:
            raise TypeError(message("race", "be asked where arms have no features", self.problem))
        self.belief()
        return self._posterior.race(self.rng)  # type: ignore[no-any-return]
