"""Execution of an experiment in one process, on all cores or on a cluster, with equal results.

A run is one agent in one environment; a block is a fixed number of its replications. The results of
a block depend on (run, block) alone. They do not depend on the process, the load, the number of
threads or the order of blocks. Workers receive settings and return finished blocks. Only the main
process writes, so that a cluster needs no shared disk.

With "serial" this process does all. Any other back end is a function that yields a `Pool`. Calls
are submitted one by one as workers become free. When a worker dies, the pending calls are repeated,
each in a pool of its own. A call that kills its worker again is reported as failed; the others are
not affected.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import math
import os
import platform
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

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
from bandit_gym.checks.files import RESULTS_VERSION
from bandit_gym.experiments.blocks import Outcome, record_block
from bandit_gym.experiments.entries import summarise_error
from bandit_gym.experiments.experiment import (
    Experiment,
    Run,
    check_run,
    make_agent_and_environment,
)
from bandit_gym.experiments.provenance import versions
from bandit_gym.experiments.store import Store, to_parquet

FEW_DECISIONS = 5_000
"""Most decisions that run in the main process, if all code comes with the project: starting a
worker takes a second, but a crash of anybody's code would end this process."""

BlockTask = tuple[Run, int]


@dataclass(frozen=True)
class Progress:
    """Progress of an experiment, passed to `on_progress` at the start and after each block.

    Attributes:
        num_blocks: blocks of the experiment.
        num_stored: valid blocks that were stored before the start.
        num_done: blocks simulated since the start, failed ones included.
        damaged: names of incomplete or altered block files, which are simulated again.
        outcome: the block that was just finished; None at the start.
    """

    num_blocks: int
    num_stored: int
    num_done: int
    damaged: tuple[str, ...]
    outcome: Outcome | None


class Callback:
    """Base class of callbacks; its methods do nothing until overridden.

    `run_experiment` calls the methods in its own process, one at a time. `on_block` is called after
    the block was stored. So a callback need not be picklable, and results do not depend on it. If a
    callback raises, the experiment stops. Stored blocks stay, and the next call resumes from them.
    """

    def on_start(self, experiment: Experiment, directory: Path) -> None:
        """Called at the start; the results folder may already hold blocks."""

    def on_block(self, outcome: Outcome) -> None:
        """Called for each finished block, with its results or its traceback."""

    def on_end(self, experiment: Experiment, directory: Path) -> None:
        """Called at the end, also after an interrupt; close open resources here."""


