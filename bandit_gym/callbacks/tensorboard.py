"""Experiments in TensorBoard: an agent is one of its runs, a quantity in an environment a chart."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bandit_gym.callbacks.metrics import MetricsCallback, Values
from bandit_gym.checks import check_folder
from bandit_gym.experiments.experiment import Experiment, Run

LONGEST_NAME = 200
"""Bytes; file systems take 255."""

_NO_NAME = re.compile(r"[^\w .()=,+-]")


class TensorBoard(MetricsCallback):
    """Logs an experiment for `tensorboard --logdir DIRECTORY`; see `MetricsCallback`.

    Each experiment gets the first number that is free as its folder there. Charts are
    "ENVIRONMENT/QUANTITY", against steps, and "ENVIRONMENT so far/QUANTITY", against replications.

    Args:
        directory: folder of the logs.

    Raises:
        ImportError: if the package `tensorboard` is not installed.
        FileExistsError: if something other than a folder stands there.
    """

    def __init__(self, directory: str | Path) -> None:
        _import_writer()
        self.directory = check_folder("directory", directory)

    def open(self, experiment: Experiment, directory: Path) -> None:
        """Make the folder of this experiment and one for each agent."""
        self._files: dict[str, Path] = {}
        folder = _make_numbered(self.directory)
        labels = [agent.label for agent in experiment.agents]
        for label, name in zip(labels, folder_names(labels), strict=True):
            (folder / name).mkdir()
            self._files[label] = folder / name / f"events.out.tfevents.{time.time():.0f}.bandits"

    def write_so_far(self, run: Run, replications: int, values: Values) -> None:
        """Append to the file of the run's agent."""
        self._write(run, f"{run.environment.label} so far", {replications: values})

    def write_curves(self, run: Run, curves: Mapping[int, Values]) -> None:
        """Append to the file of the run's agent."""
        self._write(run, run.environment.label, curves)

    def _write(self, run: Run, group: str, table: Mapping[int, Values]) -> None:
        """Append a row per step; the file is open only meanwhile, however many agents there are."""
        event, summary, writer = _import_writer()
        with open(self._files[run.agent.label], "ab") as file:
            records = writer.RecordWriter(file)
            if not file.tell():
                version = event.Event(wall_time=time.time(), file_version="brain.Event:2")
                records.write(version.SerializeToString())
            for step, values in table.items():
                tagged = [
                    summary.Summary.Value(tag=f"{group}/{name}", simple_value=value)
                    for name, value in values.items()
                ]
                row = event.Event(
                    wall_time=time.time(), step=step, summary=summary.Summary(value=tagged)
                )
                records.write(row.SerializeToString())


def folder_names(labels: Sequence[str]) -> list[str]:
    """Turn labels into names that differ and that every file system can hold."""
    names: list[str] = []
    for number, label in enumerate(labels):
        name = _NO_NAME.sub("_", label).encode()[:LONGEST_NAME].decode(errors="ignore").strip(" .")
        taken = {other.casefold() for other in names}
        names.append(f"{name}-{number}" if not name or name.casefold() in taken else name)
    return names


def _make_numbered(directory: Path) -> Path:
    """Make the first folder 1, 2, ... that is not there."""
    for number in itertools.count(1):
        folder = directory / str(number)
        try:
            os.makedirs(folder)
        except FileExistsError:
            continue
        return folder
    raise AssertionError("numbers have no end")


def _import_writer() -> tuple[Any, Any, Any]:
    """Return the modules of TensorBoard that write, without TensorFlow or PyTorch."""
    try:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer import record_writer
    except ModuleNotFoundError as error:
        text = 'TensorBoard needs its package: pip install "bayesian-bandit-gym[tensorboard]".'
        raise ImportError(text) from error
    return event_pb2, summary_pb2, record_writer
