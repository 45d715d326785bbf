"""Stored blocks that the present sources, or the present engine, would not draw again.

They are found by their receipts, said before anything is run, and then set aside or kept with a
mark; never taken for what the present code does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from bandit_gym.checks import check_choice
from bandit_gym.experiments.experiment import Run
from bandit_gym.experiments.manifest import MANIFEST, Manifest, check_sources
from bandit_gym.files import to_json

CHOICES = ("refuse", "recompute", "keep")
SUPERSEDED = "superseded"


class OutdatedError(FileExistsError):
    """A folder holds blocks that the present code would not draw again."""


class Misfit(NamedTuple):
    """A stored block that no longer fits.

    Attributes:
        run: the run it belongs to.
        block: its number, as its files are named.
        stamp: what it came from.
    """

    run: Run
    block: str
    stamp: dict[str, Any]


def settle(directory: Path, wanted: Manifest, changed: str) -> tuple[str, str]:
    """Refuse, set aside or keep what no longer fits, as `run_experiment` describes.

    Returns:
        What has changed, empty if all fits; and the mark that the folder bears from now on.
    """
    check_choice("changed", changed, CHOICES)
    misfits = list(find_misfits(directory, wanted))
    if not misfits:
        return "", ""
    text = describe(misfits, wanted)
    if changed == "refuse":
        raise OutdatedError(
            f"the folder must hold what the present code draws, got {str(directory)!r}, where "
            f"{text}; choose --recompute (in Python changed='recompute') to move what no longer "
            f"fits to {SUPERSEDED}/, or --keep ('keep')."
        )
    if changed == "keep":
        return f"{text}; kept", text
    place = _set_aside(directory, misfits)
    return f"{text}; moved to {place}", ""


def find_misfits(directory: Path, wanted: Manifest) -> Iterator[Misfit]:
    """Yield the blocks whose receipts tell of another origin than the manifest."""
    for run in wanted.experiment.runs:
        expected = wanted.stamp(run)
        as_written = to_json(expected)[1:-3]
        for path in _files(directory / "receipts" / run.name):
            with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):  # damaged
                with open(path, "rb") as file:
                    data = file.read()
                if as_written not in data:  # a tenth of the time that reading it as JSON takes
                    receipt = json.loads(data)
                    check_sources(receipt["sources"])
                    stamp = {name: receipt[name] for name in expected}
                    yield Misfit(run, Path(path).stem, stamp)


def _files(folder: Path) -> list[str]:
    """Return the paths of a folder's files, in order; for thousands of them, `Path` is slow."""
    with suppress(FileNotFoundError), os.scandir(folder) as found:
        return sorted(entry.path for entry in found)
    return []


def describe(misfits: Iterable[Misfit], wanted: Manifest) -> str:
    """Say what has changed since, as in "2 of 6 agents changed since: mine.py"."""
    misfits = list(misfits)
    experiment = wanted.experiment
    parts = [
        _describe_part("agent", len(experiment.agents), misfits, wanted),
        _describe_part("environment", len(experiment.environments), misfits, wanted),
    ]
    versions = {misfit.stamp["results_version"] for misfit in misfits} - {wanted.results_version}
    if versions:
        listed = " and ".join(map(str, sorted(versions, key=str)))
        parts.append(f"results are of version {listed}, and now of {wanted.results_version}")
    return "; ".join([*filter(None, parts), f"blocks that no longer fit: {len(misfits)}"])


def _describe_part(kind: str, num_all: int, misfits: list[Misfit], wanted: Manifest) -> str:
    """Say how many agents, or environments, have changed and in which files."""
    entries, files = set(), set()
    for misfit in misfits:
        was, now = (s["sources"].get(kind, {}) for s in (misfit.stamp, wanted.stamp(misfit.run)))
        if was != now:
            entries.add(getattr(misfit.run, kind).digest)
            files |= {file for file, _ in was.items() ^ now.items()}
    if not entries:
        return ""
    return f"{len(entries)} of {num_all} {kind}s changed since: {', '.join(sorted(files))}"


def _set_aside(directory: Path, misfits: list[Misfit]) -> Path:
    """Move blocks into a folder of their own that can be read like this one; return it."""
    places = (directory / SUPERSEDED / str(number) for number in count(1))
    place = next(place for place in places if not place.exists())
    place.mkdir(parents=True)
    (place / MANIFEST).write_bytes((directory / MANIFEST).read_bytes())
    for run, block, _ in misfits:
        for kind, suffix in (("receipts", "json"), ("blocks", "parquet")):
            path = Path(kind, run.name, f"{block}.{suffix}")
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                (directory / path).rename(place / path)
    return place
