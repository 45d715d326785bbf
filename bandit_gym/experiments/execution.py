"""Running an experiment: here, on all cores, or on a cluster, with the same numbers everywhere.

Workers receive settings and send back finished blocks; only this process writes, so that a cluster
needs no shared disk.

A call that takes its process down costs itself alone. When a worker dies, joblib gives up all that
is under way; so each of these calls is tried once more, alone. The one that kills its process again
is told of, and all others go on.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import joblib

from bandit_gym.checks import check_callback, check_choice, check_folder, check_object
from bandit_gym.experiments.backends import Workers, connect
from bandit_gym.experiments.changes import CHOICES
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.opening import open_parquet
from bandit_gym.experiments.optimum_search import check_budget, find_optima
from bandit_gym.experiments.simulation import Outcome, simulate_block, try_run
from bandit_gym.experiments.storage import Store, has_receipts
from bandit_gym.experiments.trust import find_code

__all__ = ["Progress", "Workers", "run_experiment"]

FEW_DECISIONS = 5_000
"""So many are sooner taken here than a worker is started, which takes a second."""

CALLS_PER_ROUND = 4
"""Calls per worker between two times that Ray's results, which come all at once, are handed on."""

Call = tuple[Any, ...]
Task = tuple[Run, int]


@dataclass(frozen=True)
class Progress:
    """How far a run of an experiment is; handed to `on_progress` at the start and at each block.

    Attributes:
        num_blocks: blocks of the experiment.
        num_stored: blocks that were there before.
        num_done: blocks simulated since, failed ones included.
        damaged: names of block files that were torn or altered and are computed again.
        outcome: the block that was just finished; None at the start.
        changed: what has changed since some blocks were stored, and what became of them.
    """

    num_blocks: int
    num_stored: int
    num_done: int
    damaged: tuple[str, ...]
    outcome: Outcome | None
    changed: str = ""


def run_experiment(
    experiment: Experiment,
    directory: str | Path,
    *,
    workers: Workers | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    changed: str = "refuse",
    optimal_budget: float | None = None,
) -> Store:
    """Simulate the blocks that the folder does not hold yet, and store each as it comes.

    An agent or environment that raises spoils its own blocks only: the traceback is stored, and
    `Store.read_failures` tells. So does one that takes its process down, on this machine's own
    workers ("loky", or "dask" without a scheduler); "serial" goes down with it, and Ray gives up.
    Running again does what is missing or damaged, and then what failed.

    Args:
        experiment: what to simulate.
        directory: folder for this experiment; see `storage`.
        workers: who does it; None takes every core of this machine.
        on_progress: called in this process.
        changed: what to do about blocks that the present code would not draw again, since an own
            module, a file that an option names or the engine's results version is another now:
            "refuse" them; "recompute", which moves them to `superseded/N/`; or "keep" them, which
            marks every table and figure.
        optimal_budget: seconds that the least regret which is possible in an environment, or bounds
            of it, may take to find, by estimate; 0 does without. None is 5, and 0 if the experiment
            has at most 5,000 decisions. See `optimum_search`.

    Returns:
        The folder.

    Raises:
        ValueError: if an environment or agent cannot be built; nothing has been run then.
        FileExistsError: if the folder holds something else, or blocks that no longer fit.
        BlockingIOError: if another process is at work in the folder.
        ConnectionError: if the scheduler does not answer.
    """
    check_object("experiment", experiment, Experiment)
    folder = check_folder("directory", directory)
    workers = Workers() if workers is None else check_object("workers", workers, Workers)
    check_callback("on_progress", on_progress)
    check_choice("changed", changed, CHOICES)
    check_budget(optimal_budget)
    with contextlib.ExitStack() as stack:
        crew = Crew(workers, stack)
        _check_buildable(crew, experiment, folder)
        claim = Store.claimed(folder, experiment, changed=changed)
        store, news = stack.enter_context(claim)
        complete, damaged = _survey(store, experiment)
        total = len(experiment.runs) * experiment.num_blocks
        if _is_little(experiment, total - len(complete)):
            crew.work_here()
        on_progress(Progress(total, len(complete), 0, damaged, None, news))
        calls = crew.call(simulate_block, _tasks(store, experiment, complete))
        stack.enter_context(contextlib.closing(calls))  # before the workers go
        for done, ((run, block, _), found) in enumerate(calls, start=1):
            outcome = _lost(run, block, found) if isinstance(found, Died) else found
            _store(store, outcome)
            on_progress(Progress(total, len(complete), done, damaged, outcome))
        find_optima(store, experiment, optimal_budget, crew.call)
    return store


def _check_buildable(crew: Crew, experiment: Experiment, directory: Path) -> None:
    """Refuse an agent that cannot be built, or not for its world; those seen before are skipped.

    What a user wrote may take its process down, and is tried in one that may be lost.
    """
    new = [run for run in experiment.runs if not has_receipts(directory, run)]
    own = {run for run in new if crew.is_isolating and any(run.sources().values())}
    here = ((run, try_run(run)) for run in new if run not in own)
    there = ((run, found) for (run,), found in crew.call(try_run, [(run,) for run in own]))
    for run, found in itertools.chain(here, there):
        problem = f"WorkerDied: {found.reason}" if isinstance(found, Died) else found
        if problem:
            raise ValueError(
                f"agent {run.agent.label} must be able to play {run.environment.label}, "
                f"got {problem}"
            )


def _is_little(experiment: Experiment, num_blocks: int) -> bool:
    """Say whether so many blocks are soon done, by nothing that may take its process down."""
    num_decisions = num_blocks * experiment.block_size * experiment.horizon
    return num_decisions <= FEW_DECISIONS and not find_code(experiment)


def _survey(store: Store, experiment: Experiment) -> tuple[set[Task], tuple[str, ...]]:
    """Return the blocks that are there, and the names of those that are torn or altered."""
    complete, damaged = set(), []
    for run in experiment.runs:
        for block in store.blocks(run, experiment.num_blocks):
            try:
                open_parquet(run, store.read_block(run, block).data)
                complete.add((run, block))
            except FileNotFoundError:
                continue
            except ValueError:
                damaged.append(f"{run.name}/{block:05d}")
    return complete, tuple(damaged)


def _tasks(store: Store, experiment: Experiment, complete: set[Task]) -> Iterator[Call]:
    """Yield what is to be done: first blocks first, so that all runs advance; failed ones last."""
    runs = experiment.runs
    failed = {(run, block) for run in runs for block in store.read_failures(run)} - complete
    order = ((run, block) for block in range(experiment.num_blocks) for run in runs)
    fresh = (task for task in order if task not in complete and task not in failed)
    again = sorted(
        (task for task in failed if task[1] < experiment.num_blocks), key=lambda task: task[1]
    )
    for run, block in itertools.chain(fresh, again):
        yield run, block, store.sources(run)


def _lost(run: Run, block: int, found: Died) -> Outcome:
    headline = f"WorkerDied: the process that simulated this block alone died: {found.reason}"
    return Outcome(run, block, None, {}, headline)


def _store(store: Store, outcome: Outcome) -> None:
    if outcome.data is None:
        store.write_failure(outcome.run, outcome.block, outcome.failure or "")
    else:
        store.write_block(outcome.run, outcome.block, outcome.data, outcome.facts)


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
