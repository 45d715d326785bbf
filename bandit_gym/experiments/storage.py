"""The folder of an experiment: finished blocks, each written once and never half.

    experiment.json               the settings, the format, the results version and the sources
    blocks/RUN/00000.parquet      one block of a run, tidy: one row per replication and step
    receipts/RUN/00000.json       its checksum and how it came about: versions, seconds, host
    failures/RUN/00000.txt        the traceback of a block that raised
    superseded/1/                 what no longer fitted, as a folder of the same kind

A block counts once its receipt is there and fits: the receipt is written last, and both files come
into being by renaming a synced temporary file. What was torn by a kill or altered since is found
by its checksum. `blocks/` holds what one version of the engine drew from one version of the user's
sources, unless its user wants otherwise and the manifest says so; see `changes`. One process at a
time may write; a second is refused by a lock that dies with its holder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import pyarrow as pa

from bandit_gym.experiments.changes import SUPERSEDED, find_misfits, settle
from bandit_gym.experiments.claim import LOCK, locked
from bandit_gym.experiments.experiment import FORMAT, Experiment, Run
from bandit_gym.experiments.manifest import Manifest, read_manifest
from bandit_gym.files import remove_leftovers, to_json, write_atomically

SUFFIXES = {"blocks": "parquet", "receipts": "json", "failures": "txt"}
SEAL = b',\n  "checksum": '


class StoredBlock(NamedTuple):
    """A block that is whole and what it claims to be.

    Attributes:
        data: its Parquet bytes; mapped from the file, so that they take no memory while not read.
        receipt: what is known about it beside its results.
    """

    data: pa.Buffer
    receipt: dict[str, Any]


@dataclass(frozen=True)
class Store:
    """The files of one experiment.

    Attributes:
        directory: the folder.
    """

    directory: Path

    @classmethod
    @contextlib.contextmanager
    def claimed(
        cls, directory: str | Path, experiment: Experiment, *, changed: str = "refuse"
    ) -> Iterator[tuple[Store, str]]:
        """Open the folder for an experiment and keep other processes from writing there.

        The folder is a new one, an empty one, or one whose experiment is part of this one.

        Args:
            directory: the folder.
            experiment: what is to be stored there.
            changed: what to do about blocks that no longer fit; see `run_experiment`.

        Yields:
            The folder, and what has changed since some of its blocks were drawn; "" if nothing has.

        Raises:
            FileExistsError: if the folder holds anything else, or blocks that no longer fit.
            BlockingIOError: if another process is at work in it.
        """
        path = Path(directory)
        _read_part_of(experiment, path)  # which refuses others before anything is written there
        with locked(path):
            stored = _read_part_of(experiment, path)  # again, now that nobody else can change it
            wanted = Manifest.of(experiment)
            news, kept = settle(path, wanted, changed)
            remove_leftovers(path)
            replace(wanted if stored is None else wanted.including(stored), kept=kept).write(path)
            yield cls(path), news

    @cached_property
    def manifest(self) -> Manifest:
        """What the folder was made for, and what its results came from."""
        return read_manifest(self.directory)

    @cached_property
    def _stamps(self) -> dict[str, dict[str, Any]]:
        runs = self.manifest.experiment.runs
        return {run.digest: self.manifest.stamp(run) for run in runs}

    def blocks_of_other_origin(self) -> list[str]:
        """Name the blocks that do not come from what the manifest says, and are left out."""
        misfits = () if self.manifest.kept else find_misfits(self.directory, self.manifest)
        return [f"{misfit.run.name}/{misfit.block}" for misfit in misfits]

    def write_block(self, run: Run, block: int, data: bytes, facts: dict[str, Any]) -> None:
        """Store a finished block: its Parquet bytes, then its receipt."""
        for path in (self.block_path(run, block), self._receipt_path(run, block)):
            self._make_way(path)
        write_atomically(self.block_path(run, block), data)
        receipt = {
            **_identity(run, block),
            **self._stamps[run.digest],
            "sha256": hashlib.sha256(data).hexdigest(),
            **facts,
        }
        write_atomically(self._receipt_path(run, block), _seal(receipt))
        self._failure_path(run, block).unlink(missing_ok=True)

    def read_block(self, run: Run, block: int) -> StoredBlock:
        """Open a block and make sure that it is whole, and what it claims to be.

        Raises:
            FileNotFoundError: if it is not there.
            ValueError: if only half of it is there, or it is not what its receipt says, or belongs
                elsewhere.
        """
        path, receipt_path = (self._place(kind, run, block) for kind in ("blocks", "receipts"))
        try:
            receipt = _read_receipt(receipt_path)
            data = _map(path)
        except OSError as error:
            is_there = os.path.exists(path) or os.path.exists(receipt_path)
            if isinstance(error, FileNotFoundError) and not is_there:
                raise
            raise ValueError(f"{path} must be there together with its receipt.") from error
        stamp = {} if self.manifest.kept else self._stamps[run.digest]
        expected = (_identity(run, block) | stamp).items()
        if any(receipt.get(key) != value for key, value in expected):
            raise ValueError(f"{receipt_path} must be the receipt of block {block} of {run.name}.")
        if hashlib.sha256(data).hexdigest() != receipt["sha256"]:
            raise ValueError(f"{path} must match its checksum.")
        return StoredBlock(data, receipt)

    def blocks(self, run: Run, num_blocks: int) -> list[int]:
        """Return, sorted, which of a run's first blocks may be there: some file of theirs is."""
        folders = {path.parent for path in (self.block_path(run, 0), self._receipt_path(run, 0))}
        return sorted(number for number in _numbers(folders) if number < num_blocks)

    def sources(self, run: Run) -> dict[str, dict[str, str]]:
        """Return what the results of a run are drawn from, as `Run.sources` does."""
        return dict(self._stamps[run.digest]["sources"])

    def write_failure(self, run: Run, block: int, text: str) -> None:
        """Store the traceback of a block that raised."""
        self._make_way(self._failure_path(run, block))
        write_atomically(self._failure_path(run, block), text.encode())

    def read_failures(self, run: Run) -> dict[int, str]:
        """Return block -> traceback of the blocks that raised; what is complete outranks it."""
        numbers = sorted(_numbers([self._failure_path(run, 0).parent]))
        paths = {number: self._failure_path(run, number) for number in numbers}
        files = {number: path for number, path in paths.items() if path.is_file()}
        return {n: path.read_text("utf-8", "replace") or "unknown" for n, path in files.items()}

    def _make_way(self, path: Path) -> None:
        """Move a folder, which cannot be overwritten, from where a file is to be."""
        if path.is_dir():
            (self.directory / SUPERSEDED).mkdir(exist_ok=True)
            os.replace(path, mkdtemp(prefix=path.name, dir=self.directory / SUPERSEDED))

    def block_path(self, run: Run, block: int) -> Path:
        """Return where a block's Parquet file is, or will be."""
        return Path(self._place("blocks", run, block))

    def _receipt_path(self, run: Run, block: int) -> Path:
        return Path(self._place("receipts", run, block))

    def _failure_path(self, run: Run, block: int) -> Path:
        return Path(self._place("failures", run, block))

    def _place(self, kind: str, run: Run, block: int) -> str:
        """Return a path as text, a tenth of the time that `Path` takes: there may be thousands."""
        return os.path.join(self.directory, kind, run.name, f"{block:05d}.{SUFFIXES[kind]}")


