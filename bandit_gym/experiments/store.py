"""The folder of an experiment: finished blocks, each written once and never half.

    experiment.json                   the format, the settings, and the code of each run
    blocks/RUN-CODE/00000.parquet     one block of a run, tidy: one row per replication and step
    timings/RUN-CODE.jsonl            seconds, host and process of each block of a run
    failures/RUN-CODE/00000.txt       the traceback of a block that raised

CODE is a digest of the results version and of a user's own files. Code that was edited writes into
other folders; the old ones stay, and count again when the code comes back.

This is the one place that reads and writes blocks; they are opened once.

A block comes into being by renaming a synced temporary file. What was torn or altered since is
found by the checksums of its pages, and what does not belong there by what its metadata say. One
process at a time may write; a second is refused by a lock that dies with its holder.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bandit_gym.checks import message
from bandit_gym.checks.typing import FloatArray
from bandit_gym.experiments.blocks import COLUMNS, OWN_DIAGNOSTICS, Outcome, columns_of
from bandit_gym.experiments.entries import Entry, content_digest
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.files import LEFTOVER, remove_leftovers, to_json, write_atomically

FORMAT = 6
"""Of a folder that is written."""

READABLE_FORMATS = (5, FORMAT)
"""Folders of format 5 have `blocks/RUN`, and no code in `experiment.json`."""

SUFFIXES = {"blocks": "parquet", "failures": "txt"}
MANIFEST, LOCK = "experiment.json", ".lock"
UNREAD = errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EIO
"""Why a file may be whole that cannot be read."""

CODE_PATTERN = re.compile("[0-9a-f]{8}")
TIMING_COLUMNS = ("agent_seconds", "decisions")
"""What is read of how a block came about."""


def digest_code(results_version: int, sources: Mapping[str, Mapping[str, str]]) -> str:
    """Return the digest of what draws the blocks of a run, 8 hexadecimal digits.

    Args:
        results_version: of the engine.
        sources: `Run.sources`.
    """
    return content_digest([results_version, sources])[:8]


@dataclass(frozen=True)
class Store:
    """The files of one experiment.

    Attributes:
        directory: the folder.
        codes: name of a run -> digest of its code, whose blocks are read and written.
        format: of the folder, if there is one.
    """

    directory: Path
    codes: Mapping[str, str]
    format: int = FORMAT

    @contextlib.contextmanager
    def locked(self, experiment: Experiment) -> Iterator[tuple[set[tuple[Run, int]], list[str]]]:
        """Take the folder for an experiment and keep other processes from writing there.

        The folder is a new one, an empty one, or one whose experiment is part of this one.

        Args:
            experiment: what it is for.

        Yields:
            The blocks that count, and the names of those that are torn or altered.

        Raises:
            FileExistsError: if the folder holds anything else.
            BlockingIOError: if another process is at work in it.
        """
        from filelock import FileLock, Timeout

        folder = self.directory
        _count_stored_replications(experiment, folder)  # refuses others before anything is written
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(folder / LOCK, timeout=0):
                stored = _count_stored_replications(experiment, folder)  # now that it is locked
                remove_leftovers(folder)
                settings = asdict(replace(experiment, replications=stored))
                content = {"format": FORMAT, "codes": dict(self.codes), "experiment": settings}
                write_atomically(folder / MANIFEST, to_json(content))
                complete, damaged = set(), []
                for run in experiment.runs:
                    for number, block in self.read_blocks(run, experiment.replications):
                        if block is None:
                            damaged.append(self.name_block(run, number))
                        else:
                            complete.add((run, number))
                yield complete, damaged
        except Timeout as error:
            remedy = "another process is at work there"
            raise BlockingIOError(message("the folder", "be free", str(folder), remedy)) from error

    def write(self, outcome: Outcome) -> None:
        """Store a finished block and how it came about, or its traceback."""
        run, block = outcome.run, outcome.block
        failure = self._locate("failures", run) / f"{block:05d}.txt"
        if outcome.data is None:
            write_atomically(failure, (outcome.failure or "").encode("utf-8", "backslashreplace"))
            return
        timings = self._locate("timings", run, ".jsonl")
        timings.parent.mkdir(exist_ok=True)
        if timings.is_symlink():  # which may lead anywhere, in a folder that somebody has sent
            timings.unlink()
        with open(timings, "a", encoding="utf-8") as file:  # a line that a kill tears has its own
            file.write(f"\n{json.dumps({'block': block, **outcome.facts})}")
        failure.unlink(missing_ok=True)
        write_atomically(self._locate("blocks", run) / f"{block:05d}.parquet", outcome.data)

    def read_blocks(self, run: Run, num_replications: int) -> Iterator[tuple[int, Block | None]]:
        """Yield by number those blocks of the first replications that are there; None if damaged.

        All of a block is read, so that its checksums are compared.
        """
        for number, path in self._find_files("blocks", run).items():
            every = run.replications(number)
            if wanted := every[: max(0, num_replications - every.start)]:
                try:
                    # A map would keep a file open, of which a process may have 256.
                    block = Block(run, wanted, pa.py_buffer(path.read_bytes()))
                    block.file.read(use_threads=False)
                    content = block.metadata["run"], block.metadata["block"], block.code
                    code = self.codes.get(run.name, block.code)
                    is_whole = block.has_its_names and content == (run.digest, number, code)
                except (OSError, pa.ArrowException, LookupError, TypeError, ValueError) as error:
                    if getattr(error, "errno", None) in UNREAD:
                        raise
                    is_whole = False
                yield number, block if is_whole else None

    def name_block(self, run: Run, number: int) -> str:
        """Return what people call a block's file."""
        return f"{self._locate('blocks', run).name}/{number:05d}"

    def has_blocks(self, run: Run) -> bool:
        """Say whether a block of the run is stored here, in a folder that need not exist."""
        return bool(self._find_files("blocks", run))

    def count_blocks_of_other_code(self, experiment: Experiment) -> int:
        """Count the blocks of an experiment that other code has drawn."""
        folders = {run.name: self._locate("blocks", run) for run in experiment.runs}
        blocks = (self.directory / "blocks").glob("*/*.parquet")
        names = ((path.parent.name.rpartition("-")[0], path.parent) for path in blocks)
        return sum(folders.get(name, folder) != folder for name, folder in names)

    def read_timings(self, run: Run) -> dict[int, dict[str, Any]]:
        """Return block -> how it came about, of those of which that is known."""
        timings, path = {}, self._locate("timings", run, ".jsonl")
        for line in path.read_text("utf-8", "replace").splitlines() if path.is_file() else ():
            with contextlib.suppress(ValueError, LookupError, TypeError):
                facts = json.loads(line)
                timings[facts["block"]] = {name: facts[name] + 0.0 for name in TIMING_COLUMNS}
        return timings

    def read_failures(self, run: Run) -> dict[int, str]:
        """Return block -> traceback of the blocks that raised."""
        failures = {}
        for block, path in self._find_files("failures", run).items():
            with contextlib.suppress(FileNotFoundError):  # tried again meanwhile, with success
                failures[block] = path.read_text("utf-8", "replace") or "unknown"
        return failures

    def _locate(self, kind: str, run: Run, suffix: str = "") -> Path:
        code = self.codes.get(run.name)
        name = run.name if code is None else f"{run.name}-{code}"
        return self.directory / kind / f"{name}{suffix}"

    def _find_files(self, kind: str, run: Run) -> dict[int, Path]:
        """Return a run's files of a kind by the numbers of their blocks, in order."""
        paths = self._locate(kind, run).glob(f"*.{SUFFIXES[kind]}")
        return dict(sorted((int(path.stem), path) for path in paths if path.stem.isdecimal()))


