"""What a user waits for: the first comparison, the next ones, two workers, an import."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import Finished, run_process
from benchmarks.session import Session
from benchmarks.timing import Contestant, Ratio, Row, summarise

AGENTS = ("racing", "exact", "smc")
REPLICATIONS, HORIZON = 100, 1000
FIRST_REPLICATIONS, FIRST_HORIZON = 2, 10
MAX_REPEATS = 3  # each takes seconds, and varies little


def rows(session: Session) -> Iterator[Row]:
    """Measure imports, then comparisons."""
    yield from _imports(session)
    repeats = min(MAX_REPEATS, session.effort.repeats)
    yield _cold_start(repeats)
    yield from _comparisons(session, repeats)


def _imports(session: Session) -> list[Row]:
    contestants = {name: _import(name) for name in ("bandit_gym", "gymnasium")}
    title = "import time: bandit_gym / gymnasium"
    ratios = [Ratio("end-to-end.import", title, "bandit_gym", "gymnasium")]
    return session.measure(contestants, ratios, "import")


def _import(module: str) -> Contestant:
    def play(num_rounds: int, clock: str) -> tuple[float, float]:
        runs = [run_process(["-c", f"import {module}"]) for _ in range(num_rounds)]
        times = [run.processor_seconds if clock == "processor" else run.seconds for run in runs]
        return sum(times), num_rounds

    return play


def _cold_start(repeats: int) -> Row:
    """Time a first comparison too small to matter: start-up and compilation."""
    times = []
    for _ in range(repeats):
        with _empty_folder() as cache:
            times.append(_compare(FIRST_REPLICATIONS, FIRST_HORIZON, cache=cache).seconds)
    title = f"first compare ever, {FIRST_REPLICATIONS} x {FIRST_HORIZON}: compilation"
    return summarise("end-to-end.cold-start", title, times, "s")


def _comparisons(session: Session, repeats: int) -> Iterator[Row]:
    size = session.effort.scaled(REPLICATIONS, 2), session.effort.scaled(HORIZON, 10)
    label = f"compare {'+'.join(AGENTS)}, {size[0]} x {size[1]}"
    with _empty_folder() as cache:
        cold = _compare(*size, cache=cache)
        yield summarise("end-to-end.cold", f"{label}: cold", [cold.seconds], "s")
        warm, parallel = [], []
        for _ in range(repeats):
            warm.append(_compare(*size, cache=cache))
            parallel.append(_compare(*size, cache=cache, num_workers=2))
    warm_times, parallel_times = ([run.seconds for run in runs] for runs in (warm, parallel))
    yield summarise("end-to-end.warm", f"{label}: warm", warm_times, "s")
    yield summarise("end-to-end.workers", f"{label}: 2 workers", parallel_times, "s")
    gains = [one / two for one, two in zip(warm_times, parallel_times, strict=True)]
    yield summarise("end-to-end.gain", f"{label}: 1 worker / 2 workers", gains, "x")
    peaks = [run.peak_mib for run in warm]
    yield summarise("end-to-end.memory", f"{label}: peak memory", peaks, "MiB")


def _compare(replications: int, horizon: int, *, cache: Path, num_workers: int = 1) -> Finished:
    """Run the command once, in a fresh folder, with compiled code kept in `cache`."""
    with _empty_folder() as folder:
        options = {
            "--replications": replications,
            "--horizon": horizon,
            "--workers": num_workers,
            "--out": folder / "results",
        }
        listed = [str(part) for pair in options.items() for part in pair]
        command = ["-m", "bandit_gym.cli", "compare", *listed, "--agents", *AGENTS]
        return run_process(command, {"NUMBA_CACHE_DIR": str(cache)})


@contextmanager
def _empty_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
