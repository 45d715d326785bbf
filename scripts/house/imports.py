"""The arrows of a package: which of its rooms imports which, as the linter of the layers reads it.

A room is a folder of the package, or a file at its top. Late imports count, for whoever reads the
function has to follow them; imports under `TYPE_CHECKING` do not, nor do the names that an
`__init__` lends lazily, which are strings.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
PACKAGES = ("agents", "bandit_gym")

Arrow = tuple[str, str]
"""Who imports, and what is imported."""


@dataclass(frozen=True)
class House:
    """A package as rooms and arrows.

    Attributes:
        package: its name.
        rooms: dotted names, those of the upper layers first.
        arrows: between its rooms, sorted.
        guests: rooms of other packages that it imports, sorted.
        rising: the arrows that run up, against the layers of `pyproject.toml`.
        circles: sets of rooms, and sets of modules, that reach each other.
    """

    package: str
    rooms: tuple[str, ...]
    arrows: tuple[Arrow, ...]
    guests: tuple[str, ...]
    rising: tuple[Arrow, ...]
    circles: tuple[tuple[str, ...], ...]


def read_house(package: str, root: Path = ROOT) -> House:
    """Read one of PACKAGES, with the layers that are told in a folder's `pyproject.toml`."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    ours = {package} | graph.find_descendants(package)
    links = [(a, b) for a in ours for b in graph.find_modules_directly_imported_by(a)]
    pairs = {(room_of(name), room_of(other)) for name, other in links}
    ranks = read_ranks(root / "pyproject.toml")
    rooms = sorted({room_of(name) for name in ours}, key=lambda room: (ranks.get(room, 0), room))
    arrows = sorted((a, b) for a, b in pairs if a != b and b in rooms)
    return House(
        package=package,
        rooms=tuple(rooms),
        arrows=tuple(arrows),
        guests=tuple(sorted({b for _, b in pairs if b not in rooms})),
        rising=tuple((a, b) for a, b in arrows if ranks.get(a, 0) > ranks.get(b, 0)),
        circles=circles_of(arrows) + circles_of(links),
    )


def room_of(module: str) -> str:
    """Return the room of a module: `agents.racing` for `agents.racing.races`."""
    return ".".join(module.split(".")[:2])


def read_ranks(path: Path) -> dict[str, int]:
    """Return the place of each room in the `layers` contracts of import-linter, 0 the highest."""
    tools = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]
    contracts = tools.get("importlinter", {}).get("contracts", [])
    return {
        f"{container}.{room}": rank
        for contract in contracts
        if contract["type"] == "layers"
        for container in contract["containers"]
        for rank, layer in enumerate(contract["layers"])
        for room in re.findall(r"\w+", layer)
    }


def circles_of(arrows: Iterable[Arrow]) -> tuple[tuple[str, ...], ...]:
    """Return the sets of rooms that reach each other, sorted."""
    reach: dict[str, set[str]] = {}
    for start, end in arrows:
        reach.setdefault(start, set()).add(end)
    for middle in list(reach):  # Warshall's closure
        for ends in reach.values():
            if middle in ends:
                ends |= reach[middle]
    circles = {tuple(sorted(b for b in ends if a in reach.get(b, ()))) for a, ends in reach.items()}
    return tuple(sorted(circle for circle in circles if circle))
