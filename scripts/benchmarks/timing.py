"""Timing contestants side by side: warmed up, in alternation, repeatedly.

A machine's speed wanders while it is being measured. So contestants take turns, a ratio is taken
within each turn, and what is reported is the median of these ratios, with their quartiles.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter, process_time

import numpy as np

CLOCKS = {"wall": perf_counter, "processor": process_time}
"""What a user waits for, and what is left of it when the machine is busy with other things."""

Contestant = Callable[[int, str], tuple[float, float]]
"""Does a number of rounds, and returns the seconds they took by the named clock and the units of
work they did."""


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
class Ratio:
    """What to report of a match: the cost of one contestant over that of another.

    Attributes:
        key: identifies the row, in the bars and in the JSON file.
        title: says what is compared, for the table.
        over: name of the contestant whose cost is divided.
        under: name of the contestant whose cost it is divided by.
    """

    key: str
    title: str
    over: str
    under: str


@dataclass(frozen=True)
class Match:
    """Contestants that do the same work, and the ratios of their costs that are of interest.

    Attributes:
        contestants: name -> contestant; a string in its place says why it is absent.
        ratios: the rows to report.
        work: what one unit of work is, "decision" or "step".
    """

    contestants: Mapping[str, Contestant | str]
    ratios: tuple[Ratio, ...]
    work: str


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


def rounds_of(function: Callable[[], float]) -> Contestant:
    """Make a contestant of a function that does one round and returns its units of work."""

    def play(num_rounds: int, clock: str) -> tuple[float, float]:
        read = CLOCKS[clock]
        work = 0.0
        start = read()
        for _ in range(num_rounds):
            work += function()
        return read() - start, work

    return play


def measure(match: Match, effort: Effort) -> list[Row]:
    """Let the contestants of a match take turns, and return one row per ratio."""
    present = {name: play for name, play in match.contestants.items() if callable(play)}
    num_rounds = {name: _calibrate(play, effort) for name, play in present.items()}
    costs: dict[str, list[float]] = {name: [] for name in present}
    with _no_garbage_collection():
        for turn in range(effort.repeats):
            order = list(present) if turn % 2 == 0 else list(reversed(present))
            for name in order:
                seconds, work = present[name](num_rounds[name], effort.clock)
                costs[name].append(seconds / work)
    return [_compare(ratio, match, costs) for ratio in match.ratios]


def summarise(key: str, title: str, values: list[float], unit: str, note: str = "") -> Row:
    """Return a row of a quantity that was measured on its own, some times over."""
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return Row(key, title, median, low, high, unit, turns=tuple(values), note=note)


def _calibrate(play: Contestant, effort: Effort) -> int:
    """Warm a contestant up and return the number of rounds that fill a timing."""
    play(1, effort.clock)
    num_rounds, elapsed = 1, play(1, effort.clock)[0]
    while elapsed < effort.seconds:
        growth = min(10.0, 1.2 * effort.seconds / max(elapsed, 1e-9))
        num_rounds = int(num_rounds * growth) + 1
        elapsed = play(num_rounds, effort.clock)[0]
    return num_rounds


def _compare(ratio: Ratio, match: Match, costs: Mapping[str, list[float]]) -> Row:
    sides = ratio.over, ratio.under
    for name in sides:
        reason = match.contestants[name]
        if isinstance(reason, str):
            return Row(ratio.key, ratio.title, None, note=f"{name} is absent: {reason}")
    over, under = (np.array(costs[name]) for name in sides)
    turns = over / under
    low, median, high = np.quantile(turns, [0.25, 0.5, 0.75]).tolist()
    medians = {name: float(np.median(costs[name])) for name in sides}
    return Row(
        ratio.key, ratio.title, median, low, high,
        costs=medians, work=match.work, turns=tuple(turns.tolist()),
    )  # fmt: skip


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
