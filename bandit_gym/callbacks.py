"""What listens to an experiment while it runs: TensorBoard, and a user's callbacks.

    run_experiment(experiment, folder, callbacks=[TensorBoard("runs")])

See `docs/watching.md`.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bandit_gym.checks import check_folder, import_extra
from bandit_gym.experiments.blocks import COLUMNS, Outcome
from bandit_gym.experiments.execution import Callback as Callback
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.store import Block
from bandit_gym.results.results import load_results

CHARTS = [name for name, column in COLUMNS.items() if column.unit and not column.is_optional]
"""The columns that have a chart: all that the results measure in units."""

FLUSH_SECONDS = 5
"""After which TensorBoard finds what was written."""

MAX_TAG_LENGTH = 50
"""Letters of a label in the name of a folder; file systems take 255 bytes, a letter has up to 4."""


class TensorBoard(Callback):
    """Logs an experiment for `tensorboard --logdir DIRECTORY`.

    Each experiment gets the first number that is free as its folder there, and each agent a folder
    in that. Charts are named by the columns of the results:

    - "ENVIRONMENT by block/COLUMN", after each block: its mean at the horizon.
    - "ENVIRONMENT/COLUMN", at the end: the mean after t steps, against t.

    Args:
        directory: folder of the logs.

    Raises:
        ImportError: if the package `tensorboard` is not installed.
        FileExistsError: if something other than a folder stands there.
    """

    def __init__(self, directory: str | Path) -> None:
        names = ("compat.proto.event_pb2", "summary.writer.event_file_writer")  # no TensorFlow
        self._events, self._writing = (
            import_extra(f"tensorboard.{name}", "TensorBoard", "tensorboard") for name in names
        )
        self.directory = check_folder("directory", directory)
        self._writers: dict[str, Any] = {}

    def on_start(self, experiment: Experiment, directory: Path) -> None:
        """Open a log for each agent."""
        self._experiment = experiment
        paths = (self.directory / str(number) for number in itertools.count(1))
        folder = next(path for path in paths if not path.exists())
        for number, agent in enumerate(experiment.agents):
            name = re.sub(r"[^\w ()=,+-]", "_", agent.label)[:MAX_TAG_LENGTH]
            path = str(folder / f"{number} {name}")
            writer = self._writing.EventFileWriter(path, flush_secs=FLUSH_SECONDS)
            self._writers[agent.label] = writer

    def on_block(self, outcome: Outcome) -> None:
        """Write the means over the replications of the block."""
        if outcome.data is None:
            return
        run, every = outcome.run, outcome.run.replications(outcome.block)
        wanted = range(every.start, min(every.stop, self._experiment.replications))
        block = Block(run, wanted, pa.py_buffer(outcome.data))
        means = {name: block.column(name)[:, -1].mean() for name in CHARTS}
        self._write(run, f"{run.environment.label} by block", wanted.stop, means)

    def on_end(self, experiment: Experiment, directory: Path) -> None:
        """Write the curves of all that is stored, and close the logs."""
        try:
            for found in load_results(directory, experiment).runs:
                if found.is_usable:
                    means = np.stack([found.curves(name).mean(axis=0) for name in CHARTS], axis=1)
                    for step, row in zip(found.steps.tolist(), means, strict=True):
                        values = dict(zip(CHARTS, row, strict=True))
                        self._write(found.run, found.run.environment.label, step, values)
        finally:
            for writer in self._writers.values():
                writer.close()
            self._writers.clear()

    def _write(self, run: Run, group: str, step: int, values: Mapping[str, float]) -> None:
        """Write the values that are known into the log of the run's agent."""
        entry = self._events.Event(wall_time=time.time(), step=step)
        for name, value in values.items():
            if np.isfinite(value):
                entry.summary.value.add(tag=f"{group}/{name}", simple_value=value)
        self._writers[run.agent.label].add_event(entry)
