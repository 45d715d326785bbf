"""The posterior that races: `draw_best` is a race, and answers are those of weighted draws.

A race is in `agents.racing.races`, what it draws from in `agents.racing.proposals`.

Notation: K arms, N lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.random import Generator

from agents.base.conjugacy import ImproperPrior
from agents.base.evidence import CountsAndSums
from agents.posteriors.base import Posterior, favour_missing_arms
from agents.posteriors.weighted_draws import (
    MAX_BEST_ARM_ERROR,
    TARGET_BEST_ARM_ERROR,
    WeightedDraws,
)
from agents.racing.coverage import CoverageCheck
from agents.racing.proposals import make_proposals
from agents.racing.races import Proposal, Races, draw_weighted, make_weight_error
from agents.racing.stopping import EFFECTIVE_SAMPLES, MAX_SAMPLES_PER_RACE, Paper, Stop, make_stop
from bandit_gym.checks import check_choice, check_real, message
from bandit_gym.doubts import Doubt
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem

UNPULLED_OPTIONS = ("matched", "pull")

WEIGHTED_DRAWS = 10_000, 40_000, 160_000
"""Numbers of weighted draws for each lane that answers rest on: the first that are worth enough."""

MIN_EFFECTIVE_RACE_SAMPLES = 3.0
"""Least effective sample size of a race that no other sample checks."""

TAIL_LEVEL = 0.025
"""Level of a quantile that is resolved in any case."""


class RacePosterior(Posterior):
    """Weighted draws of a proposal, among which a race finds the arm to play.

    Where the proposal is the posterior itself, answers are its own, and by default one sample
    decides. Otherwise they are those of weighted draws, among which a moment that is infinite
    cannot be distinguished from one that is large.

    Arguments:
        problem: likelihood and prior.
        effective_samples: see `RacingThompson`, as for the others.
        proposal: where means are drawn from.
        stopping: another rule for the length of a race.
        unpulled_arms: how they are drawn where they have no posterior.

    Attributes:
        exact: the posterior itself, where the proposal is; else None.
        pulls_first: whether an arm that was never pulled, and has no posterior, is played first.
    """

    source = "weighted draws"
    state_names = ("exact", "check")
    _last_decision: tuple[np.ndarray, ...] | None = None  # what `diagnostics` says of it
    _asked: RacePosterior | None = None  # whose proposals are checked for questions

    def __init__(
        self,
        problem: BanditProblem,
        *,
        effective_samples: float = EFFECTIVE_SAMPLES,
        proposal: str = "matched",
        stopping: Stop | Mapping[str, Any] = None,
        unpulled_arms: str = "matched",
    ) -> None:
        check_real("effective_samples", effective_samples, above=0.0)
        check_choice("unpulled_arms", unpulled_arms, UNPULLED_OPTIONS)
        is_improper = isinstance(problem.prior, ImproperPrior)
        self.pulls_first = unpulled_arms == "pull" or is_improper
        self.stopping = make_stop(stopping)
        if self.stopping is not None and effective_samples != EFFECTIVE_SAMPLES:
            condition = f"be left out with stopping={stopping!r}, which never reads it"
            raise ValueError(message("effective_samples", condition, effective_samples))
        self.thresholds, self.max_samples = None, MAX_SAMPLES_PER_RACE
        if isinstance(self.stopping, Paper):
            self.thresholds = self.stopping.thresholds()
            self.max_samples = self.stopping.max_samples
        elif self.stopping is not None:
            self.max_samples = self.stopping
        self.proposal, *others = make_proposals(problem, proposal)
        may_miss = self.proposal.is_missing(np.zeros((1, problem.num_arms)))
        self.favours_unpulled = self.pulls_first and bool(may_miss.any()) and not is_improper
        wanted = effective_samples if self.stopping is None else None
        self.check = CoverageCheck(self.proposal, others, wanted)
        is_matched = proposal == "matched" or self.proposal.posterior or not others
        self.problem = problem
        self.answer_proposal = (self.proposal if is_matched else others[0]).fork()
        self.exact = self.answer_proposal.posterior
        if self.exact is not None:
            self.source, self.max_lanes = self.exact.source, self.exact.max_lanes
        self._is_one_sample = self.stopping is None and self.proposal.posterior is not None
        self.has_exact_probabilities = self._is_one_sample
        self.has_exact_priced_probabilities = (
            self._is_one_sample and self.exact.has_exact_priced_probabilities  # type: ignore[union-attr]
        )

    @property
    def keeps_state(self) -> bool:  # type: ignore[override]  # what checks found, or draws ahead
        """Whether lanes hold more than follows from the evidence."""
        return self.exact is None or self.exact.keeps_state or not self._is_one_sample

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Forget when the masked lanes' proposals were checked."""
        self._asked = None
        self.check.restart(mask)
        if self.exact is not None:
            self.exact.restart(rng, mask)

    def update(self, rng: Generator, evidence: CountsAndSums) -> None:
        """Take note of the evidence; what draws or answers brings a proposal to it."""
        if not self._is_one_sample:  # what is said of a decision is of the data that it knew
            evidence = evidence.copy_decision()
        self.evidence, self.counts = evidence, evidence.counts
        self._last_decision = None
        if self.exact is not None:
            self.exact.update(rng, evidence)
            self.exact.predict()  # its answers from draws are of earlier data

    def priced_probabilities(
        self, values: np.ndarray, costs: np.ndarray, top: int, available: np.ndarray | None
    ) -> np.ndarray | None:
        """Return what the posterior says, where it is known."""
        if self.exact is None:
            return None
        return self.exact.priced_probabilities(values, costs, top, available)

    def favour_unpulled(self, probabilities: np.ndarray, *available: np.ndarray) -> np.ndarray:
        """See `Posterior.favour_unpulled`; arms that were never pulled share them."""
        if not self.favours_unpulled:
            return probabilities
        is_missing = self.proposal.is_missing(self.counts)
        return favour_missing_arms(is_missing, probabilities, *available)

    def renew_draws(self, rng: Generator) -> None:
        """Check the lanes that are due, as a decision by probabilities has no race."""
        is_due = self._find_due()
        if is_due.any():
            try:
                self.race(make_generator("a race that is only checked"))
            except ValueError:  # all weights of a race are 0
                self.check.has_low_coverage[is_due] = True
            self._last_decision = None

    def _find_due(self) -> np.ndarray:
        """Return (N,) where answers rest on weighted draws whose proposal is to be checked."""
        return (self.counts.sum(axis=1) >= self.check.next_check) & (self.exact is None)

    def draw_best(self, rng: Generator, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N,) arms that races find; one sample decides where weights are equal.

        Proposals are checked as if all arms were available.
        """
        if self._is_one_sample:
            return np.asarray(self.exact.draw_best(rng, available))  # type: ignore[union-attr]
        return self.race(rng, available).pick_arms()

    def race(self, rng: Generator, available: np.ndarray | None = None) -> Races:
        """Do lines 5 to 15 of Algorithm 2, one race per lane, and return how they ended.

        Lanes whose proposals are to be checked have their pilots first.

        Args:
            rng: source of randomness.
            available: (N, K) arms that race; None for all.
        """
        self.proposal.update(rng, self.evidence.counts, self.evidence.sums)  # B_t of line 8
        lengths, checked = self.check.find_lengths(self.max_samples)
        races = Races.start(lengths, self.max_samples, rng.gumbel(size=self.counts.shape))
        if available is not None:
            races.gumbels[~available] = -np.inf
        lanes = np.arange(len(self.counts))
        if self.pulls_first:  # lanes that do not race are given an arm that was never pulled
            is_missing = self.proposal.is_missing(self.counts)
            is_missing &= True if available is None else available
            races.totals[is_missing] = 1.0
            races.gumbels[is_missing] = rng.random(np.count_nonzero(is_missing))
            lanes = np.flatnonzero(~is_missing.any(axis=1))
        races.run(rng, self.proposal, lanes, available, self.thresholds)  # lines 7 to 15
        sizes = races.effective_sample_size()
        self.check.check_races(checked, races, sizes)
        is_capped = (races.num_samples == self.max_samples) & (not isinstance(self.stopping, int))
        doubts = self._doubts_of(self.proposal) | Doubt.RACE_CAPPED.value * is_capped
        if self.check.prior_sample is not None:
            is_few = sizes < np.minimum(MIN_EFFECTIVE_RACE_SAMPLES, 0.9 * races.num_samples)
            doubts |= Doubt.FEW_EFFECTIVE_SAMPLES.value * is_few
        self._last_decision = races.num_samples, sizes, is_capped, doubts
        return races

    def diagnostics(self) -> dict[str, np.ndarray]:
        """Return how the last races went; without any, what is doubted of the proposal."""
        decision = self._last_decision
        if self._is_one_sample:
            ones = np.ones(len(self.counts), dtype=np.int64)
            decision = ones, ones.astype(np.float64), ones == 0, self.doubts()
        if decision is None:
            rng = make_generator("a proposal that is not drawn from")
            self.proposal.update(rng, self.evidence.counts, self.evidence.sums)
            doubts = self._shortages | self._doubts_of_answers(self.proposal)
            return {"doubts": doubts, "is_unreliable": doubts != 0}
        num_samples, sizes, is_capped, doubts = decision
        return {
            "num_samples": num_samples,
            "effective_sample_size": sizes,
            "is_capped": is_capped,
            "doubts": doubts,
            "is_unreliable": doubts != 0,
            "last_checked": self.check.last_check.copy(),
        }

    def doubts(self) -> np.ndarray:
        """Return (N,) why answers may be wrong: draws too few, or not of the proposal."""
        if self.exact is not None:
            return self.exact.doubts()
        self.effective_sample_size()  # any answer notes where draws are few
        return self._shortages | self._doubts_of_answers(self.answer_proposal)

    def _doubts_of_answers(self, proposal: Proposal) -> np.ndarray:
        """Return `_doubts_of`, after the checks that are due: of a copy, as asking moves nothing.

        It stays, so that a lane is checked when its pulls have doubled also where no race decides.
        """
        is_due = self._find_due()
        if not is_due.any():
            return self._doubts_of(proposal)
        rng = make_generator("a proposal that is not drawn from")
        self._asked = self._asked or self.fork()
        self._asked.update(rng, self.evidence)
        self._asked.renew_draws(rng)
        return np.where(is_due, self._asked._doubts_of(proposal), self._doubts_of(proposal))

    def _doubts_of(self, proposal: Proposal) -> np.ndarray:
        """Return (N,) what is doubted where draws are of a proposal: its reach, and its tables."""
        is_beyond = Doubt.BEYOND_TABLE.value * proposal.is_unreliable()
        return Doubt.LOW_COVERAGE.value * self.check.has_low_coverage | is_beyond

    def density(self, x: np.ndarray) -> np.ndarray:
        """Return the (M, N, K) densities of the means, if the proposal is the posterior."""
        return super().density(x) if self.exact is None else self.exact.density(x)

    def expected_loss(self) -> np.ndarray:
        """Return the (N, K) expected regrets of stopping with each arm."""
        return super().expected_loss() if self.exact is None else self.exact.expected_loss()

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw of the means, as `sample_many` does."""
        return np.asarray(self.sample_many(rng, 1)[0])

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws: of the weighted ones that all answers are from, by weight."""
        if self.exact is not None:
            return self.exact.sample_many(rng, size)
        draws = [lane_draws.resample(rng, size) for lane_draws in self._iterate_lanes()]
        return np.concatenate(draws, axis=1)

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles of the means; see `Belief.quantile`."""
        if self.exact is not None:
            return np.asarray(self.exact.quantile(p))
        levels = np.broadcast_to(p, self.counts.shape)
        lanes = zip(self._iterate_lanes(levels), levels, strict=True)
        return np.concatenate([draws.quantile(lane_levels) for draws, lane_levels in lanes])

    def position_probabilities(self, top: int, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, top, K) probabilities of each place; see `Belief`."""
        if self.exact is not None:
            return self.exact.position_probabilities(top, available)
        masks = [None] * len(self.counts) if available is None else available[:, None]
        lanes = zip(self._iterate_lanes(), masks, strict=True)
        return np.concatenate([draws.position_probabilities(top, mask) for draws, mask in lanes])

    def _answer(self, question: Callable[..., Any], *options: Any) -> Any:
        """Return what is asked of each lane's draws, or of the posterior itself."""
        if self.exact is not None:
            return getattr(self.exact, question.__name__)(*options)
        given = [option for option in options if option is not None]
        by_lane = [np.broadcast_to(option, self.counts.shape)[:, None] for option in given]
        lanes = zip(self._iterate_lanes(), *by_lane, strict=True)
        answers = [question(draws, *lane_options) for draws, *lane_options in lanes]
        if isinstance(answers[0], tuple):
            return tuple(np.concatenate(parts) for parts in zip(*answers, strict=True))
        return np.concatenate(answers)

    def _iterate_lanes(self, levels: np.ndarray | float = TAIL_LEVEL) -> Iterator[WeightedDraws]:
        """Yield draws of each lane, from a generator made anew: a function of its own data.

        There are so many that best-arm probabilities are known to TARGET_BEST_ARM_ERROR and the
        quantiles of (N, K) levels are resolved. Where the most are too few, that is noted.
        """
        rng = make_generator("a proposal that is not drawn from")
        is_short = np.zeros(len(self.counts), dtype=bool)
        self.answer_proposal.update(rng, self.evidence.counts, self.evidence.sums)
        for lane, lane_levels in enumerate(np.broadcast_to(levels, self.counts.shape)):
            for size in WEIGHTED_DRAWS:
                rng = make_generator("weighted draws for answers")
                draws = draw_weighted(rng, self.answer_proposal, np.array([lane]), size)
                error, has_few = draws.best_arm_error()[0], draws.has_few_beyond(lane_levels)[0]
                if error <= TARGET_BEST_ARM_ERROR and not has_few:
                    break
            if draws.log_weights.max() == -np.inf:
                raise make_weight_error(self.answer_proposal, lane, f"{size} draws")
            is_short[lane] = has_few or error > MAX_BEST_ARM_ERROR
            yield draws
        self._note_shortage(is_short)
