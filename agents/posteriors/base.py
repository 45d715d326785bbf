"""The contract of posteriors and beliefs.

A posterior is the distribution of the parameters given the evidence, in each of N lanes. A belief
is what it says of the K means at one decision, and all that a rule sees. Where the parameters are
the means, a posterior is its own belief; where they are coefficients of features, `FeatureBelief`
is. Kinds differ in how they hold it: as parameters, tables,
chains, particles or weighted draws.

What a kind does not answer itself is answered from its draws, so that any rule works on any
posterior. Answers never advance the agent's generator: where they need draws, these come from a
fixed generator of their own.

Notation: K arms, N lanes, d features, m draws.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator

from agents.base.evidence import MAX_STATISTICS, CountsAndSums
from agents.numerics.choices import hide_arms, random_argmax, share_evenly
from agents.posteriors.weighted_draws import MAX_BEST_ARM_ERROR, WeightedDraws, best_arm_error
from bandit_gym.checks import check_all, check_returned, message
from bandit_gym.doubts import Doubt
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem

NUM_ANSWER_DRAWS = 1000
"""Draws in each lane for the answers of a posterior that has no formula for them."""


MAX_ANSWER_NUMBERS = 10**7
"""Of the draws of all lanes for one answer."""


def count_answer_draws(wanted: int, size: int) -> int:
    """Return how many draws of so many numbers to answer from: as wanted, if there is room."""
    return max(NUM_ANSWER_DRAWS, min(wanted, MAX_ANSWER_NUMBERS // size))


class Belief(ABC):
    """What is known of the (N, K) means at one decision.

    Attributes:
        source: what its answers are taken from, in words.
        has_exact_probabilities: whether `best_arm_probabilities` are those of `draw_best`, and not
            an approximation of them.
        has_exact_priced_probabilities: the same of `priced_probabilities`.
        keeps_state: whether it holds more than follows from the evidence, which its own draws move,
            so that a caller who asks in passing asks a copy.
    """

    source: str = f"{NUM_ANSWER_DRAWS:,} draws"
    has_exact_probabilities: bool = False
    has_exact_priced_probabilities: bool = False
    keeps_state: bool = False
    _answers: WeightedDraws | None = None
    _shortages: np.ndarray | int = 0
    _shape: tuple[int, ...] | None = None  # N and K, by which draws of the means are checked

    @abstractmethod
    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw of the means. An arm without a proper posterior has mean inf."""

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws of the means; of a chain, one after the other."""
        return np.array([self.sample(rng) for _ in range(size)])

    def weighted_draws(self) -> WeightedDraws:
        """Return the draws from which all is answered that a kind has no formula for.

        They are 1,000 by `sample`, from a generator of their own and a copy, as a chain moves with
        every draw. A kind that holds few draws returns these: it knows no more than they tell.
        """
        rng = make_generator("draws for answers")
        draws = self.fork().sample_many(rng, NUM_ANSWER_DRAWS)
        if self._shape is not None:
            shape = NUM_ANSWER_DRAWS, *self._shape
            draws = check_returned(f"{type(self).__name__}.sample_many", draws, shape)
        draws = draws.swapaxes(0, 1)
        return WeightedDraws(draws, np.zeros(draws.shape[:2]))

    def draw_best(self, rng: Generator, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N,) arms that are best in one draw, ties broken at random.

        Kinds may fuse the two steps; the distribution is that of the best arm of `sample`.

        Args:
            rng: source of randomness.
            available: (N, K) arms that may be best, at least one in each lane; None for all. It is
                given only where not all arms are available.
        """
        draws = self.sample(rng)
        if self._shape is not None:
            draws = check_returned(f"{type(self).__name__}.sample", draws, self._shape)
        return random_argmax(rng, hide_arms(draws, available))

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations of the means; inf for improper posteriors."""
        return np.asarray(self._answer(WeightedDraws.mean))

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations of the means; inf for improper posteriors."""
        return np.asarray(self._answer(WeightedDraws.std))

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles of the means; inf for an arm without a proper posterior.

        Args:
            p: probabilities in (0, 1) that broadcast to (N, K).
        """
        self._note_shortage(self._draws().has_few_beyond(p))
        return np.asarray(self._answer(WeightedDraws.quantile, p))

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) probabilities that each arm has the largest mean.

        Args:
            available: as for `draw_best`; the others have probability 0.
        """
        return np.asarray(self._answer(WeightedDraws.best_arm_probabilities, available))

    def priced_probabilities(
        self, values: np.ndarray, costs: np.ndarray, top: int, available: np.ndarray | None
    ) -> np.ndarray | None:
        """Return the (N, top, K) probabilities of each place in the order of value * mean - cost.

        Args:
            values: (N, K) above 0.
            costs: (N, K).
            top: how many places.
            available: as for `draw_best`.

        Returns:
            None where they are those of the weighted draws.
        """
        return None

    def position_probabilities(self, top: int, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, top, K) probabilities of each place in the order of one draw, best first.

        Args:
            top: how many places.
            available: as for `draw_best`, at least `top` of them.
        """
        return np.asarray(self._answer(WeightedDraws.position_probabilities, top, available))

    def best_arm_error(self) -> np.ndarray:
        """Return (N,) twice the total variation to expect of `best_arm_probabilities`, by chance.

        It is 0 where these are computed from distributions, to the accuracy of those.
        """
        error = best_arm_error(self.best_arm_probabilities(), self._count_independent_draws())
        self._note_shortage(error > MAX_BEST_ARM_ERROR)
        return error

    def _count_independent_draws(self) -> np.ndarray:
        """Return (N,) numbers of independent draws that would err as much in best-arm answers."""
        return self.effective_sample_size()

    def _note_shortage(self, is_short: np.ndarray) -> None:
        """Remember in which of the N lanes draws are too few for what was asked."""
        self._shortages = self._shortages | np.where(is_short, Doubt.FEW_EFFECTIVE_SAMPLES, 0)

    def density(self, x: np.ndarray) -> np.ndarray:
        """Return the (M, N, K) densities of the means at (M,) places, where there are any.

        Raises:
            TypeError: if all that is held is draws.
        """
        raise TypeError(f"density must be asked of distributions, got {self.source}; use sample.")

    def best_arm_moments(
        self, available: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what to expect of every arm if a given arm is best.

        Args:
            available: as for `draw_best`; expectations of the other arms have no meaning.

        Returns:
            (N, K) probabilities that each arm is best, and (N, K, K) expectations of the means,
            those of arm i if arm a is best at [lane, a, i].
        """
        best, means = self._answer(WeightedDraws.best_arm_moments, available)
        return best, means

    def expected_loss(self) -> np.ndarray:
        """Return the (N, K) expected regrets of stopping with each arm, E[max mean] - E[mean].

        Both expectations come from the same draws or tables, so that what errs in them cancels.
        """
        best, means = self.best_arm_moments()
        weighted = np.where(best[..., None] > 0, best[..., None] * means, 0.0)
        largest = np.einsum("naa->n", weighted)
        return np.asarray(largest[:, None] - weighted.sum(axis=1))

    def lower_partial_moment(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how likely the means are to be at most a level, and the partial moment below it.

        Args:
            level: (N, K) means.

        Returns:
            (N, K) P(mean <= level), and its integral up to the level, (N, K) E(level - mean)^+.
        """
        below, moment = self._answer(WeightedDraws.lower_partial_moment, level)
        return below, moment

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) how many draws from the posterior answers are worth; inf for formulas."""
        return np.asarray(self._answer(WeightedDraws.effective_sample_size))

    def doubts(self) -> np.ndarray:
        """Return (N,) why what is held may be wrong, as a sum of `bandit_gym.doubts.Doubt`.

        Kinds that can detect their errors add to this: whether draws were too few for what was
        asked of them since the last data.
        """
        return np.bitwise_or(np.zeros(len(self.mean()), dtype=np.int64), self._shortages)

    def is_unreliable(self) -> np.ndarray:
        """Return (N,) True where there is a doubt."""
        return self.doubts() != 0

    def diagnostics(self) -> dict[str, np.ndarray]:
        """Return (N,) arrays by name that say how far this can be relied on."""
        doubts = self.doubts()
        return {"doubts": doubts, "is_unreliable": doubts != 0}

    def fork(self) -> Self:
        """Return a copy that may move on while this one stays as it is; they share the problem."""
        problem = getattr(self, "problem", None)
        return copy.deepcopy(self, {id(problem): problem})

    def _answer(self, question: Callable[..., Any], *options: Any) -> Any:
        """Return what weighted draws say, for what a kind has no formula."""
        return question(self._draws(), *options)

    def _answer_missed(
        self, probabilities: np.ndarray, question: Callable[..., np.ndarray], *options: Any
    ) -> np.ndarray:
        """Return (N, ...) probabilities, and what draws say of lanes of NaN: it is doubted."""
        is_missed = np.isnan(probabilities.reshape(len(probabilities), -1)[:, 0])
        if np.count_nonzero(is_missed):
            probabilities[is_missed] = question(self._draws(), *options)[is_missed]
            self._note_shortage(is_missed)
        return probabilities

    def _draws(self) -> WeightedDraws:
        """Return the draws for all answers at this decision."""
        if self._answers is None:
            draws = self.weighted_draws()
            arrays: Any = getattr(draws, "means", None), getattr(draws, "log_weights", None)
            is_right = all(
                isinstance(each, np.ndarray) and each.dtype.kind == "f" for each in arrays
            )
            if not is_right or arrays[0].shape[:2] != arrays[1].shape:
                name = f"{type(self).__name__}.weighted_draws"
                condition = "return WeightedDraws of (N, m, K) means and (N, m) log-weights, floats"
                raise ValueError(message(name, condition, draws))
            self._answers = draws
        return self._answers


class Posterior(Belief):
    """A posterior of the means, which is its own belief, or of the coefficients of features.

    A kind of your own has `update` and `sample`; see "A posterior" in the docs. Of coefficients, it
    draws (N, d) of them, its weighted draws are (N, m, d), and it says `takes_features`.

    Attributes:
        problem: whose posterior it is.
        state_names: the attributes that a saved agent needs beside the evidence.
        min_file_format: of the oldest files of agents that have these.
        max_lanes: how many lanes there is memory for.
        takes_features: whether its parameters are the d coefficients of features.
        takes_squares: whether it takes rewards of unknown deviation, with `evidence.squares`.
        can_discount: whether it can follow evidence that is discounted or leaves a window.
        other_seeds: of pools of draws that state the error of answers by the first.
        decides_many: whether its belief of one lane under (n, K, d) features draws n best arms.
        favours_unpulled: whether `draw_best` plays arms without data first, whatever is drawn.
    """

    problem: BanditProblem
    max_lanes: int = MAX_STATISTICS
    keeps_state: bool = True
    state_names: ClassVar[tuple[str, ...]] = ()
    min_file_format: ClassVar[int] = 5
    takes_features: ClassVar[bool] = False
    takes_squares: ClassVar[bool] = False
    can_discount: ClassVar[bool] = False
    decides_many: ClassVar[bool] = False
    other_seeds: ClassVar[range] = range(0)
    favours_unpulled: bool = False

    def start(self, rng: Generator, num_lanes: int) -> None:
        """Prepare for so many lanes without data."""
        self.restart(rng, np.ones(num_lanes, dtype=bool))

    def restart(self, rng: Generator, mask: np.ndarray) -> None:  # noqa: B027  # most keep nothing
        """Remove what the (N,) masked lanes hold beside the evidence."""

    def learn(  # noqa: B027  # most need no more than the evidence
        self, rng: Generator, lanes: np.ndarray, arms: np.ndarray, rewards: np.ndarray
    ) -> None:
        """Take single rewards, for kinds that need them: one in each of (R,) lanes.

        Agents refuse a `warm_start` then, of which totals alone are known.
        """

    @abstractmethod
    def update(self, rng: Generator, evidence: CountsAndSums) -> None:
        """Bring every lane to its data.

        Kinds that are functions of the counts and sums only take note of them; chains and particles
        move the state that they keep for each lane.

        Args:
            rng: source of randomness, where updating takes any.
            evidence: all data so far; its arrays are not copied: `update` again after a change.
        """

    def renew_draws(self, rng: Generator) -> None:  # noqa: B027  # most keep none
        """Before a decision by probabilities, choose draws for all until the next data."""

    def favour_unpulled(self, probabilities: np.ndarray, *available: np.ndarray) -> np.ndarray:
        """Return the (N, K) probabilities of `draw_best`, given those that arms are best."""
        return probabilities

    def fork_for_decision(self, evidence: Any, keeps_draws: bool = False) -> Self:
        """Return one to be asked about a decision after some evidence, while this one stays as is.

        Args:
            evidence: that it will be brought to.
            keeps_draws: whether it keeps to the draws of `renew_draws`.
        """
        return self.fork() if self.keeps_state else self

    def compact(self, evidence: Any, max_rows: int, features: np.ndarray) -> tuple[Any, float]:
        """Return evidence in which a normal approximation stands for older rows, and its error.

        Args:
            evidence: of one lane, that it was brought to.
            max_rows: which stay.
            features: (n, K, d) at which decisions are compared.

        Returns:
            The evidence, and the upper limit of the total variation from decisions before.

        Raises:
            TypeError: if its kind has no such approximation.
        """
        condition = "be a race of coefficients with a normal prior, for compact"
        raise TypeError(message("posterior", condition, type(self).__name__))

    def draw_best_arms(self, rng: Generator, features: np.ndarray) -> np.ndarray:
        """Return the (N,) arms with the largest predictor under one draw of coefficients.

        Kinds may fuse the two steps, and those that say `decides_many` return (n,) arms, one draw
        each, of one lane with (n, K, d) features.

        Args:
            rng: source of randomness.
            features: (N, K, d), NaN of arms that are not available.
        """
        predictors = self.draw_predictors(rng, features)
        return random_argmax(rng, hide_arms(predictors, ~np.isnan(predictors)))

    def draw_predictors(self, rng: Generator, features: np.ndarray) -> np.ndarray:
        """Return (N, K) linear predictors of arms with (N, K, d) features under one draw."""
        name = f"{type(self).__name__}.sample"
        coefficients = check_returned(name, self.sample(rng), features[:, 0].shape)
        check_all(name, np.isfinite(coefficients), "return finite numbers", coefficients)
        return np.asarray(self.problem.predictors(coefficients, features))  # type: ignore[attr-defined]

    def predict(self, features: np.ndarray | None = None) -> Belief:
        """Return the belief for the next decision, after `update`.

        Args:
            features: (N, K, d) of its arms, for a posterior of coefficients.
        """
        self._answers, self._shortages = None, 0
        return self if features is None else FeatureBelief(self, features)


class FeatureBelief(Belief):
    """What a posterior of coefficients says of the means of arms with features, by its draws.

    Arguments:
        posterior: of the (N, d) coefficients.
        features: (N, K, d).
    """

    def __init__(self, posterior: Posterior, features: np.ndarray) -> None:
        self.posterior, self.features, self.source = posterior, features, posterior.source
        self.problem: Any = posterior.problem
        self.keeps_state = posterior.keeps_state
        self.has_exact_probabilities = posterior.has_exact_probabilities

    @property
    def coefficients(self) -> Belief:
        """What is known of the (N, d) coefficients."""
        return self.posterior

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw of the means."""
        predictors = self.posterior.draw_predictors(rng, self.features)
        return np.asarray(self.problem.link.mean(predictors))

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws of the means."""
        name, shape = f"{type(self.posterior).__name__}.sample_many", self.features[:, 0].shape
        draws = check_returned(name, self.posterior.sample_many(rng, size), (size, *shape))
        return np.asarray(self.problem.means(draws, self.features))

    def draw_best(self, rng: Generator, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N,) arms with the largest predictor, as means may be equal by rounding."""
        features = self.features
        if available is not None:
            features = np.where(available[..., None], features, np.nan)
        return self.posterior.draw_best_arms(rng, features)

    def weighted_draws(self) -> WeightedDraws:
        """Return draws of the means: those of the coefficients, under the features."""
        draws = self.posterior.weighted_draws()
        predictors = self.problem.predictors(draws.means, self.features[:, None])
        means = self.problem.link.mean(predictors)
        return WeightedDraws(means, draws.log_weights, draws.efficiency, predictors)

    def doubts(self) -> np.ndarray:
        """Return (N,) why what is held may be wrong; see `Belief.doubts`."""
        return np.bitwise_or(self.posterior.doubts(), self._shortages)

    def diagnostics(self) -> dict[str, np.ndarray]:
        """Return those of the posterior, with what is doubted at these features."""
        return self.posterior.diagnostics() | super().diagnostics()


class ExactPosterior(Posterior):
    """A posterior that is a function of counts and sums, and answers by formulas or integrals.

    Attributes:
        counts: (N, K) of the evidence that it was last brought to.
    """

    keeps_state = False
    can_discount = True
    has_exact_probabilities = True
    counts: np.ndarray

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) inf, as nothing is drawn, but where an answer had to come from draws."""
        is_drawn = np.broadcast_to(self._shortages, len(self.counts)) != 0
        return np.where(is_drawn, NUM_ANSWER_DRAWS, np.inf)

    def doubts(self) -> np.ndarray:
        """Return (N,) zeros, but where an answer had to come from draws."""
        return np.bitwise_or(np.zeros(len(self.counts), dtype=np.int64), self._shortages)

    def _require_possible(self, is_impossible: np.ndarray, evidence: CountsAndSums) -> None:
        """Refuse data that have probability 0 under the prior in some of the (N,) lanes."""
        for lane in np.flatnonzero(is_impossible)[:1].tolist():
            where = f" in lane {lane}" if len(is_impossible) > 1 else ""
            counts, sums = evidence.counts[lane].tolist(), evidence.sums[lane].tolist()
            raise ValueError(
                f"the rewards{where} must be possible under problem.prior, got counts {counts} and "
                f"sums {sums}, whose probability is 0."
            )


def favour_missing_arms(
    is_missing: np.ndarray, probabilities: np.ndarray, available: np.ndarray | None = None
) -> np.ndarray:
    """Return (N, K) probabilities: in lanes with available improper arms uniform over these."""
    is_missing = is_missing if available is None else is_missing & available
    return np.where(is_missing.any(axis=1, keepdims=True), share_evenly(is_missing), probabilities)
