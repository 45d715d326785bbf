"""The folder of an experiment: finished blocks, each written once and never half.

    experiment.json               the settings and the format
    blocks/RUN/00000.parquet      one block of a run, tidy: one row per replication and step
    timings/RUN.jsonl             seconds, host and process of each block of a run
    failures/RUN/00000.txt        the traceback of a block that raised

This is the one place that reads and writes blocks; they are opened once.

A block comes into being by renaming a synced temporary file. What was torn or altered since is
found by the checksums of its pages, and what does not belong there by what its metadata say. One
process at a time may write; a second is refused by a lock that dies with its holder.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bandit_gym.checks import check_choice, message
from bandit_gym.checks.files import RESULTS_VERSION, remove_leftovers, to_json, write_atomically
from bandit_gym.checks.typing import FloatArray
from bandit_gym.experiments.blocks import COLUMNS, OWN_DIAGNOSTICS, Outcome, columns_of
from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.experiment import Experiment, Run

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 5
"""Of a folder; one of another is not read."""

SUFFIXES = {"blocks": "parquet", "failures": "txt"}
MANIFEST, LOCK = "experiment.json", ".lock"
TIMING_COLUMNS = ("agent_seconds", "decisions")
"""What is read of how a block came about."""


class OutdatedError(FileExistsError):
    """A folder holds blocks that the present code would not draw again."""


@dataclass(frozen=True)
class Store:
    """The files of one experiment.

    Attributes:
        directory: the folder.
    """

    directory: Path

    @contextlib.contextmanager
    def locked(
        self,
        experiment: Experiment,
        sources: Mapping[Run, Mapping[str, dict[str, str]]],
        *,
        recompute: bool,
    ) -> Iterator[tuple[set[tuple[Run, int]], list[str]]]:
        """Take the folder for an experiment and keep other processes from writing there.

        The folder is a new one, an empty one, or one whose experiment is part of this one.

        Args:
            experiment: what it is for.
            sources: `Run.sources` of each run, for what the present code would not draw.
            recompute: whether a folder that holds such blocks is taken.

        Yields:
            The blocks that count, and the names of those that are torn or altered.

        Raises:
            OutdatedError: if it is not.
            FileExistsError: if the folder holds anything else.
            BlockingIOError: if another process is at work in it.
        """
        from filelock import FileLock, Timeout

        folder = self.directory
        _read_stored_experiment(experiment, folder)  # refuses others before anything is written
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(folder / LOCK, timeout=0):
                stored = _read_stored_experiment(experiment, folder)  # now that it is locked
                remove_leftovers(folder)
                complete, stale, damaged = self._sort_blocks(experiment, sources)
                if stale and not recompute:
                    changed = ", ".join(sorted(set().union(*stale)))
                    condition = "hold what the present code draws"
                    remedy = f"{len(stale)} blocks are of other code: {changed}; choose "
                    remedy += "--recompute (in Python recompute=True) to replace them"
                    raise OutdatedError(message("the folder", condition, str(folder), remedy))
                _write_manifest(folder, experiment, stored)
                for run, number in complete:  # also where the code is again what drew it
                    self._block_path("failures", run, number).unlink(missing_ok=True)
                yield complete, damaged
        except Timeout as error:
            remedy = "another process is at work there"
            raise BlockingIOError(message("the folder", "be free", str(folder), remedy)) from error

    def write(self, outcome: Outcome) -> None:
        """Store a finished block, in place of an older, and how it came about; or its traceback."""
        run, block = outcome.run, outcome.block
        if outcome.data is None:
            text = (outcome.failure or "").encode("utf-8", "backslashreplace")
            write_atomically(self._block_path("failures", run, block), text)
            return
        timings = self.directory / "timings" / f"{run.name}.jsonl"
        timings.parent.mkdir(exist_ok=True)
        if timings.is_symlink():  # which may lead anywhere, in a folder that somebody has sent
            timings.unlink()
        with open(timings, "a", encoding="utf-8") as file:  # a line that a kill tears has its own
            file.write(f"\n{json.dumps({'block': block, **outcome.facts})}")
        self._block_path("failures", run, block).unlink(missing_ok=True)  # which outranks a block
        write_atomically(self._block_path("blocks", run, block), outcome.data)

    def read_blocks(self, run: Run, num_replications: int) -> Iterator[tuple[int, Block | None]]:
        """Yield by number those blocks of the first replications that are there; None if damaged.

        All of a block is read, so that its checksums are compared.
        """
        for number, path in self._find_files("blocks", run).items():
            every = run.replications(number)
            if wanted := every[: max(0, num_replications - every.start)]:
                try:
                    block = Block(run, wanted, pa.memory_map(str(path)).read_buffer())
                    block.file.read(use_threads=False)
                    is_its = (block.origin["run"], block.origin["block"]) == (run.digest, number)
                    is_its &= {"results_version", "versions", "sources"} <= block.origin.keys()
                except (OSError, pa.ArrowException, LookupError, TypeError, ValueError):
                    is_its = False
                yield number, block if is_its else None

    def has_blocks(self, run: Run) -> bool:
        """Say whether a block of the run was ever stored here, in a folder that need not exist."""
        return bool(self._find_files("blocks", run))

    def read_timings(self, run: Run) -> dict[int, dict[str, Any]]:
        """Return block -> how it came about, of those of which that is known."""
        found, path = {}, self.directory / "timings" / f"{run.name}.jsonl"
        for line in path.read_text("utf-8", "replace").splitlines() if path.is_file() else ():
            with contextlib.suppress(ValueError, LookupError, TypeError):
                facts = json.loads(line)
                found[facts["block"]] = {name: facts[name] + 0.0 for name in TIMING_COLUMNS}
        return found

    def _sort_blocks(
        self, experiment: Experiment, sources: Mapping[Run, Mapping[str, dict[str, str]]]
    ) -> tuple[set[tuple[Run, int]], list[set[str]], list[str]]:
        """Return blocks that count, what has changed since others, and names of damaged ones."""
        complete, stale, damaged = set(), [], []
        for run in experiment.runs:
            for number, block in self.read_blocks(run, experiment.replications):
                if block is None:
                    damaged.append(f"{run.name}/{number:05d}")
                elif changed := _find_changes(block.origin, sources.get(run, {})):
                    stale.append(changed)
                else:
                    complete.add((run, number))
        return complete, stale, damaged

    def read_failures(self, run: Run) -> dict[int, str]:
        """Return block -> traceback of the blocks that raised; it outranks an older block."""
        files = self._find_files("failures", run).items()
        return {block: path.read_text("utf-8", "replace") or "unknown" for block, path in files}

    def _block_path(self, kind: str, run: Run, block: int) -> Path:
        return self.directory / kind / run.name / f"{block:05d}.{SUFFIXES[kind]}"

    def _find_files(self, kind: str, run: Run) -> dict[int, Path]:
        """Return a run's files of a kind by the numbers of their blocks, in order."""
        paths = (self.directory / kind / run.name).glob(f"*.{SUFFIXES[kind]}")
        return dict(sorted((int(path.stem), path) for path in paths if path.stem.isdecimal()))


