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
says what it guarantees, and where the printed formula does not.

Letters: K arms, N lanes, R races still on, m samples. Weights live on the log scale, so the
prior's density need not be normalised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.random import SeedSequence

from agents.base import Agent
from agents.posteriors.base import Posterior, missing_first
from agents.posteriors.choosing import KINDS, exact_posterior
from agents.racing.matching import find_witness, make_proposal, match_proposal
from agents.racing.races import Races
from agents.racing.stopping import StoppingRule, fixed_rule, paper_rule, self_normalised_rule
from agents.racing.stopping_options import CAP, check_stopping, read_option
from agents.racing.vetting import Vetting
from bandit_gym.checks import check_choice
from bandit_gym.priors import Prior
from bandit_gym.problem import BanditProblem

UNPULLED = ("matched", "pull")


class RacingThompson(Agent):
    """Thompson sampling by racing, for every prior with a `log_density`.

    By default the race samples from a proposal that resembles the prior, and ends by a rule that
    knows no scale; `RacingThompson.paper` is the paper's own setting.

    Arguments:
        problem: likelihood and prior. The prior's density may be unnormalised.
        proposal: what the race samples from. "matched" is each arm's own posterior, conjugate or
            from a table, or, where arms depend on each other closely, a truncated normal law with
            their correlation (see `agents.racing.matching.match_proposal`). "reference" is the
            paper's Table 1. Or a conjugate prior of one's own choice, as an object or a dict.
            Weights are exact for each; a proposal near the true posterior needs few samples.
        stopping: "self-normalised" knows no scale: it stops when the leader is clear of every other
            arm at level delta, or after samples enough for `effective_samples`, a number known
            before; see `agents.racing.stopping`. "paper" is line 12 of Algorithm 2, with `delta`,
            `sigma`, `threshold` and `scale`. A number m from 1 to 10 million stops each race at
            exactly m samples: one is TS under q_0, ever more are TS under the true prior. The
            options below are None where `stopping` is to choose, and refused where it reads none.
        delta: error probability in (0, 1) that the stop is made for; 0.1 by default.
        effective_samples: effective sample size > 0, finite, that a self-normalised race is for;
            12 by default.
        sigma: of the paper's stop, see `paper`; 0.1 by default.
        threshold: of the paper's stop, see `paper`; "printed" by default.
        scale: of the paper's stop, see `paper`; "value" by default.
        max_samples: a race with a named stop ends here in any case, and
            `diagnostics()["is_capped"]` says so; 100,000 by default, 10 million at most.
        unpulled_arms: the Gaussian and Poisson references of Table 1 are improper, hence no
            posterior for an arm without data. "matched" draws such an arm from the conjugate prior
            with the moments of the problem's own; "pull" pulls every arm once first, in random
            order. Of no effect where the proposal is proper, as "matched" is.

    Diagnostics: `num_samples` drawn, `effective_sample_size` of their weights, `is_capped`, and
    `is_unreliable` where the race was capped, misses what would change its answer (see
    `agents.racing.vetting`) or, if only itself can tell, rests on too few samples.

    Raises:
        ValueError: if no proposal can stand in for the prior, or the stop does not read an option.

    References:
        Zhou, Zhu and Zhuo, "Racing Thompson: an Efficient Algorithm for Thompson Sampling with
        Non-conjugate Priors", Algorithm 2.
    """

    has_exact_law = False
    state_names = ("_proposal", "_vetting")

    def __init__(
        self,
        problem: BanditProblem,
        *,
        proposal: str | Prior | Mapping[str, Any] = "matched",
        stopping: str | int = "self-normalised",
        delta: float | None = None,
        effective_samples: float | None = None,
        sigma: float | None = None,
        threshold: str | None = None,
        scale: str | None = None,
        max_samples: int | None = None,
        unpulled_arms: str = "matched",
    ) -> None:
        super().__init__(problem)
        self.unpulled_arms = check_choice("unpulled_arms", unpulled_arms, UNPULLED)
        self.stopping = check_stopping(stopping)
        self.delta = read_option(self.stopping, "delta", delta)
        self.effective_samples = read_option(self.stopping, "effective_samples", effective_samples)
        self.sigma = read_option(self.stopping, "sigma", sigma)
        self.threshold = read_option(self.stopping, "threshold", threshold)
        self.scale = read_option(self.stopping, "scale", scale)
        self.max_samples = read_option(self.stopping, "max_samples", max_samples)
        self.proposal = proposal
        self._rule = self._make_rule()
        self._proposal = make_proposal(problem, proposal)
        self._vetting = Vetting(self._proposal, find_witness(self._proposal), self._rule)
        self._log_supremum = -math.inf
        if self.scale == "supremum":
            self._log_supremum = self._proposal.log_supremum()

    @classmethod
    def paper(
        cls,
        problem: BanditProblem,
        *,
        delta: float = 0.1,
        sigma: float = 0.1,
        threshold: str = "printed",
        scale: str = "value",
        max_samples: int = CAP,
        unpulled_arms: str = "matched",
    ) -> Self:
        """Race as in the paper: draw from the posterior of Table 1, and stop by line 12.

        Args:
            problem: likelihood and prior.
            delta: error probability in (0, 1) that the threshold is made for.
            sigma: slack > 0: a winner whose expectation is below the best by less than this will
                do, in units of v after scaling.
            threshold: "printed" or "shortened"; see `agents.racing.stopping.threshold_function`.
            scale: what v is divided by, for sigma and beta mean something only for v in a known
                range. "value": the largest e^{eps_i} w(mu) seen in the race, which keeps v in
                [0, 1] so far. "weight": the largest w(mu) seen, e^{eps_i} left as it is, so that v
                may exceed 1. "supremum": the true largest value of e^{eps_i} w over all i and mu,
                under which Theorem 1 holds to the letter, at a cost that makes it an instrument and
                no agent; for built-in independent priors only.
            max_samples: a race ends here in any case; 10 million at most.
            unpulled_arms: "matched" or "pull", see the class.

        Raises:
            ValueError: if the likelihood has no row in Table 1, or an option is out of range.
        """
        return cls(
            problem,
            proposal="reference",
            stopping="paper",
            delta=delta,
            sigma=sigma,
            threshold=threshold,
            scale=scale,
            max_samples=max_samples,
            unpulled_arms=unpulled_arms,
        )

    def reset(self, num_envs: int | None = None, seed: int | SeedSequence | None = None) -> None:
        """Forget everything; see `Agent.reset`."""
        super().reset(num_envs, seed)
        self._proposal.expected_samples = self._rule.first_guess

    def _restart(self, mask: np.ndarray) -> None:
        self._vetting.restart(mask)

    @cached_property
    def _target(self) -> Posterior:
        """The posterior whose best arms races draw: exact where arms are independent.

        Elsewhere weighted draws of the proposal that suits the problem stand for it.
        """
        for method in ("conjugate", "grid"):
            if KINDS[method].fits(self.problem):
                return exact_posterior(self.problem, method=method)[1]
        try:
            return match_proposal(self.problem)
        except ValueError:  # nothing can stand in for the prior
            return self._proposal.fork()

    def _held(self) -> Posterior:
        return self._target

    def _aside(self) -> Self:
        twin = super()._aside()
        twin._target = self._target  # found once, and a function of the statistics
        return twin

    def _law(self) -> np.ndarray:
        self._target.follow(self.rng, self.counts, self.sums)
        law = self._target.best_among(self._available)
        if self.unpulled_arms == "matched":
            return law
        return missing_first(self._is_missing(), law)

    def race(self) -> Races:
        """Do lines 5 to 15 of Algorithm 2, one race per lane, and return how they ended."""
        self._proposal.follow(self.rng, self.counts, self.sums)  # B_t of line 8, or a refusal
        gumbels = self._among(self.rng.gumbel(size=self.counts.shape))  # line 5
        due = (self.counts.sum(axis=1) >= self._vetting.due).nonzero()[0]
        if due.size:
            self._vetting.look_ahead(due)
        races = Races.start(self._rule, gumbels, self._vetting.lengths)  # line 6
        if self.scale == "supremum":
            races.log_scale[:] = self._log_supremum + gumbels.max(axis=1)
        lanes = self._pull_first(races)
        races.run(self.rng, self._proposal, lanes, self._available)  # lines 7 to 15
        if due.size:
            self._vetting.look_back(due, races)
        return races

    def _choose(self) -> np.ndarray:
        races = self.race()
        effective_sizes, is_capped = races.effective_sample_size(), races.is_capped()
        is_unreliable = is_capped | self._proposal.is_unreliable() | self._vetting.is_blind
        if not (self._proposal.has_equal_weights or self._vetting.is_sure):
            is_unreliable |= races.is_poor(effective_sizes)
        self._diagnostics = {
            "num_samples": races.num_samples,
            "effective_sample_size": effective_sizes,
            "is_capped": is_capped,
            "is_unreliable": is_unreliable,
        }
        return np.argmax(races.totals, axis=1)  # line 16

    def _pull_first(self, races: Races) -> np.ndarray:
        """Return the lanes that race; the others are given an arm that was never pulled."""
        if self.unpulled_arms == "matched":
            return self._lanes
        is_missing = self._is_missing()
        races.totals[is_missing] = 1.0 + self.rng.random(np.count_nonzero(is_missing))
        return np.flatnonzero(~is_missing.any(axis=1))

    def _is_missing(self) -> np.ndarray:
        """Return (N, K) True for arms without a posterior of their own that can be pulled."""
        is_missing = self._proposal.is_missing(self.counts)
        return is_missing if self._available is None else is_missing & self._available

    def _make_rule(self) -> StoppingRule:
        if not isinstance(self.stopping, str):
            return fixed_rule(self.stopping)
        if self.stopping == "self-normalised":
            return self_normalised_rule(self.delta, self.effective_samples, self.max_samples)
        by_value = self.scale != "weight"
        return paper_rule(
            self.threshold, self.delta, self.sigma, self.max_samples, by_value=by_value
        )
