"""Who does the work: this process, all cores of this machine, or a cluster.

Every back end is told its number of jobs: without it some of joblib's silently work alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import joblib

from bandit_gym.checks import check_choice, check_integer, check_object, message
from bandit_gym.experiments.ending import end_with_parent, keeping_handlers

SCHEDULER_TIMEOUT = 6.0
"""Seconds to wait for a host to answer, and again for its scheduler to."""


MOST_WORKERS = 10_000

NO_NEWS = (
    "A worker stopped while some jobs were given",  # one that has just imported PyTorch, replaced
    "[0-9]+ tasks (have been successfully executed|which were still being processed)",
)
"""What joblib warns of: the second as a run is stopped, which has been said."""

ALLOW_NO_DEATH = {"distributed.scheduler.allowed-failures": 0}
"""What is under way when a worker dies is told of at once, and not tried again with others."""

SAFE_PATH = "PYTHONSAFEPATH"
"""With it in the environment, loky's workers look for no module in the current folder before they
are told where to; they begin as `python -m joblib...`, and would take anybody's numpy.py."""


@dataclass(frozen=True)
class Workers:
    """Who does the work.

    Attributes:
        backend: "loky" (processes on this machine), "serial" (this process), "dask" or "ray".
        num_workers: how many; None means one per core, or all that a scheduler has.
        scheduler: address of a running Dask scheduler or Ray head; None starts one here.
    """

    backend: str = "loky"
    num_workers: int | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        check_choice("backend", self.backend, _CONNECTIONS)
        if self.num_workers is not None:
            number = check_integer("num_workers", self.num_workers, minimum=1, maximum=MOST_WORKERS)
            object.__setattr__(self, "num_workers", number)
        if self.scheduler is not None and self.backend not in ("dask", "ray"):
            raise ValueError(
                f"scheduler must be None for the backend {self.backend!r}, got "
                f"{self.scheduler!r}; choose the backend 'dask' or 'ray'."
            )
        if self.scheduler is not None:
            _split_address(check_object("scheduler", self.scheduler, str))


def connect(workers: Workers, stack: contextlib.ExitStack) -> int:
    """Make joblib use the workers for as long as `stack` lives, and return how many there are.

    Raises:
        ConnectionError: if the scheduler does not answer, or has no workers.
        ImportError: if the back end is not installed.
    """
    return _CONNECTIONS[workers.backend](workers, stack)


def _connect_serial(workers: Workers, stack: contextlib.ExitStack) -> int:
    stack.enter_context(joblib.parallel_config(backend="sequential", n_jobs=1))
    return 1


def _connect_loky(workers: Workers, stack: contextlib.ExitStack) -> int:
    num_jobs = workers.num_workers or joblib.cpu_count()
    before = os.environ.get(SAFE_PATH)
    stack.enter_context(warnings.catch_warnings())
    for text in NO_NEWS:
        warnings.filterwarnings("ignore", message=text)
    config = joblib.parallel_config(
        backend="loky",
        n_jobs=num_jobs,
        inner_max_num_threads=1,
        initializer=_begin,
        # for others than these, loky starts new workers
        initargs=(os.getpid(), os.getcwd(), sys.path.copy(), before),
    )
    stack.enter_context(config)
    stack.callback(_set_safe_path, before)
    _set_safe_path("1")
    return num_jobs


def _set_safe_path(value: str | None) -> None:
    os.environ.pop(SAFE_PATH, None)
    if value is not None:
        os.environ[SAFE_PATH] = value


def _begin(parent: int, folder: str, path: list[str], safe_path: str | None) -> None:
    """Start a worker: where its parent is, with what it can import, and Ctrl-C left to it."""
    end_with_parent(parent)
    _set_safe_path(safe_path)
    os.chdir(folder)
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _connect_dask(workers: Workers, stack: contextlib.ExitStack) -> int:
    """Connect to the scheduler, or start one process per worker here."""
    distributed = _import("distributed", "dask")
    if workers.scheduler is None:
        stack.enter_context(_import("dask", "dask").config.set(ALLOW_NO_DEATH))
        cluster = distributed.LocalCluster(
            n_workers=workers.num_workers or joblib.cpu_count(),
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,  # it tells of each worker that has to be killed
        )
        client = stack.enter_context(distributed.Client(stack.enter_context(cluster)))
        stack.push(lambda kind, error, trace: _kill_workers(cluster) if error else None)
        client.run(end_with_parent)
    else:
        client = stack.enter_context(_reach(workers.scheduler, distributed.Client))
    num_jobs = workers.num_workers or sum(client.nthreads().values())
    if num_jobs < 1:
        raise ConnectionError(f"scheduler must have workers, got none at {workers.scheduler!r}.")
    return num_jobs


def _kill_workers(cluster: Any) -> None:
    """End what workers are in the midst of, for which Dask would wait 5 s as a run is stopped."""
    for nanny in cluster.workers.values():
        nanny.auto_restart = False
        with contextlib.suppress(ProcessLookupError, TypeError):  # it has ended already
            os.kill(nanny.pid, signal.SIGKILL)


def _connect_ray(workers: Workers, stack: contextlib.ExitStack) -> int:
    """Connect to the head node, or start Ray here."""
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # else it writes a token into the home
    ray = _import("ray", "ray")
    with keeping_handlers():  # of which Ray makes its own, that end without a word
        if workers.scheduler is None:
            num_cpus = workers.num_workers or joblib.cpu_count()
            ray.init(num_cpus=num_cpus, include_dashboard=False, log_to_driver=False)
        else:
            _reach(workers.scheduler, ray.init)
    stack.callback(ray.shutdown)
    import_module("ray.util.joblib").register_ray()
    num_jobs = workers.num_workers or int(ray.cluster_resources()["CPU"])
    stack.enter_context(joblib.parallel_config(backend="ray", n_jobs=num_jobs))
    return num_jobs


_CONNECTIONS: dict[str, Callable[[Workers, contextlib.ExitStack], int]] = {
    "loky": _connect_loky,
    "serial": _connect_serial,
    "dask": _connect_dask,
    "ray": _connect_ray,
}


def _reach(address: str, connect: Callable[[str], Any]) -> Any:
    """Return `connect(address)`, or say within 2 `SCHEDULER_TIMEOUT` that nobody answers.

    The libraries wait much longer for a host that is down, and for ever for a listener that is no
    scheduler; hence the first look with a bare socket, and the thread that may be left behind.
    """
    connection: Future[Any] = Future()

    def attempt() -> None:
        try:
            connection.set_result(connect(address))
        except Exception as error:
            connection.set_exception(error)

    host_and_port = _split_address(address)
    try:
        socket.create_connection(host_and_port, timeout=SCHEDULER_TIMEOUT).close()
        threading.Thread(target=attempt, daemon=True).start()
        return connection.result(SCHEDULER_TIMEOUT)
    except Exception as error:  # whatever stands at the address, it is no scheduler
        raise ConnectionError(
            f"scheduler must be reachable, got {address!r}: {str(error) or 'no answer'}; "
            "start it, or leave the scheduler out to work on this machine."
        ) from error


def _split_address(address: str) -> tuple[str, int]:
    with contextlib.suppress(ValueError):
        parts = urlsplit(address if "://" in address else f"//{address}")
        if parts.hostname is not None and parts.port is not None:
            return parts.hostname, parts.port
    raise ValueError(message("scheduler", "be an address like tcp://host:8786", address))


def _import(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f'the backend {extra!r} needs {module}: pip install "bayesian-bandit-gym[{extra}]".'
        ) from error
