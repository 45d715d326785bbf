"""Thompson sampling from weighted particles, which are resampled and moved as data accumulate.

The paper (its Section 3) draws P particles from the prior, once, and only ever reweights them:
fewer and fewer carry the weight, and the agent ends up certain of an arm for no good reason.
`agents.posteriors.particles` describes the remedies.

Notation: K arms, N lanes, P particles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.rules.thompson import Thompson
from bandit_gym.problem import BanditProblem


class SMCThompson(Thompson):
    """For each decision draw a vector of means from weighted particles, and pull its best arm.

    Arguments:
        problem: likelihood and prior.
        num_particles: P from 1 to 10 million. Without resampling also a sequence: entry t is how
            many of the particles take part after t pulls, and the last entry holds from there on.
            Twice as many halve the squared distance of a run's distribution from the posterior's,
            and cost 1.5 to 2 times as much. With 500 the distance (total variation, ten arms, mean
            of 50 runs after 30, 300 and 1,000 steps) is 0.014 under Beta(1, 1), 0.018 under a
            truncated normal and 0.027 in `DependentPriorBandit-v0`, for 37, 33 and 176 microseconds
            a step of one of 50 lanes; with 1,000 it is 0.009, 0.013 and 0.019.
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

    takes_features = False

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
        options = {"num_particles": num_particles, "resampling": resampling, "move": move}
        posterior = {"name": "smc", **options}
        super().__init__(problem, posterior=posterior, discount=discount, window=window)
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
