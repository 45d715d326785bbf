"""The contract of a posterior, and the agent that is one posterior and one rule.

A posterior is what is known of the K means in each of N lanes, after (N, K) counts and sums. Kinds
differ in how they hold it: as parameters, tables, chains, particles or weighted draws. Rules use
only the methods below, so any rule works on any posterior that has what it needs. What a kind
cannot answer, it refuses in one sentence.

Queries never advance the agent's generator. Posteriors that must sample for an answer use a fixed
generator of their own.

Letters: K arms, N lanes.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator

from agents.base import Agent
from agents.base.table_1 import require_draws
from agents.numerics.choices import random_argmax, share_evenly
from agents.posteriors.weighted_draws import WeightedDraws, best_arm_error
from bandit_gym.checks import message
from bandit_gym.checks.doubts import Doubt
from bandit_gym.problem import BanditProblem


class Posterior(ABC):
    """What is known of the (N, K) means, given the statistics it was last told to follow.

    Attributes:
        counts: (N, K) pulls that are followed.
        source: what its answers are taken from, in words.
        keeps_state: whether lanes hold more than follows from the statistics.
        state_names: the attributes that a saved agent needs beside the statistics.
        can_forget: whether it can follow statistics that fade or leave again.
        grows: True if the statistics never fade or shrink, so equal counts mean equal data.
    """

    counts: np.ndarray
    source: ClassVar[str]
    keeps_state: ClassVar[bool] = False
    state_names: ClassVar[tuple[str, ...]] = ()
    can_forget: ClassVar[bool] = False
    grows: bool = True
    _shortages: np.ndarray | int = 0

    def restart(self, rng: Generator, mask: np.ndarray) -> None:  # noqa: B027  # most keep nothing
        """Forget what the (N,) masked lanes hold beside the statistics; another N starts anew."""

    @abstractmethod
    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Bring every lane to its data.

        Kinds that are functions of the statistics only take note of them; chains and particles
        move the state that they keep for each lane.

        Args:
            rng: source of randomness, where following takes any.
            counts: (N, K) pulls so far. It is not copied: call `follow` again after changing it.
            sums: (N, K) total rewards so far, likewise.
        """

    @abstractmethod
    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw of the means. An arm without a proper posterior has mean inf."""

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws of the means; of a chain, one after the other."""
        return np.array([self.sample(rng) for _ in range(size)])

    def draw_best(self, rng: Generator) -> np.ndarray:
        """Return the (N,) arms that are best in one draw, ties broken at random.

        Kinds may fuse the two steps; the law is that of the best arm of `sample`.
        """
        return random_argmax(rng, self.sample(rng))

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations of the means; inf for improper laws."""
        return self._draws().mean().reshape(self.counts.shape)

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations of the means; inf for improper laws."""
        return self._draws().std().reshape(self.counts.shape)

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles of the means; inf for an arm without a proper posterior.

        Args:
            p: probabilities in (0, 1) that broadcast to (N, K).
        """
        draws = self._draws()
        levels = np.broadcast_to(p, self.counts.shape).reshape(len(draws.means), -1)
        self._note_shortage(draws.is_beyond(levels))
        return draws.quantile(levels).reshape(self.counts.shape)

    @abstractmethod
    def best_arm_probabilities(self) -> np.ndarray:
        """Return the (N, K) probabilities that each arm has the largest mean."""

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) how many independent draws answers are worth; inf where they are of laws."""
        return np.full(len(self.counts), np.inf)

    def best_arm_error(self) -> np.ndarray:
        """Return (N,) twice the total variation to expect of `best_arm_probabilities`, by chance.

        It is 0 where these are computed from laws, to the accuracy of those.
        """
        return best_arm_error(self.best_arm_probabilities(), self.effective_sample_size())

    def _note_shortage(self, is_short: np.ndarray) -> None:
        """Remember where draws are too few for what was asked, (N,) or of populations, (N G,)."""
        in_lane = is_short.reshape(len(self.counts), -1).any(axis=1)
        doubts = np.where(in_lane, Doubt.FEW_EFFECTIVE_SAMPLES, 0)
        self._shortages = np.bitwise_or(self._shortages, doubts)

    def density(self, x: np.ndarray) -> np.ndarray:
        """Return the (M, N, K) densities of the means at (M,) places, where there are any.

        Raises:
            TypeError: if all that is held is draws.
        """
        raise TypeError(f"density must be asked of laws, got {self.source}; use sample.")

    def fork(self) -> Self:
        """Return a copy that may move on while this one stays as it is; they share the problem."""
        problem = getattr(self, "problem", None)
        return copy.deepcopy(self, {id(problem): problem})

    def best_arm_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what to expect of every arm if a given arm is best; tables and chains can.

        Returns:
            (N, K) probabilities that each arm is best, and (N, K, K) expectations of the means,
            those of arm i if arm a is best at [lane, a, i].

        Raises:
            NotImplementedError: if this kind cannot tell.
        """
        raise NotImplementedError(
            f"best_arm_moments must be asked of a grid or Gibbs posterior, got {self!r}."
        )

    def shortfall(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how likely the means are to be at most a level, and by how much they fall short.

        Args:
            level: (N, K) means.

        Returns:
            (N, K) P(mean <= level), and its integral up to the level, (N, K) E(level - mean)^+.

        Raises:
            NotImplementedError: if this kind cannot tell.
        """
        raise NotImplementedError(f"shortfall must be asked of an exact posterior, got {self!r}.")

    def _draws(self) -> WeightedDraws:
        """Return weighted draws, from which kinds that hold no laws answer."""
        raise NotImplementedError(f"{self.source} must answer for themselves.")

    def doubts(self) -> np.ndarray:
        """Return (N,) why what is held may be wrong, as a sum of `bandit_gym.checks.doubts.Doubt`.

        Kinds that can detect their errors add to this: whether draws were too few for what was
        asked of them since the last data.
        """
        return np.bitwise_or(np.zeros(len(self.counts), dtype=np.int64), self._shortages)

    def is_unreliable(self) -> np.ndarray:
        """Return (N,) True where there is a doubt."""
        return self.doubts() != 0


