"""How many broken lines the tests notice: what cosmic-ray lacks, a sample and the nearest tests.

    python scripts/mutants.py mutants.sqlite --size 120 --seed 31   leaves a sample in a session
    python scripts/mutants.py                                       tests the line that is broken

The sample is of what `cosmic-ray init` finds. `mutants.toml` makes the second the test command of
`cosmic-ray exec`, which breaks files of its working directory; see `docs/project/mutants.md`. A
mutant meets the tests nearest to it that take `MAX_SECONDS` in all, by the times in `seconds.xml`;
so a score is a lower bound of what all tests notice. Annotations, which are never evaluated, are
not broken, and what is no longer Python is left out.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import subprocess
import sys
from functools import cache
from itertools import accumulate, islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from cosmic_ray import mutating, plugins
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import WorkItem

SECONDS_FILE = Path("seconds.xml")
MAX_SECONDS = 38.0
"""Of tests on the unbroken code, that a mutant meets."""

PYTEST_OPTIONS = "-q", "-x", "-n0", "--tb=no", "--assert=plain", "-pno:cacheprovider"


# -- What is broken --------------------------------------------------------------------------------


def leave_sample(session: Path, size: int, seed: int) -> None:
    """Leave some mutants in a session, each place and way to break it with the same chance."""
    database = WorkDB(session, WorkDB.Mode.open)
    every = sorted(database.work_items, key=identify_mutant)
    random.Random(seed).shuffle(every)
    sample = list(islice(filter(is_another_program, every), size))
    database.clear()
    database.add_work_items(sample)


def identify_mutant(item: WorkItem) -> tuple[str, str, int]:
    """Return what distinguishes a mutant from all others."""
    (mutation,) = item.mutations
    return str(mutation.module_path), mutation.operator_name, mutation.occurrence


def is_another_program(item: WorkItem) -> bool:
    """Say whether a broken file is Python and differs in more than its annotations."""
    path, name, occurrence = identify_mutant(item)
    text = Path(path).read_text(encoding="utf-8")
    try:
        broken = mutating.mutate_code(text, plugins.get_operator(name)(), occurrence)
        return without_annotations(broken) != without_annotations(text)
    except SyntaxError:  # a lone star is taken for a product, say
        return False


@cache
def without_annotations(text: str) -> str:
    """Return what a file's syntax tree has beside annotations."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for name in {"annotation", "returns"} & {*node._fields}:
            setattr(node, name, None)
    return ast.dump(tree)


# -- What it meets ---------------------------------------------------------------------------------


def test_broken_file() -> int:
    """Run the tests nearest to the file that differs from its commit; return pytest's exit code."""
    changed = subprocess.check_output(["git", "diff", "--name-only"], text=True).strip()
    os.environ["PYTHONPATH"] = os.getcwd()  # of the processes that tests start
    return pytest.main([*PYTEST_OPTIONS, *list_nearest_tests(Path(changed))])


def list_nearest_tests(source: Path) -> list[str]:
    """Return the tests that have most in common with a source, quick ones first, in the time."""
    seconds = read_seconds()
    tests = sorted(seconds, key=lambda test: (-count_common_parts(test, source), seconds[test]))
    ends = accumulate(seconds[test] for test in tests)
    return [test for test, end in zip(tests, ends, strict=True) if end <= MAX_SECONDS]


def read_seconds() -> dict[str, float]:
    """Return the seconds of each test that passed on the unbroken code."""
    cases = ElementTree.parse(SECONDS_FILE).iter("testcase")
    return {
        f"{case.get('file')}::{case.get('name')}": float(case.get("time", 0.0))
        for case in cases
        if not len(case)  # of what failed or was skipped
    }


def count_common_parts(test: str, source: Path) -> int:
    """Count folders in both paths, and leading names of the module that the test's file has.

    A test file's own name counts twice: `tests/contracts/test_a.py` is about all of a. It has a.b
    in common with `a/b.py` if it imports that.
    """
    path, parts = Path(test.partition("::")[0]), source.with_suffix("").parts
    folders = len({*path.parts[1:-1]} & {*parts})
    imports = sum(name in read_test(path) for name in accumulate(parts, "{}.{}".format))
    return folders + 2 * (path.stem.removeprefix("test_") in parts) + imports


@cache
def read_test(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def main() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("session", type=Path, nargs="?")
    parser.add_argument("--size", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = vars(parser.parse_args())
    return leave_sample(**options) if options["session"] else test_broken_file()


if __name__ == "__main__":
    sys.exit(main())
