"""Timing contestants side by side: warmed up, in alternation, repeatedly.

A machine's speed wanders while it is being measured. So contestants take turns, a ratio is taken
within each turn, and what is reported is the median of these ratios, with their quartiles.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter, process_time
from typing import Any

import numpy as np

CLOCKS = {"wall": perf_counter, "processor": process_time}
"""What a user waits for, and what is left of it when the machine is busy with other things."""

Contestant = Callable[[int, str], tuple[float, float]]
"""Does a number of rounds, and returns the seconds they took by the named clock and the units of
work they did."""

Costs = Mapping[str, np.ndarray | str]
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
        clock: key of `CLOCKS`.
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
class Row:
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


def rounds_of(function: Callable[[], Any], work: float | None = None) -> Contestant:
    """Make a contestant of a function that does one round.

    Args:
        function: does it, and returns its units of work unless they are told.
        work: units of work of every round; None if they differ.
    """

    def play(num_rounds: int, clock: str) -> tuple[float, float]:
        read = CLOCKS[clock]
        start = read()
        if work is None:
            done = sum(function() for _ in range(num_rounds))
        else:
            done = num_rounds * work
            for _ in range(num_rounds):
                function()
        return read() - start, done

    return play


def measure(contestants: Mapping[str, Contestant | str], effort: Effort) -> Costs:
    """Let contestants that do the same work take turns; a string says why one is absent.

    Returns:
        name -> (turns,) seconds per unit of work, or why there are none.
    """
    present = {name: play for name, play in contestants.items() if callable(play)}
    num_rounds = {name: _calibrate(play, effort) for name, play in present.items()}
    costs: dict[str, list[float]] = {name: [] for name in present}
    with _no_garbage_collection():
        for turn in range(effort.repeats):
            for name in list(present) if turn % 2 == 0 else reversed(present):
                seconds, work = present[name](num_rounds[name], effort.clock)
                costs[name].append(seconds / work)
    absent = {name: reason for name, reason in contestants.items() if isinstance(reason, str)}
    return absent | {name: np.array(turns) for name, turns in costs.items()}


def compare(key: str, title: str, costs: Costs, sides: tuple[str, str], work: str) -> Row:
    """Return a row of what one contestant costs over what another does, within each turn."""
    measured = {}
    for name in sides:
        cost = costs[name]
        if isinstance(cost, str):
            return Row(key, title, None, note=f"{name} is absent: {cost}")
        measured[name] = cost
    over, under = measured.values()
    medians = {name: float(np.median(cost)) for name, cost in measured.items()}
    return replace(summarise(key, title, over / under, "x"), costs=medians, work=work)


def summarise(
    key: str, title: str, values: Sequence[float] | np.ndarray, unit: str, note: str = ""
) -> Row:
    """Return a row of the median and the quartiles of a quantity over its turns."""
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return Row(key, title, median, low, high, unit, turns=tuple(map(float, values)), note=note)


def _calibrate(play: Contestant, effort: Effort) -> int:
    """Warm a contestant up and return the number of rounds that fill a timing."""
    play(1, effort.clock)
    num_rounds, elapsed = 1, play(1, effort.clock)[0]
    while elapsed < effort.seconds:
        growth = min(10.0, 1.2 * effort.seconds / max(elapsed, 1e-9))
        num_rounds = int(num_rounds * growth) + 1
        elapsed = play(num_rounds, effort.clock)[0]
    return num_rounds


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