def run_experiment(
    experiment: Experiment,
    directory: str | Path,
    *,
    workers: Workers | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    recompute: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Any:  # a `Results`, loaded by name because this layer may not import it
    """Return the results of an experiment, after simulating and storing its missing blocks.

    If an agent or environment raises, only its own blocks fail. Their tracebacks are stored, and
    `Results.failed` lists the run. A crashed worker counts as a failure too; with "serial" a crash
    ends this process. The next call simulates missing, damaged and failed blocks.

    Args:
        experiment: what to simulate.
        directory: folder for this experiment; see `store`.
        workers: the back end; None uses every core of this machine.
        on_progress: called in this process; an exception that it raises stops the experiment.
        recompute: whether to simulate blocks again that other code wrote: your modules, a file that
            an option names, or the results version changed. An old block stays until the new one is
            stored.
        callbacks: called in this process; see `bandit_gym.callbacks`.

    Returns:
        The stored results of the experiment.

    Raises:
        ValueError: if an environment or agent cannot be built; nothing is simulated then.
        FileExistsError: if the folder holds another experiment, or blocks of other code.
        BlockingIOError: if another process writes to the folder.
        ConnectionError: if the scheduler does not answer.
    """
    check_object("experiment", experiment, Experiment)
    folder = check_folder("directory", directory)
    workers = Workers() if workers is None else check_object("workers", workers, Workers)
    check_object("recompute", recompute, bool)
    for callback in callbacks:
        check_object("callbacks", callback, Callback)
    store = Store(folder)
    unstored = [run for run in experiment.runs if not store.has_blocks(run)]
    sources = {run: run.sources() for run in experiment.runs}
    for run in unstored:
        check_run(run)[1].close()
    with contextlib.ExitStack() as stack:
        locked = store.locked(experiment, sources, recompute=recompute)
        complete, damaged = stack.enter_context(locked)
        total = len(experiment.runs) * experiment.num_blocks
        decisions_per_block = experiment.block_size * experiment.horizons[-1]
        num_decisions = (total - len(complete)) * decisions_per_block
        if workers.backend == "loky" and num_decisions <= FEW_DECISIONS:
            workers = workers if experiment.foreign_code else Workers("serial")
        progress = Progress(total, len(complete), 0, tuple(damaged), None)
        on_progress(progress)
        for callback in callbacks:
            stack.callback(callback.on_end, experiment, folder)
            callback.on_start(experiment, folder)
        seconds: dict[str, float] = {}  # of each agent's last block
        tasks = _schedule_tasks(experiment, complete, seconds, workers.width)
        calls = ((run, block, sources[run]) for run, block in tasks)
        made = stack.enter_context(contextlib.closing(make_calls(workers, simulate_block, calls)))
        for done, (call, result) in enumerate(made, start=1):
            outcome = result
            if isinstance(result, BaseException):
                line = f"WorkerDied: simulating this block alone: {summarise_error(result)}"
                outcome = Outcome(call[0], call[1], None, {}, line)
            seconds[outcome.run.agent.digest] = outcome.facts.get("seconds", 0.0)
            store.write(outcome)
            on_progress(replace(progress, num_done=done, outcome=outcome))
            for callback in callbacks:
                callback.on_block(outcome)
    return import_module("bandit_gym.results").load_results(folder, experiment)


def _schedule_tasks(
    experiment: Experiment, complete: set[BlockTask], seconds: dict[str, float], width: int
) -> Iterator[BlockTask]:
    """Yield missing blocks in about the order of their numbers, so that all runs advance.

    The next block is chosen among `width` successive block numbers. Agents without a finished block
    go first, then those whose last block took longest.
    """
    window: list[BlockTask] = []
    for block in range(experiment.num_blocks + width):
        while window and window[0][1] + width <= block:
            slowest = max(window, key=lambda task: seconds.get(task[0].agent.digest, math.inf))
            window.remove(slowest)
            yield slowest
        if block < experiment.num_blocks:
            window += [(run, block) for run in experiment.runs if (run, block) not in complete]


@contextlib.contextmanager
def progress_on_stderr() -> Iterator[Callable[[Progress], None]]:
    """Yield an `on_progress` function that prints to standard error.

    It prints lines, and on a terminal also a progress bar.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    columns = ("blocks", BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(progress: Progress) -> None:
            completed = progress.num_stored + progress.num_done
            bar.update(task, total=progress.num_blocks, completed=completed)
            if (outcome := progress.outcome) is None:
                text = f"{progress.num_blocks} blocks, {progress.num_stored} of them stored already"
                if progress.damaged:
                    text += f"; damaged and computed again: {', '.join(progress.damaged)}"
                console.print(text)
                return
            if outcome.failure is not None:
                place = f"{outcome.run.environment.label}, block {outcome.block}"
                reason = outcome.failure.splitlines()[0]
                console.print(f"{outcome.run.agent.label} failed in {place}: {reason}", style="red")

        yield show


# -- One block -------------------------------------------------------------------------------------

Sources = dict[str, dict[str, str]]


def simulate_block(run: Run, block: int, sources: Sources | None = None) -> Outcome:
    """Return the outcome of one block; an exception of agent or environment is a failure.

    Args:
        run: the agent, the environment and their settings.
        block: index of the block.
        sources: the digests that `Run.sources` must return in this process; None skips the check.
    """
    facts: dict[str, Any] = {"process": os.getpid(), "host": platform.node()}
    start = perf_counter()
    try:
        # More threads would oversubscribe the cores, and may change the last bit of a product.
        with threadpool_limits(limits=1):
            found = run.sources()
            if sources not in (None, found):
                condition = f"be the same in all processes (now on {platform.node()})"
                remedy = "leave files alone while a run is at work"
                raise RuntimeError(message("sources", condition, found, remedy))
            agent, env = make_agent_and_environment(run)
            believed, true = getattr(agent, "problem", None), find_problem(env)
            origin = {
                "results_version": RESULTS_VERSION,
                "versions": versions(),
                "sources": found,
                "misbelief": find_misspecification(believed, true),
            }
            recorded, measured = record_block(agent, env, run, block)
            env.close()
            data = to_parquet(run, block, recorded, origin)
    except (Exception, SystemExit) as error:
        text = f"{summarise_error(error)}\n\n{traceback.format_exc()}"
        return Outcome(run, block, None, facts, text)
    return Outcome(run, block, data, facts | measured | {"seconds": perf_counter() - start})


# -- Workers ---------------------------------------------------------------------------------------

EXTRA_CALLS = 2
"""Calls submitted beyond one per worker, so that no worker waits. Few, because a submitted call can
no longer be put behind a slower one. With 16 workers the README's comparison runs 12.2 times as
fast as with one; with one extra call per worker, 10.8 times (simulated from times of its blocks).
"""

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

    @property
    def width(self) -> int:
        """The number of workers, if the back end is not a running scheduler."""
        if self.backend == "serial":
            return 1
        from joblib import cpu_count  # respects a container's limit of cores

        return self.num_workers or cpu_count()


class Pool(NamedTuple):
    """Running workers.

    Attributes:
        submit: makes a call and returns its future.
        limit: largest number of pending calls.
        crash_errors: exceptions that a future raises if its worker died.
    """

    submit: Callable[..., Future[Any]]
    limit: int
    crash_errors: tuple[type[BaseException], ...] = (BrokenExecutor,)


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
    for call in waiting:
        lost = yield from _make_while_alive(workers, function, chain([call], waiting))
        for again, _ in lost:
            alone = replace(workers, num_workers=1)
            crashed = yield from _make_while_alive(alone, function, iter([again]))
            yield from crashed


def _make_while_alive(
    workers: Workers, function: Callable[..., Any], calls: Iterator[Call]
) -> Generator[FinishedCall, None, list[FinishedCall]]:
    """Yield finished calls until a worker dies; return those lost with it, and its error."""
    lost: list[FinishedCall] = []
    under_way: dict[Future[Any], Call] = {}
    with BACKENDS[workers.backend](workers) as pool:
        while True:
            for call in calls if not lost else ():
                try:
                    under_way[pool.submit(function, *call)] = call
                except pool.crash_errors as error:  # no worker is alive
                    lost.append((call, error))
                if lost or len(under_way) == pool.limit:
                    break
            done = wait(under_way, return_when=FIRST_COMPLETED).done
            if not done:
                return lost
            for future in [future for future in under_way if future in done]:
                call = under_way.pop(future)
                if isinstance(future.exception(), pool.crash_errors):
                    lost.append((call, future.exception()))
                else:
                    yield call, future.result()


@contextlib.contextmanager
def _open_loky_pool(workers: Workers) -> Iterator[Pool]:
    from joblib.externals.loky import ProcessPoolExecutor

    # Keep a worker's first imports off the current folder, which may hold a random.py.
    environment = {"PYTHONSAFEPATH": "1"}
    arguments = os.getpid(), sys.path.copy()
    pool = ProcessPoolExecutor(
        workers.width, initializer=_start_worker, initargs=arguments, env=environment
    )
    try:
        yield Pool(pool.submit, workers.width + EXTRA_CALLS)
    except BaseException:
        hook, threading.excepthook = threading.excepthook, lambda error: None
        pool.shutdown(kill_workers=True)  # its thread may report a missing call
        threading.excepthook = hook
        raise
    pool.shutdown()


def _start_worker(parent: int, path: list[str]) -> None:
    """Initialise a worker with its parent's import path; it ignores Ctrl-C."""
    end_with_parent(parent)
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _open_dask_pool(workers: Workers) -> Iterator[Pool]:
    """Yield a pool on a running scheduler, or on a local cluster with a process per worker."""
    names = ("dask", "distributed")
    dask, distributed = (import_extra(name, "the backend 'dask'", "dask") for name in names)
    cluster = {
        "n_workers": workers.width,
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
            submit = client.get_executor(pure=False).submit
            yield Pool(submit, number + EXTRA_CALLS, (distributed.KilledWorker, BrokenExecutor))


BACKENDS: dict[str, Callable[[Workers], contextlib.AbstractContextManager[Pool]]] = {
    "loky": _open_loky_pool,
    "dask": _open_dask_pool,
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
