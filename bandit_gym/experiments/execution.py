"""Execution of an experiment in one process, on all cores or on a cluster, with equal results.

A run is one agent in one environment; a block is a fixed number of its replications. The results of
a block depend on (run, block) alone. They do not depend on the process, the load, the number of
threads or the order of blocks. Workers receive settings and return finished blocks. Only the main
process writes, so that a cluster needs no shared disk.

With "serial" this process does all. Otherwise workers are an executor of `concurrent.futures`,
loky's or Dask's, and calls are submitted one by one as workers become free. When a worker dies, the
calls that were under way are made once more, each by a worker of its own. A call that kills that
worker too is reported as failed; the others are not affected. (`joblib.Parallel` would make the
calls of one worker in this process, and waits for ever once a worker of Dask has died.)
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import platform
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from threading import RLock
from time import perf_counter
from typing import Any

from threadpoolctl import threadpool_limits

from bandit_gym.checks import (
    check_choice,
    check_folder,
    check_integer,
    check_object,
    find_misspecification,
    find_problem,
    import_extra,
    message,
)
from bandit_gym.experiments.blocks import Outcome, record_block
from bandit_gym.experiments.entries import summarise_error
from bandit_gym.experiments.experiment import (
    Experiment,
    Run,
    make_agent_and_environment,
)
from bandit_gym.experiments.provenance import versions
from bandit_gym.experiments.store import Store, digest_code, to_parquet
from bandit_gym.files import RESULTS_VERSION

FEW_DECISIONS = 5_000
"""Most decisions that run in the main process, if all code comes with the project: starting a
worker takes a second, but a crash of anybody's code would end this process."""


@dataclass(frozen=True)
class Progress:
    """Progress of an experiment, passed to `on_progress` at the start and after each block.

    Attributes:
        num_blocks: blocks of the experiment.
        num_stored: valid blocks that were stored before the start.
        num_kept: blocks of other code that are in the folder too; they stay and do not count.
        num_done: blocks simulated since the start, failed ones included.
        damaged: names of incomplete or altered block files, which are simulated again.
        outcome: the block that was just finished; None at the start.
    """

    num_blocks: int
    num_stored: int
    num_kept: int
    num_done: int
    damaged: tuple[str, ...]
    outcome: Outcome | None


