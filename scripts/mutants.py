"""How many broken lines the tests notice: mutants drawn at random in each room of both packages.

    python scripts/mutants.py run --room results --seed 1 --session results/mutants/results-1.sqlite
    python scripts/mutants.py table results/mutants/*.sqlite

cosmic-ray (`pip install -e ".[mutants]"`) knows the places that can be broken and breaks them; a
session is its own, so `cr-report` and `cr-html` read it too. A run that is stopped goes on where it
was. Each mutant is written into a copy of the working tree and meets the tests nearest to it, in a
fork of a process that has imported the libraries: first with kernels as plain Python, then, if it
survives, compiled. What needs longer than `PATIENCE` a test or `BUDGET` in all is left out, so a
score is a lower bound of what all tests notice. Annotations, which are never evaluated, are not
broken, and what is no longer Python is not counted.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any

import numba
import pytest
from cosmic_ray import mutating, plugins
from cosmic_ray.commands import init
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkResult

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "mutants.md"
EQUIVALENT = "## What cannot change behaviour"
ROOMS = {  # sources -> tests that may notice
    "racing": (
        "agents/racing",
        "tests/agents/racing tests/agents/test_racing.py tests/agents/test_racing_thompson.py",
    ),
    "posteriors": (
        "agents/posteriors",
        "tests/agents/posteriors tests/agents/test_posteriors.py"
        " tests/agents/test_exact_thompson.py tests/agents/test_smc_thompson.py",
    ),
    "experiments": (
        "bandit_gym/experiments",
        "tests/bandit_gym/experiments tests/bandit_gym/test_cli.py",
    ),
    "results": ("bandit_gym/results", "tests/bandit_gym/results"),
    "rest": (
        "",
        "tests/agents/test_base.py tests/agents/test_exact_thompson.py tests/agents/test_oracle.py"
        " tests/agents/test_smc_thompson.py tests/agents/numerics tests/agents/rules"
        " tests/agents/sb3 tests/bandit_gym/envs tests/bandit_gym/likelihoods"
        " tests/bandit_gym/numerics tests/bandit_gym/priors tests/bandit_gym/test_checks.py"
        " tests/bandit_gym/test_cli.py tests/bandit_gym/test_dynamics.py"
        " tests/bandit_gym/test_likelihoods.py tests/bandit_gym/test_problem.py"
        " tests/bandit_gym/test_registration.py tests/bandit_gym/test_rollout.py",
    ),
}
PATIENCE = {"plain": 1.5, "compiled": 40.0}
"""Seconds of the processor that a test may take on the unbroken code, compilation included."""

BUDGET = {"plain": 12.0, "compiled": 30.0}
"""Seconds of tests, on the unbroken code, that a mutant meets."""

LIBRARIES = (
    *("numba", "pandas", "pyarrow.parquet", "matplotlib.pyplot", "gymnasium.vector", "joblib"),
    *("scipy.stats", "scipy.integrate", "scipy.optimize", "scipy.interpolate", "scipy.sparse"),
)
"""What every test would wait for, imported once."""


class Stopwatch:
    """A pytest plugin that notes the tests that pass and their seconds, and stops slow ones."""

    def __init__(self, patience: float) -> None:
        self.seconds: dict[str, float] = {}
        self._patience = patience

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Stop a test that takes more of the processor's time, note one that passes."""
        signal.signal(signal.SIGPROF, _raise_timeout)
        signal.setitimer(signal.ITIMER_PROF, self._patience)
        start = process_time()
        try:
            yield
            self.seconds[item.nodeid] = process_time() - start
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def _raise_timeout(*_: Any) -> None:
    raise TimeoutError