def _seal(receipt: dict[str, Any]) -> bytes:
    """Write a receipt whose last line is the checksum of the others."""
    text = to_json(receipt).removesuffix(b"\n}\n")
    return text + SEAL + f'"{hashlib.sha256(text).hexdigest()}"\n}}\n'.encode()


def _read_receipt(path: str) -> dict[str, Any]:
    """Read what is known of a block beside its results.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is torn or altered.
    """
    with open(path, "rb") as file:
        data = file.read()
    text, _, rest = data.rpartition(SEAL)
    if rest[1:65] != hashlib.sha256(text).hexdigest().encode():
        raise ValueError(f"{path} must match its checksum.")
    return dict(json.loads(data))


def _read_part_of(experiment: Experiment, directory: Path) -> Manifest | None:
    """Return the folder's manifest, None if it is free; refuse one of another experiment."""
    if not directory.exists() or all(path.name == LOCK for path in directory.iterdir()):
        return None
    stored = read_manifest(directory)
    lost = {run.name for run in stored.experiment.runs} - {run.name for run in experiment.runs}
    if lost:
        raise FileExistsError(
            f"the folder must hold this experiment or a part of it, got {str(directory)!r} with "
            f"another one (for example the run {min(lost)}); choose another folder."
        )
    return stored


def has_receipts(directory: Path, run: Run) -> bool:
    """Say whether a block of the run was ever stored in a folder, which need not exist."""
    return bool(_numbers([directory / "receipts" / run.name]))


def _numbers(folders: Iterable[Path]) -> set[int]:
    """Return the numbers that files in these folders begin with."""
    names = (name for folder in folders if folder.is_dir() for name in os.listdir(folder))
    stems = (name.partition(".")[0] for name in names)
    return {int(stem) for stem in stems if stem.isascii() and stem.isdigit()}


def _map(path: str) -> pa.Buffer:
    """Return a file's bytes; pyarrow's own map takes no name that is not UTF-8."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:  # which cannot be mapped
            return pa.py_buffer(b"")
        return pa.py_buffer(mmap(file.fileno(), 0, access=ACCESS_READ))


def _identity(run: Run, block: int) -> dict[str, Any]:
    return {"format": FORMAT, "run": run.digest, "block": block}
