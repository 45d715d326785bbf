"""How many broken lines the tests notice: mutants drawn at random in both packages.

    python scripts/mutants.py run --seed 1 --session results/mutants/both-1.sqlite
    python scripts/mutants.py table results/mutants/*.sqlite
    cr-report --surviving-only --show-diff results/mutants/both-1.sqlite

cosmic-ray (`pip install -e ".[mutants]"`) knows the places that can be broken, breaks them and runs
the tests; a session is its own, so its `cr-report` and `cr-html` show what survived. A run that is
stopped goes on where it was. The working tree and its compiled kernels are copied, to a folder
beside the session, and each mutant is written into another copy of that. It meets the tests nearest
to it that take `MAX_SECONDS` in all; it counts as noticed if they need `TIMEOUT`. So a score is a
lower bound of what all tests notice. Annotations, which are never evaluated, are not broken, and
what is no longer Python is not counted.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate, islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from cosmic_ray import mutating, plugins
from cosmic_ray.commands import init
from cosmic_ray.testing import run_tests
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import MutationSpec, WorkerOutcome, WorkResult

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = "agents", "bandit_gym"
TESTS = "tests/agents", "tests/bandit_gym", "tests/contracts"
PYTEST = f"{sys.executable} -m pytest -q -n0 --tb=no --assert=plain -pno:cacheprovider @tests.txt"
MAX_SECONDS, TIMEOUT, MAX_MEASURING = 38.0, 300.0, 7200.0
"""Seconds of tests, on the unbroken code, that a mutant meets; of waiting for them; and of waiting
for all tests on the unbroken code."""


# -- What is broken --------------------------------------------------------------------------------


def list_sources(prefix: str) -> list[Path]:
    """Return the files of both packages whose path, such as agents/racing/, begins so."""
    files = [path.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    return sorted(path for path in files if path.as_posix().startswith(prefix))


def draw_mutants(prefix: str, size: int, seed: int) -> list[Any]:
    """Draw mutants of some files, each place and way to break it with the same chance."""
    database, paths = WorkDB(":memory:", WorkDB.Mode.create), list_sources(prefix)
    with contextlib.chdir(ROOT):
        init(paths, database, {})
    every = sorted(database.work_items, key=lambda item: identify_mutant(item.mutations[0]))
    random.Random(seed).shuffle(every)
    return list(islice((item for item in every if is_another_program(item.mutations[0])), size))


def identify_mutant(mutation: MutationSpec) -> tuple:
    """Return what distinguishes a mutant from all others."""
    return str(mutation.module_path), mutation.operator_name, mutation.occurrence


def is_another_program(mutation: MutationSpec) -> bool:
    """Say whether a broken file is Python and differs in more than its annotations."""
    operator = plugins.get_operator(mutation.operator_name)()
    text = (ROOT / mutation.module_path).read_text()
    try:
        broken = without_annotations(mutating.mutate_code(text, operator, mutation.occurrence))
    except SyntaxError:  # a lone star is taken for a product, say
        return False
    return broken != without_annotations(text)


@cache
def without_annotations(text: str) -> str:
    """Return what a file's syntax tree has beside annotations."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for name in {"annotation", "returns"} & {*node._fields}:
            setattr(node, name, None)
    return ast.dump(tree)


# -- What it meets ---------------------------------------------------------------------------------