class Tree:
    """A copy of the working tree, to be broken and tested.

    Attributes:
        folder: where it is.
        seconds: mode -> test -> its seconds on the unbroken code; modes are those of `BUDGET`. They
            are kept in the given notes, for a run that goes on.
    """

    def __init__(self, folder: Path, tests: list[str], notes: Path) -> None:
        self.folder = folder
        for name in ("agents", "bandit_gym", "docs", "scripts", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        if not notes.exists():
            notes.write_text(json.dumps({mode: self._measure(mode, tests) for mode in PATIENCE}))
        self.seconds = json.loads(notes.read_text())
        self._kernels = {path: path.read_bytes() for path in folder.rglob("*.nbc")}

    def _measure(self, mode: str, tests: list[str]) -> dict[str, float]:
        found = self.folder / f"{mode}.json"
        _fork(self._pytest, mode, tests, PATIENCE[mode], found)
        seconds: dict[str, float] = json.loads(found.read_text())
        if not seconds:
            raise ValueError(f"tests must be found that pass on the unbroken code, got {tests}.")
        return seconds

    def _pytest(
        self, mode: str, tests: list[str], patience: float = 600.0, found: Path | None = None
    ) -> int:
        self._settle(mode)
        watch = Stopwatch(patience)
        options = ["-q", "-n0", "--tb=no", "-p", "no:cacheprovider", "-m", "not slow"]
        code = pytest.main([*options, *tests], plugins=[watch])
        if found:
            found.write_text(json.dumps(watch.seconds))
        return int(code)

    def _settle(self, mode: str) -> None:
        """Make this process one that imports both packages from the tree."""
        os.chdir(self.folder)
        sys.path.insert(0, str(self.folder))
        os.environ.update(NUMBA_DISABLE_JIT=str(int(mode == "plain")), PYTHONPATH=str(self.folder))
        numba.config.reload_config()

    def notices(self, source: Path) -> str:
        """Return what became of the tests nearest to a source file, "" if they all passed."""
        plain = list(_nearest(source, self.seconds["plain"], BUDGET["plain"]))
        others = {t: s for t, s in self.seconds["compiled"].items() if t not in plain}
        compiled = list(_nearest(source, others, BUDGET["compiled"]))
        for mode, tests in (("plain", plain), ("compiled", compiled)):
            code = self._run(mode, tests) if tests else 0
            if code != 0:
                return f"{mode}: {'timeout' if code is None else f'exit {code}'}"
        return ""

    def _run(self, mode: str, tests: list[str]) -> int | None:
        code = _fork(self._pytest, mode, ["-x", *tests], limit=60 + 10 * BUDGET[mode])
        for path in set(self.folder.rglob("*.nbc")) - set(self._kernels):
            path.unlink()  # which took the place of a kernel that is not broken
        for path in set(self._kernels) - set(self.folder.rglob("*.nbc")):
            path.write_bytes(self._kernels[path])
        return code


def _nearest(source: Path, seconds: dict[str, float], left: float) -> Iterator[str]:
    """Yield the tests whose path shares most with the source's, quick ones first, in the time."""
    for test in sorted(seconds, key=lambda test: (-_kinship(test, source), seconds[test])):
        left -= seconds[test]
        if left < 0:
            return
        yield test


def _kinship(test: str, source: Path) -> int:
    """Count the leading parts that `tests/a/test_b.py::...` and `a/b/c.py` have in common."""
    path = Path(test.partition("::")[0]).with_suffix("")
    parts = [*path.parts[1:-1], path.name.removeprefix("test_")]
    pairs = zip(parts, source.with_suffix("").parts, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), len(parts))


def _fork(function: Any, *arguments: Any, limit: float = 3600.0) -> int | None:
    """Return the exit status of a function run in a fork; None if it took longer than the limit."""
    process = get_context("fork").Process(target=_exit_with, args=(function, *arguments))
    process.start()
    process.join(limit)
    timed_out = process.is_alive()
    if timed_out:
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    return None if timed_out else process.exitcode


def _exit_with(function: Any, *arguments: Any) -> None:
    os.setsid()  # so that processes which a test starts end with it
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os._exit(function(*arguments))


def draw_mutants(room: str, size: int, seed: int) -> list[Any]:
    """Draw mutants of a room, each place and way to break it with the same chance."""
    database = WorkDB(":memory:", WorkDB.Mode.create)
    paths = [path.relative_to(ROOT) for path in _sources(room)]
    init(paths, database, {})
    every = sorted(database.work_items, key=lambda item: _identity(item.mutations[0]))
    annotations = {path: list(_annotations(path)) for path in paths}
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


def _identity(mutation: MutationSpec) -> tuple:
    return str(mutation.module_path), mutation.operator_name, mutation.occurrence


