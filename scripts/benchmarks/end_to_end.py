"""What a user waits for: the first comparison, the next ones, two workers, an import."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import Finished, run_process
from benchmarks.session import Session
from benchmarks.timing import Contestant, Effort, Ratio, Row, summarise

AGENTS = ("racing", "exact", "smc")
REPLICATIONS, HORIZON = 100, 1000
FIRST_SIZE = 2, 10
MAX_REPEATS = 3  # each takes seconds, and varies little

Size = tuple[int, int]  # replications and horizon


def rows(session: Session) -> Iterator[Row]:
    """Measure imports, then comparisons."""
    yield from _imports(session)
    repeats = MAX_REPEATS if session.effort.is_full else 1
    with _empty_folder() as cache:
        yield from _cold(session.effort, repeats, cache)
        yield from _warm(session.effort, repeats, cache)


def _imports(session: Session) -> list[Row]:
    contestants = {name: _import(name) for name in ("bandit_gym", "gymnasium")}
    title = "import time: bandit_gym / gymnasium"
    ratios = [Ratio("end-to-end.import", title, "bandit_gym", "gymnasium")]
    return session.measure(contestants, ratios, "import")


def _import(module: str) -> Contestant:
    def play(num_rounds: int, clock: str) -> tuple[float, float]:
        runs = [run_process(["-c", f"import {module}"]) for _ in range(num_rounds)]
        return sum(run.time(clock) for run in runs), num_rounds

    return play


def _cold(effort: Effort, repeats: int, cache: Path) -> Iterator[Row]:
    """Time a first comparison too small to matter, start-up and compilation, then a real one.

    The latter is left out where little effort is asked for.

    Args:
        effort: how much of it to make.
        repeats: first comparisons, each with an empty cache.
        cache: empty folder, which the last of them fills.
    """
    times = []
    for _ in range(repeats - 1):
        with _empty_folder() as own_cache:
            times.append(_compare(FIRST_SIZE, cache=own_cache).time(effort.clock))
    times.append(_compare(FIRST_SIZE, cache=cache).time(effort.clock))
    title = f"first compare ever, {_name(FIRST_SIZE)}: compilation and start-up"
    yield summarise("end-to-end.cold-start", title, times, "s")
    if effort.is_full:
        size = _size(effort)
        with _empty_folder() as own_cache:
            cold = _compare(size, cache=own_cache).time(effort.clock)
        yield summarise("end-to-end.cold", f"compare, {_name(size)}: cold", [cold], "s")


def _warm(effort: Effort, repeats: int, cache: Path) -> Iterator[Row]:
    """Time the same comparison again, with one worker and with two."""
    size = _size(effort)
    alone, parallel = [], []
    for _ in range(repeats):
        alone.append(_compare(size, cache=cache, num_workers=1))
        parallel.append(_compare(size, cache=cache, num_workers=2))
    label = f"compare, {_name(size)}"
    for key, title, runs in (
        ("warm", "warm, 1 worker", alone),
        ("workers", "warm, 2 workers", parallel),
    ):
        times = [run.time(effort.clock) for run in runs]
        yield summarise(f"end-to-end.{key}", f"{label}: {title}", times, "s")
    gains = [one.seconds / two.seconds for one, two in zip(alone, parallel, strict=True)]
    yield summarise("end-to-end.gain", f"{label}: 1 worker / 2 workers, wall clock", gains, "x")
    peaks = [run.peak_mib for run in alone]
    yield summarise("end-to-end.memory", f"{label}: peak memory", peaks, "MiB")


def _size(effort: Effort) -> Size:
    return effort.length(REPLICATIONS, minimum=10), effort.length(HORIZON, minimum=20)


def _name(size: Size) -> str:
    return f"{'+'.join(AGENTS)}, {size[0]} x {size[1]}"


def _compare(size: Size, *, cache: Path, num_workers: int | None = None) -> Finished:
    """Run the command once, in a fresh folder, with compiled code kept in `cache`."""
    with _empty_folder() as folder:
        options: dict[str, object] = {
            "--replications": size[0],
            "--horizon": size[1],
            "--out": folder / "results",
        }
        if num_workers is not None:
            options |= {"--workers": num_workers}
        listed = [str(part) for pair in options.items() for part in pair]
        command = ["-m", "bandit_gym", "compare", *listed, "--agents", *AGENTS]
        return run_process(command, {"NUMBA_CACHE_DIR": str(cache)})


@contextmanager
def _empty_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