class PosteriorAgent(Agent):
    """An agent that is a posterior and, in its subclasses, a rule.

    Diagnostics: `doubts`, why its posterior cannot vouch for what it holds, as a sum of
    `bandit_gym.checks.doubts.Doubt`; `is_unreliable`, where there are any.

    Attributes:
        inner: the posterior; `up_to_date` is how rules get at it.
    """

    state_names: ClassVar[tuple[str, ...]] = ("inner",)

    def __init__(self, problem: BanditProblem, inner: Posterior) -> None:
        super().__init__(problem)
        if inner.keeps_state:  # it begins with draws of the prior
            require_draws(problem.prior)
        self.inner = inner

    def up_to_date(self) -> Posterior:
        """Return the posterior after all that was observed; diagnostics tell if it is unsure."""
        self._require_reset()
        self.inner.follow(self.rng, self.lane_counts, self.lane_sums)
        self._note_doubts()
        return self.inner

    def _note_doubts(self) -> None:
        doubts = self.inner.doubts()
        self._diagnostics = {"doubts": doubts, "is_unreliable": doubts != 0}

    def _restart(self, mask: np.ndarray) -> None:
        self.inner.restart(self.rng, mask)

    def _held(self) -> Posterior:
        return self.inner

    def _let_forget(self) -> None:
        require_forgetting(self.problem, self.inner)

    def _aside(self) -> Self:
        twin = super()._aside()
        if self.inner.keeps_state:
            twin.inner = self.inner.fork()
        return twin


def missing_first(is_missing: np.ndarray, law: np.ndarray) -> np.ndarray:
    """Return the (N, K) law, or in lanes with improper arms the uniform law over these."""
    return np.where(is_missing.any(axis=1, keepdims=True), share_evenly(is_missing), law)


def require_forgetting(problem: BanditProblem, posterior: Posterior | None) -> None:
    """Prepare a posterior for statistics that fade or leave again, or refuse to."""
    if posterior is not None:
        if not posterior.can_forget:
            condition = "be conjugate, or independent across arms, for an exact agent that forgets"
            raise ValueError(message("problem.prior", condition, problem.prior))
        posterior.grows = False
