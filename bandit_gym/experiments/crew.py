"""Who does the calls of an experiment: this process, its machine's cores, or a cluster.

A call that takes its process down costs itself alone. When a worker dies, joblib gives up all that
is under way; so each of these calls is tried once more, alone. The one that kills its process again
is told of, and all others go on.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from importlib import import_module
from typing import Any

import joblib

from bandit_gym.experiments.backends import Workers, connect

CALLS_PER_ROUND = 4
"""Calls per worker between two times that Ray's results, which come all at once, are handed on."""

Call = tuple[Any, ...]


class Died:
    """What a call came to that took its process down."""

    def __init__(self, error: BaseException) -> None:
        self.reason = " ".join(str(error).split())


class Crew:
    """The workers, who are there once the first call is made.

    Args:
        workers: who they are.
        stack: what they live as long as.
    """

    def __init__(self, workers: Workers, stack: contextlib.ExitStack) -> None:
        self._workers = workers
        self._connection = stack.enter_context(contextlib.ExitStack())
        self._num_jobs = 0

    @property
    def is_isolating(self) -> bool:
        """Whether a worker that dies costs its call alone.

        "serial" has no other process to lose; Ray, and a cluster of others, give up with it.
        """
        workers = self._workers
        return workers.backend == "loky" or (workers.backend == "dask" and not workers.scheduler)

    def work_here(self) -> None:
        """Make no use of this machine's other cores; others than "loky" stay what was asked for."""
        if self._workers.backend == "loky":
            self._workers = Workers("serial")

    def call(
        self, function: Callable[..., Any], calls: Iterable[Call]
    ) -> Generator[tuple[Call, Any], None, None]:
        """Yield each call's arguments and what came of it, in the order of being finished."""
        waiting = enumerate(calls)
        for first in waiting:
            if not self._num_jobs:
                self._num_jobs = connect(self._workers, self._connection)
            yield from self._call_all(function, itertools.chain([first], waiting))

    def _call_all(
        self, function: Callable[..., Any], waiting: Iterator[tuple[int, Call]]
    ) -> Iterator[tuple[Call, Any]]:
        """Do as `call` until the calls are at an end or a worker dies."""
        under_way: dict[int, Call] = {}

        def send() -> Iterator[Any]:
            for number, call in waiting:
                under_way[number] = call
                yield joblib.delayed(_call)(function, number, call)

        try:
            for number, result in self._results(send()):
                yield under_way.pop(number), result
        except BrokenExecutor:
            if not self.is_isolating:
                raise
            if self._workers.backend == "dask":
                self._fall_back()
            for call in list(under_way.values()):
                yield call, self._call_alone(function, call)

    def _results(self, calls: Iterator[Any]) -> Iterator[Any]:
        if self._workers.backend == "dask":
            yield from self._dask_results(calls)
            return
        if self._workers.backend == "ray":
            parallel = joblib.Parallel(n_jobs=self._num_jobs)
            while batch := list(itertools.islice(calls, CALLS_PER_ROUND * self._num_jobs)):
                yield from parallel(batch)
            return
        # with one job, joblib would do loky's work in this process
        num_jobs = max(2, self._num_jobs) if self._workers.backend == "loky" else self._num_jobs
        yield from joblib.Parallel(
            n_jobs=num_jobs,
            return_as="generator_unordered",
            pre_dispatch=self._num_jobs,
            batch_size=1,
        )(calls)

    def _dask_results(self, calls: Iterator[Any]) -> Iterator[Any]:
        """Do as joblib would, which waits for ever where a worker of Dask's dies."""
        distributed = import_module("distributed")
        submit = distributed.get_client().submit
        sending = (submit(function, *arguments, pure=False) for function, arguments, _ in calls)
        under_way = distributed.as_completed(itertools.islice(sending, self._num_jobs))
        try:
            for future in under_way:
                yield future.result()
                under_way.update(itertools.islice(sending, 1))
        except distributed.KilledWorker as error:
            raise BrokenExecutor(str(error)) from error

    def _fall_back(self) -> None:
        """Go on with loky where Dask's workers stood; once some have died, the others may too."""
        self._connection.close()
        self._workers = replace(self._workers, backend="loky")
        self._num_jobs = connect(self._workers, self._connection)

    def _call_alone(self, function: Callable[..., Any], call: Call) -> Any:
        try:
            ((_, result),) = self._results(iter([joblib.delayed(_call)(function, 0, call)]))
        except BrokenExecutor as error:
            return Died(error)
        return result


def _call(function: Callable[..., Any], number: int, call: Call) -> tuple[int, Any]:
    return number, function(*call)
