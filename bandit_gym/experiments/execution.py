"""Running an experiment: here, on all cores, or on a cluster, with the same numbers everywhere.

Workers receive settings and send back finished blocks; only this process writes, so that a cluster
needs no shared disk.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bandit_gym.checks import check_callback, check_choice, check_folder, check_object
from bandit_gym.experiments.backends import Workers
from bandit_gym.experiments.blocks import open_parquet
from bandit_gym.experiments.callbacks import Callback, check_callbacks, telling
from bandit_gym.experiments.changes import CHOICES
from bandit_gym.experiments.crew import Call, Crew, Died
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.simulation import Outcome, simulate_block, try_run
from bandit_gym.experiments.storage import Store, has_receipts
from bandit_gym.experiments.trust import find_code

__all__ = ["Progress", "Workers", "run_experiment"]

FEW_DECISIONS = 5_000
"""So many are sooner taken here than a worker is started, which takes a second."""

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
    callbacks: Sequence[Callback] = (),
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
        on_progress: called in this process; what it raises ends the run.
        changed: what to do about blocks that the present code would not draw again, since an own
            module, a file that an option names or the engine's results version is another now:
            "refuse" them; "recompute", which moves them to `superseded/N/`; or "keep" them, which
            marks every table and figure.
        callbacks: called in this process; one that raises is warned of, and the run goes on. See
            `bandit_gym.callbacks`.

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
    callbacks = check_callbacks(callbacks)
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
        tell = stack.enter_context(telling(callbacks, experiment, folder))
        calls = crew.call(simulate_block, _tasks(store, experiment, complete))
        stack.enter_context(contextlib.closing(calls))  # before the workers go
        for done, ((run, block, _), found) in enumerate(calls, start=1):
            outcome = _lost(run, block, found) if isinstance(found, Died) else found
            _store(store, outcome)
            on_progress(Progress(total, len(complete), done, damaged, outcome))
            tell(outcome)
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
