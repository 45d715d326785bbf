"""What a snapshot asks of others, and what those ask of it that show it.

Letters: K arms, N lanes, M places.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.random import Generator

from bandit_gym.problem import BanditProblem


class Held(Protocol):
    """A posterior as agents hold it; `agents.posteriors.base.Posterior` says what each means."""

    source: ClassVar[str]
    keeps_state: ClassVar[bool]

    def fork(self) -> Self:
        """Return a copy that may move on while this one stays as it is."""

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Bring every lane to (N, K) statistics."""

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws."""

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations."""

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations."""

    def quantile(self, p: float) -> np.ndarray:
        """Return the (N, K) quantiles."""

    def density(self, x: np.ndarray) -> np.ndarray:
        """Return the (M, N, K) densities at (M,) places."""

    def best_arm_probabilities(self) -> np.ndarray:
        """Return the (N, K) probabilities of having the largest mean."""


class Owner(Protocol):
    """An agent whose posterior is looked at."""

    problem: BanditProblem
    num_envs: int | None
    lane_counts: np.ndarray
    lane_sums: np.ndarray

    @property
    def rng(self) -> Generator:
        """The agent's own generator."""


class Shown(Protocol):
    """What tables, figures and ArviZ need of a snapshot, which says what each means."""

    num_envs: int | None
    counts: np.ndarray
    sums: np.ndarray
    source: str

    def mean(self) -> np.ndarray:
        """Return the expectations."""

    def quantile(self, p: Any) -> np.ndarray:
        """Return quantiles."""

    def interval(self, confidence: float) -> np.ndarray:
        """Return the ends of central intervals."""

    def density(self, x: Any) -> np.ndarray:
        """Return densities."""

    def best_arm_probabilities(self) -> np.ndarray:
        """Return the probabilities of having the largest mean."""

    def sample(self, size: int, *, seed: int | None) -> np.ndarray:
        """Return draws of the means."""

    def predictive(self, size: int, *, seed: int | None) -> np.ndarray:
        """Return draws of rewards."""
