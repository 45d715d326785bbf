"""Agents that are for this study alone: outsiders, and exact laws bent on purpose.

Letters: K arms, N lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agents import ExactThompson
from agents.base import Agent
from agents.numerics.choices import random_argmax
from bandit_gym.experiments.catalogue import load
from bandit_gym.fidelity.trial import SamplerAgent
from bandit_gym.problem import BanditProblem
from scripts.studies.outsiders import Target, fit

WAVERING = 0.1
"""Share of pulls of an arm drawn evenly from all."""


class Outsider(SamplerAgent):
    """Thompson sampling from somebody else's approximation.

    Args:
        problem: likelihood and prior.
        sampler: `module:name` of the approximation.
    """

    def __init__(self, problem: BanditProblem, *, sampler: str) -> None:
        super().__init__(problem, load(sampler), sampler)


class MeanField(Agent):
    """The outsider of that name where arms are independent and alike: one fit a reward will do.

    What it takes an arm's posterior to be depends on the arm's own rewards alone.
    """

    def __init__(self, problem: BanditProblem) -> None:
        super().__init__(problem)
        self.pair = BanditProblem(problem.likelihood, problem.prior, 2)  # no problem has one arm

    def _restart(self, mask: np.ndarray) -> None:
        if not hasattr(self, "centres") or self.centres.shape != self.counts.shape:
            self.centres, self.stds = np.zeros(self.counts.shape), np.zeros(self.counts.shape)
        centre, std = self._fit(np.zeros(1), np.zeros(1))
        self.centres[mask], self.stds[mask] = centre, std

    def _learn(self, lanes: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        found = self._fit(self.counts[lanes, actions], self.sums[lanes, actions])
        self.centres[lanes, actions], self.stds[lanes, actions] = found

    def _fit(self, counts: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the centres and standard deviations of any arms, given (M,) data of each."""
        pairs = (np.resize(values, (-(-len(values) // 2), 2)) for values in (counts, sums))
        centres, curvatures = fit(Target(self.pair, *pairs))
        return centres.ravel()[: len(counts)], (-curvatures.ravel()[: len(counts)]) ** -0.5

    def _choose(self) -> np.ndarray:
        noise = self.rng.standard_normal(self.centres.shape)
        return random_argmax(self.rng, self.centres + self.stds * noise)


class Again(ExactThompson):
    """Exact Thompson sampling with a stream of its own: another run in the same worlds.

    Args:
        problem: likelihood and prior.
        number: of the run.
    """

    def __init__(self, problem: BanditProblem, *, number: int) -> None:
        super().__init__(problem)
        self.number = number


class Agreeing(ExactThompson):
    """Pull what two draws of the posterior agree on: the exact law squared, and normalised.

    It leans to arms that are likely to be the best.
    """

    def _law(self) -> np.ndarray:
        squared = super()._law() ** 2
        return np.asarray(squared / squared.sum(axis=1, keepdims=True))

    def _choose(self) -> np.ndarray:
        chosen = np.full(self.num_lanes, -1)
        while (chosen < 0).any():
            first, second = super()._choose(), super()._choose()
            chosen = np.where((chosen < 0) & (first == second), first, chosen)
        return chosen


class Wavering(ExactThompson):
    """Exact Thompson sampling, but one pull in ten is of any arm: it leans away from the best."""

    def _law(self) -> np.ndarray:
        return np.asarray((1 - WAVERING) * super()._law() + WAVERING / self.problem.num_arms)

    def _choose(self) -> np.ndarray:
        chosen: Any = super()._choose()
        other = self.rng.integers(self.problem.num_arms, size=self.num_lanes)
        return np.where(self.rng.random(self.num_lanes) < WAVERING, other, chosen)
