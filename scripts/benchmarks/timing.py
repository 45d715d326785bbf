"""Timing contestants side by side: warmed up, in alternation, repeatedly.

A machine's speed wanders while it is being measured. So contestants take turns, a ratio is taken
within each turn, and what is reported is the median of these ratios, with their quartiles.

A family lists its measurements before any of them is taken, and what they need is made when they
are taken; so a row can be asked for by its key, and costs what it needs itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from timeit import timeit
from typing import Any, NamedTuple

import numpy as np

from scripts.studies.adapters.protocol import CLOCKS
from scripts.studies.environments import ask_adapter, install_library

HORIZON, BLOCK_SIZE = 1000, 50
"""Steps, and lanes that an experiment simulates together, unless stated otherwise."""

NOT_ASKED_FOR = "run with --with-peers"

Contestant = Callable[[int, str], tuple[float, float]]
"""Does a number of rounds, and returns the seconds they took by the named clock and the units of
work they did."""


@dataclass(frozen=True)
class Effort:
    """How much a benchmark may cost, and whom to compare with.

    Attributes:
        name: what it is called in the report.
        seconds: least duration of one timing, which decides its number of rounds.
        repeats: turns that every contestant takes.
        length_scale: what the lengths of long runs are multiplied by, 0 < length_scale <= 1.
        width_scale: what numbers of lanes are multiplied by.
        clock: key of `CLOCKS`.
        has_peers: whether other people's libraries take part.
    """

    name: str
    seconds: float
    repeats: int
    length_scale: float = 1.0
    width_scale: float = 1.0
    clock: str = "wall"
    has_peers: bool = False

    def length(self, size: int, *, minimum: int) -> int:
        """Return the length of a run for this effort."""
        return max(minimum, round(size * self.length_scale))

    def width(self, size: int) -> int:
        """Return a number of lanes for this effort, at least 2."""
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
        unit: "x" for a ratio of costs, otherwise "s" or "us".
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


class Measurement(NamedTuple):
    """Rows that are measured together.

    Attributes:
        keys: keys of the rows.
        take: measures them, given the effort.
    """

    keys: tuple[str, ...]
    take: Callable[[Effort], Iterable[ResultRow]]

    def is_named(self, name: str) -> bool:
        """Say whether the key of a row is this one or begins with its words."""
        return any(f"{key}.".startswith(f"{name}.") for key in self.keys)


def match(
    title: str,
    ratios: Mapping[str, tuple[str, str]],
    make: Callable[[], Mapping[str, Contestant | str]],
    work: str = "decision",
) -> Measurement:
    """Announce contestants that do the same work, and which of them to compare.

    Args:
        title: what is compared; each row adds the names of its two sides.
        ratios: key of a row -> the contestant whose cost is divided, and the one whose cost it is
            divided by.
        make: makes them; a string says why one is absent.
        work: what one unit of work is.
    """

    def take(effort: Effort) -> Iterator[ResultRow]:
        contestants = make()
        costs = time_contestants(contestants, effort)
        for key, sides in ratios.items():
            name = f"{title}{' / '.join(sides)}"
            absent = [side for side in sides if side not in costs]
            if absent:
                note = f"{absent[0]} is absent: {contestants[absent[0]]}"
                yield ResultRow(key, name, None, work=work, note=note)
            else:
                medians = {side: float(np.median(costs[side])) for side in sides}
                turns = costs[sides[0]] / costs[sides[1]]
                yield replace(summarise_turns(key, name, turns), costs=medians, work=work)

    return Measurement(tuple(ratios), take)


def time_decision(key: str, title: str, make: Callable[[], Contestant]) -> Measurement:
    """Announce a contestant whose unit of work is a decision: a row of its microseconds."""

    def take(effort: Effort) -> Iterator[ResultRow]:
        costs = time_contestants({key: make()}, effort)
        yield summarise_turns(key, f"{title}: a decision", 1e6 * costs[key], "us")

    return Measurement((key,), take)


def make_contestant(function: Callable[[], Any], work: float | None = None) -> Contestant:
    """Make a contestant of a function that does one round.

    Args:
        function: does it, and returns its units of work unless they are given.
        work: units of work of every round; None if they differ.
    """

    def play(num_rounds: int, clock: str) -> tuple[float, float]:
        done: list[float] = []
        do_round = function if work is not None else lambda: done.append(function())
        seconds = timeit(do_round, timer=CLOCKS[clock], number=num_rounds)
        return seconds, sum(done) if work is None else work * num_rounds

    return play


def make_peer(effort: Effort, library: str, work: float) -> Contestant | str:
    """Make a contestant of the game in a library's adapter, or say why there is none.

    Each of its turns is a process of its own, which keeps its own time once it is warm.
    """
    if not effort.has_peers:
        return NOT_ASKED_FOR
    try:
        python = install_library(library)
    except (RuntimeError, OSError) as error:
        return str(error)

    def play(num_rounds: int, clock: str) -> tuple[float, float]:
        asked = {"num_rounds": num_rounds, "clock": clock}
        (answer,) = ask_adapter(python, library, [asked])
        if "error" in answer:
            raise RuntimeError(f"{library}: {answer['error']}")
        return answer["seconds"], work * num_rounds

    return play


def time_contestants(
    contestants: Mapping[str, Contestant | str], effort: Effort
) -> dict[str, np.ndarray]:
    """Let those contestants take turns that are present.

    Returns:
        name -> (turns,) seconds per unit of work.
    """
    present = {name: play for name, play in contestants.items() if callable(play)}
    num_rounds = {name: _calibrate(play, effort) for name, play in present.items()}
    costs: dict[str, list[float]] = {name: [] for name in present}
    for turn in range(effort.repeats):
        for name in list(present) if turn % 2 == 0 else reversed(present):
            seconds, work = present[name](num_rounds[name], effort.clock)
            costs[name].append(seconds / work)
    return {name: np.array(turns) for name, turns in costs.items()}


def _calibrate(play: Contestant, effort: Effort) -> int:
    """Warm a contestant up and return the number of rounds that fill a timing."""
    play(1, effort.clock)
    num_rounds, elapsed = 1, play(1, effort.clock)[0]
    while elapsed < effort.seconds:
        growth = min(10.0, 1.2 * effort.seconds / max(elapsed, 1e-9))
        num_rounds = int(num_rounds * growth) + 1
        elapsed = play(num_rounds, effort.clock)[0]
    return num_rounds


def summarise_turns(
    key: str, title: str, values: Sequence[float] | np.ndarray, unit: str = "x"
) -> ResultRow:
    """Return a row of the median and the quartiles of a quantity over its turns."""
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    turns = tuple(map(float, values))
    return ResultRow(key, title, median, low, high, unit, turns=turns)
