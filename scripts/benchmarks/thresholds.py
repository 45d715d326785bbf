"""What each row must reach, and what it should."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.timing import ResultRow


@dataclass(frozen=True)
class Threshold:
    """A value that a row must not miss, and a better one to aim at.

    Attributes:
        value: the bar.
        aim: what would be good; None if the bar is all that is asked.
        reason: why the bar lies where it does.
        is_floor: True if the row must be at least the bar, False if at most.
    """

    value: float
    aim: float | None = None
    reason: str = ""
    is_floor: bool = True

    def is_met_by(self, value: float) -> bool:
        """Say whether a value keeps to the bar."""
        return value >= self.value if self.is_floor else value <= self.value


at_least = partial(Threshold, is_floor=True)
"""Asks for a ratio of this size or more."""

at_most = partial(Threshold, is_floor=False)
"""Asks for a cost of this size or less."""

CONTROL_KEY = "control.load"
"""The row that says whether the machine did other things meanwhile."""

PEER_REASON = "no slower than what you would take instead"

TARGETS: Mapping[str, Threshold] = {
    CONTROL_KEY: at_most(1.1, 1.02, "more: other processes took the processor, all rows are void"),
    "environment.bernoulli.many.sync": at_least(300, 500, "what it was at results version 2"),
    "environment.bernoulli.gymnax.t1000": at_least(1, 8, PEER_REASON),
    "exact.many.numpy": at_least(1.7, 2.3, "the limit found: 26 ns a variate, half of NumPy's"),
    "exact.many.grid": at_most(9, 6, "a table a reward is copied, and ten are searched"),
    "exact.one.mabwiser": at_least(1, 3, PEER_REASON),
    "exact.one.river": at_least(1, 3, PEER_REASON),
    "racing.bernoulli.bulk": at_most(
        0.75, 0.45, "the limit found: variates alone are 0.45; then weights, and the loop"
    ),
    "racing.matched": at_most(1.5, 1.1, "a race that need not race must cost no more"),
    "smc.one.particles": at_least(0.75, 1, "the limit found: checks, and the best arm of a draw"),
    "smc.one.numpy": at_most(3, 2, "ten lines check nothing"),
    "propensities.one": at_least(3, 7, "the integral is a sixth; agent, masks and checks"),
    "propensities.many": at_least(20, 30, "the integral alone, a lane"),
    "propensities.tables": at_least(1, 5, PEER_REASON),
    "features.one": at_most(150, 90, "draws weigh all rows, unless all agree on an arm"),
    "features.many": at_most(90, 60, "the same a lane, where calls are shared"),
    "features.large": at_most(700, 400, "it grows with rows alone"),
    "harness.racing": at_most(0.05, None, "a user pays for the agent, not for us"),
}


def judge_row(row: ResultRow, thresholds: Mapping[str, Threshold] = TARGETS) -> str:
    """Judge a row by the interval between its quartiles, or by its value if it has none.

    Returns:
        "MISSED" if the interval lies wholly beyond the bar, "noisy" if it straddles the bar;
        otherwise "aim" or "met", by the value. "absent" without a value, "" without a bar.
    """
    if row.value is None:
        return "absent"
    if row.key not in thresholds:
        return ""
    threshold = thresholds[row.key]
    ends = [row.value if end is None else end for end in (row.low, row.high)]
    num_met = sum(threshold.is_met_by(end) for end in ends)
    if num_met < 2:
        return "noisy" if num_met else "MISSED"
    goal = threshold if threshold.aim is None else replace(threshold, value=threshold.aim)
    return "aim" if goal.is_met_by(row.value) else "met"
