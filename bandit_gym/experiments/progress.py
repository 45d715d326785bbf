"""How a long experiment tells how far it is: a live bar where one can be, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from bandit_gym.experiments.command_line import shorten
from bandit_gym.experiments.execution import Progress

Report = Callable[[Progress], None]
BAR, OTHERS = 20, 28
"""Characters of the bar, and of count and time beside it."""


@contextlib.contextmanager
def progress_on_stderr() -> Iterator[Report]:
    """Give a callback for `run_experiment` that shows its progress on standard error."""
    if sys.stderr.isatty():
        with _live_bar() as show:
            yield show
    else:
        yield _announce


def _announce(progress: Progress) -> None:
    """Say what is about to be done, and which blocks failed; nothing else."""
    if progress.outcome is None:
        print(_opening(progress), file=sys.stderr, flush=True)
    elif progress.outcome.failure is not None:
        print(_failure(progress), file=sys.stderr, flush=True)


@contextlib.contextmanager
def _live_bar() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = [
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=BAR),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    ]
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(progress: Progress) -> None:
            completed = progress.num_stored + progress.num_done
            bar.update(task, total=progress.num_blocks, completed=completed)
            if progress.outcome is None:
                console.print(_opening(progress), highlight=False, markup=False, emoji=False)
                return
            if progress.outcome.failure is not None:
                text = _failure(progress)
                console.print(text, highlight=False, style="red", markup=False, emoji=False)
            run = progress.outcome.run
            room = max(8, console.width - BAR - OTHERS)
            label = shorten(f"{run.agent.label}: {run.environment.label}", room)
            bar.update(task, description=label)

        yield show


def _opening(progress: Progress) -> str:
    parts = [progress.changed] if progress.changed else []
    parts += [f"{progress.num_blocks} blocks, {progress.num_stored} of them stored already"]
    if progress.damaged:
        parts.append(f"damaged and computed again: {', '.join(progress.damaged)}")
    return "; ".join(parts)


def _failure(progress: Progress) -> str:
    assert progress.outcome is not None
    run, text = progress.outcome.run, progress.outcome.failure or ""
    where = f"{run.agent.label} failed in {run.environment.label}, block {progress.outcome.block}"
    return f"{where}: {text.splitlines()[0]}"
