"""Faults of files: every kind of file of a folder of results, damaged at every quartile."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from faults.processes import Fault
from faults.trial import Trial

QUARTILES = 4
KINDS = {
    "settings": "experiment.json",
    "block": "blocks/*/*.parquet",
    "receipt": "receipts/*/*.json",
    "failure": "failures/*/*.txt",
}
"""Of files that are read again: their names."""


def flip(path: Path, place: float, rng: np.random.Generator) -> None:
    """Change some bits of the byte at this share of the file."""
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= int(rng.integers(1, 256))
    path.write_bytes(data)


def truncate(path: Path, place: float, rng: np.random.Generator) -> None:
    """Cut the file off there."""
    path.write_bytes(path.read_bytes()[: int(place * path.stat().st_size)])


def empty(path: Path, place: float, rng: np.random.Generator) -> None:
    """Leave nothing of it."""
    path.write_bytes(b"")


def replace(path: Path, place: float, rng: np.random.Generator) -> None:
    """Put a folder in its place, with something in it."""
    path.unlink()
    path.mkdir()
    (path / "something").touch()


WAYS = {
    "a byte changed": flip,
    "truncated": truncate,
    "empty": empty,
    "a folder in its place": replace,
}


class Damage:
    """Damages one file of a kind after the other, each time in another quartile.

    Attributes:
        pattern: of the files' paths.
    """

    def __init__(self, pattern: str, way: str) -> None:
        self.pattern, self._way, self._count = pattern, WAYS[way], 0

    def __call__(self, trial: Trial, out: Path, rng: np.random.Generator) -> str:
        """Damage a copy of the undisturbed results."""
        shutil.copytree(trial.folder, out)
        place = (self._count % QUARTILES + rng.random()) / QUARTILES
        self._count += 1
        victim = Path(rng.choice(sorted(map(str, out.glob(self.pattern)))))
        self._way(victim, place, rng)
        return ""


FAULTS: dict[str, Fault] = {
    f"{kind}: {way}": Damage(pattern, way) for kind, pattern in KINDS.items() for way in WAYS
}
"""What was done, in words, and by whom."""
