"""Ensemble sampling: models that each see the rewards with noise of their own; one is picked.

Lu and Van Roy (2017), "Ensemble Sampling". Each model begins at a draw of the prior and is updated
as if prior and rewards were normal, with their moments. Some tens of models are what they try and
find to do; 30 is this study's choice. Models are kept for a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base import Agent
from agents.numerics.choices import random_argmax
from bandit_gym.problem import BanditProblem
from outsiders.target import prior_moments

NUM_MODELS = 30


class EnsembleSampling(Agent):
    """Play the best arm of one of the models, drawn at random."""

    def __init__(self, problem: BanditProblem, *, num_models: int = NUM_MODELS) -> None:
        super().__init__(problem)
        self.num_models = num_models
        mean, variance = prior_moments(problem)
        self.noise = problem.likelihood.reward_std(mean) ** 2
        self.weight = self.noise / variance

    def _restart(self, mask: np.ndarray) -> None:
        shape = (self.num_lanes, self.num_models, self.problem.num_arms)
        if not hasattr(self, "starts") or self.starts.shape != shape:
            self.starts, self.shifts = np.zeros(shape), np.zeros(shape)
        self.starts[mask] = self.problem.prior.sample(self.rng, shape)[mask]
        self.shifts[mask] = 0.0

    def _learn(self, lanes: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        noise = self.rng.standard_normal((len(lanes), self.num_models))
        self.shifts[lanes, :, actions] += np.sqrt(self.noise[actions])[:, None] * noise

    def warm_start(self, counts: Any, sums: Any) -> None:
        """Add earlier data; the noise of so many rewards is drawn at once."""
        before = self.counts.copy()
        super().warm_start(counts, sums)
        spread = np.sqrt((self.counts - before) * self.noise)[:, None]
        self.shifts += spread * self.rng.standard_normal(self.shifts.shape)

    def _choose(self) -> np.ndarray:
        chosen = self.rng.integers(self.num_models, size=self.num_lanes)
        lanes = np.arange(self.num_lanes)
        start, shift = self.starts[lanes, chosen], self.shifts[lanes, chosen]
        models = (self.weight * start + self.sums + shift) / (self.weight + self.counts)
        return random_argmax(self.rng, models)

    def _law(self) -> np.ndarray:
        sums, counts = self.sums[:, None], self.counts[:, None]
        models = (self.weight * self.starts + sums + self.shifts) / (self.weight + counts)
        is_best = models == models.max(axis=-1, keepdims=True)
        return (is_best / is_best.sum(axis=-1, keepdims=True)).mean(axis=1)
