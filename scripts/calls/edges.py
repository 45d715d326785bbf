"""What is public, as a table: a callable, a good call of it, and the type of each argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from calls.values import VALUES


@dataclass(frozen=True)
class Edge:
    """A public callable.

    Attributes:
        group: class of callables whose percentages are told together.
        name: as people call it.
        call: does it with the arguments by name, and a little with what it returns, so that what
            was accepted wrongly is found out.
        types: argument -> type of value.
        words: argument -> other words that a message may call it by.
    """

    group: str
    name: str
    call: Callable[..., Any]
    types: Mapping[str, str]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """One bad call.

    Attributes:
        edge: what is called.
        argument: the one that is bad.
        value: what it gets.
    """

    edge: Edge
    argument: str
    value: Any

    @property
    def text(self) -> str:
        """What it looks like, on one line."""
        shown = " ".join(repr(self.value).split())
        return f"{self.edge.name}({self.argument}={shown[:60]}{'...' * (len(shown) > 60)})"


def bad_calls(edges: list[Edge]) -> Iterator[Call]:
    """Yield every argument of every callable with each bad value of its type."""
    for edge in edges:
        for argument, kind in edge.types.items():
            for value in VALUES[kind]:
                yield Call(edge, argument, _fill(value, argument))


def _fill(value: Any, argument: str) -> Any:
    """Write the words of the field into a value for entries."""
    words = {
        "environments": {"{kind}": "env", "{good}": "BernoulliBandit-v0"},
        "agents": {"{kind}": "agent", "{good}": "random"},
    }.get(argument, {})
    if isinstance(value, list):
        return [_fill(item, argument) for item in value]
    if isinstance(value, dict):
        return {_fill(key, argument): _fill(item, argument) for key, item in value.items()}
    return words.get(value, value) if isinstance(value, str) else value
