"""What is stored of an experiment so far: the one place that opens blocks, each of them once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bandit_gym.experiments.columns import COLUMNS
from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.storage import Store
from bandit_gym.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Block:
    """A stored block, opened; all that is read of it is asked here.

    Attributes:
        run: the run it belongs to.
        replications: those of its replications that the experiment asks for.
        data: its Parquet bytes, a row per replication and step.
        receipt: what is known of it beside its results.
    """

    run: Run
    replications: range
    data: pa.Buffer
    receipt: dict[str, Any]

    def column(self, name: str) -> FloatArray:
        """Return a column as (R, S), a row per replication; NaN in files older than the column."""
        if name in COLUMNS and name not in self._file.schema_arrow.names:
            return np.full((len(self.replications), len(self.run.steps)), np.nan)
        # one thread: starting others costs more than they save on so little
        values = self._file.read([name], use_threads=False)[name].to_numpy()
        return values.reshape(self.run.block_size, -1)[: len(self.replications)]  # type: ignore[no-any-return]

    def frame(self) -> pd.DataFrame:
        """Return the tidy rows of its replications."""
        num_rows = len(self.replications) * len(self.run.steps)
        return self._file.read(use_threads=False).slice(0, num_rows).to_pandas()

    @cached_property
    def _file(self) -> pq.ParquetFile:
        return pq.ParquetFile(pa.BufferReader(self.data))


@dataclass(frozen=True)
class RunResults:
    """What is stored of one run, restricted to the replications that the experiment asks for.

    Attributes:
        run: the run.
        blocks: the stored blocks that are whole, in their order.
        failures: block -> traceback of the blocks that raised.
    """

    run: Run
    blocks: tuple[Block, ...]
    failures: dict[int, str]

    @property
    def replications(self) -> IntArray:
        """(R,) indices of the stored replications, sorted."""
        return np.array([r for block in self.blocks for r in block.replications], dtype=np.int64)

    @property
    def steps(self) -> IntArray:
        """(S,) recorded steps."""
        return self.run.steps

    @property
    def is_usable(self) -> bool:
        """Whether there is anything to report: some blocks, and none that failed."""
        return bool(self.blocks) and not self.failures

    def curves(self, column: str) -> FloatArray:
        """Return a column as (R, S), one row per replication; see `columns.COLUMNS`."""
        return np.concatenate([block.column(column) for block in self.blocks])

    def final(self, column: str) -> FloatArray:
        """Return the (R,) values of a column at the horizon."""
        return self.curves(column)[:, -1]

    def seconds_per_decision(self) -> float:
        """Return the agent's own time for one `act` and `observe` of one lane."""
        receipts = [block.receipt for block in self.blocks]
        seconds = sum(receipt["agent_seconds"] for receipt in receipts)
        return float(seconds / sum(receipt["decisions"] for receipt in receipts))


@dataclass(frozen=True)
class Results:
    """What is stored of an experiment; blocks that are missing or damaged are left out.

    Attributes:
        experiment: what was asked for.
        version: of the engine that drew the numbers; see `files.RESULTS_VERSION`.
        runs: what there is of each of its runs, in its order.
        others: names of the blocks of other versions, which are left out too.
    """

    experiment: Experiment
    version: int
    runs: tuple[RunResults, ...]
    others: tuple[str, ...] = ()

    @property
    def num_missing(self) -> int:
        """Blocks that are still to come."""
        return sum(self.experiment.num_blocks - len(found.blocks) for found in self.runs)

    @property
    def failed(self) -> list[RunResults]:
        """Runs in which a block raised."""
        return [found for found in self.runs if found.failures]

    def usable(self, environment: Entry) -> list[RunResults]:
        """Return the runs in an environment that can be reported."""
        return [r for r in self.runs if r.run.environment == environment and r.is_usable]

    def reference(self, environment: Entry) -> RunResults | None:
        """Return the first agent's run in an environment; None if it cannot be reported."""
        first = self.experiment.agents[0]
        return next((r for r in self.usable(environment) if r.run.agent == first), None)


def load_results(directory: str | Path) -> Results:
    """Read what a folder holds, also while an experiment is at work in it.

    Raises:
        FileNotFoundError: if there is no such folder.
        FileExistsError: if the folder holds no experiment.
        ValueError: if it was written in another format.
    """
    if not Path(directory).is_dir():
        raise FileNotFoundError(f"the folder must exist, got {str(directory)!r}.")
    store = Store(Path(directory))
    experiment = store.load_experiment()
    runs = tuple(
        RunResults(run, tuple(_open_blocks(store, experiment, run)), store.read_failures(run))
        for run in experiment.runs
    )
    others = tuple(store.blocks_of_other_versions())
    return Results(experiment, store.results_version, runs, others)


def paired_differences(
    found: RunResults, reference: RunResults, column: str
) -> tuple[IntArray, FloatArray]:
    """Subtract the reference run's curves, replication by replication.

    Both met the same means and the same reward noise, so most of the luck cancels.

    Returns:
        (R,) replications that both runs have, and (R, S) differences.
    """
    common, rows, reference_rows = np.intersect1d(
        found.replications, reference.replications, assume_unique=True, return_indices=True
    )
    return common, found.curves(column)[rows] - reference.curves(column)[reference_rows]


def line_up(tables: Sequence[tuple[IntArray, FloatArray]]) -> FloatArray:
    """Stack what E environments have of the replications that all of them have.

    A replication has the same seed in every environment, so these are no E-fold evidence: whoever
    averages over environments takes a replication, a row of the result, for one value.

    Args:
        tables: of each environment the (R_e,) replications, sorted, and (R_e, ...) values.

    Returns:
        (R, E, ...) values.
    """
    common = reduce(np.intersect1d, [replications for replications, _ in tables])
    kept = [values[np.isin(replications, common)] for replications, values in tables]
    return np.stack(kept, axis=1)


def _open_blocks(store: Store, experiment: Experiment, run: Run) -> Iterator[Block]:
    for number in range(experiment.num_blocks):
        with contextlib.suppress(FileNotFoundError, ValueError):  # missing, damaged
            data, receipt = store.read_block(run, number)
            every = run.replications(number)
            wanted = range(every.start, min(every.stop, experiment.replications))
            yield Block(run, wanted, data, receipt)