def simulate_experiment(
    experiment: Experiment,
    directory: str | Path,
    *,
    workers: Workers | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Store:
    """Simulate and store the missing blocks of an experiment; see `session.run_experiment`."""
    check_object("experiment", experiment, Experiment)
    folder = check_folder("directory", directory)
    workers = Workers() if workers is None else check_object("workers", workers, Workers)
    report = on_progress or (lambda progress: None)
    sources = {run: run.sources() for run in experiment.runs}
    codes = {run.name: digest_code(RESULTS_VERSION, files) for run, files in sources.items()}
    store = Store(folder, codes)
    for run in experiment.runs:
        if not store.has_blocks(run):
            make_agent_and_environment(run)[1].close()
    with store.locked(experiment) as (complete, damaged):
        total = len(experiment.runs) * experiment.num_blocks
        num_decisions = (total - len(complete)) * experiment.block_size * experiment.horizons[-1]
        if workers.backend == "loky" and num_decisions <= FEW_DECISIONS:
            workers = workers if experiment.foreign_code else Workers("serial")
        num_kept = store.count_blocks_of_other_code(experiment)
        progress = Progress(total, len(complete), num_kept, 0, tuple(damaged), None)
        report(progress)
        missing = (
            (run, block, sources[run])
            for block in range(experiment.num_blocks)
            for run in experiment.runs
            if (run, block) not in complete
        )
        with contextlib.closing(make_calls(workers, simulate_block, missing)) as finished:
            for num_done, (call, outcome) in enumerate(finished, start=1):
                if isinstance(outcome, BaseException):
                    line = f"WorkerDied: simulating this block alone: {summarise_error(outcome)}"
                    outcome = Outcome(call[0], call[1], None, {}, line)
                store.write(outcome)
                report(replace(progress, num_done=num_done, outcome=outcome))
    return store


@contextlib.contextmanager
def progress_on_stderr() -> Iterator[Callable[[Progress], None]]:
    """Yield an `on_progress` function that prints to standard error, with a bar on a terminal."""
    from tqdm import tqdm

    with tqdm(unit=" blocks", leave=False, disable=None) as bar:

        def show(progress: Progress) -> None:
            bar.total = progress.num_blocks
            bar.update(progress.num_stored + progress.num_done - bar.n)
            if (outcome := progress.outcome) is None:
                num_missing = progress.num_blocks - progress.num_stored
                text = f"{progress.num_blocks} blocks, {progress.num_stored} of them stored already"
                text += f", {num_missing} to simulate"
                if progress.damaged:
                    text += f"; damaged and computed again: {', '.join(progress.damaged)}"
                if progress.num_kept:
                    text += f"; {progress.num_kept} of other code are kept"
                tqdm.write(text, file=sys.stderr)
            elif outcome.failure is not None:
                place = f"{outcome.run.environment.label}, block {outcome.block}"
                reason = outcome.failure.splitlines()[0]
                tqdm.write(
                    f"{outcome.run.agent.label} failed in {place}: {reason}", file=sys.stderr
                )

        yield show


# -- One block -------------------------------------------------------------------------------------

Sources = dict[str, dict[str, str]]
ONE_BLOCK = RLock()


def simulate_block(run: Run, block: int, sources: Sources | None = None) -> Outcome:
    """Return the outcome of one block; an exception of agent or environment is a failure.

    Args:
        run: the agent, the environment and their settings.
        block: index of the block.
        sources: the digests that `Run.sources` must return in this process; None skips the check.
    """
    facts: dict[str, Any] = {"process": os.getpid(), "host": platform.node()}
    try:
        # More threads would oversubscribe the cores, and may change the last bit of a product. The
        # limit is the process's, which a Dask worker with threads shares among blocks.
        with ONE_BLOCK, threadpool_limits(limits=1):
            start = perf_counter()
            own_sources = run.sources()
            if sources not in (None, own_sources):
                condition = f"be the same in all processes (now on {platform.node()})"
                remedy = "leave files alone while a run is at work"
                raise RuntimeError(message("sources", condition, own_sources, remedy))
            agent, env = make_agent_and_environment(run, warns=False)
            believed, true = getattr(agent, "problem", None), find_problem(env)
            metadata = {
                "results_version": RESULTS_VERSION,
                "versions": versions(),
                "sources": own_sources,
                "misspecification": find_misspecification(believed, true),
            }
            recorded, measured = record_block(agent, env, run, block)
            env.close()
            data = to_parquet(run, block, recorded, metadata)
    except (Exception, SystemExit) as error:
        text = f"{summarise_error(error)}\n\n{traceback.format_exc()}"
        return Outcome(run, block, None, facts, text)
    return Outcome(run, block, data, facts | measured | {"seconds": perf_counter() - start})


# -- Workers ---------------------------------------------------------------------------------------

EXTRA_CALLS = 2
"""Calls submitted beyond one per worker, so that no worker waits."""

SCHEDULER_TIMEOUT = 6.0
PR_SET_PDEATHSIG = 1

Call = tuple[Any, ...]
FinishedCall = tuple[Call, Any]
"""The arguments of a call, and its result or the error of a worker that died."""


@dataclass(frozen=True)
class Workers:
    """The back end that runs the blocks, and its size.

    Attributes:
        backend: "loky" (processes on this machine), "serial" (this process) or "dask".
        num_workers: number of workers; None means one per core, or all of a running scheduler.
        scheduler: address of a running Dask scheduler; None starts one on this machine.
    """

    backend: str = "loky"
    num_workers: int | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        check_choice("backend", self.backend, ("serial", *BACKENDS))
        if self.num_workers is not None:
            check_integer("num_workers", self.num_workers, minimum=1)
        if self.scheduler is not None and self.backend != "dask":
            condition = f"be None for the backend {self.backend!r}"
            raise ValueError(message("scheduler", condition, self.scheduler))


def make_calls(
    workers: Workers, function: Callable[..., Any], calls: Iterable[Call]
) -> Generator[FinishedCall, None, None]:
    """Yield each call's arguments and result, in the order of finishing.

    For a call that killed its worker, the result is the error of its future. Workers start at the
    first call. They stop after the last call, or when the generator is closed.
    """
    if workers.backend == "serial":
        yield from ((call, function(*call)) for call in calls)
        return
    waiting = iter(calls)
    for first in waiting:
        under_way: list[Call] = []
        try:
            yield from _make_together(workers, function, chain([first], waiting), under_way)
        except _crash_errors():
            alone = replace(workers, num_workers=1)
            for call in under_way:
                try:
                    [(_, result)] = _make_together(alone, function, iter([call]), [])
                except _crash_errors() as error:
                    result = error
                yield call, result


def _make_together(
    workers: Workers, function: Callable[..., Any], calls: Iterator[Call], under_way: list[Call]
) -> Iterator[FinishedCall]:
    """Yield finished calls; the death of a worker raises, with the lost calls in `under_way`."""
    futures: dict[Future[Any], Call] = {}
    with BACKENDS[workers.backend](workers) as (executor, num_workers):
        while True:
            for call in islice(calls, num_workers + EXTRA_CALLS - len(futures)):
                under_way.append(call)  # before it is submitted, since no worker may be alive
                futures[executor.submit(function, *call)] = call
            if not futures:
                return
            for future in wait(futures, return_when=FIRST_COMPLETED).done:
                result = future.result()
                call = futures.pop(future)
                under_way[:] = [other for other in under_way if other is not call]
                yield call, result


def _crash_errors() -> tuple[type[BaseException], ...]:
    """Return what a future raises if its worker died."""
    distributed = sys.modules.get("distributed")
    return (BrokenExecutor, distributed.KilledWorker) if distributed else (BrokenExecutor,)


@contextlib.contextmanager
def _open_loky(workers: Workers) -> Iterator[tuple[Executor, int]]:
    """Yield processes on this machine, and their number; an exception ends them at once."""
    from joblib import cpu_count  # respects a container's limit of cores
    from joblib.externals.loky import ProcessPoolExecutor

    number = workers.num_workers or cpu_count()
    # Keep a worker's first imports off the current folder, which may hold a random.py.
    environment = {"PYTHONSAFEPATH": "1"}
    arguments = os.getpid(), sys.path.copy()
    pool = ProcessPoolExecutor(
        number, initializer=_start_worker, initargs=arguments, env=environment
    )
    try:
        yield pool, number
    except BaseException:
        for process in [*pool._processes.values()]:  # its own way may print a traceback
            process.terminate()
        raise
    finally:
        pool.shutdown()


def _start_worker(parent: int, path: list[str]) -> None:
    """Initialise a worker with its parent's import path; it ignores Ctrl-C."""
    end_with_parent(parent)
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _open_dask(workers: Workers) -> Iterator[tuple[Executor, int]]:
    """Yield workers of a running scheduler, or of a local cluster, and their number."""
    names = ("dask", "distributed")
    dask, distributed = (import_extra(name, "the backend 'dask'", "dask") for name in names)
    cluster = {
        "n_workers": workers.num_workers,
        "threads_per_worker": 1,
        "dashboard_address": None,
        "silence_logs": logging.CRITICAL,  # Dask logs each killed worker
    }
    options = {"timeout": SCHEDULER_TIMEOUT} if workers.scheduler else cluster
    # Pending calls fail at once when their worker dies, instead of being retried by Dask.
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        try:
            client = distributed.Client(workers.scheduler, **options)
        except Exception as error:  # such as another server at that address
            reason = " ".join(str(error).split()).rstrip(".") or "no answer"
            text = message("scheduler", "be reachable", workers.scheduler, reason)
            raise ConnectionError(text) from error
        with client:
            if workers.scheduler is None:
                client.run(end_with_parent)
            number = workers.num_workers or sum(client.nthreads().values())
            yield client.get_executor(pure=False), number


BACKENDS: dict[str, Callable[..., contextlib.AbstractContextManager[tuple[Executor, int]]]] = {
    "loky": _open_loky,
    "dask": _open_dask,
}


def end_with_parent(parent: int | None = None) -> None:
    """Have the operating system kill this process when its parent ends, even by SIGKILL.

    Linux only: the signal is sent when the thread that started this process ends. On other systems
    a worker ends after its current block.

    Args:
        parent: id of the parent; if it has already ended, this process exits.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent is not None and os.getppid() != parent:
            os._exit(1)
