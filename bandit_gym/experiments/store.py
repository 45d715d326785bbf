"""The folder of an experiment: finished blocks, each written once and never half.

    experiment.json               the settings and the format
    blocks/RUN/00000.parquet      one block of a run, tidy: one row per replication and step
    receipts/RUN/00000.json       its checksum, what it was drawn from and how it came about
    failures/RUN/00000.txt        the traceback of a block that raised

A block counts once its receipt is there and fits: the receipt is written last, and both files come
into being by renaming a synced temporary file. What was torn by a kill or altered since is found
by its checksum. One process at a time may write; a second is refused by a lock that dies with its
holder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from bandit_gym.checks import check_keys
from bandit_gym.checks.files import remove_leftovers, to_json, write_atomically
from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.experiment import FORMAT, Experiment, Run
from bandit_gym.experiments.provenance import Stamp

SUFFIXES = {"blocks": "parquet", "receipts": "json", "failures": "txt"}
MANIFEST, LOCK = "experiment.json", ".lock"
READ = {"results_version", "versions", "agent_seconds", "decisions"}
"""What is read of every receipt, beside what identifies its block and its `sources`."""


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
    def claimed(cls, directory: Path, experiment: Experiment) -> Iterator[Store]:
        """Open the folder for an experiment and keep other processes from writing there.

        The folder is a new one, an empty one, or one whose experiment is part of this one.

        Raises:
            FileExistsError: if the folder holds anything else.
            BlockingIOError: if another process is at work in it.
        """
        from filelock import FileLock, Timeout

        _read_part_of(experiment, directory)  # which refuses others before anything is written
        directory.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(directory / LOCK, timeout=0):
                stored = _read_part_of(experiment, directory)  # now that nobody can change it
                remove_leftovers(directory)
                _write_manifest(directory, experiment, stored)
                yield cls(directory)
        except Timeout as error:
            look_on = shlex.join(["bandit-gym", "report", str(directory)])
            raise BlockingIOError(
                f"the folder must not be in use, got {str(directory)!r} where another process is "
                f"at work; wait for it, or look on with `{look_on}`."
            ) from error

    def write_block(
        self, run: Run, block: int, data: bytes, stamp: Stamp, facts: dict[str, Any]
    ) -> None:
        """Store a finished block, its Parquet bytes and then its receipt, in place of an older."""
        write_atomically(Path(self._place("blocks", run, block)), data)
        sha256 = hashlib.sha256(data).hexdigest()
        receipt = {**_identity(run, block), **stamp, "sha256": sha256, **facts}
        write_atomically(Path(self._place("receipts", run, block)), to_json(receipt))
        Path(self._place("failures", run, block)).unlink(missing_ok=True)

    def read_block(self, run: Run, block: int) -> StoredBlock:
        """Open a block and make sure that it is whole, and what it claims to be.

        Raises:
            FileNotFoundError: if it is not there.
            ValueError: if only half of it is there, or it is not what its receipt says, or belongs
                elsewhere.
        """
        path, receipt_path = (self._place(kind, run, block) for kind in ("blocks", "receipts"))
        if not (os.path.exists(path) or os.path.exists(receipt_path)):
            raise FileNotFoundError(path)
        try:
            receipt = json.loads(Path(receipt_path).read_bytes())
            data = pa.memory_map(path).read_buffer()
            expected = _identity(run, block) | {"sha256": hashlib.sha256(data).hexdigest()}
            is_its = receipt.items() >= expected.items() and receipt.keys() >= READ
            is_stamped = all(isinstance(each, dict) for each in receipt["sources"].values())
        except (OSError, LookupError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path} must be whole, with its receipt, got {error!r}.") from error
        if not (is_its and is_stamped):
            raise ValueError(f"{path} must be what its receipt says, block {block} of {run.name}.")
        return StoredBlock(data, receipt)

    def blocks(self, run: Run, num_blocks: int) -> list[int]:
        """Return, sorted, which of a run's first blocks may be there: some file of theirs is."""
        folders = [self.directory / kind / run.name for kind in ("blocks", "receipts")]
        return sorted(number for number in _numbers(folders) if number < num_blocks)

    def write_failure(self, run: Run, block: int, text: str) -> None:
        """Store the traceback of a block that raised."""
        data = text.encode("utf-8", "backslashreplace")
        write_atomically(Path(self._place("failures", run, block)), data)

    def read_failures(self, run: Run) -> dict[int, str]:
        """Return block -> traceback of the blocks that raised; what is complete outranks it."""
        folder = self.directory / "failures" / run.name
        paths = {n: Path(self._place("failures", run, n)) for n in sorted(_numbers([folder]))}
        return {n: path.read_text("utf-8", "replace") or "unknown" for n, path in paths.items()}

    def _place(self, kind: str, run: Run, block: int) -> str:
        """Return a path as text, a tenth of the time that `Path` takes: there may be thousands."""
        return os.path.join(self.directory, kind, run.name, f"{block:05d}.{SUFFIXES[kind]}")


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
        held = sorted(entry.name for entry in directory.iterdir())
        some = ", ".join(map(repr, held[:3])) if held else "nothing"
        raise FileExistsError(
            f"the folder must hold an experiment or nothing, got {str(directory)!r}, with "
            f"{some}{', ...' if held[3:] else ''} in it; choose another one."
        )
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} must be valid JSON, got an error: {error}.") from error
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise ValueError(
            f"{path} must have format {FORMAT}, in which the sum of regrets is named "
            f"cumulative_regret, got {found!r}; "
            "read it with the version of this package that wrote it, or choose another folder."
        )
    try:
        return _read_experiment(content.get("experiment"))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} must describe an experiment: {error}") from error


def _read_experiment(settings: Any) -> Experiment:
    names = [field.name for field in fields(Experiment) if field.name != "propensities"]
    check_keys("experiment", settings, required=names, optional=["propensities"])
    for name in ("environments", "agents"):
        entries = [Entry(**each) for each in settings[name]]
        settings = {**settings, name: entries}
    return Experiment(**settings)


def _write_manifest(directory: Path, experiment: Experiment, stored: Experiment | None) -> None:
    """Store what the folder is for, with the largest number of replications ever asked for."""
    if stored is not None and stored.replications > experiment.replications:
        experiment = replace(experiment, replications=stored.replications)
    path, data = directory / MANIFEST, to_json({"format": FORMAT, "experiment": asdict(experiment)})
    if not path.exists() or path.read_bytes() != data:
        write_atomically(path, data)


def _read_part_of(experiment: Experiment, directory: Path) -> Experiment | None:
    """Return what the folder was made for, None if it is free; refuse another experiment's."""
    if not directory.exists() or all(path.name == LOCK for path in directory.iterdir()):
        return None
    stored = read_manifest(directory)
    lost = {run.name for run in stored.runs} - {run.name for run in experiment.runs}
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


def _identity(run: Run, block: int) -> dict[str, Any]:
    return {"format": FORMAT, "run": run.digest, "block": block}
