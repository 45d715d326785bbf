"""Running an experiment: here, on all cores, or on a cluster, with the same numbers everywhere.

A block depends on (run, block) alone. The process, the machine's load, the number of threads and
the order of blocks do not change it. Workers receive settings and send back finished blocks; only
this process writes, so that a cluster needs no shared disk.

A back end is one function that yields a `Pool`. Calls are made one by one as workers become free,
and a call that takes its process down costs itself alone: when a worker dies, the calls that were
under way are made once more, each alone; the one that kills its process again is reported.
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
    message,
)
from bandit_gym.checks.files import RESULTS_VERSION
from bandit_gym.experiments.blocks import Outcome, record_block
from bandit_gym.experiments.catalogue import (
    known_targets,
    load_target,
    make_agent_and_environment,
    summarise_error,
    try_run,
)
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.provenance import find_code, versions
from bandit_gym.experiments.store import Store, to_parquet

FEW_DECISIONS = 5_000
"""Up to this many decisions are taken in this process, for a worker needs a second to start."""

MAX_PROGRESS_NAME = 20
"""Characters of the name of the agent that has finished a block, beside the bar."""

BlockTask = tuple[Run, int]


@dataclass(frozen=True)
class Progress:
    """How far a run of an experiment is; handed to `on_progress` at the start and at each block.

    Attributes:
        num_blocks: blocks of the experiment.
        num_stored: blocks that were there before, and count.
        num_done: blocks simulated since, failed ones included.
        damaged: names of block files that were torn or altered and are computed again.
        outcome: the block that was just finished; None at the start.
    """

    num_blocks: int
    num_stored: int
    num_done: int
    damaged: tuple[str, ...]
    outcome: Outcome | None


class Callback:
    """Follows an experiment while it runs. Override what you need; the rest does nothing.

    All methods are called in the process that called `run_experiment`, one at a time, after the
    block was stored. So a callback needs to be neither picklable nor fast, and numbers do not
    depend on it. If it raises, the run ends; stored blocks stay, and the next run goes on with
    them.
    """

    def on_start(self, experiment: Experiment, directory: Path) -> None:
        """Take notice of the start; the folder of results may hold some blocks already."""

    def on_block(self, outcome: Outcome) -> None:
        """Take notice of a block, with its results or what went wrong, when it is finished."""

    def on_end(self, experiment: Experiment, directory: Path) -> None:
        """Take notice of the end, also if the run is interrupted; close what was opened."""


def run_experiment(
    experiment: Experiment,
    directory: str | Path,
    *,
    workers: Workers | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    recompute: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Any:  # of `Results`, a room above that is loaded by its name
    """Simulate the blocks that the folder does not hold yet, and store each as it comes.

    If an agent or environment raises, only its own blocks fail: the traceback is stored, and
    `Results.failed` lists the run. A crashed worker counts the same; with "serial" a crash ends the
    whole run. Running again does what is missing, damaged or failed.

    Args:
        experiment: what to simulate.
        directory: folder for this experiment; see `store`.
        workers: who does it; None takes every core of this machine.
        on_progress: called in this process; what it raises ends the run.
        recompute: whether to redo blocks made by other code: your modules, a file that an option
            names, or the results version changed. Each old block stays until its successor is
            stored.
        callbacks: called in this process; see `bandit_gym.callbacks`.

    Returns:
        What the folder holds of the experiment.

    Raises:
        ValueError: if an environment or agent cannot be built; nothing has been run then.
        FileExistsError: if the folder holds something else, or blocks that no longer fit.
        BlockingIOError: if another process is at work in the folder.
        ConnectionError: if the scheduler does not answer.
    """
    check_object("experiment", experiment, Experiment)
    folder = check_folder("directory", directory)
    workers = Workers() if workers is None else check_object("workers", workers, Workers)
    for run in experiment.runs:  # those seen before are skipped
        problem = "" if Store(folder).has_blocks(run) else try_run(run)
        if problem:
            raise ValueError(
                f"agent {run.agent.label} must be able to play {run.environment.label}, "
                f"got {problem}"
            )
    sources = {run: run.sources() for run in experiment.runs}
    with contextlib.ExitStack() as stack:
        open_locked = Store.open_locked(folder, experiment, sources, recompute=recompute)
        store, found = stack.enter_context(open_locked)
        total = len(experiment.runs) * experiment.num_blocks
        num_decisions = (total - len(found.complete)) * experiment.block_size * experiment.horizon
        has_few_decisions = num_decisions <= FEW_DECISIONS and not find_code(
            experiment, known_targets()
        )
        if has_few_decisions and workers.backend == "loky":
            workers = Workers("serial")
        seconds: dict[str, float] = {}  # an agent's last block
        tasks = _schedule_tasks(experiment, found.complete, seconds, workers.width)
        counts = total, len(found.complete)
        on_progress(Progress(*counts, 0, tuple(found.damaged), None))
        for callback in callbacks:
            stack.callback(callback.on_end, experiment, folder)
            callback.on_start(experiment, folder)
        calls = ((run, block, sources[run]) for run, block in tasks)
        made = stack.enter_context(contextlib.closing(make_calls(workers, simulate_block, calls)))
        for done, (call, result) in enumerate(made, start=1):
            outcome = result
            if isinstance(result, BaseException):
                reason = summarise_error(result)
                line = f"WorkerDied: the process that simulated this alone died: {reason}"
                outcome = Outcome(call[0], call[1], None, {}, line)
            seconds[outcome.run.agent.digest] = outcome.facts.get("seconds", 0.0)
            if outcome.data is None:
                store.write_failure(outcome.run, outcome.block, outcome.failure or "")
            else:
                store.write_block(outcome.run, outcome.block, outcome.data, outcome.facts)
            on_progress(Progress(*counts, done, tuple(found.damaged), outcome))
            for callback in callbacks:
                callback.on_block(outcome)
    return load_target("bandit_gym.results:load_results")(folder, experiment)


def _schedule_tasks(
    experiment: Experiment, complete: set[BlockTask], seconds: dict[str, float], width: int
) -> Iterator[BlockTask]:
    """Yield what is to be done: first blocks first, so that all runs advance.

    At a time it considers as many block numbers as there are workers. Agents that have not finished
    a block go first, then those that were slowest on their last one.
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
    """Give a callback for `run_experiment` that shows its progress on standard error.

    There are lines, and a live bar on a terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    columns = ("{task.description}", BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("blocks", total=None)

        def show(progress: Progress) -> None:
            completed = progress.num_stored + progress.num_done
            bar.update(task, total=progress.num_blocks, completed=completed)
            if (outcome := progress.outcome) is None:
                text = f"{progress.num_blocks} blocks, {progress.num_stored} of them stored already"
                if progress.damaged:
                    text += f"; damaged and computed again: {', '.join(progress.damaged)}"
                console.print(text)
                return
            agent, environment = outcome.run.agent.label, outcome.run.environment.label
            bar.update(task, description=agent[:MAX_PROGRESS_NAME])
            if outcome.failure is not None:
                reason = outcome.failure.splitlines()[0]
                line = f"{agent} failed in {environment}, block {outcome.block}: {reason}"
                console.print(line, style="red")

        yield show


# -- One block -------------------------------------------------------------------------------------

Sources = dict[str, dict[str, str]]


def simulate_block(run: Run, block: int, sources: Sources | None = None) -> Outcome:
    """Simulate one block; an exception of the agent or the environment becomes a failure.

    Args:
        run: the run.
        block: index of the block.
        sources: what this process must find as `Run.sources`, None if it does not matter.
    """
    facts: dict[str, Any] = {"process": os.getpid(), "host": platform.node()}
    start = perf_counter()
    try:
        # Nested threads would fight for the cores, and may change the last bit of a product.
        with threadpool_limits(limits=1):
            data, measured = _simulate(run, block, sources)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit among them
        text = f"{summarise_error(error)}\n\n{traceback.format_exc()}"
        return Outcome(run, block, None, facts, text)
    return Outcome(run, block, data, facts | measured | {"seconds": perf_counter() - start})


def _simulate(run: Run, block: int, sources: Sources | None) -> tuple[bytes, dict[str, Any]]:
    found = run.sources()
    if sources not in (None, found):
        raise RuntimeError(
            f"sources must be the same in all processes, got others in process {os.getpid()} "
            f"on {platform.node()}: {found!r}; leave them alone while a run is at work."
        )
    agent, env = make_agent_and_environment(run)
    origin = {
        "results_version": RESULTS_VERSION,
        "versions": versions(),
        "sources": found,
        "misbelief": find_misspecification(getattr(agent, "problem", None), find_problem(env)),
    }
    recorded, measured = record_block(agent, env, run, block)
    env.close()
    return to_parquet(run, block, recorded, origin), measured


# -- Workers ---------------------------------------------------------------------------------------

EXTRA_CALLS = 2
"""Calls under way beyond one a worker, so that no worker waits. Few, for what is under way can no
longer be put behind a more expensive call: 16 workers play README's comparison 12.2 times as fast
as one,
and with one extra call a worker 10.8 times (simulated from the times of its blocks)."""

SCHEDULER_TIMEOUT = 6.0
PR_SET_PDEATHSIG = 1

Call = tuple[Any, ...]
FinishedCall = tuple[Call, Any]
"""A call, and what it returned or the error that took its process down."""


@dataclass(frozen=True)
class Workers:
    """Who does the work.

    Attributes:
        backend: "loky" (processes on this machine), "serial" (this process) or "dask".
        num_workers: how many; None means one per core, or all that a scheduler has.
        scheduler: address of a running Dask scheduler; None starts one here.
    """

    backend: str = "loky"
    num_workers: int | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        check_choice("backend", self.backend, BACKENDS)
        if self.num_workers is not None:
            number = check_integer("num_workers", self.num_workers, minimum=1)
            object.__setattr__(self, "num_workers", number)
        if self.scheduler is not None and self.backend != "dask":
            condition = f"be None for the backend {self.backend!r}"
            raise ValueError(
                message("scheduler", condition, self.scheduler, "choose the backend 'dask'")
            )

    @property
    def width(self) -> int:
        """The number of workers, unless a running scheduler has others."""
        if self.backend == "serial":
            return 1
        from joblib import cpu_count  # which knows of a container's share of the cores

        return self.num_workers or cpu_count()


class Pool(NamedTuple):
    """Workers that are there.

    Attributes:
        submit: makes a call and returns its future.
        limit: how many calls are to be under way at a time.
        crash_errors: what a future raises if its worker died.
    """

    submit: Callable[..., Future[Any]]
    limit: int
    crash_errors: tuple[type[BaseException], ...] = (BrokenExecutor,)


def make_calls(
    workers: Workers, function: Callable[..., Any], calls: Iterable[Call]
) -> Generator[FinishedCall, None, None]:
    """Yield each call's arguments and what came of it, in the order of finishing.

    Of a call that took its process down, that is the error of its future.

    Workers are there from the first call on, and end with the last one or as this is closed.
    """
    waiting = iter(calls)
    for call in waiting:
        lost: list[FinishedCall] = []
        with BACKENDS[workers.backend](workers) as pool:
            yield from _make_while_alive(pool, function, chain([call], waiting), lost)
        for again, _ in lost:
            crashed: list[FinishedCall] = []
            with BACKENDS[workers.backend](replace(workers, num_workers=1)) as pool:
                yield from _make_while_alive(pool, function, iter([again]), crashed)
            yield from crashed


def _make_while_alive(
    pool: Pool, function: Callable[..., Any], calls: Iterator[Call], lost: list[FinishedCall]
) -> Iterator[FinishedCall]:
    """Make calls until all are made, or a worker dies; `lost` are those that died with it."""
    under_way: dict[Future[Any], Call] = {}
    while True:
        for call in calls if not lost else ():
            under_way[_submit_call(pool, function, call)] = call
            if len(under_way) == pool.limit:
                break
        done = wait(under_way, return_when=FIRST_COMPLETED).done
        if not done:
            return
        for future in [future for future in under_way if future in done]:
            call = under_way.pop(future)
            if isinstance(future.exception(), pool.crash_errors):
                lost.append((call, future.exception()))
            else:
                yield call, future.result()


def _submit_call(pool: Pool, function: Callable[..., Any], call: Call) -> Future[Any]:
    """Make a call; where no worker is alive to take it, its future says so."""
    try:
        return pool.submit(function, *call)
    except pool.crash_errors as error:
        future: Future[Any] = Future()
        future.set_exception(error)
        return future


@contextlib.contextmanager
def _open_serial_pool(workers: Workers) -> Iterator[Pool]:
    def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future

    yield Pool(submit, 1)


@contextlib.contextmanager
def _open_loky_pool(workers: Workers) -> Iterator[Pool]:
    from joblib.externals.loky import ProcessPoolExecutor

    # The worker's first imports take nothing from the current folder, where a random.py may lie.
    environment = {"PYTHONSAFEPATH": "1"}
    arguments = os.getpid(), sys.path.copy()
    pool = ProcessPoolExecutor(
        workers.width, initializer=_start_worker, initargs=arguments, env=environment
    )
    try:
        yield Pool(pool.submit, workers.width + EXTRA_CALLS)
    except BaseException:
        hook, threading.excepthook = threading.excepthook, lambda error: None
        pool.shutdown(kill_workers=True)  # its thread may miss a call that has gone, and say so
        threading.excepthook = hook
        raise
    pool.shutdown()


def _start_worker(parent: int, path: list[str]) -> None:
    """Start a worker: with what its parent can import, and Ctrl-C left to the parent."""
    end_with_parent(parent)
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _open_dask_pool(workers: Workers) -> Iterator[Pool]:
    """Use a running scheduler, or start one process per worker here."""
    try:
        dask, distributed = import_module("dask"), import_module("distributed")
    except ImportError as error:
        text = "the backend 'dask' needs its extra: pip install \".[dask]\"."
        raise ImportError(text) from error
    with contextlib.ExitStack() as stack:
        # What is under way when a worker dies is reported at once.
        stack.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": 0}))
        if workers.scheduler is None:
            cluster = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=workers.width,
                    threads_per_worker=1,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,  # it reports each worker that is killed
                )
            )
            client = stack.enter_context(distributed.Client(cluster))
            client.run(end_with_parent)
        else:
            try:
                client = distributed.Client(workers.scheduler, timeout=SCHEDULER_TIMEOUT)
            except Exception as error:  # something stands at the address, it is no scheduler
                reason = " ".join(str(error).split()).rstrip(".") or "no answer"
                text = message("scheduler", "be reachable", workers.scheduler, reason)
                raise ConnectionError(text) from error
            stack.enter_context(client)
        number = workers.num_workers or sum(client.nthreads().values())
        submit = client.get_executor(pure=False).submit
        yield Pool(submit, number + EXTRA_CALLS, (distributed.KilledWorker, BrokenExecutor))


BACKENDS: dict[str, Callable[[Workers], contextlib.AbstractContextManager[Pool]]] = {
    "loky": _open_loky_pool,
    "serial": _open_serial_pool,
    "dask": _open_dask_pool,
}


def end_with_parent(parent: int | None = None) -> None:
    """Let this process be killed when its parent ends, however that happens and whatever it does.

    Only Linux does this, at the end of the thread that started the process; elsewhere a worker
    ends when it has finished its block.

    Args:
        parent: the process to end with, if that may have ended by now.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent is not None and os.getppid() != parent:
            os._exit(1)
