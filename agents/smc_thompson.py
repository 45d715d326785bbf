"""Thompson sampling from weighted particles, which are resampled and moved as data accumulate.

The paper (its Section 3) draws P particles from the prior, once, and only ever reweights them:
fewer and fewer carry the weight, and the agent ends up certain of an arm for no good reason.
`agents.posteriors.particles` describes the remedies.

Letters: K arms, N lanes, P particles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.posteriors.base import PosteriorAgent
from agents.posteriors.particles import ParticlePosterior
from bandit_gym.checks import check_choice, check_integer, message
from bandit_gym.problem import BanditProblem

RESAMPLING = ("never", "systematic")
MOVES = ("none", "random-walk")

MOST_PARTICLES = 10**7
"""In a lane; each takes 8 bytes an arm."""

MOST_VALUES = 5 * 10**8
"""Means of particles in all lanes together: 4 GB, and as much again for what is made of them."""


class SMCThompson(PosteriorAgent):
    """For each decision draw a vector of means from weighted particles, and pull its best arm.

    Arguments:
        problem: likelihood and prior.
        num_particles: P from 1 to 10 million. Without resampling also a sequence: entry t is how
            many of the particles take part after t pulls, and the last entry holds from there on.
            Twice as many halve the squared distance of a run's law from the posterior's, and cost
            1.5 to 2 times as much. With 500 the distance (total variation, ten arms, mean of 50
            runs after 30, 300 and 1,000 steps) is 0.014 under Beta(1, 1), 0.018 under a truncated
            normal and 0.027 in `DependentPriorBandit-v0`, for 37, 33 and 176 microseconds a step of
            one of 50 lanes; with 1,000 it is 0.009, 0.013 and 0.019.
        resampling: "systematic" renews a population when its effective sample size falls below
            P / 2; "never" is the paper's.
        move: "random-walk" follows each resampling with 3 sweeps of Metropolis steps, by turns
            along the principal axes of the population and arm by arm; "none" leaves the copies
            where they are. Without moves, resampling only delays the collapse.
        discount: in (0, 1], for environments that change. Each new reward multiplies the weight of
            the lane's earlier rewards by it. Only moves can restore values that resampling lost.
        window: w >= 1, to keep the last w rewards of a lane alone; None keeps all.

    Diagnostics: `num_samples` (particles taking part in a lane's decision), `effective_sample_size`
    (of the lane's poorest population), `is_degenerate` (every particle of some population has
    likelihood 0, so all get equal weight), `doubts` and `is_unreliable` (the particles may be worse
    than as many independent draws: few of them or of their ancestors carry the weight, they may
    miss a part of the prior, or too many data came at once).

    References:
        Gopalan, Mannor and Mansour (2014); Chopin (2002); Del Moral, Doucet and Jasra (2006).
    """

    _told: dict[str, np.ndarray] | None = None

    def __init__(
        self,
        problem: BanditProblem,
        *,
        num_particles: int | Sequence[int] = 500,
        resampling: str = "systematic",
        move: str = "random-walk",
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        schedule = _check_schedule(num_particles, resampling)
        check_choice("move", move, MOVES)
        inner = ParticlePosterior(
            problem,
            schedule,
            is_renewed=check_choice("resampling", resampling, RESAMPLING) != "never",
            is_moved=move == "random-walk",
        )
        super().__init__(problem, inner, discount=discount, window=window)
        self.inner: ParticlePosterior = inner
        self.num_particles = num_particles

    @classmethod
    def paper(
        cls, problem: BanditProblem, *, num_particles: int | Sequence[int] = 1000, prior: Any = None
    ) -> SMCThompson:
        """Return the paper's: particles that are weighed, and neither resampled nor moved.

        Args:
            problem: likelihood and prior.
            num_particles: see the class. The paper gives SMC as many particles as Racing drew
                samples at the same step.
            prior: see `Agent`.
        """
        options = {"resampling": "never", "move": "none", "prior": prior}
        return cls(problem, num_particles=num_particles, **options)

    @property
    def most_lanes(self) -> int:
        """How many lanes it can be asked for: each has all particles."""
        num_values = int(np.max(self.num_particles)) * self.problem.num_arms
        return min(super().most_lanes, max(1, MOST_VALUES // num_values))

    def _law(self) -> np.ndarray:
        return self.belief().best_arm_probabilities()

    def _choose(self) -> np.ndarray:
        return self.belief().draw_best(self.rng)

    def belief(self) -> ParticlePosterior:
        """Return the posterior after all that was observed; what it doubts is told when asked."""
        self._require_reset()
        self.inner.update(self.rng, self.evidence)
        self._told = None
        return self.inner

    @property
    def _diagnostics(self) -> dict[str, np.ndarray]:
        """How the last `act` went; the particles stay as they were then until the next.

        To find it takes as long as a decision in one lane.
        """
        if self._told is None:
            doubts = self.inner.doubts()
            self._told = {
                "doubts": doubts,
                "is_unreliable": doubts != 0,
                "num_samples": self.inner.num_taking_part(),
                "effective_sample_size": self.inner.effective_sample_size(),
                "is_degenerate": self.inner.is_degenerate(),
            }
        return self._told

    @_diagnostics.setter
    def _diagnostics(self, told: dict[str, np.ndarray]) -> None:
        self._told = told

    def _restart(self, mask: np.ndarray) -> None:
        self._diagnostics = self._diagnostics  # while the particles are those that decided
        super()._restart(mask)


def _check_schedule(num_particles: int | Sequence[int], resampling: str) -> list[int]:
    """Return numbers of particles after 0, 1, ... pulls."""
    is_sequence = isinstance(num_particles, Sequence | np.ndarray)
    is_sequence &= not isinstance(num_particles, str | bytes)
    sizes = list(num_particles) if is_sequence else [num_particles]  # type: ignore[arg-type]
    checked = [check_integer("num_particles", size, minimum=1) for size in sizes]
    if max(checked, default=0) > MOST_PARTICLES:
        condition = f"be at most {MOST_PARTICLES}"
        raise ValueError(message("num_particles", condition, max(checked)))
    if not checked or (len(checked) > 1 and resampling != "never"):
        raise ValueError(
            "num_particles must be one number, or a sequence of them where resampling is 'never', "
            f"got {num_particles!r} with {resampling!r}."
        )
    return checked
