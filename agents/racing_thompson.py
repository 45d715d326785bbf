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
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from agents.base import Agent
from agents.numerics.draw_tables import NO_TABLES, Tables, make_tables
from agents.racing.conjugate import ConjugateProposal
from agents.racing.matching import make_proposal
from agents.racing.races import Races
from agents.racing.stopping import StoppingRule, fixed_rule, paper_rule, self_normalised_rule
from bandit_gym.checks import check_choice, check_integer, check_real
from bandit_gym.priors import Prior
from bandit_gym.problem import BanditProblem

THRESHOLDS = ("printed", "shortened")
SCALES = ("value", "weight", "supremum")
UNPULLED = ("matched", "pull")
STOPPING = ("paper", "self-normalised")

TILE_SIZE = 1 << 16
"""Arm means drawn at a time: 512 KiB, which a core's own cache holds until they are weighed."""

CALL_COST = 2000.0
"""What a round of drawing, weighing and racing costs at any size, in means drawn from tables."""

ROW_COST = 10.0
"""What each arm of each race costs in a round at any size, in draws of its mean."""

MIN_TABLE_DRAWS = 150.0
"""Draws that repay the making of a table; a step makes one in each lane, the pulled arm's."""

MAX_TABLES = 1 << 15
"""Tables kept at most, which fill 90 MB; with more lanes and arms than that, draws go without."""


