"""The agent that is one posterior and one rule.

Notation: K arms, N lanes.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator

from agents.base import Agent
from agents.base.evidence import MAX_STATISTICS
from agents.base.threads import atomic
from agents.numerics.choices import raise_to_floor
from agents.posteriors.base import NUM_ANSWER_DRAWS, Belief, Posterior, count_answer_draws
from agents.posteriors.factory import make_posterior
from agents.posteriors.weighted_draws import WeightedDraws
from agents.snapshots.snapshot import PosteriorSnapshot
from bandit_gym.checks import (
    check_features,
    check_integer,
    check_returned,
    is_project_class,
    message,
)
from bandit_gym.doubts import Doubt
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem, check_problem

MIN_COMPARED, MAX_COMPACT_ERROR = 100, 0.01
"""Visitors at whom decisions are compared before rows are left out, and by how much they may differ
in total variation."""

MAX_RELATIVE_ERROR, MIN_CHECKED = 0.1, 0.001
"""Of probabilities above the second, beyond which there is a warning where errors are asked for."""


class PosteriorAgent(Agent):
    """An agent that is a posterior and, in its subclasses, a rule.

    Diagnostics: `doubts`, why its posterior may be wrong, as a sum of
    `bandit_gym.doubts.Doubt`; `is_unreliable`, where there are any; and what else the kind
    of posterior says.

    Arguments:
        problem: likelihood and prior.
        posterior: what its rule asks, see `agents.posteriors.factory.make_posterior`; None if it
            asks none.
        discount: see `Agent`.
        window: see `Agent`.

    Attributes:
        uses_draws: whether its rule draws from the belief, so that its propensities are exact only
            where best-arm probabilities are. A rule that does not says False.
    """

    state_names: ClassVar[tuple[str, ...]] = ("_posterior",)
    uses_draws: ClassVar[bool] = True
    _posterior: Any  # None if the rule asks none; `belief` is how rules get at it
    _last_belief: Belief | None = None  # that the last decision was made on

    def __init__(
        self,
        problem: BanditProblem,
        *,
        posterior: Any = "exact",
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        super().__init__(problem, discount=discount, window=window)
        self._posterior = None
        if posterior is None:
            self.takes_values = False
            return
        self._posterior = make_posterior(check_problem(problem), posterior)
        name = type(self._posterior).__name__
        if self._has_features and not self._posterior.takes_features:
            condition = "be one of coefficients, which says takes_features = True"
            raise ValueError(message("posterior", condition, name))
        if self._posterior.takes_features and not self._has_features:
            condition = f"have features for {name}, which says takes_features = True"
            raise ValueError(message("problem", condition, problem))
        if not (self.evidence.is_cumulative or self._posterior.can_discount):
            condition = "be one that can follow a discount or a window"
            others = "'racing' and 'laplace'" if self._has_features else "tables and 'smc'"
            remedy = f"conjugate posteriors, {others} can"
            raise ValueError(message("posterior", condition, name, remedy))
        if self.uses_draws:
            self.has_exact_probabilities = self._posterior.has_exact_probabilities
        # Prices and orders of draws know nothing of arms that come first.
        if self.uses_draws and self._posterior.favours_unpulled:
            self.takes_values = self.takes_top = False

    @property
    def max_lanes(self) -> int:
        """How many lanes it can be asked for: posteriors may need more memory than statistics."""
        max_of_posterior = MAX_STATISTICS if self._posterior is None else self._posterior.max_lanes
        return min(super().max_lanes, max_of_posterior)

    @atomic
    def compact(self, max_rows: int, *, observation: Any) -> float:
        """Let a normal approximation stand for the older rows, if decisions stay what they are.

        A single run then needs time and memory for at most so many rows, those that came first in
        last. It is done if the total variation between the best-arm probabilities before and after
        is at most 0.01 at each of the visitors that are given, by its upper limit in 10,000 draws,
        and refused otherwise. Later decisions are not covered: what is left out stays left out,
        and matters more where rewards to come disagree with those before.

        Args:
            max_rows: most rows that stay, at least 1.
            observation: (n, K, d) features of at least 100 visitors, or their numbers, as for
                `act`: such as will come.

        Returns:
            The largest upper limit among these visitors.

        Raises:
            TypeError: if the posterior is no race of coefficients with a normal prior.
            ValueError: if there are lanes, rewards are forgotten anyway, visitors are too few or
                the approximation is not good enough.
        """
        self._require_reset()
        size, condition = self._find_size(observation, None) or 0, ""
        if self.num_envs is not None or self._posterior is None or not self._has_features:
            condition = "be asked of a single run of a race with features"
        elif not self.evidence.is_cumulative:
            condition = "be left out beside a discount or a window, which bound rows themselves"
        if condition:
            raise ValueError(message("compact", condition, type(self).__name__))
        if size < MIN_COMPARED:
            condition = f"be features of at least {MIN_COMPARED} visitors"
            raise ValueError(message("observation", condition, size))
        max_rows = check_integer("max_rows", max_rows, minimum=1)
        problem: Any = self.problem
        placed = problem.place(observation, size)
        features = check_features(placed, problem.num_features, size)
        self._find_diagnostics()
        self._posterior.update(self.rng, self.evidence)
        evidence, error = self._posterior.compact(self.evidence, max_rows, features)
        if not error <= MAX_COMPACT_ERROR:
            condition = f"be enough for a total variation of at most {MAX_COMPACT_ERROR}"
            text = f"its upper limit is {error:.2g}"
            raise ValueError(message("max_rows", condition, max_rows, text))
        if evidence is not self.evidence:
            self.evidence = evidence
            self._posterior.start(self.rng, self.num_lanes)
        return error  # type: ignore[no-any-return]

    def _refuse_learner(self, name: str) -> None:
        if not self.can_warm_start:
            condition = f"be one that does without learn, for {name}, where no reward is known"
            raise TypeError(message("posterior", condition, type(self._posterior).__name__))

    @property
    def can_warm_start(self) -> bool:
        """Whether totals say all that it needs: not where its posterior learns single rewards."""
        return self._posterior is None or type(self._posterior).learn is Posterior.learn

    def belief(self) -> Belief:
        """Return what is known after all that was observed, for a rule within a decision.

        Features are those of the last `act`, where the problem has them. It changes with the agent;
        `posterior` is for everybody else.
        """
        features = self._features(None) if self._has_features else None
        evidence = self.evidence
        if not (self._has_features or is_project_class(type(self._posterior))):
            evidence = evidence.view_read_only()
        self._posterior.update(self.rng, evidence)
        belief = self._posterior.predict(features)
        if self._prices:
            belief = PricedBelief(belief, *self._prices)
        self._last_belief = belief
        self._diagnostics = None
        if self.uses_draws:
            self.has_exact_probabilities = belief.has_exact_probabilities
        return belief

    def _warn_of_doubts(self) -> None:
        if self.has_exact_probabilities and not np.count_nonzero(self._find_missed()):
            return
        doubts = self._find_diagnostics().get("doubts", np.zeros(1, dtype=np.int64))
        if doubts.any():
            error = self._last_belief.best_arm_error()  # type: ignore[union-attr]
            error = error[np.broadcast_to(doubts, error.shape) != 0].max()
            text = (
                f"{type(self).__name__}.action_probabilities rests on a posterior that is doubted "
                f"({Doubt(np.bitwise_or.reduce(doubts)).words}), and may be off by more than "
                f"{error:.2g}; see agent.posterior().doubts."
            )
            warnings.warn(text, RuntimeWarning, stacklevel=4)  # the caller of action_probabilities

    @atomic
    def posterior(self, observation: Any = None) -> PosteriorSnapshot:
        """Return what is known of the means now, see `Agent.posterior`."""
        if self._posterior is None:
            super().posterior()
        self._require_reset()
        is_asked = self._has_features and observation is not None
        return PosteriorSnapshot(self, self._features(observation) if is_asked else None)

    def _features(self, observation: Any) -> np.ndarray:
        """Return (N, K, d) features, those of the last decision for None."""
        last: np.ndarray = self.evidence.decision_features
        if observation is None and last.size:
            return last
        placed = self.problem.place(observation, self.num_envs)  # type: ignore[attr-defined]
        return check_features(placed, last.shape[2], self.num_envs)

    def _find_diagnostics(self) -> dict[str, np.ndarray]:
        """Return what the belief of the last decision says, which stays as it is until the next.

        Of particles that takes as long as a decision, so only those who ask wait for it.
        """
        if self._diagnostics is None:
            self._diagnostics = self._last_belief.diagnostics()  # type: ignore[union-attr]
        return self._diagnostics

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle diagnostics too: they may rest on tables, which are left out."""
        self._find_diagnostics()
        return super().__getstate__()

    def _start(self) -> None:
        if self._posterior is not None:
            if self.uses_draws:  # the last belief may have been priced
                self.has_exact_probabilities = self._posterior.has_exact_probabilities
            self._posterior.start(self.rng, self.num_lanes)
            if not self._has_features:
                self._posterior._shape = self.num_lanes, self._num_arms

    def _restart(self, mask: np.ndarray) -> None:
        if self._posterior is not None:
            self._find_diagnostics()  # while the posterior is the one that decided
            self._posterior.restart(self.rng, mask)

    def _learn(self, lanes: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        if self._posterior is not None:
            self._posterior.learn(self.rng, lanes, actions, rewards)

    def _find_errors(self, size: int | None, probabilities: np.ndarray, floor: float) -> np.ndarray:
        if self.has_exact_probabilities:
            largest = np.where(self._find_missed(), NUM_ANSWER_DRAWS**-0.5 / 2, 0.0)
            return np.broadcast_to(largest[:, None], probabilities.shape)
        estimates = [raised := raise_to_floor(probabilities, floor, *self._available)]
        for seed in self._posterior.other_seeds:
            self._posterior.pool_seed = seed
            found = self._find_probabilities(size)
            estimates.append(raise_to_floor(found, floor, *self._available))
        if len(estimates) > 1:
            errors = np.std(estimates, axis=0, ddof=1)
        else:
            draws = self._last_belief._count_independent_draws()[:, None]  # type: ignore[union-attr]
            errors = np.sqrt((probabilities * (1 - probabilities) + 1 / draws) / draws)
            is_low = probabilities + 2 * errors < floor  # where the floor is exact
            errors = np.where(is_low, 0.0, errors)
        if (errors > MAX_RELATIVE_ERROR * raised)[raised > MIN_CHECKED].any():
            text = (
                f"{type(self).__name__}.action_probabilities has standard errors above "
                f"{MAX_RELATIVE_ERROR:.0%} of probabilities above {MIN_CHECKED}."
            )
            warnings.warn(text, RuntimeWarning, stacklevel=4)
        return errors

    def _find_missed(self) -> np.ndarray:
        """Return (N,) lanes in which draws had to answer, of beliefs that compute probabilities."""
        if not self.uses_draws or self._last_belief is None or self._posterior.keeps_state:
            return np.zeros(1, dtype=bool)
        belief = getattr(self._last_belief, "exact", self._last_belief)  # of a race, what answers
        return np.atleast_1d(np.not_equal(belief._shortages, 0))

    def _prepare_decision(self, size: int | None) -> None:
        super()._prepare_decision(size)
        if self._posterior is not None:
            self.belief()
            self._posterior.renew_draws(self.rng)

    def _take_diagnostics(self, asked: Self) -> None:
        self._last_belief, self._diagnostics = asked._last_belief, asked._diagnostics

    def _copy_agent(self, keeps_draws: bool = False) -> Self:
        copied = super()._copy_agent()
        if self._posterior is not None:
            copied._posterior = self._posterior.fork_for_decision(self.evidence, keeps_draws)
            if copied._posterior is self._posterior and not keeps_draws:
                self._find_diagnostics()  # of the last `act`: what is asked starts its notes anew
        return copied


NUM_DRAWS = 2**14
"""Draws of a posterior that is known, to compare values of arms."""


class PricedBelief(Belief):
    """What is known of values * means - costs at a decision, where arms have these.

    A rule asks this belief as it asks that of the means: the map is affine and, with values above
    0, increasing, so that moments and quantiles are mapped. Which arm is best is another question
    than that of the means: it is asked of distributions where these are known, else of weighted
    draws.

    Arguments:
        belief: about the (N, K) means.
        values: (N, K) above 0.
        costs: (N, K).
    """

    def __init__(self, belief: Belief, values: np.ndarray, costs: np.ndarray) -> None:
        self.belief, self.values, self.costs = belief, values, costs
        self.source, self.keeps_state = belief.source, belief.keeps_state
        self.has_exact_probabilities = belief.has_exact_priced_probabilities

    def _map(self, means: np.ndarray) -> np.ndarray:
        """Return what (..., N, K) means are worth."""
        return self.values * means - self.costs

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw."""
        name = f"{type(self.belief).__name__}.sample"
        return self._map(check_returned(name, self.belief.sample(rng), self.values.shape))

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws."""
        return self._map(self.belief.sample_many(rng, size))

    def weighted_draws(self) -> WeightedDraws:
        """Return those of the means, mapped; of a posterior that is known there are more."""
        if self.belief.has_exact_probabilities and not self.belief.keeps_state:
            size = count_answer_draws(NUM_DRAWS, self.values.size)
            means = self.sample_many(make_generator("draws for answers"), size).swapaxes(0, 1)
            return WeightedDraws(means, np.zeros(means.shape[:2]))
        draws = self.belief.weighted_draws()
        means = self.values[:, None] * draws.means - self.costs[:, None]
        return WeightedDraws(means, draws.log_weights, draws.efficiency)

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations."""
        return self._map(self.belief.mean())

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations."""
        return self.values * self.belief.std()

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles."""
        return self._map(self.belief.quantile(p))

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) probabilities that an arm is worth most."""
        known = self.belief.priced_probabilities(self.values, self.costs, 1, available)
        if known is None:
            return super().best_arm_probabilities(available)
        return self._answer_missed(known[:, 0], WeightedDraws.best_arm_probabilities, available)

    def position_probabilities(self, top: int, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, top, K) probabilities of each place."""
        known = self.belief.priced_probabilities(self.values, self.costs, top, available)
        if known is None:
            return super().position_probabilities(top, available)
        return self._answer_missed(known, WeightedDraws.position_probabilities, top, available)

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) how many draws answers about best arms are worth."""
        return np.asarray(self._draws().effective_sample_size())

    def doubts(self) -> np.ndarray:
        """Return (N,) why what is held may be wrong."""
        return np.bitwise_or(self.belief.doubts(), self._shortages)

    def diagnostics(self) -> dict[str, Any]:
        """Return those of the belief about the means, with what is doubted here."""
        return self.belief.diagnostics() | super().diagnostics()
