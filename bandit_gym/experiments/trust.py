"""Whose code an experiment runs, and how its user has agreed to that.

All that is not in the catalogue is code: an agent, an environment, and whatever options name as
`module:name`, be it a prior, a likelihood or a wrapper; so is a saved model, which is unpickled.
Who types a name, or a file of names, agrees to run them. Who goes on with a folder types neither,
and the folder may come from anybody; so each user has a record of what they have run, outside of
all folders: a file per folder of results, with digests of settings, sources and models.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bandit_gym.checks import NAMED
from bandit_gym.experiments.catalogue import agent_names
from bandit_gym.experiments.entries import Entry, content_digest
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.sources import OURS, find_module, named_files, texts
from bandit_gym.files import to_json, write_atomically
from bandit_gym.registration import ENV_IDS

HERE = ""
"""The current folder, as Python's search path has it."""

LOADER, MODEL = "agents.sb3:saved_model", "saved model"


class Code(NamedTuple):
    """Something that an experiment runs and that does not come with this project.

    Attributes:
        kind: what it is for: "agent", "environment", "saved model" or the option that names it.
        name: as the experiment names it.
        path: the file that it is in; None if there is none to be found.
    """

    kind: str
    name: str
    path: Path | None

    def __str__(self) -> str:
        return f"{self.kind} {self.name} ({self.path or 'not found'})"


class UntrustedError(ValueError):
    """A folder of results names code that this user is not known to have run."""


@contextlib.contextmanager
def importing_from(*folders: str) -> Iterator[None]:
    """Let modules be found in these folders too, after all that is installed."""
    added = [folder for folder in folders if folder not in sys.path]
    sys.path += added
    try:
        yield
    finally:
        for folder in added:
            with contextlib.suppress(ValueError):  # the code that ran may have changed it
                sys.path.remove(folder)


def find_code(experiment: Experiment) -> list[Code]:
    """List what an experiment runs that does not come with this project; nothing is imported."""
    return list(dict.fromkeys(code for _, code in _each(experiment)))


def find_modules(experiment: Experiment) -> dict[str, Path]:
    """Return by name the modules that an experiment names and that are not this project's."""
    named = (code for code in find_code(experiment) if code.kind != MODEL)
    modules = {code.name.rpartition(":")[0]: code.path for code in named}
    ours = {name for name in modules if name.partition(".")[0] in OURS}
    return {name: path for name, path in modules.items() if path and name not in ours}


def tell_modules(experiment: Experiment) -> None:
    """Say on standard error which modules are run that are not this project's."""
    for module, path in find_modules(experiment).items():
        print(f"bandit-gym: {module} is {path}", file=sys.stderr)


def check_trust(directory: Path, experiment: Experiment) -> None:
    """Refuse to go on with a folder whose code this user is not known to have run.

    Raises:
        UntrustedError: if there is any; all of it is listed.
    """
    known = _read(directory).get("entries", [])
    if any(digest not in known for digest in _digests(experiment)):
        listed = "; ".join(map(str, find_code(experiment)))
        raise UntrustedError(
            f"the folder must name code that you are known to have run as it is now, got "
            f"{str(directory)!r} with: {listed}; look at it, and repeat with --trust."
        )


def remember(directory: Path, experiment: Experiment, folders: Sequence[str]) -> None:
    """Record that this user runs what an experiment names, for going on with its folder later.

    Args:
        directory: the folder of results.
        experiment: what is run there.
        folders: where modules were looked for.
    """
    entries = _digests(experiment)
    if entries:
        content = {"folder": str(directory.resolve()), "entries": entries, "path": [*folders]}
        with contextlib.suppress(OSError, RuntimeError):  # no home, or none to write in
            write_atomically(_record(directory), to_json(content))


def remembered_folders(directory: Path) -> list[str]:
    """Return where modules were looked for when this user last ran a folder's experiment."""
    return list(_read(directory).get("path", []))


def _read(directory: Path) -> dict[str, Any]:
    """Return what this user's record says of a folder; nothing if it lies in that very folder."""
    with contextlib.suppress(OSError, RuntimeError, ValueError, TypeError):  # none, or torn
        record = _record(directory).resolve()
        if not record.is_relative_to(directory.resolve()):
            return dict(json.loads(record.read_bytes()))
    return {}


def _record(directory: Path) -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "bandit-gym" / f"{content_digest(str(directory.resolve()))[:16]}.json"


def _digests(experiment: Experiment) -> list[str]:
    """Return what every entry with code in it is built from, sources and models included."""
    entries = dict.fromkeys(entry for entry, _ in _each(experiment))
    return [content_digest([entry.digest, entry.sources()]) for entry in entries]


def _each(experiment: Experiment) -> Iterator[tuple[Entry, Code]]:
    known = {f"bandit_gym:{env_id}" for env_id in ENV_IDS} | {*agent_names().values()}
    kinds = {"environment": experiment.environments, "agent": experiment.agents}
    for kind, entries in kinds.items():
        for entry in entries:
            if entry.target not in known:
                yield entry, _named(kind, entry.target)
            for code in _find_in_options(entry):
                yield entry, code


def _find_in_options(entry: Entry) -> Iterator[Code]:
    for option, value in entry.options.items():
        for text in texts(value):
            if NAMED.fullmatch(text):
                yield _named(option, text)
            elif entry.target == LOADER and option == "path":
                yield Code(MODEL, text, next(named_files(text), None))


def _named(kind: str, name: str) -> Code:
    module = name.rpartition(":")[0]
    return Code(kind, name, find_module(module) if module else None)
