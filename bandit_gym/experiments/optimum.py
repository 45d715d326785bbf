"""The least regret that is possible in a world, as it is stored beside the results.

`report` reads it and computes nothing; `optimum_search` finds it.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from bandit_gym.experiments.experiment import Run
from bandit_gym.experiments.storage import Store

CONFIDENCE = "95 %"
"""Of bounds, as `agents.optimum.line` has them."""


class Optimum(NamedTuple):
    """What is known of the least regret in a world.

    Attributes:
        kind: "exact", "bracket", or "none" where it was not found.
        steps: (S,) numbers of steps, each with a best policy of its own; the last is the horizon.
        lower: (S,) least expected regret, or what it is at least.
        upper: (S,) the same, or what it is at most.
        seconds: that it would have taken, by estimate.
        reason: why it cannot be found in this world; "" if it can.
        is_asked: whether somebody has said how long it may take.
        budget: seconds that it might take.
    """

    kind: str
    steps: list[int] = []
    lower: list[float] = []
    upper: list[float] = []
    seconds: float = 0.0
    reason: str = ""
    is_asked: bool = False
    budget: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether there is something to draw."""
        return self.kind != "none"

    def describe(self) -> str:
        """Say what the least regret is at the horizon, or why nobody knows; "" if nobody asked."""
        if self.kind == "exact":
            return f"{self.upper[-1]:.2f}, of the Bayes-optimal policy."
        if self.kind == "bracket":
            ends = f"{max(0.0, self.lower[-1]):.1f} and {self.upper[-1]:.1f}"
            return f"between {ends}, with {CONFIDENCE} confidence."
        if self.reason:
            return f"unknown; {self.reason}" if self.is_asked else ""
        needed = math.ceil(self.seconds)
        return f"not computed; it would take some {needed} s (--optimal-budget {needed})."


def read_optimum(store: Store, run: Run) -> Optimum | None:
    """Return what is stored of a run's world; None if nothing is, or it is not fit to be shown."""
    stored = store.read_optimum(run) or {}
    # A folder may come from anybody.
    with suppress(AttributeError, KeyError, TypeError, ValueError, OverflowError):
        found = Optimum(**{name: stored[name] for name in Optimum._fields})
        if _is_sound(found):
            return found
    return None


def _is_sound(found: Optimum) -> bool:
    """Say whether what was read are numbers that belong together, and a text fit for a terminal."""
    numbers = np.array([found.steps, found.lower, found.upper], dtype=float)
    has_all = numbers.size > 0 and (np.diff(numbers[0]) > 0).all() and (numbers[0] > 0).all()
    return bool(
        found.kind in ("exact", "bracket", "none")
        and found.is_known == has_all
        and np.isfinite([*numbers.ravel(), found.seconds, found.budget]).all()
        and found.reason.isprintable()
    )