def open_store(directory: Path) -> tuple[Experiment, Store]:
    """Read what a folder was made for, and by which code; its agents need not be importable.

    Raises:
        FileNotFoundError: if there is no such folder.
        FileExistsError: if the folder holds something else.
        ValueError: if the file is torn, of another format, or describes no experiment.
    """
    path = directory / MANIFEST
    if not directory.is_dir():
        raise FileNotFoundError(f"the folder must exist, got {str(directory)!r}.")
    if not path.is_file():
        condition = "hold an experiment" + " or nothing" * any(directory.iterdir())
        remedy = f"it has no {MANIFEST}"
        raise FileExistsError(message("the folder", condition, str(directory), remedy))
    try:
        content = json.loads(path.read_bytes())
        if content["format"] not in READABLE_FORMATS:
            raise ValueError(f"its format is {content['format']!r}")
        codes = dict(content["codes"]) if content["format"] == FORMAT else {}
        if not all(map(CODE_PATTERN.fullmatch, codes.values())):  # each is part of a path
            raise ValueError(f"its codes are {codes!r}")
        settings = content["experiment"]
        for name in ("environments", "agents"):
            settings[name] = [Entry(**each) for each in settings[name]]
        return Experiment.from_dict(settings), Store(directory, codes, content["format"])
    except (LookupError, TypeError, ValueError) as error:
        condition = f"describe an experiment in format {FORMAT}"
        remedy = "read it with the version of this package that wrote it"
        raise ValueError(message(str(path), condition, error, remedy)) from error


