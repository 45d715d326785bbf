"""A copy of the working tree, to be broken, and the tests that a mutant meets there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any

import numba
import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = "tests/agents", "tests/bandit_gym", "tests/contracts"
CONTRACTS = {  # what each is about, where that is one room
    **dict.fromkeys(("agents", "laws", "recomputed"), "agents"),
    **{name: f"agents/{name}" for name in ("posteriors", "racing", "rules")},
    "optimum": "agents/bayes_optimal",
    "commands": "bandit_gym/cli",
    "refusals": "bandit_gym/checks",
    "users_laws": "bandit_gym/priors",
    **dict.fromkeys(("executors", "experiments"), "bandit_gym/experiments"),
    **dict.fromkeys(("environments", "vector_environments"), "bandit_gym/envs"),
    **{
        name: f"bandit_gym/{name}"
        for name in ("fidelity", "likelihoods", "priors", "results", "wrappers")
    },
}

MAX_SECONDS_PER_TEST = {"plain": 0.5, "compiled": 40.0}
"""Seconds of the processor that a test may take on the unbroken code, compilation included."""

MAX_SECONDS_PER_MUTANT = {"plain": 8.0, "compiled": 30.0}
"""Seconds of tests, on the unbroken code, that a mutant meets."""

TIMES_LONGER, OUT_OF_TIME = 20, 99
"""Times `MAX_SECONDS_PER_TEST` after which a test is ended, and the exit status that says so."""


class Stopwatch:
    """A pytest plugin that notes the tests that pass and their seconds, and stops slow ones."""

    def __init__(self, patience: float, give_up: Callable[..., None]) -> None:
        self.seconds: dict[str, float] = {}
        self._patience, self._give_up = patience, give_up

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Stop a test that takes more of the processor's time, note one that passes."""
        signal.signal(signal.SIGPROF, self._give_up)
        signal.setitimer(signal.ITIMER_PROF, self._patience)
        start = process_time()
        try:
            yield
            self.seconds[item.nodeid] = process_time() - start
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def _leave_out(*_: Any) -> None:
    raise TimeoutError


def _end_all(*_: Any) -> None:
    pytest.exit("out of time", OUT_OF_TIME)


class Tree:
    """A copy of the working tree, to be broken and tested.

    Attributes:
        folder: where it is.
        seconds: mode -> test -> its seconds on the unbroken code; modes are those of
            `MAX_SECONDS_PER_MUTANT`. They are kept in the given notes, for a run that goes on.
    """

    def __init__(self, folder: Path, notes: Path) -> None:
        self.folder = folder
        for name in ("agents", "bandit_gym", "docs", "scripts", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        if not notes.exists():
            seconds = {mode: self._measure(mode, [*TESTS]) for mode in MAX_SECONDS_PER_MUTANT}
            notes.write_text(json.dumps(seconds))
        self.seconds = json.loads(notes.read_text())
        self._kernels = {path: path.read_bytes() for path in folder.rglob("*.nbc")}

    def _measure(self, mode: str, tests: list[str]) -> dict[str, float]:
        """Return the seconds of the tests that pass, in any order."""
        seconds = self._time(mode, tests, MAX_SECONDS_PER_TEST[mode])
        again = self._time(mode, sorted(seconds, key=lambda test: seconds[test]), 3600.0)
        if not again:
            raise ValueError(f"tests must be found that pass on the unbroken code, got {tests}.")
        return {test: seconds[test] for test in again}

    def _time(self, mode: str, tests: list[str], patience: float) -> dict[str, float]:
        found = self.folder / f"{mode}.json"
        _run_in_fork(self._run_pytest, mode, tests, Stopwatch(patience, _leave_out), found)
        return dict(json.loads(found.read_text()))

    def _run_pytest(
        self, mode: str, tests: list[str], watch: Stopwatch, found: Path | None = None
    ) -> int:
        self._import_from_tree(mode)
        options = ["-q", "-n0", "--tb=no", "--assert=plain", "-pno:cacheprovider", "-mnot slow"]
        options += ["-W", "ignore::RuntimeWarning"] * (mode == "plain")  # compiled code gives none
        code = pytest.main([*options, *tests], plugins=[watch])
        if found:
            found.write_text(json.dumps(watch.seconds))
        return int(code)

    def _import_from_tree(self, mode: str) -> None:
        """Make this process one that imports both packages from the tree."""
        os.chdir(self.folder)
        sys.path.insert(0, str(self.folder))
        os.environ.update(NUMBA_DISABLE_JIT=str(int(mode == "plain")), PYTHONPATH=str(self.folder))
        numba.config.reload_config()  # type: ignore[no-untyped-call]

    def run_nearest_tests(self, source: Path) -> str:
        """Return what became of the tests nearest to a source file, "" if they all passed."""
        met: set[str] = set()
        for mode, every in self.seconds.items():
            others = {test: seconds for test, seconds in every.items() if test not in met}
            tests = list(list_nearest_tests(source, others, MAX_SECONDS_PER_MUTANT[mode]))
            met |= set(tests)
            code = self._run(mode, tests) if tests else 0
            if code != 0:
                return f"{mode}: {'timeout' if code in (None, OUT_OF_TIME) else f'exit {code}'}"
        return ""

    def _run(self, mode: str, tests: list[str]) -> int | None:
        watch = Stopwatch(TIMES_LONGER * MAX_SECONDS_PER_TEST[mode], _end_all)
        limit = 60 + 40 * MAX_SECONDS_PER_MUTANT[mode]
        code = _run_in_fork(self._run_pytest, mode, ["-x", *tests], watch, limit=limit)
        for path in set(self.folder.rglob("*.nbc")) - set(self._kernels):
            path.unlink()  # which took the place of a kernel that is not broken
        for path in set(self._kernels) - set(self.folder.rglob("*.nbc")):
            path.write_bytes(self._kernels[path])
        return code


def list_nearest_tests(source: Path, seconds: dict[str, float], left: float) -> Iterator[str]:
    """Yield the tests whose path shares most with the source's, quick ones first, in the time."""
    for test in sorted(
        seconds, key=lambda test: (-_count_common_parts(test, source), seconds[test])
    ):
        left -= seconds[test]
        if left < 0:
            return
        yield test


def _count_common_parts(test: str, source: Path) -> int:
    """Count the leading parts that `tests/a/test_b.py::...` and `a/b/c.py` have in common.

    A contract is as near as if it lay with the room that it is about.
    """
    path = Path(test.partition("::")[0]).with_suffix("")
    name = path.name.removeprefix("test_")
    is_contract = path.parent.name == "contracts"
    folders = CONTRACTS.get(name, "").split("/") if is_contract else path.parts[1:-1]
    parts = [*folders, name]
    pairs = zip(parts, source.with_suffix("").parts, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), len(parts))


def _run_in_fork(function: Any, *arguments: Any, limit: float = 3600.0) -> int | None:
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
