"""Thompson sampling from weighted particles (Section 3 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agents.base import Agent, random_argmax
from bandit_gym.checks import check_integer
from bandit_gym.problem import BanditProblem


class SMCThompson(Agent):
    """Draw one of P prior particles in proportion to its likelihood and pull its best arm.

    The particles are drawn from the prior once and only ever reweighted: the paper's baseline. As
    data accumulate, fewer and fewer particles carry the weight, and the agent ends up certain of
    an arm for no good reason; `effective_sample_size` shows it.

    Arguments:
        problem: likelihood and prior.
        num_particles: P >= 1, or a sequence of them: entry t is how many of the particles take
            part after t pulls, and the last entry holds from there on. The paper gives SMC as many
            particles as Racing drew samples at the same step.

    Diagnostics: `num_samples` (particles taking part), `effective_sample_size` of their weights,
    `is_degenerate` (every particle rules out the data; the arm was drawn from all particles alike).

    References:
        Gopalan, Mannor and Mansour (2014); Doucet, de Freitas and Gordon (2001).
    """

    def __init__(
        self, problem: BanditProblem, *, num_particles: int | Sequence[int] = 1000
    ) -> None:
        super().__init__(problem)
        self.num_particles = num_particles
        sizes = [num_particles] if isinstance(num_particles, int) else list(num_particles)
        checked = [check_integer("num_particles", size, minimum=1) for size in sizes]
        if not checked:
            raise ValueError("num_particles must not be empty, got [].")
        self._schedule = np.array(checked)

    def _restart(self, mask: np.ndarray) -> None:
        shape = (self.num_lanes, int(self._schedule.max()))
        if mask.all():
            self._particles = np.empty((*shape, self.problem.num_arms))
            self._log_weights = np.empty(shape)
            self._best_arms = np.empty(shape, dtype=np.int64)
        lanes = np.flatnonzero(mask)
        fresh = self.problem.prior.sample(self.rng, (len(lanes), *self._particles.shape[1:]))
        self._particles[lanes] = fresh
        self._log_weights[lanes] = 0.0
        flat = fresh.reshape(-1, self.problem.num_arms)
        self._best_arms[lanes] = random_argmax(self.rng, flat).reshape(-1, shape[1])

    def _learn(self, lanes: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        means = self._particles[lanes, :, actions]
        log_likelihood = self.problem.likelihood.log_likelihood
        self._log_weights[lanes] += log_likelihood(means, 1, rewards[:, None])

    def _absorb(self, counts: np.ndarray, sums: np.ndarray) -> None:
        log_likelihood = self.problem.likelihood.log_likelihood
        for arm in range(self.problem.num_arms):
            self._log_weights += log_likelihood(
                self._particles[:, :, arm], counts[:, arm, None], sums[:, arm, None]
            )

    def _choose(self) -> np.ndarray:
        step = np.minimum(self.counts.sum(axis=1), len(self._schedule) - 1)
        sizes = self._schedule[step]
        takes_part = np.arange(self._log_weights.shape[1]) < sizes[:, None]
        log_weights = np.where(takes_part, self._log_weights, -np.inf)
        top = log_weights.max(axis=1, keepdims=True)
        is_degenerate = np.isneginf(top[:, 0])
        weights = np.where(
            is_degenerate[:, None], takes_part, np.exp(log_weights - np.where(is_degenerate[:, None], 0, top))
        )
        cumulative = np.cumsum(weights, axis=1)
        targets = (1 - self.rng.random((self.num_lanes, 1))) * cumulative[:, -1:]
        particles = np.argmax(cumulative >= targets, axis=1)
        self._diagnostics = {
            "num_samples": sizes,
            "effective_sample_size": cumulative[:, -1] ** 2 / np.square(weights).sum(axis=1),
            "is_degenerate": is_degenerate,
        }
        return self._best_arms[np.arange(self.num_lanes), particles]