def copy_tree(folder: Path) -> None:
    """Copy the working tree, compile its kernels, and time its tests, twice, in another order."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in (*PACKAGES, "docs", "scripts", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc", "*.nbc"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    tests: Iterable[str] = ["-mnot slow", *TESTS]
    for _ in range(2):
        with chosen_tests(folder, tests):
            run_tests(f"{PYTEST} --junitxml=seconds.xml -ojunit_family=xunit1", MAX_MEASURING)
        seconds = read_seconds(folder)
        tests = sorted(seconds, key=lambda test: seconds[test])


def read_seconds(folder: Path) -> dict[str, float]:
    """Return the seconds of each test that passed, compilation not included."""
    cases = ElementTree.parse(folder / "seconds.xml").iter("testcase")
    return {
        f"{case.get('file')}::{case.get('name')}": float(case.get("time", 0.0))
        for case in cases
        if not len(case)  # of what failed or was skipped
    }


@contextlib.contextmanager
def chosen_tests(folder: Path, tests: Iterable[str]) -> Iterator[None]:
    """Let PYTEST run tests in a copy of the tree, with its modules and kernels."""
    (folder / "tests.txt").write_text("\n".join(tests))
    own = {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "kernels")}
    os.environ |= own  # which tests inherit
    with contextlib.chdir(folder):
        yield


def list_nearest_tests(source: Path, seconds: dict[str, float], left: float) -> Iterator[str]:
    """Yield the tests that have most in common with a source, quick ones first, in the time."""
    for test in sorted(
        seconds, key=lambda test: (-_count_common_parts(test, source), seconds[test])
    ):
        left -= seconds[test]
        if left < 0:
            return
        yield test


def _count_common_parts(test: str, source: Path) -> int:
    """Count folders in both paths, and leading names of the module that the test's file has.

    A test file's own name counts twice: `tests/contracts/test_a.py` is about all of a. It has a.b
    in common with `a/b.py` if it imports that.
    """
    path, parts = Path(test.partition("::")[0]), source.with_suffix("").parts
    folders = len({*path.parts[1:-1]} & {*parts})
    names = accumulate(parts, "{}.{}".format)
    imports = sum(name in _read_test(path) for name in names)
    return folders + 2 * (path.stem.removeprefix("test_") in parts) + imports


@cache
def _read_test(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""


def judge_mutant(mutation: MutationSpec, tree: Path) -> WorkResult:
    """Break a copy of the tree, and run the nearest tests there."""
    tests = list_nearest_tests(mutation.module_path, read_seconds(tree), MAX_SECONDS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(shutil.copytree(tree, name, dirs_exist_ok=True))
        with chosen_tests(folder, tests):
            return mutating.mutate_and_test([mutation], f"{PYTEST} -x", TIMEOUT)


# -- Commands --------------------------------------------------------------------------------------


def run(only: str, session: Path, again: bool, **drawn: int) -> None:
    """Judge the mutants of a session that have not been judged, or again those that survived.

    Args:
        only: how the paths of the files begin whose lines are broken; "" for all.
        session: file of the mutants and of what became of them; made if it is not there.
        again: whether survivors meet the tests once more, as these are now.
        drawn: size and seed of a new sample.
    """
    session.parent.mkdir(parents=True, exist_ok=True)
    database, tree = WorkDB(session, WorkDB.Mode.create), session.resolve().with_suffix("")
    if database.num_work_items == 0:
        database.add_work_items(draw_mutants(only, **drawn))
    if again or not (tree / "seconds.xml").exists():
        copy_tree(tree)
    done = [] if not again else list(database.completed_work_items)
    survivors = [item for item, result in done if not result.is_killed]
    for item in [*database.pending_work_items, *survivors]:
        result = judge_mutant(item.mutations[0], tree)
        database.set_result(item.job_id, result)
        print(result.diff, result.test_outcome, sep="\n", flush=True)


def print_table(sessions: list[Path]) -> None:
    """Print the scores of sessions, with Wilson's 95 % intervals."""
    from bandit_gym.results.report import markdown_rows
    from bandit_gym.results.statistics import proportion_interval

    rows = []
    for session in sessions:
        judged = [result for _, result in WorkDB(session, WorkDB.Mode.open).results]
        judged = [each for each in judged if each.worker_outcome == WorkerOutcome.NORMAL]
        score = proportion_interval(np.array([float(each.is_killed) for each in judged]))
        cells = {"sample": session.stem, "mutants": len(judged)}
        cells |= {"noticed": sum(each.is_killed for each in judged)}
        cells |= {"of them by time": sum(each.output == "timeout" for each in judged)}
        cells |= {"share": "{:.0%} ({:.0%} to {:.0%})".format(*score)}
        rows.append({name: str(cell) for name, cell in cells.items()})
    print(markdown_rows(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True, dest="command")
    runner = commands.add_parser("run")
    runner.add_argument("--only", default="", metavar="PATH", help="such as agents/racing/")
    runner.add_argument("--size", type=int, default=60)
    runner.add_argument("--seed", type=int, default=0)
    runner.add_argument("--session", type=Path, required=True)
    runner.add_argument("--again", action="store_true", help="judge survivors once more")
    commands.add_parser("table").add_argument("sessions", type=Path, nargs="+")
    options = vars(parser.parse_args())
    if options.pop("command") == "run":
        run(**options)
    else:
        print_table(**options)


if __name__ == "__main__":
    main()