def read_manifest(directory: Path) -> Experiment:
    """Read what a folder was made for; its agents need not be importable.

    Raises:
        FileNotFoundError: if there is no such folder.
        FileExistsError: if the folder holds something else.
        ValueError: if the file is torn, of another format, or describes no experiment.
    """
    path = directory / MANIFEST
    if not directory.is_dir():
        raise FileNotFoundError(f"the folder must exist, got {str(directory)!r}.")
    if not path.is_file():
        condition, remedy = "hold an experiment or nothing", f"it has no {MANIFEST}"
        raise FileExistsError(message("the folder", condition, str(directory), remedy))
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}")
        settings = content["experiment"]
        for name in ("environments", "agents"):
            settings[name] = [Entry(**each) for each in settings[name]]
        return Experiment.from_dict(settings)
    except (LookupError, TypeError, ValueError) as error:
        condition = f"describe an experiment in format {FORMAT}"
        remedy = "read it with the version of this package that wrote it"
        raise ValueError(message(str(path), condition, error, remedy)) from error


def _write_manifest(directory: Path, experiment: Experiment, stored: Experiment | None) -> None:
    """Store what the folder is for, with the largest number of replications ever asked for."""
    if stored is not None and stored.replications > experiment.replications:
        experiment = replace(experiment, replications=stored.replications)
    path, data = directory / MANIFEST, to_json({"format": FORMAT, "experiment": asdict(experiment)})
    if not path.exists() or path.read_bytes() != data:
        write_atomically(path, data)


