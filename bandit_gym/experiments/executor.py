"""Who does the work: this process, this machine's cores, or Dask's workers.

A back end is one function that yields a `Pool`. Calls are made one by one as workers become free,
and a call that takes its process down costs itself alone: when a worker dies, the calls that were
under way are made once more, each alone; the one that kills its process again is told of.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple

from bandit_gym.checks import check_choice, check_integer, message

SPARE_CALLS = 2
"""Calls under way beyond one a worker, so that no worker waits. Few, for what is under way can no
longer be put behind a dearer call: 16 workers play README's comparison 12.2 times as fast as one,
and with one spare call a worker 10.8 times (simulated from the times of its blocks)."""

MOST_WORKERS = 10_000
SCHEDULER_TIMEOUT = 6.0
PR_SET_PDEATHSIG = 1

Call = tuple[Any, ...]


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
            number = check_integer("num_workers", self.num_workers, minimum=1, maximum=MOST_WORKERS)
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
        deaths: what a future raises if its worker died.
    """

    submit: Callable[..., Future[Any]]
    limit: int
    deaths: tuple[type[BaseException], ...] = (BrokenExecutor,)


class Died:
    """What a call came to that took its process down."""

    def __init__(self, error: BaseException) -> None:
        self.reason = " ".join(str(error).split())


def make_calls(
    workers: Workers, function: Callable[..., Any], calls: Iterable[Call]
) -> Generator[tuple[Call, Any], None, None]:
    """Yield each call's arguments and what came of it, or `Died`, in the order of finishing.

    Workers are there from the first call on, and end with the last one or as this is closed.
    """
    waiting = iter(calls)
    for call in waiting:
        lost: list[Call] = []
        with BACKENDS[workers.backend](workers) as pool:
            yield from _make_while_alive(pool, function, chain([call], waiting), lost)
        yield from _make_alone(replace(workers, num_workers=1), function, iter(lost))


def _make_while_alive(
    pool: Pool, function: Callable[..., Any], calls: Iterator[Call], lost: list[Call]
) -> Iterator[tuple[Call, Any]]:
    """Make calls until all are made, or a worker dies; `lost` are those that died with it."""
    under_way: dict[Future[Any], Call] = {}
    while True:
        for call in calls if not lost else ():
            under_way[_submit(pool, function, call)] = call
            if len(under_way) == pool.limit:
                break
        done = wait(under_way, return_when=FIRST_COMPLETED).done
        if not done:
            return
        for future in [future for future in under_way if future in done]:
            call = under_way.pop(future)
            if isinstance(future.exception(), pool.deaths):
                lost.append(call)
            else:
                yield call, future.result()


def _make_alone(
    workers: Workers, function: Callable[..., Any], calls: Iterator[Call]
) -> Iterator[tuple[Call, Any]]:
    """Make one call after the other, on a new worker whenever one dies."""
    for first in calls:
        with BACKENDS[workers.backend](workers) as pool:
            for call in chain([first], calls):
                future = _submit(pool, function, call)
                error = future.exception()
                if isinstance(error, pool.deaths):
                    yield call, Died(error)
                    break
                yield call, future.result()


def _submit(pool: Pool, function: Callable[..., Any], call: Call) -> Future[Any]:
    """Make a call; where no worker is alive to take it, its future says so."""
    try:
        return pool.submit(function, *call)
    except pool.deaths as error:
        future: Future[Any] = Future()
        future.set_exception(error)
        return future


@contextlib.contextmanager
def _serial(workers: Workers) -> Iterator[Pool]:
    def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future

    yield Pool(submit, 1)


@contextlib.contextmanager
def _loky(workers: Workers) -> Iterator[Pool]:
    from joblib.externals.loky import ProcessPoolExecutor

    # The worker's first imports take nothing from the current folder, where a random.py may lie.
    environment = {"PYTHONSAFEPATH": "1"}
    arguments = os.getpid(), sys.path.copy()
    pool = ProcessPoolExecutor(
        workers.width, initializer=_begin, initargs=arguments, env=environment
    )
    try:
        yield Pool(pool.submit, workers.width + SPARE_CALLS)
    except BaseException:
        told, threading.excepthook = threading.excepthook, lambda error: None
        pool.shutdown(kill_workers=True)  # its thread may miss a call that has gone, and say so
        threading.excepthook = told
        raise
    pool.shutdown()


def _begin(parent: int, path: list[str]) -> None:
    """Start a worker: with what its parent can import, and Ctrl-C left to the parent."""
    end_with_parent(parent)
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _dask(workers: Workers) -> Iterator[Pool]:
    """Use a running scheduler, or start one process per worker here."""
    try:
        dask, distributed = import_module("dask"), import_module("distributed")
    except ImportError as error:
        text = "the backend 'dask' needs its extra: pip install \".[dask]\"."
        raise ImportError(text) from error
    with contextlib.ExitStack() as stack:
        # What is under way when a worker dies is told of at once.
        stack.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": 0}))
        if workers.scheduler is None:
            cluster = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=workers.width,
                    threads_per_worker=1,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,  # it tells of each worker that is killed
                )
            )
            client = stack.enter_context(distributed.Client(cluster))
            stack.push(lambda kind, error, trace: _kill_workers(cluster) if error else None)
            client.run(end_with_parent)
        else:
            try:
                client = distributed.Client(workers.scheduler, timeout=SCHEDULER_TIMEOUT)
            except Exception as error:  # whatever stands at the address, it is no scheduler
                reason = " ".join(str(error).split()).rstrip(".") or "no answer"
                text = message("scheduler", "be reachable", workers.scheduler, reason)
                raise ConnectionError(text) from error
            stack.enter_context(client)
        number = workers.num_workers or sum(client.nthreads().values())
        if number < 1:
            raise ConnectionError(
                f"scheduler must have workers, got none at {workers.scheduler!r}."
            )
        submit = client.get_executor(pure=False).submit
        yield Pool(submit, number + SPARE_CALLS, (distributed.KilledWorker, BrokenExecutor))


def _kill_workers(cluster: Any) -> None:
    """End what workers are in the midst of, for which Dask would wait 5 s as a run is stopped."""
    for nanny in cluster.workers.values():
        nanny.auto_restart = False
        with contextlib.suppress(ProcessLookupError, TypeError):  # it has ended already
            os.kill(nanny.pid, signal.SIGKILL)


BACKENDS: dict[str, Callable[[Workers], contextlib.AbstractContextManager[Pool]]] = {
    "loky": _loky,
    "serial": _serial,
    "dask": _dask,
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
