"""The contract of a posterior, and the agent that is one posterior and one rule.

A posterior is what is known of the K means in each of N lanes, after (N, K) counts and sums. Kinds
differ in how they hold it: as parameters, tables, chains, particles or weighted draws. Rules ask
for what is here and nothing else, so that any rule works on any posterior that gives what it needs;
what a kind cannot give, it refuses in one sentence.

Asking never moves the generator of an agent: kinds that have to draw for an answer draw from a
fixed generator of their own, so that the answer is a function of problem, data and state.

Letters: K arms, N lanes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.random import Generator

from agents.base import Agent, random_argmax
from bandit_gym.problem import BanditProblem


class Posterior(ABC):
    """What is known of the (N, K) means, given the statistics it was last told to follow.

    Attributes:
        counts: (N, K) pulls that are followed.
    """

    counts: np.ndarray

    def restart(self, rng: Generator, mask: np.ndarray) -> None:  # noqa: B027  # most keep nothing
        """Forget what the (N,) masked lanes hold beside the statistics; another N starts anew."""

    @abstractmethod
    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Bring every lane to its data.

        Kinds that are functions of the statistics only take note of them; chains and particles
        move the state that they keep for each lane.

        Args:
            rng: source of randomness, where following takes any.
            counts: (N, K) pulls so far. Not copied: to be followed again after any change.
            sums: (N, K) total rewards so far, likewise.
        """

    @abstractmethod
    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw of the means. An arm without a proper posterior is at infinity."""

    def draw_best(self, rng: Generator) -> np.ndarray:
        """Return the (N,) arms that are best in one draw, ties broken at random.

        Kinds may fuse the two steps; the law is that of the best arm of `sample`.
        """
        return random_argmax(rng, self.sample(rng))

    @abstractmethod
    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations of the means; inf where they are, as for improper laws."""

    @abstractmethod
    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations of the means; inf where they are."""

    @abstractmethod
    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles of the means; inf for an arm without a proper posterior.

        Args:
            p: probabilities in (0, 1) that broadcast to (N, K).
        """

    @abstractmethod
    def best_arm_probabilities(self) -> np.ndarray:
        """Return the (N, K) probabilities that each arm has the largest mean."""

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

    def is_unreliable(self) -> np.ndarray:
        """Return (N,) True where what is held may miss some of the posterior, and so be wrong.

        A kind that can tell overrides this: right is a total variation of at most 0.02 from the
        true law of the best arm.
        """
        return np.zeros(len(self.counts), dtype=bool)


class PosteriorAgent(Agent):
    """An agent that is a posterior and, in its subclasses, a rule.

    Diagnostics: `is_unreliable`, where its posterior cannot vouch for what it holds.

    Attributes:
        inner: the posterior; `up_to_date` is how rules get at it.
    """

    def __init__(self, problem: BanditProblem, inner: Posterior) -> None:
        super().__init__(problem)
        self.inner = inner

    def up_to_date(self) -> Posterior:
        """Return the posterior after all that was observed; diagnostics tell if it is unsure."""
        self._require_reset()
        self.inner.follow(self.rng, self.counts, self.sums)
        self._diagnostics = {"is_unreliable": self.inner.is_unreliable()}
        return self.inner

    def _restart(self, mask: np.ndarray) -> None:
        self.inner.restart(self.rng, mask)