def _read_stored_experiment(experiment: Experiment, directory: Path) -> Experiment | None:
    """Return what the folder was made for, None if it is free; refuse another experiment's."""
    if not directory.exists() or all(path.name == LOCK for path in directory.iterdir()):
        return None
    stored = read_manifest(directory)
    lost = {run.name for run in stored.runs} - {run.name for run in experiment.runs}
    if lost:
        remedy = f"it has the run {min(lost)}; choose another folder"
        condition = "hold this experiment or a part of it"
        raise FileExistsError(message("the folder", condition, str(directory), remedy))
    return stored


def _find_changes(origin: dict[str, Any], now: Mapping[str, dict[str, str]]) -> set[str]:
    """Return what differs between a block's origin and the code of today, such as "mine.py"."""
    version = origin["results_version"]
    changed = set() if version == RESULTS_VERSION else {f"results version {version}"}
    for part, files in now.items():
        changed |= {name for name, _ in origin["sources"].get(part, {}).items() ^ files.items()}
    return changed


# -- A block as a Parquet file ---------------------------------------------------------------------

ORIGIN_KEY = b"bandit_gym"
"""Where a file's metadata say, as JSON, what its block was drawn from."""


def to_parquet(
    run: Run, block: int, recorded: Mapping[str, np.ndarray], origin: Mapping[str, Any]
) -> bytes:
    """Lay a block out as a tidy table, sorted by replication and step, in Parquet's format.

    Args:
        run: the run.
        block: index of the block.
        recorded: name -> (N, S) values after each recorded step.
        origin: what it was drawn from beside its settings, as JSON can hold it.

    Returns:
        The bytes of a file with N S rows; the same bytes for the same values.
    """
    shape = run.block_size, len(run.steps)
    keys: dict[str, Any] = {  # each one value, or broadcasts as (N, S)
        "experiment": run.digest,
        "env": run.environment.name,
        "agent": run.agent.name,
        "replication": np.array(run.replications(block))[:, None],
        "step": run.steps,
    }
    own = {name: values for name, values in sorted(recorded.items()) if name not in COLUMNS}
    fields, arrays = [], []
    columns = {name: COLUMNS[name] for name in columns_of(recorded)}
    for name, column in columns.items():
        values = keys.get(name, recorded.get(name))
        is_own = column.type is dict
        arrays.append(_to_map(own, shape) if is_own else _to_arrow(values, column.type, shape))
        meaning = {"description": column.meaning}
        fields.append(pa.field(name, arrays[-1].type, nullable=False, metadata=meaning))
    content = {"run": run.digest, "block": block, "settings": run.settings, **origin}
    schema = pa.schema(fields, metadata={ORIGIN_KEY: json.dumps(content, sort_keys=True)})
    buffer = io.BytesIO()
    pq.write_table(
        pa.table(arrays, schema=schema),
        buffer,
        compression="lz4",
        use_dictionary=[name for name, column in columns.items() if column.type is str]
        + [f"{OWN_DIAGNOSTICS}.key_value.key"],
        use_byte_stream_split=[n for n, column in columns.items() if column.type in (int, float)],
        write_statistics=[*keys],
        write_page_checksum=True,
        write_batch_size=2**17,  # values: as many as a page of 1 MiB holds
    )
    return buffer.getvalue()