def _sources(room: str) -> list[Path]:
    """Return the files of a room; those of the rest are in no other room."""
    folders = {name: ROOT / sources for name, (sources, _) in ROOMS.items() if sources}
    if room in folders:
        return sorted(folders[room].rglob("*.py"))
    both = [*(ROOT / "agents").rglob("*.py"), *(ROOT / "bandit_gym").rglob("*.py")]
    return sorted(path for path in both if not set(folders.values()) & set(path.parents))


def _annotations(path: Path) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for node in ast.walk(ast.parse(path.read_text())):
        for name in ("annotation", "returns"):
            found = getattr(node, name, None)
            if found is not None:
                ends = found.end_lineno or 0, found.end_col_offset or 0
                yield (found.lineno, found.col_offset), ends


def _is_inside(mutation: MutationSpec, spans: dict[Path, list]) -> bool:
    inside = spans[Path(mutation.module_path)]
    return any(start <= tuple(mutation.start_pos) < end for start, end in inside)


def judge(mutation: MutationSpec, tree: Tree) -> WorkResult:
    """Break the tree, run the nearest tests, mend it again."""
    path, operator = mutation.module_path, plugins.get_operator(mutation.operator_name)()
    broken = mutating.use_mutation(tree.folder / path, operator, mutation.occurrence)
    with broken as (before, after):
        fate = tree.notices(path)
    outcome = TestOutcome.KILLED if fate else TestOutcome.SURVIVED
    return WorkResult(WorkerOutcome.NORMAL, fate, outcome, name_of(path, before, after))


def name_of(path: Path, before: str, after: str) -> str:
    """Name a mutant by its file and its line, whole and broken."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    old, new = next((a, b) for a, b in pairs if a != b)
    return f"`{path}`: `{old.strip()}` -> `{new.strip()}`"


def run(room: str, size: int, seed: int, session: Path, again: bool) -> None:
    """Judge the mutants of a session that have not been judged, or again those that survived."""
    for library in LIBRARIES:
        importlib.import_module(library)
    sys.dont_write_bytecode = True  # a stale module would hide a mutant
    session.parent.mkdir(parents=True, exist_ok=True)
    database = WorkDB(session, WorkDB.Mode.create)
    if database.num_work_items == 0:
        database.add_work_items(draw_mutants(room, size, seed))
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder), ROOMS[room][1].split(), session.with_suffix(".json"))
        done = [] if not again else list(database.completed_work_items)
        survivors = [item for item, result in done if not result.is_killed]
        for item in [*database.pending_work_items, *survivors]:
            result = judge(item.mutations[0], tree)
            database.set_result(item.job_id, result)
            print(result.output or "SURVIVED", result.diff, flush=True)


def table(sessions: list[Path]) -> None:
    """Print the scores of sessions, with Wilson's 95 % intervals, and what survived."""
    from bandit_gym.results.statistics import proportion_interval

    equivalent = PAGE.read_text().partition(EQUIVALENT)[2] if PAGE.exists() else ""
    titles = "sample|mutants|cannot change behaviour|killed|of them by time|survived|score"
    print(f"|{titles}|\n|{'---|' * 7}")
    survivors = []
    for session in sessions:
        results = [result for _, result in WorkDB(session, WorkDB.Mode.open).results]
        idle = [r for r in results if not r.is_killed and str(r.diff) in equivalent]
        left = [r for r in results if not r.is_killed and str(r.diff) not in equivalent]
        killed = [r for r in results if r.is_killed]
        late = sum("timeout" in str(r.output) for r in killed)
        score = proportion_interval([1.0] * len(killed) + [0.0] * len(left))
        shares = "{:.0%} ({:.0%} to {:.0%})".format(*score)
        cells = (session.stem, len(results), len(idle), len(killed), late, len(left), shares)
        print("|", " | ".join(map(str, cells)), "|")
        survivors += [str(r.diff) for r in left]
    print("\n".join(f"- {name}" for name in survivors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True, dest="command")
    runner = commands.add_parser("run")
    runner.add_argument("--room", choices=ROOMS, required=True)
    runner.add_argument("--size", type=int, default=60)
    runner.add_argument("--seed", type=int, default=0)
    runner.add_argument("--session", type=Path, required=True)
    runner.add_argument("--again", action="store_true", help="judge survivors once more")
    commands.add_parser("table").add_argument("sessions", type=Path, nargs="+")
    options = vars(parser.parse_args())
    {"run": run, "table": table}[options.pop("command")](**options)


if __name__ == "__main__":
    main()
