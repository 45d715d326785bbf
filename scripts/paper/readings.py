"""The readings of the paper: what it leaves open about a race, as the columns of a matrix.

The bound of its stop as printed or shortened, what v is divided by before the bound applies, what m
counts, and what a race draws from. A stop that knows no scale reads only the last.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from agents import RacingThompson
from agents.racing.stopping import Paper, threshold_function
from bandit_gym.problem import BanditProblem

THRESHOLDS = ("printed", "shortened")
SCALES = ("value", "weight", "supremum")

PROPOSALS = ("reference", "matched")


class Reading(NamedTuple):
    """One way to read Algorithm 2.

    Attributes:
        proposal: what a race draws from, "reference" (Table 1) or "matched".
        threshold: the bound, "printed" or "shortened"; None with the self-normalised stop.
        scale: what v is divided by; None with the self-normalised stop.
        divisor: what m counts, "printed" (one more than the draws) or "draws".
    """

    proposal: str
    threshold: str | None = None
    scale: str | None = None
    divisor: str = "printed"

    @property
    def name(self) -> str:
        """What tables call it."""
        stop = [self.threshold, self.scale] if self.has_paper_stop else ["self-normalised"]
        divisor = ["by draws"] if self.divides_by_draws else []
        return ", ".join([*map(str, stop), *divisor, self.proposal])

    @property
    def has_paper_stop(self) -> bool:
        """Whether races end by line 12 of Algorithm 2, which reads bound, scale and sigma."""
        return self.threshold is not None

    @property
    def divides_by_draws(self) -> bool:
        """Whether m counts the draws, where Algorithm 2 has one more."""
        return self.divisor == "draws"

    @property
    def make(self) -> type[RacingThompson]:
        """The class of its agent."""
        return RacingByDraws if self.divides_by_draws else RacingThompson

    def options(self, *, delta: float = 0.1, sigma: float = 0.1) -> dict[str, Any]:
        """Return the options of its agent; the paper has delta = sigma = 0.1."""
        options = {"proposal": self.proposal, "delta": delta}
        if not self.has_paper_stop:
            return options
        stop = {"stopping": "paper", "threshold": self.threshold, "scale": self.scale}
        return options | stop | {"sigma": sigma}

    def entry(self, **options: float) -> dict[str, Any]:
        """Return the agent as an experiment names it; options are those of `options`."""
        agent = f"{__name__}:{self.make.__name__}" if self.divides_by_draws else "racing"
        return {"agent": agent, "label": self.name} | self.options(**options)


class RacingByDraws(RacingThompson):
    """The race whose m is the number of its draws, in the averages and in the threshold."""

    def __init__(self, problem: BanditProblem, **options: Any) -> None:
        super().__init__(problem, **options)
        stop = self.stopping
        assert isinstance(stop, Paper)
        m = np.arange(1.0, stop.max_samples + 1)  # line 12 for averages over m draws, not m + 1
        gaps = 2 * threshold_function(stop.threshold, m, stop.delta) - stop.sigma
        self._bars = self._bars._replace(gaps=np.append(np.inf, gaps * m / (m + 1)))


READINGS = (
    *(Reading(*each) for each in product(PROPOSALS, THRESHOLDS, SCALES)),
    *(Reading("reference", *each, "draws") for each in product(THRESHOLDS, SCALES)),
    *(Reading(proposal) for proposal in PROPOSALS),
)
