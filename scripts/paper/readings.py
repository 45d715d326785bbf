"""The readings of the paper: what it leaves open about a race, as the columns of a matrix.

The bound of its stop as printed or shortened, what v is divided by before the bound applies, and
what a race draws from. A stop that knows no scale reads neither bound nor scale.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

THRESHOLDS = ("printed", "shortened")
SCALES = ("value", "weight", "supremum")
PROPOSALS = ("reference", "matched")


class Reading(NamedTuple):
    """One way to read Algorithm 2.

    Attributes:
        proposal: what a race draws from, "reference" (Table 1) or "matched".
        threshold: the bound, "printed" or "shortened"; None with the self-normalised stop.
        scale: what v is divided by; None with the self-normalised stop.
    """

    proposal: str
    threshold: str | None = None
    scale: str | None = None

    @property
    def name(self) -> str:
        """What tables call it."""
        stop = [self.threshold, self.scale] if self.has_paper_stop else ["self-normalised"]
        return ", ".join([*map(str, stop), self.proposal])

    @property
    def has_paper_stop(self) -> bool:
        """Whether races end by line 12 of Algorithm 2, which reads bound, scale and sigma."""
        return self.threshold is not None

    def options(self, *, delta: float = 0.1, sigma: float = 0.1) -> dict[str, Any]:
        """Return the options of `agents.RacingThompson`; the paper has delta = sigma = 0.1."""
        options = {"proposal": self.proposal, "delta": delta}
        if not self.has_paper_stop:
            return options
        stop = {"stopping": "paper", "threshold": self.threshold, "scale": self.scale}
        return options | stop | {"sigma": sigma}

    def entry(self, **options: float) -> dict[str, Any]:
        """Return the agent as an experiment names it; options are those of `options`."""
        return {"agent": "racing", "label": self.name} | self.options(**options)


READINGS = (
    *(Reading(*each) for each in product(PROPOSALS, THRESHOLDS, SCALES)),
    *(Reading(proposal) for proposal in PROPOSALS),
)
