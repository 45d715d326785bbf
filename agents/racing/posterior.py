"""The posterior that races: `draw_best` is a race, and answers are those of weighted draws.

Notation: K arms, N lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any

import numpy as np
from numpy.random import Generator

from agents.base.evidence import CountsAndSums
from agents.base.table_1 import Improper
from agents.posteriors.weighted_draws import WeightedDraws
from agents.racing.matching import find_matched, make_proposal
from agents.racing.races import Races
from agents.racing.stopping import Fixed, Paper, SelfNormalised, Stop, make_stop, takes_options
from agents.racing.vetting import Vetting
from agents.racing.weighing import TAIL, WeighedPosterior
from bandit_gym.checks import check_choice
from bandit_gym.checks.doubts import Doubt
from bandit_gym.problem import BanditProblem

UNPULLED = ("matched", "pull")


class RacePosterior(WeighedPosterior):
    """Weighted draws of a proposal, among which a race finds the arm to play.

    Where the proposal is the posterior itself, answers are its own, and by default one sample
    decides.

    Arguments:
        problem: likelihood and prior.
        proposal: see `RacingThompson`.
        stopping: see `RacingThompson`.
        unpulled_arms: see `RacingThompson`.
        options: of the stop that is named.

    Attributes:
        exact: the posterior itself, where the proposal is; else None.
        pulls_first: whether an arm that was never pulled, and has no posterior, is played first.
    """

    state_names = ("exact", "vetting")
    _last: dict[str, np.ndarray] | None = None

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
        check_choice("unpulled_arms", unpulled_arms, UNPULLED)
        self.pulls_first = unpulled_arms == "pull" or isinstance(problem.prior, Improper)
        self.stopping = make_stop(stopping, options)
        self.bars = self.stopping.bars()
        self.raced = make_proposal(problem, proposal)
        matched = self.raced if proposal == "matched" else find_matched(problem)
        self.vetting = Vetting(self.raced, matched, self.stopping)
        source = self.raced if self.raced.posterior else (matched or self.raced).fork()
        super().__init__(source)
        self.exact = source.posterior
        if self.exact is not None:
            self.source = self.exact.source
        is_free = isinstance(self.stopping, SelfNormalised)
        self._is_one_sample = is_free and self.vetting.has_equal_weights
        self.has_exact_propensities = self._is_one_sample and not self.raced.is_inferred
        self._log_supremum = -math.inf
        if isinstance(self.stopping, Paper) and self.stopping.scale == "supremum":
            self._log_supremum = self.raced.log_supremum()

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Forget when the masked lanes' proposals were vetted."""
        self.vetting.restart(mask)
        if self.exact is not None:
            self.exact.restart(rng, mask)

    def update(self, rng: Generator, evidence: CountsAndSums) -> None:
        """Take note of the evidence; what draws or answers brings a proposal to it."""
        self.evidence, self.counts = evidence, evidence.counts
        self._last = None
        if self.exact is not None:
            self.exact.update(rng, evidence)

    def draw_best(self, rng: Generator) -> np.ndarray:
        """Return the (N,) arms that races find; one sample decides where weights are equal."""
        if self._is_one_sample:
            return self._draw_one(rng, self.exact)
        due = self.vetting.find_due(self.counts)
        if due.size:
            self._follow(rng)
            self.vetting.look_ahead(due)
        races = self.race(rng)
        if due.size:
            self.vetting.look_back(due, races)
        is_free = not isinstance(self.stopping, Fixed)
        is_capped = (races.num_samples == self.stopping.max_samples) & is_free
        doubts = Doubt.RACE_CAPPED.value * is_capped
        if not (self.vetting.has_equal_weights or self.vetting.is_sure):
            doubts |= Doubt.FEW_EFFECTIVE_SAMPLES.value * races.is_poor()
        doubts |= Doubt.BEYOND_TABLE.value * self.raced.is_unreliable()
        self._last = self._report(
            races.num_samples, races.effective_sample_size(), is_capped, doubts
        )
        return np.argmax(races.totals, axis=1)  # line 16

    def race(self, rng: Generator) -> Races:
        """Do lines 5 to 15 of Algorithm 2, one race per lane, and return how they ended."""
        self._follow(rng)  # B_t of line 8
        gumbels = rng.gumbel(size=self.counts.shape)  # line 5
        lengths = self.stopping.lengths(self.vetting.shares)
        races = Races.start(self.bars, gumbels, lengths)  # line 6
        races.log_scale[:] = self._log_supremum + gumbels.max(axis=1)
        lanes = np.arange(len(self.counts))
        if self.pulls_first:  # lanes that do not race are given an arm that was never pulled
            is_missing = self.raced.is_missing(self.counts)
            races.totals[is_missing] = 1.0 + rng.random(np.count_nonzero(is_missing))
            lanes = np.flatnonzero(~is_missing.any(axis=1))
        races.run(rng, self.raced, lanes)  # lines 7 to 15
        return races

    def diagnostics(self) -> dict[str, np.ndarray]:
        """Return how the last races went; without any, what is doubted of the proposal."""
        if self._is_one_sample:
            ones = np.ones(len(self.counts), dtype=np.int64)
            return self._report(ones, ones.astype(np.float64), ones == 0, self.doubts())
        if self._last is not None:
            return self._last
        self._follow(np.random.default_rng(0))
        doubts = self._shortages | Doubt.BEYOND_TABLE.value * self.raced.is_unreliable()
        doubts = doubts | Doubt.PROPOSAL_BLIND.value * self.vetting.is_blind
        return {"doubts": doubts, "is_unreliable": doubts != 0}

    def doubts(self) -> np.ndarray:
        """Return (N,) why answers may be wrong."""
        doubts = super().doubts() if self.exact is None else self.exact.doubts()
        return doubts | Doubt.PROPOSAL_BLIND.value * self.vetting.is_blind

    def density(self, x: np.ndarray) -> np.ndarray:
        """Return the (M, N, K) densities of the means, if the proposal is the posterior."""
        return super().density(x) if self.exact is None else self.exact.density(x)

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws of the means."""
        if self.exact is not None:
            return self.exact.sample_many(rng, size)
        return super().sample_many(rng, size)

    def _answer(self, question: Callable[..., Any], *options: Any) -> Any:
        if self.exact is not None:
            return getattr(self.exact, question.__name__)(*options)
        return super()._answer(question, *options)

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles of the means."""
        return super().quantile(p) if self.exact is None else np.asarray(self.exact.quantile(p))

    def _lanes(
        self, levels: Iterable[np.ndarray | float] = repeat(TAIL)
    ) -> Iterator[WeightedDraws]:
        data = self.evidence.counts, self.evidence.sums
        self.proposal.follow(np.random.default_rng(0), *data)
        return super()._lanes(levels)

    def _follow(self, rng: Generator) -> None:
        self.raced.follow(rng, self.evidence.counts, self.evidence.sums)

    def _draw_one(self, rng: Generator, exact: Any) -> np.ndarray:
        """Draw one sample of the posterior, which all of a race's would be draws of."""
        if self.raced.is_inferred:
            self._follow(rng)
            self.vetting.look_near(self.vetting.find_due(self.counts))
        best: np.ndarray = exact.draw_best(rng)
        return best

    def _report(
        self,
        num_samples: np.ndarray,
        effective_sample_size: np.ndarray,
        is_capped: np.ndarray,
        doubts: np.ndarray,
    ) -> dict[str, np.ndarray]:
        """Return how a decision went, and why it may not follow the posterior."""
        doubts = doubts | Doubt.PROPOSAL_BLIND.value * self.vetting.is_blind
        return {
            "num_samples": num_samples,
            "effective_sample_size": effective_sample_size,
            "is_capped": is_capped,
            "doubts": doubts,
            "is_unreliable": doubts != 0,
            "last_vetted": self.vetting.last.copy(),
        }
