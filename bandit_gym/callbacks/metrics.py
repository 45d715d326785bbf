"""What loggers are told of an experiment, whichever logger it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bandit_gym.experiments.blocks import COLUMNS, open_parquet
from bandit_gym.experiments.callbacks import Callback
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.simulation import Outcome
from bandit_gym.results.results import Block, RunResults, load_results
from bandit_gym.results.statistics import MIN_REPLICATIONS, half_widths
from bandit_gym.typing import FloatArray

Values = dict[str, float]


class Metric(NamedTuple):
    """A column of the results as loggers show it, all of it or its average over decisions."""

    column: str
    is_per_decision: bool


REGRET = COLUMNS["pseudo_regret"].title
METRICS = {
    REGRET: Metric("pseudo_regret", False),
    "samples per decision": Metric("num_samples", True),
    "flagged share": Metric("is_unreliable", True),
}


class MetricsCallback(Callback, ABC):
    """Logs how an experiment goes and what came of it; subclasses say where to.

    Of every run, an agent in an environment: the pseudo-regret, samples per decision, and the share
    of decisions whose agent flagged its posterior as unreliable. What is not known is left out.

    - While it runs, after each block: means at the horizon over the replications so far.
    - At the end: means after t steps, for each recorded t, with the ends of the 95 % interval of
      the pseudo-regret's, Student's, from 10 replications on.

    A subclass has `open`, `write_so_far`, `write_curves` and `close`.
    """

    def open(self, experiment: Experiment, directory: Path) -> None:
        """Start the log of an experiment, whose results are in the folder."""

    @abstractmethod
    def write_so_far(self, run: Run, replications: int, values: Values) -> None:
        """Write means at the horizon over so many replications."""

    @abstractmethod
    def write_curves(self, run: Run, curves: Mapping[int, Values]) -> None:
        """Write means after t steps, by t."""

    def close(self) -> None:
        """End the log; called also where it could not be started."""

    def on_start(self, experiment: Experiment, directory: Path) -> None:
        """Start the log, and take in what is stored."""
        self._experiment = experiment
        self._counts: dict[Run, int] = {}
        self._sums: dict[Run, FloatArray] = {}
        self.open(experiment, directory)
        for found in load_results(directory, experiment).runs:
            for block in found.blocks:
                self._add(block)

    def on_block(self, outcome: Outcome) -> None:
        """Write what is known of the block's run so far."""
        run = outcome.run
        replications = run.replications(outcome.block)
        wanted = range(replications.start, min(replications.stop, self._experiment.replications))
        if outcome.data is None:
            return
        self._add(Block(run, wanted, open_parquet(run, pa.py_buffer(outcome.data)), outcome.facts))
        means = self._sums[run] / self._counts[run]
        self.write_so_far(run, self._counts[run], _known(dict(zip(METRICS, means, strict=True))))

    def on_end(self, experiment: Experiment, directory: Path) -> None:
        """Write the curves of all that is stored, and end the log."""
        try:
            for found in load_results(directory, experiment).runs:
                if found.is_usable:
                    self.write_curves(found.run, dict(_curves(found)))
        finally:
            self.close()

    def _add(self, block: Block) -> None:
        run, count = block.run, len(block.replications)
        values = [_values(block, metric)[:, -1].sum() for metric in METRICS.values()]
        self._counts[run] = self._counts.get(run, 0) + count
        self._sums[run] = self._sums.get(run, np.zeros(len(METRICS))) + values


def _values(block: Block, metric: Metric) -> FloatArray:
    """Return (R, S) values of a metric."""
    values = block.column(metric.column)
    return values / block.run.steps if metric.is_per_decision else values


def _curves(found: RunResults) -> Iterator[tuple[int, Values]]:
    """Yield t and the means after t steps, for every recorded t."""
    columns = {}
    for name, metric in METRICS.items():
        values = np.concatenate([_values(block, metric) for block in found.blocks])
        columns[name] = values.mean(axis=0)
        if name == REGRET and len(values) >= MIN_REPLICATIONS:
            half = half_widths(values)
            columns[f"{name}, low"] = columns[name] - half
            columns[f"{name}, high"] = columns[name] + half
    for index, step in enumerate(found.steps.tolist()):
        yield step, _known({name: values[index] for name, values in columns.items()})


def _known(values: Mapping[str, float]) -> Values:
    """Leave out what is not known."""
    return {name: float(value) for name, value in values.items() if np.isfinite(value)}
