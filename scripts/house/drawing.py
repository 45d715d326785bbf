"""A house as Markdown: a Mermaid drawing of its rooms and arrows, and a table of what is where."""

from __future__ import annotations

import ast
from pathlib import Path

from house.imports import ROOT, House


def draw(house: House) -> str:
    """Return the count, the drawing, the table and the imports from outside, of one package."""
    guests = ", ".join(f"`{room}`" for room in house.guests) or "nothing"
    outside = f"From outside `{house.package}` these rooms import {guests}."
    return "\n\n".join([count(house), _drawing(house), _table(house), outside])


def count(house: House) -> str:
    """Say in a line how many rooms and arrows there are, and whether any of them should not be."""
    rising = "; ".join(f"{short(a)} → {short(b)}" for a, b in house.rising)
    circles = "; ".join(", ".join(map(short, circle)) for circle in house.circles)
    return (
        f"**`{house.package}`**: {len(house.rooms)} rooms, {len(house.arrows)} arrows; "
        f"running up: {rising or 'none'}; circles: {circles or 'none'}."
    )


def short(room: str) -> str:
    """Return a room's name inside its package; `__init__` for the package itself."""
    return room.partition(".")[2] or "__init__"


def _drawing(house: House) -> str:
    nodes = [f'    {short(room)}["{_place(room).name}"]' for room in house.rooms]
    arrows = [f"    {short(a)} --> {short(b)}" for a, b in house.arrows]
    return "\n".join(["```mermaid", "flowchart TD", *nodes, *arrows, "```"])


def _table(house: House) -> str:
    rows = [f"| {_link(room)} | {_purpose(room)} |" for room in house.rooms]
    return "\n".join(["| room | what is there |", "|---|---|", *rows])


def _link(room: str) -> str:
    place = _place(room)
    name = f"{place.name}/" if place.is_dir() else place.name
    return f"[`{name}`](../{place.relative_to(ROOT).as_posix()})"


def _purpose(room: str) -> str:
    """Return the first sentence of what a room says of itself."""
    place = _place(room)
    file = place / "__init__.py" if place.is_dir() else place
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _place(room: str) -> Path:
    """Return the folder or file of a room; the package's own is its `__init__.py`."""
    package, _, name = room.partition(".")
    folder = ROOT / package / (name or "__init__")
    return folder if folder.is_dir() else folder.with_suffix(".py")
