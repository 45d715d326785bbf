"""What each row must reach, and what it should."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.timing import Row


@dataclass(frozen=True)
class Bar:
    """A value that a row must not miss, and a better one to aim at.

    Attributes:
        value: the bar.
        aim: what would be good; None if the bar is all that is asked.
        is_floor: True if the row must be at least the bar, False if at most.
    """

    value: float
    aim: float | None = None
    is_floor: bool = True

    def admits(self, value: float) -> bool:
        """Say whether a value keeps to the bar."""
        return value >= self.value if self.is_floor else value <= self.value


at_least = partial(Bar, is_floor=True)
"""Asks for a ratio of this size or more."""

at_most = partial(Bar, is_floor=False)
"""Asks for a cost of this size or less."""

PRIORS = "uniform", "beta", "small-beta", "gamma", "inverse-gamma", "normal", "truncated-normal"
"""Laws that a world draws its means from, whose resets are measured."""

RULE_MICROSECONDS = at_most(100)
"""A decision of a rule whose cost does not grow with the pulls left."""

BARS: Mapping[str, Bar] = {
    "environment.bernoulli.many.sync": at_least(300, 500),
    "environment.bernoulli.many.limit": at_most(2.5, 1.5),
    "environment.bernoulli.gymnax.t10": at_least(1, 2),
    "environment.bernoulli.gymnax.t50": at_least(1, 3),
    "environment.bernoulli.gymnax.t200": at_least(1, 4),
    "environment.bernoulli.gymnax.t1000": at_least(1, 8),
    "environment.observations.counts": at_most(1.5),
    "environment.observations.history": at_most(2),
    **{f"environment.reset.k2.{prior}": at_most(1e-6, 0.3e-6) for prior in PRIORS},
    **{f"environment.reset.k10.{prior}": at_most(2e-6, 0.6e-6) for prior in PRIORS},
    "exact.many.numpy": at_least(2, 4),
    "exact.many.grid": at_most(10, 3),
    "exact.one.mabwiser": at_least(1, 3),
    "exact.one.river": at_least(1, 3),
    "racing.bernoulli.bulk": at_most(0.5, 0.25),
    "racing.bernoulli.loop": at_least(40, 100),
    "racing.user.built-in": at_most(2, 1.3),
    "rules.ucb-tuned": RULE_MICROSECONDS,
    "rules.moss": RULE_MICROSECONDS,
    "rules.top-two": RULE_MICROSECONDS,
    "rules.kg": RULE_MICROSECONDS,
    "rules.kg-star": RULE_MICROSECONDS,
    "rules.v-ids": RULE_MICROSECONDS,
    "rules.discounted-gittins": RULE_MICROSECONDS,
    "rules.finite-horizon-gittins": RULE_MICROSECONDS,
    "rules.optimistic-gittins": RULE_MICROSECONDS,
    "rules.irs-fh": RULE_MICROSECONDS,
    "growth.steps.exact": at_most(1.1),
    "growth.steps.racing": at_most(1.1),
    "growth.steps.smc": at_most(1.1),
    "harness.racing": at_most(0.05),
    "harness.exact.many": at_most(0.5),
    "end-to-end.start-up": at_most(3, 2),
    "end-to-end.cold-start": at_most(20, 8),
}


def verdict(row: Row, bars: Mapping[str, Bar] = BARS) -> str:
    """Judge a row by the interval between its quartiles, or by its value if it has none.

    Returns:
        "MISSED" if the interval lies wholly beyond the bar, "noisy" if it straddles the bar;
        otherwise "aim" or "met", by the value. "absent" without a value, "" without a bar.
    """
    if row.value is None:
        return "absent"
    if row.key not in bars:
        return ""
    bar = bars[row.key]
    ends = [row.value if end is None else end for end in (row.low, row.high)]
    num_met = sum(bar.admits(end) for end in ends)
    if num_met < 2:
        return "noisy" if num_met else "MISSED"
    goal = bar if bar.aim is None else replace(bar, value=bar.aim)
    return "aim" if goal.admits(row.value) else "met"


def judged(rows: Iterable[Row], state: str, bars: Mapping[str, Bar] = BARS) -> list[str]:
    """Return one line for each bar whose row got this verdict: what it is and must be.

    A bar without a row is "absent"; where there is no value, the line tells why.
    """
    found = {key: Row(key, "", None, note="not run") for key in bars}
    found |= {row.key: row for row in rows if row.key in bars}
    return [
        f"{key}: {row.note if row.value is None else _comparison(row, bars[key])}"
        for key, row in found.items()
        if verdict(row, bars) == state
    ]


def _comparison(row: Row, bar: Bar) -> str:
    interval = "" if row.low is None else f" [{row.low:.3g}, {row.high:.3g}]"
    condition = f"{'at least' if bar.is_floor else 'at most'} {bar.value:g}"
    return f"{row.value:.3g} {row.unit}{interval}, must be {condition}"
