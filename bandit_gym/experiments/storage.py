"""The folder of an experiment: finished blocks, each written once and never half.

    experiment.json               the settings, the format and the results version
    blocks/RUN/00000.parquet      one block of a run, tidy: one row per replication and step
    receipts/RUN/00000.json       its checksum and how it came about: versions, seconds, host
    failures/RUN/00000.txt        the traceback of a block that raised

A block counts once its receipt is there and fits: the receipt is written last, and both files come
into being by renaming a synced temporary file. What was torn by a kill or altered since is found
by its checksum. A folder holds blocks of one results version: another version of the package reads
them, and says so, but adds none. One process at a time may write; a second is refused by a lock
that dies with its holder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.experiment import FORMAT, Experiment, Run
from bandit_gym.files import RESULTS_VERSION, write_atomically

MANIFEST = "experiment.json"
LOCK = ".lock"


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
    def claimed(cls, directory: str | Path, experiment: Experiment) -> Iterator[Store]:
        """Open the folder for an experiment and keep other processes from writing there.

        The folder is a new one, an empty one, or one whose experiment is part of this one.

        Raises:
            FileExistsError: if the folder holds anything else, or another results version.
            BlockingIOError: if another process is at work in it.
        """
        store = cls(Path(directory))
        store._check_free_for(experiment)  # before anything is written there
        store.directory.mkdir(parents=True, exist_ok=True)
        with open(store.directory / LOCK, "a+", encoding="utf-8") as file:
            _lock(file, store.directory)
            store._check_free_for(experiment)  # again, now that nobody else can change it
            for leftover in store.directory.rglob("*.tmp"):  # of writers that were killed
                leftover.unlink(missing_ok=True)
            manifest = {**_VERSIONS, "experiment": asdict(experiment)}
            write_atomically(store.directory / MANIFEST, _to_json(manifest))
            yield store

    @cached_property
    def results_version(self) -> int:
        """The version of the engine whose numbers the folder holds; see `files`."""
        version = self._manifest().get("results_version", 0)
        if not isinstance(version, int):
            raise ValueError(
                f"{self.directory / MANIFEST} must have a whole number as its results_version, got "
                f"{version!r}."
            )
        return version

    def blocks_of_other_versions(self) -> list[str]:
        """Name the blocks whose receipts tell of another results version than the folder's."""
        found = []
        for path in sorted(self.directory.glob("receipts/*/*.json")):
            with contextlib.suppress(OSError, ValueError):  # damaged: another matter
                version = dict(json.loads(path.read_bytes())).get("results_version")
                if version not in (None, self.results_version):
                    found.append(f"{path.parent.name}/{path.stem}")
        return found

    def load_experiment(self) -> Experiment:
        """Read the experiment that the folder was made for; its agents need not be importable."""
        settings = self._manifest()["experiment"]
        for field in ("environments", "agents"):
            settings[field] = tuple(Entry(**entry) for entry in settings[field])
        return Experiment(**settings)

    def write_block(self, run: Run, block: int, data: bytes, facts: dict[str, Any]) -> None:
        """Store a finished block: its Parquet bytes, then its receipt."""
        write_atomically(self.block_path(run, block), data)
        receipt = {
            **_VERSIONS,
            **_identity(run, block),
            "sha256": hashlib.sha256(data).hexdigest(),
            **facts,
        }
        write_atomically(self._receipt_path(run, block), _to_json(receipt))
        self._failure_path(run, block).unlink(missing_ok=True)

    def read_block(self, run: Run, block: int) -> StoredBlock:
        """Open a block and make sure that it is whole, and what it claims to be.

        Raises:
            FileNotFoundError: if it is not there.
            ValueError: if only half of it is there, or it is not what its receipt says, or belongs
                elsewhere.
        """
        path, receipt_path = self.block_path(run, block), self._receipt_path(run, block)
        try:
            receipt = json.loads(receipt_path.read_bytes())
            data = _map(path)
        except FileNotFoundError as error:
            if path.exists() or receipt_path.exists():
                raise ValueError(f"{path} must be there together with its receipt.") from error
            raise
        expected = (_identity(run, block) | {"results_version": self.results_version}).items()
        if not isinstance(receipt, dict) or any(receipt.get(k) != v for k, v in expected):
            raise ValueError(f"{receipt_path} must be the receipt of block {block} of {run.name}.")
        if hashlib.sha256(data).hexdigest() != receipt.get("sha256"):
            raise ValueError(f"{path} must match its checksum.")
        return StoredBlock(data, receipt)

    def write_failure(self, run: Run, block: int, text: str) -> None:
        """Store the traceback of a block that raised."""
        write_atomically(self._failure_path(run, block), text.encode())

    def read_failures(self, run: Run) -> dict[int, str]:
        """Return block -> traceback of the blocks that raised and were not mended since."""
        folder = self._failure_path(run, 0).parent
        return {int(path.stem): path.read_text("utf-8") for path in sorted(folder.glob("*.txt"))}

    def _check_free_for(self, experiment: Experiment) -> None:
        """Raise FileExistsError if the folder holds anything that is not part of the experiment."""
        if not self.directory.exists() or all(p.name == LOCK for p in self.directory.iterdir()):
            return
        if self.results_version != RESULTS_VERSION:
            raise FileExistsError(
                f"the folder must hold results of version {RESULTS_VERSION}, got "
                f"{str(self.directory)!r} with version {self.results_version}, whose numbers this "
                "package no longer draws; choose another folder."
            )
        others = self.blocks_of_other_versions()
        if others:
            raise FileExistsError(
                f"the folder must hold results of version {RESULTS_VERSION} alone, got "
                f"{len(others)} blocks of another one (for example {others[0]}); choose another "
                "folder."
            )
        lost = {run.name for run in self.load_experiment().runs} - {r.name for r in experiment.runs}
        if lost:
            raise FileExistsError(
                "the folder must hold this experiment or a part of it, got "
                f"{str(self.directory)!r} with another one (for example the run {min(lost)}); "
                "choose another folder."
            )

    def _manifest(self) -> dict[str, Any]:
        path = self.directory / MANIFEST
        if not path.exists():
            raise FileExistsError(
                f"the folder must hold an experiment or nothing, got {str(self.directory)!r}; "
                "choose another one."
            )
        try:
            manifest = json.loads(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path} must be valid JSON, got an error: {error}.") from error
        found = manifest.get("format") if isinstance(manifest, dict) else None
        if found != FORMAT:
            raise ValueError(
                f"{path} must have format {FORMAT}, got {found!r}; "
                "read it with the version of this package that wrote it, or choose another folder."
            )
        return dict(manifest)

    def block_path(self, run: Run, block: int) -> Path:
        """Return where a block's Parquet file is, or will be."""
        return self.directory / "blocks" / run.name / f"{block:05d}.parquet"

    def _receipt_path(self, run: Run, block: int) -> Path:
        return self.directory / "receipts" / run.name / f"{block:05d}.json"

    def _failure_path(self, run: Run, block: int) -> Path:
        return self.directory / "failures" / run.name / f"{block:05d}.txt"


_VERSIONS = {"format": FORMAT, "results_version": RESULTS_VERSION}


def _map(path: Path) -> pa.Buffer:
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()  # which outlives the open file


def _identity(run: Run, block: int) -> dict[str, Any]:
    return {"format": FORMAT, "run": run.digest, "block": block}


def _to_json(content: Any) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def _lock(file: Any, directory: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on Windows, where two writers only do the work twice
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        raise BlockingIOError(
            f"the folder must not be in use, got {str(directory)!r} where {file.read().strip()} "
            "is at work; wait for it, or look on with `bandit-gym report`."
        ) from error
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node()}")
    file.flush()
