"""What a user waits for: the first comparison, the next ones, two workers, an import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from tempfile import TemporaryDirectory

from benchmarks.processes import Finished, run_process
from benchmarks.session import Measurement, Session
from benchmarks.timing import Contestant, Effort, Row, summarise

AGENTS = ("racing", "exact", "smc")
REPLICATIONS, HORIZON = 100, 1000
FIRST_SIZE = 2, 10
TRIVIAL_SIZE = 2, 5
LIBRARIES = "numpy, gymnasium, pandas"
MAX_REPEATS = 3  # each takes seconds, and varies little

Size = tuple[int, int]  # replications and horizon


def measurements(session: Session) -> Iterator[Measurement]:
    """Tell of imports, then of comparisons; the costliest only where much effort is asked for."""
    yield session.match(
        "import time: ",
        {"end-to-end.import": ("bandit_gym", "gymnasium")},
        "import",
        lambda: {name: _import(name) for name in ("bandit_gym", "gymnasium")},
    )
    yield session.match(
        f"start-up, compare of random, {TRIVIAL_SIZE[0]} x {TRIVIAL_SIZE[1]}: ",
        {"end-to-end.start-up": ("compare", "its libraries")},
        "process",
        lambda: {"compare": _trivial_comparison, "its libraries": _import(LIBRARIES)},
    )
    names = ("cold-start", "warm", "workers", "gain", "memory")
    keys = tuple(f"end-to-end.{name}" for name in names)
    yield Measurement(keys, partial(_comparisons, session.effort))
    if session.effort.is_full:
        yield Measurement(("end-to-end.cold",), partial(_cold, session.effort))


def _import(modules: str) -> Contestant:
    def play(num_rounds: int, clock: str) -> tuple[float, float]:
        runs = [run_process("-c", f"import {modules}") for _ in range(num_rounds)]
        return sum(run[clock] for run in runs), num_rounds

    return play


def _trivial_comparison(num_rounds: int, clock: str) -> tuple[float, float]:
    runs = [_compare(TRIVIAL_SIZE, agents=("random",)) for _ in range(num_rounds)]
    return sum(run[clock] for run in runs), num_rounds


def _comparisons(effort: Effort) -> Iterator[Row]:
    """Time first comparisons, too small to matter, and real ones with what the last compiled.

    The real ones are the same comparison again and again, by turns with one worker and with two.
    """
    repeats = MAX_REPEATS if effort.is_full else 1
    with TemporaryDirectory() as cache:
        first = [_compare(FIRST_SIZE) for _ in range(repeats - 1)]
        first.append(_compare(FIRST_SIZE, cache))
        title = f"first compare ever, {_name(FIRST_SIZE)}: compilation and start-up"
        yield _timed("cold-start", title, first, effort)
        size = _size(effort)
        pairs = [[_compare(size, cache, workers=count) for count in (1, 2)] for _ in range(repeats)]
    alone, parallel = zip(*pairs, strict=True)
    label = f"compare, {_name(size)}: "
    yield _timed("warm", f"{label}warm, 1 worker", alone, effort)
    yield _timed("workers", f"{label}warm, 2 workers", parallel, effort)
    gains = [one["wall"] / two["wall"] for one, two in pairs]
    yield summarise("end-to-end.gain", f"{label}1 worker / 2 workers, wall clock", gains, "x")
    peaks = [run["peak_mib"] for run in alone]
    yield summarise("end-to-end.memory", f"{label}peak memory", peaks, "MiB")


def _cold(effort: Effort) -> Iterator[Row]:
    size = _size(effort)
    yield _timed("cold", f"compare, {_name(size)}: cold", [_compare(size)], effort)


def _timed(name: str, title: str, runs: Sequence[Finished], effort: Effort) -> Row:
    return summarise(f"end-to-end.{name}", title, [run[effort.clock] for run in runs], "s")


def _size(effort: Effort) -> Size:
    return effort.length(REPLICATIONS, minimum=10), effort.length(HORIZON, minimum=20)


def _name(size: Size) -> str:
    return f"{'+'.join(AGENTS)}, {size[0]} x {size[1]}"


def _compare(
    size: Size, cache: str | None = None, agents: Sequence[str] = AGENTS, **options: int
) -> Finished:
    """Run the command once, in a fresh folder; compiled code is kept in `cache`, or nowhere."""
    with TemporaryDirectory() as folder:
        numbers = options | {"replications": size[0], "horizon": size[1]}
        listed = [f"--{name}={value}" for name, value in numbers.items()]
        command = ["-m", "bandit_gym", "compare", *listed, f"--out={folder}/results"]
        cache = cache or f"{folder}/cache"
        return run_process(*command, "--agents", *agents, NUMBA_CACHE_DIR=cache)
