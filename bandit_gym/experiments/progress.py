"""How a long experiment tells how far it is: lines, and a live bar on a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from bandit_gym.experiments.command_line import shorten
from bandit_gym.experiments.execution import Progress

MOST_NAME = 20
"""Characters of the name of the agent that has finished a block, beside the bar."""

Report = Callable[[Progress], None]


@contextlib.contextmanager
def progress_on_stderr() -> Iterator[Report]:
    """Give a callback for `run_experiment` that shows its progress on standard error."""
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
            if progress.outcome is not None:
                bar.update(task, description=shorten(progress.outcome.run.agent.label, MOST_NAME))
            if progress.outcome is None:
                console.print(_opening(progress))
            elif progress.outcome.failure is not None:
                console.print(_failure(progress), style="red")

        yield show


def _opening(progress: Progress) -> str:
    text = f"{progress.num_blocks} blocks, {progress.num_stored} of them stored already"
    if progress.damaged:
        text += f"; damaged and computed again: {', '.join(progress.damaged)}"
    return text


def _failure(progress: Progress) -> str:
    assert progress.outcome is not None
    run, text = progress.outcome.run, progress.outcome.failure or ""
    where = f"{run.agent.label} failed in {run.environment.label}, block {progress.outcome.block}"
    return f"{where}: {text.splitlines()[0]}"
