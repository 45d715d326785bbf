"""What listens to an experiment while it runs; nothing that it does can change or lose the run."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bandit_gym.checks import message
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.simulation import Outcome, headline


class Callback:
    """Is told of an experiment while it runs. Override what is of interest; the rest does nothing.

    All of it is called in the process that called `run_experiment`, one call at a time, after what
    it tells of was stored. So it needs to be neither picklable nor fast, and numbers do not depend
    on it. One that raises is reported by one warning and told no more but the end.
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


def check_callbacks(callbacks: Any) -> tuple[Callback, ...]:
    """Return a list of callbacks as a tuple."""
    condition = "be a list of callbacks, objects of subclasses of bandit_gym.callbacks.Callback"
    is_listed = isinstance(callbacks, Sequence) and not isinstance(callbacks, str | bytes)
    if not is_listed or not all(isinstance(each, Callback) for each in callbacks):
        raise TypeError(message("callbacks", condition, callbacks))
    return tuple(callbacks)


@contextlib.contextmanager
def telling(
    callbacks: Sequence[Callback], experiment: Experiment, directory: Path
) -> Iterator[Callable[[Outcome], None]]:
    """Tell callbacks of the start and the end, and yield what tells them of a block."""
    failed: set[int] = set()

    def tell(moment: str, *told: Any) -> None:
        for number, callback in enumerate(callbacks):
            if number in failed and moment != "on_end":
                continue
            try:
                getattr(callback, moment)(*told)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # SystemExit among them
                if number not in failed:
                    _warn(callback, moment, error)
                failed.add(number)

    tell("on_start", experiment, directory)
    try:
        yield lambda outcome: tell("on_block", outcome)
    finally:
        tell("on_end", experiment, directory)


def _warn(callback: Callback, moment: str, error: BaseException) -> None:
    warnings.warn(
        f"callback {type(callback).__name__} raised {headline(error)} in {moment}; it is told no "
        "more but the end, and the run goes on.",
        RuntimeWarning,
        stacklevel=2,
    )