class RacingThompson(Agent):
    """Thompson sampling by racing, for every prior with a `log_density`.

    Arguments:
        problem: likelihood and prior. The prior's density may be unnormalised.
        delta: error probability in (0, 1) that the threshold is made for.
        sigma: slack > 0: a winner whose expectation is below the best by less than this will do,
            in units of v after scaling.
        threshold: "printed" or "shortened"; see `agents.racing.stopping.threshold_function`.
        scale: what v is divided by, for sigma and beta mean something only for v in a known range.
            "value": the largest e^{eps_i} w(mu) seen in the race, which keeps v in [0, 1] so far.
            "weight": the largest w(mu) seen, e^{eps_i} left as it is, so that v may exceed 1.
            "supremum": the true largest value of e^{eps_i} w over all i and mu, under which
            Theorem 1 holds to the letter, at a cost that makes it an instrument and no agent; for
            built-in independent priors only.
        stopping: "paper" is line 12 of Algorithm 2 with the four arguments above.
            "self-normalised" knows no scale: it stops when the leader is clear of every other arm
            at level delta, or when the weights' effective sample size reaches
            `effective_samples`; see `agents.racing.stopping`. A number m >= 1 stops each race at
            exactly m
            samples: one is TS under q_0, ever more are TS under the true prior.
        effective_samples: effective sample size > 0, finite, that ends a self-normalised race.
        proposal: what the race samples from. "reference" is the paper's Table 1; "matched" is the
            posterior under the conjugate prior with the moments of the problem's own, arm by arm;
            or, where that serves ill, each arm's own posterior from a table, or a truncated normal
            law with the arms' correlation (see `agents.racing.matching.match_proposal`). Or a
            conjugate prior of one's own choice, as an object or a dict. Weights are exact for each;
            a proposal near the true posterior needs few samples.
        unpulled_arms: the Gaussian and Poisson references of Table 1 are improper, hence no
            posterior for an arm without data. "matched" draws such an arm from the conjugate prior
            with the moments of the problem's own; "pull" pulls every arm once first, in random
            order. Of no effect where the proposal is proper.
        max_samples: a race stops here in any case, and `diagnostics()["is_capped"]` says so.

    Diagnostics: `num_samples` drawn, `effective_sample_size` of their weights, `is_capped`.

    References:
        Zhou, Zhu and Zhuo, "Racing Thompson: an Efficient Algorithm for Thompson Sampling with
        Non-conjugate Priors", Algorithm 2.
    """

    def __init__(
        self,
        problem: BanditProblem,
        *,
        delta: float = 0.1,
        sigma: float = 0.1,
        threshold: str = "printed",
        scale: str = "value",
        stopping: str | int = "paper",
        effective_samples: float = 12.0,
        proposal: str | Prior | Mapping[str, Any] = "reference",
        unpulled_arms: str = "matched",
        max_samples: int = 100_000,
    ) -> None:
        super().__init__(problem)
        self.delta = check_real("delta", delta, above=0.0, below=1.0)
        self.sigma = check_real("sigma", sigma, above=0.0)
        self.threshold = check_choice("threshold", threshold, THRESHOLDS)
        self.scale = check_choice("scale", scale, SCALES)
        self.unpulled_arms = check_choice("unpulled_arms", unpulled_arms, UNPULLED)
        self.max_samples = check_integer("max_samples", max_samples, minimum=1)
        self.effective_samples = check_real("effective_samples", effective_samples, above=0.0)
        self.stopping = _check_stopping(stopping)
        self.proposal = proposal
        self._rule = self._make_rule()
        self._proposal = make_proposal(problem, proposal)
        self._log_supremum = self._proposal.log_supremum() if scale == "supremum" else -math.inf

    def reset(self, num_envs: int | None = None, seed: int | SeedSequence | None = None) -> None:
        """Forget everything; see `Agent.reset`."""
        super().reset(num_envs, seed)
        self._expected_samples = float(16 if isinstance(self.stopping, str) else self.stopping)
        self._tables = NO_TABLES

    def __getstate__(self) -> dict[str, Any]:
        """Leave the tables out of copies and pickles: they follow from the statistics."""
        return self.__dict__ | {"_tables": NO_TABLES}

    def _make_rule(self) -> StoppingRule:
        if not isinstance(self.stopping, str):
            return fixed_rule(self.stopping)
        if self.stopping == "self-normalised":
            return self_normalised_rule(self.delta, self.effective_samples, self.max_samples)
        return paper_rule(self.threshold, self.delta, self.sigma, self.max_samples)

    def _choose(self) -> np.ndarray:
        race = self.race()
        self._report(race)
        return np.argmax(race.totals, axis=1)  # line 16

    def race(self) -> Races:
        """Do lines 5 to 15 of Algorithm 2, one race per lane, and return how they ended."""
        race = Races(self.rng.gumbel(size=self.counts.shape))  # lines 5 and 6
        if self.scale == "supremum":
            race.log_scale[:] = self._log_supremum + race.gumbels.max(axis=1)
        running = self._pull_first(race)
        parameters = self._proposal.parameters(self.counts, self.sums)
        tables = self._find_tables()
        if isinstance(self._proposal, ConjugateProposal) and self._proposal.is_natural:
            race.run_alone(
                self.rng, running, self._proposal, parameters, tables,
                self._rule, self.scale == "value", self._chunk_size(),
            )  # fmt: skip
        else:
            self._run_together(race, running, parameters, tables)
        return race

    def _run_together(
        self,
        race: Races,
        running: np.ndarray,
        parameters: Any,
        tables: Tables,
    ) -> None:
        """Run the races in rounds, so that a user's log-density is called for many at once."""
        while running.size:  # line 7
            num_left = self._rule.cap - race.num_samples[running].max()
            num_samples = min(self._chunk_size(len(running)), num_left)
            is_over = np.empty(len(running), dtype=bool)
            for tile in _tiles(len(running), num_samples * self.problem.num_arms):
                lanes = running[tile]
                log_weights, winners = self._proposal.draw_rows(  # line 8
                    self.rng, lanes, parameters, tables, num_samples
                )
                is_over[tile] = race.run(  # lines 9 to 14
                    lanes, log_weights, winners, self._rule, self.scale == "value"
                )
            running = running[~is_over]

    def _pull_first(self, race: Races) -> np.ndarray:
        """Return the lanes that race; the others are given an arm that was never pulled."""
        is_missing = self._proposal.is_missing(self.counts)
        if self.unpulled_arms == "matched" or not is_missing.any():
            return np.arange(self.num_lanes)
        race.totals[is_missing] = 1.0 + self.rng.random(np.count_nonzero(is_missing))
        return np.flatnonzero(~is_missing.any(axis=1))

    def _find_tables(self) -> Tables:
        """Return the tables of all lanes and arms, or none where they would not pay.

        The choice is a function of the state that is reset and pickled; the tables themselves are
        not, for their content follows from the statistics.
        """
        num_tables = self.counts.size
        num_draws = self._expected_samples * self.problem.num_arms
        is_too_few = num_draws < MIN_TABLE_DRAWS
        if is_too_few or num_tables > MAX_TABLES or not self._proposal.has_tables:
            return NO_TABLES
        if len(self._tables.keys) != num_tables:
            self._tables = make_tables(num_tables)
        return self._tables

    def _chunk_size(self, num_races: int | None = None) -> int:
        """Balance the cost of another chunk against samples drawn beyond a race's end.

        Args:
            num_races: that share the cost of a call, or None if there is no call.
        """
        if not isinstance(self.stopping, str):
            size = TILE_SIZE / self.problem.num_arms
        else:
            cost = ROW_COST
            if num_races:
                cost += CALL_COST / (self.problem.num_arms * num_races * self._proposal.draw_cost)
            size = math.sqrt(2 * self._expected_samples * cost)
        return max(1, min(round(size), self._rule.cap))

    def _report(self, race: Races) -> None:
        self._expected_samples = max(1.0, float(race.num_samples.mean()))
        is_at_end = race.num_samples == self._rule.cap
        self._diagnostics = {
            "num_samples": race.num_samples,
            "effective_sample_size": race.effective_sample_size(),
            "is_capped": is_at_end & isinstance(self.stopping, str),
        }


def _check_stopping(stopping: str | int) -> str | int:
    if isinstance(stopping, str):
        return check_choice("stopping", stopping, STOPPING)
    return check_integer("stopping", stopping, minimum=1)


def _tiles(num_rows: int, row_size: int) -> Iterator[slice]:
    """Split rows into slices of about TILE_SIZE numbers."""
    step = max(1, TILE_SIZE // row_size)
    for start in range(0, num_rows, step):
        yield slice(start, start + step)
