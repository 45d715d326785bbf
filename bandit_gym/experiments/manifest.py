"""experiment.json: what a folder was made for, and what its results came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from bandit_gym.checks import check_integer, check_keys, message
from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.experiment import FORMAT, Experiment, Run
from bandit_gym.files import RESULTS_VERSION, to_json, write_atomically

MANIFEST = "experiment.json"
KEYS = ("experiment", "sources", "results_version", "kept")
Sources = Mapping[str, Mapping[str, str]]
"""File -> digest, for each environment and agent by the digest of its settings."""


@dataclass(frozen=True)
class Manifest:
    """What a folder was made for, and what its results came from.

    Attributes:
        experiment: the runs, and the largest number of replications ever asked for.
        sources: see `sources.find_sources`.
        results_version: of the engine; see `files`.
        kept: what has changed since some of the results were drawn, if they were kept all the same.
    """

    experiment: Experiment
    sources: Sources
    results_version: int = RESULTS_VERSION
    kept: str = ""

    @classmethod
    def of(cls, experiment: Experiment) -> Manifest:
        """Describe results that are still to be drawn, from the sources as they are now."""
        entries = (*experiment.environments, *experiment.agents)
        return cls(experiment, {entry.digest: entry.sources() for entry in entries})

    def stamp(self, run: Run) -> dict[str, Any]:
        """Return what the results of a run came from, apart from its settings."""
        parts = {"environment": run.environment, "agent": run.agent}
        sources = {name: self.sources.get(entry.digest, {}) for name, entry in parts.items()}
        return {"results_version": self.results_version, "sources": sources}

    def including(self, other: Manifest) -> Manifest:
        """Return this one with as many replications as the other, if that has more."""
        most = max(self.experiment.replications, other.experiment.replications)
        return replace(self, experiment=replace(self.experiment, replications=most))

    def write(self, directory: Path) -> None:
        """Store it, unless it is there already."""
        data = to_json({"format": FORMAT, **asdict(self)})
        path = directory / MANIFEST
        if not path.exists() or path.read_bytes() != data:
            write_atomically(path, data)


def read_manifest(directory: Path) -> Manifest:
    """Read what a folder was made for; its agents need not be importable.

    Raises:
        FileNotFoundError: if there is no such folder.
        FileExistsError: if the folder holds something else.
        ValueError: if the file is torn, of another format, or describes no experiment.
    """
    path = directory / MANIFEST
    if not directory.is_dir():
        raise FileNotFoundError(f"the folder must exist, got {str(directory)!r}.")
    held = sorted(entry.name for entry in directory.iterdir())
    if not held:
        raise FileNotFoundError(
            f"the folder must hold an experiment, got {str(directory)!r}, empty."
        )
    if not path.is_file():
        raise FileExistsError(
            f"the folder must hold an experiment or nothing, got {str(directory)!r}, with "
            f"{', '.join(map(repr, held[:3]))}{', ...' if held[3:] else ''} in it; "
            "choose another one."
        )
    content = _read_format(path)
    try:
        check_keys("manifest", content, required=KEYS)
        return _read(**content)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} must describe an experiment: {error}") from error


def _read_format(path: Path) -> dict[str, Any]:
    """Return what a file of this format holds beside the format."""
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be valid JSON, got an error: {error}.") from error
    found = content.pop("format", None) if isinstance(content, dict) else None
    if type(found) is not int or found != FORMAT:
        raise ValueError(
            f"{path} must have format {FORMAT}, got {found!r}; "
            "read it with the version of this package that wrote it, or choose another folder."
        )
    return dict(content)


def _read(experiment: Any, sources: Any, results_version: Any, kept: Any) -> Manifest:
    names = [field.name for field in fields(Experiment) if field.name != "propensities"]
    check_keys("experiment", experiment, required=names, optional=["propensities"])
    entries = {name: _read_entries(name, experiment[name]) for name in ("environments", "agents")}
    version = check_integer("results_version", results_version, minimum=0)
    check_sources(sources)
    return Manifest(Experiment(**(experiment | entries)), sources, version, str(kept))


def check_sources(sources: Any) -> None:
    """Refuse what is no table of tables."""
    if not isinstance(sources, dict) or not all(isinstance(v, dict) for v in sources.values()):
        raise TypeError(message("sources", "be a table of tables", sources))


def _read_entries(name: str, listed: Any) -> tuple[Entry, ...]:
    if not isinstance(listed, list):
        raise TypeError(message(name, "be a list", listed))
    for settings in listed:
        check_keys(name, settings, required=[field.name for field in fields(Entry)])
    return tuple(Entry(**settings) for settings in listed)