def _to_arrow(values: Any, kind: type, shape: tuple[int, int]) -> pa.Array:
    if kind is str:
        indices = np.zeros(shape[0] * shape[1], np.int32)
        return pa.DictionaryArray.from_arrays(indices, [values])
    if values is None:
        values = -1 if kind is int else np.nan
    return pa.array(np.ascontiguousarray(np.broadcast_to(values, shape), dtype=kind).reshape(-1))


def _to_map(own: dict[str, np.ndarray], shape: tuple[int, int]) -> pa.MapArray:
    """Return one map a row, from each name to its value there."""
    num_rows = shape[0] * shape[1]
    values = np.stack([own[name] for name in own], axis=-1) if own else np.zeros((num_rows, 0))
    offsets = np.arange(num_rows + 1, dtype=np.int32) * np.int32(len(own))
    names = pa.array([*own] * num_rows, pa.string())
    return pa.MapArray.from_arrays(offsets, names, values.reshape(-1).astype(float))


@dataclass(frozen=True)
class Block:
    """A stored block, opened; all that is read of it is asked here.

    Attributes:
        run: the run it belongs to.
        replications: those of its replications that the experiment asks for.
        data: the bytes of its Parquet file, a row per replication and step; those that are mapped
            from the file take no memory while they are not read.
    """

    run: Run
    replications: range
    data: pa.Buffer

    def column(self, name: str) -> FloatArray:
        """Return a column of numbers, or a diagnostic of the agent's own, as (R, S).

        Raises:
            ValueError: if no agent declared or reported it.
        """
        known = [other for other, column in COLUMNS.items() if column.type in (int, float)]
        if name not in known:
            values = self.own[check_choice("column", name, [*known, *self.own])]
        elif name in self.file.schema_arrow.names:
            values = self._read([name])[name].to_numpy()
        else:  # a column that was not there when the block was stored
            values = np.full(self.file.metadata.num_rows, np.nan)
        return values.reshape(self.run.block_size, -1)[: len(self.replications)]  # type: ignore[no-any-return]

    def frame(self) -> pd.DataFrame:
        """Return the tidy rows of its replications, with labels and a column per own diagnostic."""
        num_rows = len(self.replications) * len(self.run.steps)
        table = self._read(self.names).slice(0, num_rows).to_pandas()
        labels = {"env": self.run.environment.label, "agent": self.run.agent.label}
        own = {name: values[:num_rows] for name, values in self.own.items()}
        return table.assign(**labels, **own).astype(dict.fromkeys(labels, "category"))

    @cached_property
    def file(self) -> pq.ParquetFile:
        """Its Parquet file."""
        return pq.ParquetFile(pa.BufferReader(self.data), page_checksum_verification=True)

    @cached_property
    def origin(self) -> dict[str, Any]:
        """What it was drawn from."""
        return dict(json.loads(self.file.schema_arrow.metadata[ORIGIN_KEY]))

    @property
    def names(self) -> list[str]:
        """The columns of the file that this version knows, in its order."""
        found = self.file.schema_arrow.names
        return [name for name in COLUMNS if name in found and name != OWN_DIAGNOSTICS]

    @cached_property
    def own(self) -> dict[str, FloatArray]:
        """Name -> (rows,) values of the diagnostics that only this agent reports."""
        maps = self._read([OWN_DIAGNOSTICS])[OWN_DIAGNOSTICS].combine_chunks()
        num_names = len(maps.keys) // max(len(maps), 1)
        table = maps.items.to_numpy().reshape(len(maps), num_names)
        return dict(zip(maps.keys[:num_names].to_pylist(), table.T, strict=True))

    def _read(self, names: list[str]) -> pa.Table:
        """Read some columns; starting threads costs more than they save on so little."""
        return self.file.read(names, use_threads=False)
