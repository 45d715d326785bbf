"""Running an experiment: here, on all cores, or on a cluster, with the same numbers everywhere.

Workers receive settings and send back finished blocks; only this process writes, so that a cluster
needs no shared disk. joblib does the distribution for every back end.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib

from bandit_gym.experiments.backends import Workers, connect
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.simulation import Outcome, check_run, simulate_block
from bandit_gym.experiments.storage import Store

__all__ = ["Progress", "Workers", "run_experiment"]

BLOCKS_PER_ROUND = 4
"""Blocks per worker between two times that Ray's results are stored."""

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
) -> Store:
    """Simulate the blocks that the folder does not hold yet, and store each as it comes.

    An agent or environment that raises spoils its own blocks only: the traceback is stored, and
    `Store.read_failures` tells. Running again does what is missing, failed or damaged.

    Args:
        experiment: what to simulate.
        directory: folder for this experiment; see `storage`.
        workers: who does it; None takes every core of this machine.
        on_progress: called in this process.
        changed: what to do about blocks that the present code would not draw again, since an own
            module, a file that an option names or the engine's results version is another now:
            "refuse" them; "recompute", which moves them to `superseded/N/`; or "keep" them, which
            marks every table and figure.

    Returns:
        The folder.

    Raises:
        ValueError: if an environment or agent cannot be built; nothing has been run then.
        FileExistsError: if the folder holds something else, or blocks that no longer fit.
        BlockingIOError: if another process is at work in the folder.
        ConnectionError: if the scheduler does not answer.
    """
    for run in experiment.runs:
        _check_buildable(run)
    with Store.claimed(directory, experiment, changed=changed) as (store, news):
        tasks, damaged = _unfinished(store, experiment)
        total = len(experiment.runs) * experiment.num_blocks
        stored = total - len(tasks)
        on_progress(Progress(total, stored, 0, damaged, None, news))
        calls = [(run, block, store.manifest.stamp(run)["sources"]) for run, block in tasks]
        for done, outcome in enumerate(_simulate(calls, workers or Workers()), start=1):
            _store(store, outcome)
            on_progress(Progress(total, stored, done, damaged, outcome))
    return store


def _check_buildable(run: Run) -> None:
    try:
        check_run(run)
    except Exception as error:
        raise ValueError(
            f"agent {run.agent.label} must be able to play {run.environment.label}, "
            f"got {type(error).__name__}: {error}"
        ) from error


def _unfinished(store: Store, experiment: Experiment) -> tuple[list[Task], tuple[str, ...]]:
    """Return what is to be done, first blocks first so that all runs advance, and what is torn."""
    tasks, damaged = [], []
    for block, run in itertools.product(range(experiment.num_blocks), experiment.runs):
        try:
            store.read_block(run, block)
        except (FileNotFoundError, ValueError) as error:
            tasks.append((run, block))
            if isinstance(error, ValueError):
                damaged.append(f"{run.name}/{block:05d}")
    return tasks, tuple(damaged)


def _store(store: Store, outcome: Outcome) -> None:
    if outcome.data is None:
        store.write_failure(outcome.run, outcome.block, outcome.failure or "")
    else:
        store.write_block(outcome.run, outcome.block, outcome.data, outcome.facts)


def _simulate(tasks: Sequence[tuple[Any, ...]], workers: Workers) -> Iterator[Outcome]:
    """Yield the outcomes in the order in which they are finished."""
    if not tasks:
        return
    with contextlib.ExitStack() as stack:
        num_jobs = connect(workers, stack)
        if workers.backend == "ray":  # which gives its results all at once: so in rounds
            size, return_as = BLOCKS_PER_ROUND * num_jobs, "list"
        else:
            size, return_as = len(tasks), "generator_unordered"
        parallel = joblib.Parallel(n_jobs=num_jobs, return_as=return_as)
        for start in range(0, len(tasks), size):
            calls = (joblib.delayed(simulate_block)(*task) for task in tasks[start : start + size])
            yield from parallel(calls)
