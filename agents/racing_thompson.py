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

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from agents.base import Agent
from agents.base.table_1 import Improper
from agents.posteriors.base import Posterior, missing_first
from agents.racing.matching import find_matched, make_proposal
from agents.racing.races import Races
from agents.racing.stopping import Fixed, Paper, SelfNormalised, Stop, make_stop, takes_options
from agents.racing.vetting import Vetting
from agents.racing.weighing import WeighedPosterior
from bandit_gym.checks import check_choice
from bandit_gym.checks.doubts import Doubt
from bandit_gym.problem import BanditProblem

UNPULLED = ("matched", "pull")


class RacingThompson(Agent):
    """Thompson sampling by racing, for every prior with a `log_density`.

    Where the proposal is the posterior itself, a conjugate law, tables of independent arms or a
    mixture of these, all weights are equal and this is exact Thompson sampling: a self-normalised
    race draws one sample (`Fixed` and `Paper` draw what they say). By default the race samples from a posterior that
    resembles the problem's, and ends by a stop that does not depend on the scale of the weights;
    `RacingThompson.paper` is the paper's own setting.

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

    has_exact_law = False
    state_names = ("_posterior", "_vetting")

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
        super().__init__(problem)
        self.unpulled_arms = check_choice("unpulled_arms", unpulled_arms, UNPULLED)
        self._pulls_first = unpulled_arms == "pull" or isinstance(problem.prior, Improper)
        self.stopping = make_stop(stopping, options)
        self.proposal = proposal
        self._bars = self.stopping.bars()
        self._proposal = make_proposal(problem, proposal)
        matched = self._proposal if proposal == "matched" else find_matched(problem)
        self._vetting = Vetting(self._proposal, matched, self.stopping)
        source = self._proposal if self._proposal.posterior else (matched or self._proposal).fork()
        self._posterior = source.posterior or WeighedPosterior(source)
        is_free = isinstance(self.stopping, SelfNormalised)
        self._is_exact = is_free and self._vetting.has_equal_weights
        self._log_supremum = -math.inf
        if isinstance(self.stopping, Paper) and self.stopping.scale == "supremum":
            self._log_supremum = self._proposal.log_supremum()

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
        self._proposal.follow(self.rng, self.lane_counts, self.lane_sums)  # B_t of line 8
        gumbels = self.rng.gumbel(size=self.lane_counts.shape)  # line 5
        lengths = self.stopping.lengths(self._vetting.shares)
        races = Races.start(self._bars, gumbels, lengths)  # line 6
        races.log_scale[:] = self._log_supremum + gumbels.max(axis=1)
        lanes = self._pull_first(races)
        races.run(self.rng, self._proposal, lanes)  # lines 7 to 15
        return races

    def _choose(self) -> np.ndarray:
        if self._is_exact:
            return self._choose_exactly()
        due = self._vetting.find_due(self.lane_counts)
        if due.size:
            self._proposal.follow(self.rng, self.lane_counts, self.lane_sums)
            self._vetting.look_ahead(due)
        races = self.race()
        if due.size:
            self._vetting.look_back(due, races)
        is_free = not isinstance(self.stopping, Fixed)
        is_capped = (races.num_samples == self.stopping.max_samples) & is_free
        doubts = Doubt.RACE_CAPPED.value * is_capped
        if not (self._vetting.has_equal_weights or self._vetting.is_sure):
            doubts |= Doubt.FEW_EFFECTIVE_SAMPLES.value * races.is_poor()
        doubts |= Doubt.BEYOND_TABLE.value * self._proposal.is_unreliable()
        doubts |= Doubt.PROPOSAL_BLIND.value * self._vetting.is_blind
        told = races.num_samples, races.effective_sample_size(), is_capped
        self._tell(*told, doubts, self._vetting.last.copy())
        return np.argmax(races.totals, axis=1)  # line 16

    def _choose_exactly(self) -> np.ndarray:
        """Draw one sample of the posterior, which all of a race's would be draws of."""
        self._posterior.follow(self.rng, self.lane_counts, self.lane_sums)
        doubts, last_vetted = self._posterior.doubts(), self._never
        if self._proposal.is_inferred:
            self._proposal.follow(self.rng, self.lane_counts, self.lane_sums)
            self._vetting.look_near(self._vetting.find_due(self.lane_counts))
            doubts = doubts | Doubt.PROPOSAL_BLIND.value * self._vetting.is_blind
            last_vetted = self._vetting.last.copy()
        self._tell(*self._of_one_sample, doubts, last_vetted)
        return self._posterior.draw_best(self.rng)

    def _tell(
        self,
        num_samples: np.ndarray,
        effective_sample_size: np.ndarray,
        is_capped: np.ndarray,
        doubts: np.ndarray,
        last_vetted: np.ndarray,
    ) -> None:
        """Note how a decision went, and why it may not follow the posterior."""
        self._diagnostics = {
            "num_samples": num_samples,
            "effective_sample_size": effective_sample_size,
            "is_capped": is_capped,
            "doubts": doubts,
            "is_unreliable": doubts != 0,
            "last_vetted": last_vetted,
        }

    def _restart(self, mask: np.ndarray) -> None:
        self._never = np.zeros(self.num_lanes, dtype=np.int64)
        self._of_one_sample = self._never + 1, self._never + 1.0, self._never > 0
        self._vetting.restart(mask)
        self._posterior.restart(self.rng, mask)

    def _held(self) -> Posterior:
        return self._posterior

    def _law(self) -> np.ndarray:
        self._posterior.follow(self.rng, self.lane_counts, self.lane_sums)
        law = self._posterior.best_arm_probabilities()
        if not self._pulls_first:
            return law
        return missing_first(self._proposal.is_missing(self.lane_counts), law)

    def _pull_first(self, races: Races) -> np.ndarray:
        """Return the lanes that race; the others are given an arm that was never pulled."""
        if not self._pulls_first:
            return self._lanes
        is_missing = self._proposal.is_missing(self.lane_counts)
        races.totals[is_missing] = 1.0 + self.rng.random(np.count_nonzero(is_missing))
        return np.flatnonzero(~is_missing.any(axis=1))
