"""What is stored of an experiment so far: the one place that opens blocks, each of them once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bandit_gym.checks import check_choice
from bandit_gym.checks.files import RESULTS_VERSION
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.experiments.blocks import COLUMNS, OWN, open_parquet, read_map
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.store import Store


@dataclass(frozen=True)
class Block:
    """A stored block, opened; all that is read of it is asked here.

    Attributes:
        run: the run it belongs to.
        replications: those of its replications that the experiment asks for.
        data: the bytes of its Parquet file, a row per replication and step.
        receipt: what is known of it beside its results.
    """

    run: Run
    replications: range
    data: pa.Buffer
    receipt: dict[str, Any]

    def column(self, name: str) -> FloatArray:
        """Return a column, or a diagnostic of the agent's own, as (R, S).

        Raises:
            ValueError: if nobody declared or told it.
        """
        self._require(name)
        if name in self.own:
            values = self.own[name]
        elif name in self.file.schema_arrow.names:
            values = self._read([name])[name].to_numpy()
        else:  # a column that was not there when the block was stored
            values = np.full(self.file.metadata.num_rows, np.nan)
        return values.reshape(self.run.block_size, -1)[: len(self.replications)]  # type: ignore[no-any-return]

    def _require(self, name: str) -> None:
        known = [other for other in COLUMNS if other != OWN]
        if name not in known:
            check_choice("column", name, [*known, *self.own])

    def frame(self) -> pd.DataFrame:
        """Return the tidy rows of its replications, with labels and a column per own diagnostic."""
        num_rows = len(self.replications) * len(self.run.steps)
        table = self._read(self.names).slice(0, num_rows).to_pandas()
        labels = {"env": self.run.environment.label, "agent": self.run.agent.label}
        own = {name: values[:num_rows] for name, values in self.own.items()}
        return table.assign(**labels, **own).astype(dict.fromkeys(labels, "category"))

    @cached_property
    def file(self) -> pq.ParquetFile:
        """Its Parquet file.

        Raises:
            ValueError: if it is something else.
        """
        return open_parquet(self.run, self.data)

    @property
    def names(self) -> list[str]:
        """The columns of the file that this version knows, in its order."""
        found = self.file.schema_arrow.names
        return [name for name in COLUMNS if name in found and name != OWN]

    @cached_property
    def own(self) -> dict[str, FloatArray]:
        """Name -> (rows,) values of the diagnostics that only this agent tells."""
        return read_map(self._read([OWN])[OWN]) if OWN in self.file.schema_arrow.names else {}

    def _read(self, names: list[str]) -> pa.Table:
        """Read some columns; starting threads costs more than they save on so little."""
        return self.file.read(names, use_threads=False)


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


def check_origin(folder: Path, blocks: Sequence[Block]) -> int:
    """Return the results version of all blocks; refuse those of two versions, or of two codes."""
    seen: dict[str, Any] = {}
    for block in blocks:
        stamp = {"the engine": block.receipt["results_version"]}
        for part, entry in (("environment", block.run.environment), ("agent", block.run.agent)):
            stamp[f"{part} {entry.label}"] = block.receipt["sources"].get(part)
        for name, code in stamp.items():
            if seen.setdefault(name, code) != code:
                raise ValueError(
                    f"the folder must hold blocks of one code, got {str(folder)!r} with two of "
                    f"{name}, of which the older are to be computed again; finish that with "
                    "--recompute."
                )
    return int(seen.get("the engine", RESULTS_VERSION))


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


def open_run(store: Store, experiment: Experiment, run: Run) -> tuple[RunResults, list[str]]:
    """Return what is stored of a run, and the names of the blocks that are not what they claim."""
    blocks, refused = {}, []
    for number in store.blocks(run, experiment.num_blocks):
        try:
            blocks[number] = _open_block(store, experiment, run, number)
        except FileNotFoundError:
            continue
        except ValueError:
            refused.append(f"{run.name}/{number:05d}")
    failures = {
        number: text
        for number, text in store.read_failures(run).items()
        if number not in blocks and number < experiment.num_blocks
    }
    return RunResults(run, tuple(blocks.values()), failures), refused


def _open_block(store: Store, experiment: Experiment, run: Run, number: int) -> Block:
    data, receipt = store.read_block(run, number)
    every = run.replications(number)
    wanted = range(every.start, min(every.stop, experiment.replications))
    block = Block(run, wanted, data, receipt)
    _ = block.file  # which is refused if it is no file of the run's
    return block
