"""Random samples of the places that can be broken, and of the ways to break them."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from cosmic_ray import mutating, plugins
from cosmic_ray.commands import init
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import MutationSpec

from mutation.tree import ROOT


def list_sources(prefix: str) -> list[Path]:
    """Return the files of both packages whose path, such as agents/racing/, begins so."""
    files = [
        path for package in ("agents", "bandit_gym") for path in (ROOT / package).rglob("*.py")
    ]
    return sorted(path for path in files if path.relative_to(ROOT).as_posix().startswith(prefix))


def draw_mutants(prefix: str, size: int, seed: int) -> list[Any]:
    """Draw mutants of some files, each place and way to break it with the same chance."""
    database = WorkDB(":memory:", WorkDB.Mode.create)
    paths = [path.relative_to(ROOT) for path in list_sources(prefix)]
    init(paths, database, {})
    every = sorted(database.work_items, key=lambda item: identify_mutant(item.mutations[0]))
    annotations = {path: list(find_annotations(path)) for path in paths}
    random.Random(seed).shuffle(every)
    able = (item for item in every if not _is_inside(item.mutations[0], annotations))
    return list(islice((item for item in able if _is_python(item.mutations[0])), size))


def _is_python(mutation: MutationSpec) -> bool:
    """Say whether the broken file is Python at all; a lone star is taken for a product, say."""
    operator = plugins.get_operator(mutation.operator_name)()
    text = (ROOT / mutation.module_path).read_text()
    try:
        ast.parse(mutating.mutate_code(text, operator, mutation.occurrence))
    except SyntaxError:
        return False
    return True


def identify_mutant(mutation: MutationSpec) -> tuple:
    """Return what distinguishes a mutant from all others."""
    return str(mutation.module_path), mutation.operator_name, mutation.occurrence


def find_annotations(path: Path) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield where the annotations of a file begin and end, as (line, column)."""
    for node in ast.walk(ast.parse(path.read_text())):
        for name in ("annotation", "returns"):
            found = getattr(node, name, None)
            if found is not None:
                ends = found.end_lineno or 0, found.end_col_offset or 0
                yield (found.lineno, found.col_offset), ends


def _is_inside(mutation: MutationSpec, spans: dict[Path, list]) -> bool:
    inside = spans[Path(mutation.module_path)]
    return any(start <= tuple(mutation.start_pos) < end for start, end in inside)
