"""What the families of rows share: the effort, the peers, and how a row is announced.

A family lists its measurements before any of them is taken, and what they need is made when they
are taken; so a row can be asked for by its key, and costs what it needs itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.peers import Peers
from benchmarks.timing import (
    Contestant,
    Effort,
    ResultRow,
    compare_sides,
    summarise_turns,
    time_contestants,
)

HORIZON = 1000
BLOCK_SIZE = 50
"""Lanes that an experiment simulates together, unless stated otherwise."""

Contestants = Mapping[str, Contestant | str]
"""Name -> contestant, or why it is absent."""


class Measurement(NamedTuple):
    """Rows that are measured together.

    Attributes:
        keys: keys of the rows.
        take: measures them.
    """

    keys: tuple[str, ...]
    take: Callable[[], Iterable[ResultRow]]

    def is_named(self, name: str) -> bool:
        """Say whether the key of a row is this one or begins with its words."""
        return any(f"{key}.".startswith(f"{name}.") for key in self.keys)


@dataclass(frozen=True)
class Session:
    """How much effort to make, and whom to compare with."""

    effort: Effort
    peers: Peers

    def match(
        self,
        title: str,
        ratios: Mapping[str, tuple[str, str]],
        work: str,
        contestants: Callable[[], Contestants],
    ) -> Measurement:
        """Announce contestants that do the same work, and which of them to compare.

        Args:
            title: what is compared; each row adds the names of its two sides.
            ratios: key of a row -> the contestant whose cost is divided, and the one whose cost
                it is divided by.
            work: what one unit of work is, "decision" or "step".
            contestants: makes them.
        """

        def take() -> Iterator[ResultRow]:
            costs = time_contestants(contestants(), self.effort)
            for key, (over, under) in ratios.items():
                yield compare_sides(key, f"{title}{over} / {under}", costs, (over, under), work)

        return Measurement(tuple(ratios), take)

    def time(self, key: str, title: str, make: Callable[[], Contestant]) -> Measurement:
        """Announce a contestant whose unit of work is a decision: a row of its microseconds."""

        def take() -> Iterator[ResultRow]:
            costs = time_contestants({key: make()}, self.effort)
            yield summarise_turns(key, f"{title}: a decision", 1e6 * costs[key], "us")

        return Measurement((key,), take)
