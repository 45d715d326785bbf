"""Timing contestants side by side: warmed up, in alternation, repeatedly.

A machine's speed wanders while it is being measured. So contestants take turns, a ratio is taken
within each turn, and what is reported is the median of these ratios, with their quartiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.workers.protocol import time_rounds

Contestant = Callable[[int, str], tuple[float, float]]
"""Does a number of rounds, and returns the seconds they took by the named clock and the units of
work they did."""

Costs = Mapping[str, Any]
"""Name of a contestant -> (turns,) seconds per unit of work, or why it is absent."""


@dataclass(frozen=True)
class Effort:
    """How much a benchmark may cost.

    Attributes:
        name: what it is called in the report.
        seconds: least duration of one timing, which decides its number of rounds.
        repeats: turns that every contestant takes.
        length_scale: what the lengths of long runs are multiplied by, 0 < length_scale <= 1; below
            1 the costliest rows are left out as well.
        width_scale: what numbers of lanes and particles are multiplied by.
        clock: key of `workers.protocol.CLOCKS`.
    """

    name: str
    seconds: float
    repeats: int
    length_scale: float = 1.0
    width_scale: float = 1.0
    clock: str = "wall"

    @property
    def is_full(self) -> bool:
        """True if no row is left out."""
        return self.length_scale == 1.0

    def length(self, size: int, *, minimum: int) -> int:
        """Return the length of a run for this effort."""
        return max(minimum, round(size * self.length_scale))

    def width(self, size: int) -> int:
        """Return a number of lanes or particles for this effort, at least 2."""
        return max(2, round(size * self.width_scale))


@dataclass(frozen=True)
class ResultRow:
    """One line of the report.

    Attributes:
        key: identifies it.
        title: says what it is.
        value: the median; None if it could not be measured.
        low: first quartile over the turns.
        high: third quartile.
        unit: "x" for a ratio of costs, otherwise "s", "MiB" or "KiB".
        costs: contestant -> median seconds per unit of work.
        work: what a unit of work is.
        turns: value of each turn.
        note: why there is no value, or what to know about it.
    """

    key: str
    title: str
    value: float | None
    low: float | None = None
    high: float | None = None
    unit: str = "x"
    costs: Mapping[str, float] = field(default_factory=dict)
    work: str = ""
    turns: tuple[float, ...] = ()
    note: str = ""


def make_contestant(function: Callable[[], Any], work: float | None = None) -> Contestant:
    """Make a contestant of a function that does one round.

    Args:
        function: does it, and returns its units of work unless they are given.
        work: units of work of every round; None if they differ.
    """
    return partial(time_rounds, function, work)


def time_contestants(contestants: Mapping[str, Contestant | str], effort: Effort) -> Costs:
    """Let contestants that do the same work take turns; a string says why one is absent.

    Returns:
        name -> (turns,) seconds per unit of work, or why there are none.
    """
    present = {name: play for name, play in contestants.items() if callable(play)}
    num_rounds = {name: _calibrate(play, effort) for name, play in present.items()}
    costs: dict[str, list[float]] = {name: [] for name in present}
    for turn in range(effort.repeats):
        for name in list(present) if turn % 2 == 0 else reversed(present):
            seconds, work = present[name](num_rounds[name], effort.clock)
            costs[name].append(seconds / work)
    absent = {name: reason for name, reason in contestants.items() if isinstance(reason, str)}
    return absent | {name: np.array(turns) for name, turns in costs.items()}


def compare_sides(
    key: str, title: str, costs: Costs, sides: tuple[str, str], work: str
) -> ResultRow:
    """Return a row of what one contestant costs over what another does, within each turn."""
    for name in sides:
        if isinstance(costs[name], str):
            return ResultRow(key, title, None, note=f"{name} is absent: {costs[name]}")
    turns = costs[sides[0]] / costs[sides[1]]
    medians = {name: float(np.median(costs[name])) for name in sides}
    return replace(summarise_turns(key, title, turns, "x"), costs=medians, work=work)


def summarise_turns(
    key: str, title: str, values: Sequence[float] | np.ndarray, unit: str, note: str = ""
) -> ResultRow:
    """Return a row of the median and the quartiles of a quantity over its turns."""
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return ResultRow(
        key, title, median, low, high, unit, turns=tuple(map(float, values)), note=note
    )


def _calibrate(play: Contestant, effort: Effort) -> int:
    """Warm a contestant up and return the number of rounds that fill a timing."""
    play(1, effort.clock)
    num_rounds, elapsed = 1, play(1, effort.clock)[0]
    while elapsed < effort.seconds:
        growth = min(10.0, 1.2 * effort.seconds / max(elapsed, 1e-9))
        num_rounds = int(num_rounds * growth) + 1
        elapsed = play(num_rounds, effort.clock)[0]
    return num_rounds