def _count_stored_replications(experiment: Experiment, directory: Path) -> int:
    """Return the largest number of replications ever asked for; refuse another experiment's folder.

    The folder may be free.
    """
    names = [path.name for path in directory.iterdir()] if directory.exists() else []
    if all(name == LOCK or name.endswith(LEFTOVER) for name in names):
        return experiment.replications
    stored, store = open_store(directory)
    if store.format != FORMAT:
        condition = f"be of format {FORMAT} to be written to"
        remedy = f"it is of format {store.format}, which report and export read; choose another"
        raise FileExistsError(message("the folder", condition, str(directory), remedy))
    lost = {run.name for run in stored.runs} - {run.name for run in experiment.runs}
    if lost:
        remedy = f"it has the run {min(lost)}; choose another folder"
        condition = "hold this experiment or a part of it"
        raise FileExistsError(message("the folder", condition, str(directory), remedy))
    return max(experiment.replications, stored.replications)


# -- A block as a Parquet file ---------------------------------------------------------------------

METADATA_KEY = b"bandit_gym"
"""Where a file's metadata say, as JSON, what its block was drawn from."""


def to_parquet(
    run: Run, block: int, recorded: Mapping[str, np.ndarray], metadata: Mapping[str, Any]
) -> bytes:
    """Lay a block out as a tidy table, sorted by replication and step, in Parquet's format.

    Args:
        run: the run.
        block: index of the block.
        recorded: name -> (N, S) values after each recorded step.
        metadata: what it was drawn from beside its settings, as JSON can hold it.

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
    content = {"run": run.digest, "block": block, "settings": run.settings, **metadata}
    schema = pa.schema(fields, metadata={METADATA_KEY: json.dumps(content, sort_keys=True)})
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
        data: the bytes of its Parquet file, a row per replication and step.
    """

    run: Run
    replications: range
    data: pa.Buffer

    def columns(self) -> dict[str, np.ndarray]:
        """Return name -> (rows,) numbers of its replications, with the diagnostics of its own."""
        num_rows = len(self.replications) * len(self.run.steps)
        names = [name for name in self.names if COLUMNS[name].type is not str]
        table = self._read(names)
        columns = {name: table[name].to_numpy() for name in names} | self.own
        return {name: values[:num_rows] for name, values in columns.items()}

    @cached_property
    def file(self) -> pq.ParquetFile:
        """Its Parquet file."""
        return pq.ParquetFile(pa.BufferReader(self.data), page_checksum_verification=True)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """What it was drawn from."""
        return dict(json.loads(self.file.schema_arrow.metadata[METADATA_KEY]))

    @property
    def misspecification(self) -> str | None:
        """In what the agent's prior or likelihood differs from the environment's, None if not."""
        named = (self.metadata.get(key) for key in ("misspecification", "misbelief"))  # in format 5
        return next((text for text in named if isinstance(text, str)), None)

    @property
    def code(self) -> str:
        """The digest of the code that drew it."""
        return digest_code(self.metadata["results_version"], self.metadata["sources"])

    @property
    def has_its_names(self) -> bool:
        """Whether its columns have the names that they were written with; no checksum covers them.

        Arrow keeps a copy of its own of the schema.
        """
        copy = pa.py_buffer(base64.b64decode(self.file.metadata.metadata[b"ARROW:schema"]))
        names = self.file.schema_arrow.names
        return OWN_DIAGNOSTICS in names and pa.ipc.read_schema(copy).names == names

    @property
    def names(self) -> list[str]:
        """The columns of the file that this version knows, in its order."""
        stored = self.file.schema_arrow.names
        return [name for name in COLUMNS if name in stored and name != OWN_DIAGNOSTICS]

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
