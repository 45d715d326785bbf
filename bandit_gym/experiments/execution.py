"""Running an experiment: here, on all cores, or on a cluster, with the same numbers everywhere.

Workers receive settings and send back finished blocks; only this process writes, so that a cluster
needs no shared disk.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandit_gym.checks import check_callback, check_folder, check_object, message
from bandit_gym.experiments.catalogue import known_targets, load, try_run
from bandit_gym.experiments.executor import Died, Workers, make_calls
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.provenance import find_code
from bandit_gym.experiments.simulation import Outcome, simulate_block
from bandit_gym.experiments.store import Store

__all__ = ["Progress", "Workers", "run_experiment"]

FEW_DECISIONS = 5_000
"""Up to this many decisions are taken in this process, for a worker needs a second to start."""

MOST_NAME = 20
"""Characters of the name of the agent that has finished a block, beside the bar."""

Task = tuple[Run, int]


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
        """Take notice of the start.

        Args:
            experiment: what is about to be simulated.
            directory: folder of its results, which may hold some blocks already.
        """

    def on_block(self, outcome: Outcome) -> None:
        """Take notice of a block, in the order of being finished.

        Args:
            outcome: its run, its number, and its results or what went wrong.
        """

    def on_end(self, experiment: Experiment, directory: Path) -> None:
        """Take notice of the end, also if the run is interrupted; close what was opened.

        Args:
            experiment: as at the start.
            directory: folder of its results, for `bandit_gym.results.load_results`.
        """


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
    check_callback("on_progress", on_progress)
    check_object("recompute", recompute, bool)
    given: Any = callbacks
    if not isinstance(given, Sequence) or not all(isinstance(each, Callback) for each in given):
        condition = "be a list of objects of subclasses of bandit_gym.callbacks.Callback"
        raise TypeError(message("callbacks", condition, callbacks))
    for run in experiment.runs:  # those seen before are skipped
        problem = "" if Store(folder).has_blocks(run) else try_run(run)
        if problem:
            raise ValueError(
                f"agent {run.agent.label} must be able to play {run.environment.label}, "
                f"got {problem}"
            )
    sources = {run: run.sources() for run in experiment.runs}
    with contextlib.ExitStack() as stack:
        claimed = Store.claimed(folder, experiment, sources, recompute=recompute)
        store, found = stack.enter_context(claimed)
        total = len(experiment.runs) * experiment.num_blocks
        num_decisions = (total - len(found.complete)) * experiment.block_size * experiment.horizon
        is_little = num_decisions <= FEW_DECISIONS and not find_code(experiment, known_targets())
        if is_little and workers.backend == "loky":
            workers = Workers("serial")
        seconds: dict[str, float] = {}  # an agent's last block
        tasks = _tasks(experiment, found.complete, seconds, workers.width)
        counts = total, len(found.complete)
        on_progress(Progress(*counts, 0, tuple(found.damaged), None))
        for callback in callbacks:
            stack.callback(callback.on_end, experiment, folder)
            callback.on_start(experiment, folder)
        calls = ((run, block, sources[run]) for run, block in tasks)
        made = stack.enter_context(contextlib.closing(make_calls(workers, simulate_block, calls)))
        for done, (call, result) in enumerate(made, start=1):
            outcome = result
            if isinstance(result, Died):
                line = f"WorkerDied: the process that simulated this alone died: {result.reason}"
                outcome = Outcome(call[0], call[1], None, {}, line)
            seconds[outcome.run.agent.digest] = outcome.facts.get("seconds", 0.0)
            if outcome.data is None:
                store.write_failure(outcome.run, outcome.block, outcome.failure or "")
            else:
                store.write_block(outcome.run, outcome.block, outcome.data, outcome.facts)
            on_progress(Progress(*counts, done, tuple(found.damaged), outcome))
            for callback in callbacks:
                callback.on_block(outcome)
    return load("bandit_gym.results:load_results")(folder, experiment)


def _tasks(
    experiment: Experiment, complete: set[Task], seconds: dict[str, float], width: int
) -> Iterator[Task]:
    """Yield what is to be done: first blocks first, so that all runs advance.

    At a time it looks at as many block numbers as there are workers. Agents that have not finished
    a block go first, then those that were slowest on their last one.
    """
    near: list[Task] = []
    for block in range(experiment.num_blocks + width):
        while near and near[0][1] + width <= block:
            dearest = max(near, key=lambda task: seconds.get(task[0].agent.digest, math.inf))
            near.remove(dearest)
            yield dearest
        if block < experiment.num_blocks:
            near += [(run, block) for run in experiment.runs if (run, block) not in complete]


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
            agent, world = outcome.run.agent.label, outcome.run.environment.label
            bar.update(task, description=agent[:MOST_NAME])
            if outcome.failure is not None:
                reason = outcome.failure.splitlines()[0]
                line = f"{agent} failed in {world}, block {outcome.block}: {reason}"
                console.print(line, style="red")

        yield show
