"""What a user waits for: the first comparison, the next ones, two workers, an import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from tempfile import TemporaryDirectory

from benchmarks.processes import Finished, run_process
from benchmarks.session import Measurement, Session
from benchmarks.timing import Contestant, Effort, ResultRow, summarise_turns

COMPARED_AGENTS = ("racing", "exact", "smc")
REPLICATIONS, HORIZON = 100, 1000
FIRST_SIZE = 2, 10
TRIVIAL_SIZE = 2, 5
LONG_REPLICATIONS = 2500
"""Of about a minute, so that neither start-up nor the last block decides."""
NEEDED_IMPORTS = "import numpy, gymnasium, pandas"
MAX_COMPARISON_REPEATS = 3  # each takes seconds, and varies little

Size = tuple[int, int]  # replications and horizon


def measurements(session: Session) -> Iterator[Measurement]:
    """Yield the measurements of imports and comparisons."""
    yield session.match(
        "import time: ",
        {"end-to-end.import": ("bandit_gym", "gymnasium")},
        "import",
        lambda: {name: _time_import(name) for name in ("bandit_gym", "gymnasium")},
    )
    names = ("cold-start", "warm", "workers", "memory")
    keys = tuple(f"end-to-end.{name}" for name in names)
    yield Measurement(keys, partial(_time_comparisons, session.effort))
    yield Measurement(("end-to-end.trivial",), partial(_time_trivial_command, session.effort))
    yield Measurement(("end-to-end.gain",), partial(_time_parallel_gain, session.effort))


def _time_import(modules: str) -> Contestant:
    def play(num_rounds: int, clock: str) -> tuple[float, float]:
        runs = [run_process("-c", f"import {modules}") for _ in range(num_rounds)]
        return sum(run[clock] for run in runs), num_rounds

    return play


def _time_comparisons(effort: Effort) -> Iterator[ResultRow]:
    """Time first comparisons, too small to matter, and real ones with what the last compiled.

    The real ones are the same comparison again and again, by turns with one worker and with two.
    """
    repeats = MAX_COMPARISON_REPEATS if effort.is_full else 1
    with TemporaryDirectory() as cache:
        first = [_run_comparison(FIRST_SIZE) for _ in range(repeats - 1)]
        first.append(_run_comparison(FIRST_SIZE, cache))
        title = f"first compare ever, {_name_size(FIRST_SIZE)}: compilation and start-up"
        yield _summarise_times("cold-start", title, first, effort)
        size = effort.length(REPLICATIONS, minimum=10), effort.length(HORIZON, minimum=20)
        pairs = [
            [_run_comparison(size, cache, workers=count) for count in (1, 2)]
            for _ in range(repeats)
        ]
    alone, parallel = zip(*pairs, strict=True)
    label = f"compare, {_name_size(size)}: "
    yield _summarise_times("warm", f"{label}warm, 1 worker", alone, effort)
    yield _summarise_times("workers", f"{label}warm, 2 workers", parallel, effort)
    peaks = [run["peak_mib"] for run in alone]
    yield summarise_turns("end-to-end.memory", f"{label}peak memory", peaks, "MiB")


def _time_trivial_command(effort: Effort) -> Iterator[ResultRow]:
    """Compare what a command costs that computes nothing with what it has to import."""
    with TemporaryDirectory() as cache:
        _run_comparison(TRIVIAL_SIZE, cache, agents=("random",), workers=1)
        runs = [
            _run_comparison(TRIVIAL_SIZE, cache, agents=("random",), workers=1)["processor"]
            / run_process("-c", NEEDED_IMPORTS)["processor"]
            for _ in range(effort.repeats)
        ]
    title = "compare, random, 2 x 5, warm / import of NumPy, Gymnasium and pandas: processor time"
    yield summarise_turns("end-to-end.trivial", title, runs, "x")


def _time_parallel_gain(effort: Effort) -> Iterator[ResultRow]:
    """Compare one worker with two, each on one thread, in runs of a minute and more."""
    size = effort.length(LONG_REPLICATIONS, minimum=10), effort.length(HORIZON, minimum=20)
    with TemporaryDirectory() as cache:
        _run_comparison(FIRST_SIZE, cache)
        repeats = 2 if effort.is_full else 1
        pairs = [
            [_run_comparison(size, cache, workers=count) for count in (1, 2)]
            for _ in range(repeats)
        ]
    gains = [one["wall"] / two["wall"] for one, two in pairs]
    title = f"compare, {_name_size(size)}: 1 worker / 2 workers, wall clock"
    note = f"1 worker: {min(one['wall'] for one, _ in pairs):.3g} s"
    yield summarise_turns("end-to-end.gain", title, gains, "x", note)


def _summarise_times(name: str, title: str, runs: Sequence[Finished], effort: Effort) -> ResultRow:
    return summarise_turns(f"end-to-end.{name}", title, [run[effort.clock] for run in runs], "s")


def _name_size(size: Size) -> str:
    return f"{'+'.join(COMPARED_AGENTS)}, {size[0]} x {size[1]}"


def _run_comparison(
    size: Size, cache: str | None = None, agents: Sequence[str] = COMPARED_AGENTS, **options: int
) -> Finished:
    """Run the command once, in a fresh folder; compiled code is kept in `cache`, or nowhere."""
    with TemporaryDirectory() as folder:
        numbers = options | {"replications": size[0], "horizon": size[1]}
        listed = [f"--{name}={value}" for name, value in numbers.items()]
        command = ["-m", "bandit_gym", "compare", *listed, f"--out={folder}/results"]
        cache = cache or f"{folder}/cache"
        return run_process(*command, "--agents", *agents, NUMBA_CACHE_DIR=cache)
