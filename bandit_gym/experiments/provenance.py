"""Does a stored block still count? What results depend on beside settings, and whose code that is.

Results depend on the engine's results version, on the user's own modules and on files that options
name. A receipt states all three; a block counts while they are what they are now. A module is known
by a digest of its syntax tree, so that comments and layout do not count, and another file by that
of its bytes. Modules are found by reading, never by importing: from those that settings name, as
`module:name`, along all imports that stay in the same top-level folder. Installed packages and the
standard library are not among them.

All that is not in the catalogue is code: an agent, an environment, whatever options name as
`module:name`, and a saved model, which is unpickled. Who types a name, or a file of names, agrees
to run it. Who resumes a folder types neither, and the folder may come from anybody.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from bandit_gym.checks import NAMED
from bandit_gym.checks.files import RESULTS_VERSION

OURS = ("bandit_gym", "agents")
INSTALLED = {"site-packages", "dist-packages"}
HERE = ""
"""The current folder, as Python's search path has it."""

LOADER = "agents.sb3:saved_model"

Stamp = dict[str, Any]
"""What a block was drawn from: its `results_version`, and by part `sources`, file -> digest."""

_BORN = time.time()
_imported: dict[str, str] = {}
"""The user's own modules -> digests, as this process has them."""


class OutdatedError(FileExistsError):
    """A folder holds blocks that the present code would not draw again."""


class Module(NamedTuple):
    """A module of the user's own.

    Attributes:
        file: where it is.
        path: the same, from the folder that its top-level name is imported from.
        digest: of its syntax tree, or of its bytes where it has none.
    """

    file: Path
    path: str
    digest: str


def make_stamp(sources: Mapping[str, Mapping[str, str]]) -> Stamp:
    """Return what blocks that are drawn now come from."""
    return {"results_version": RESULTS_VERSION, "sources": sources}


def describe_changes(stored: Iterable[Stamp], now: Iterable[Stamp]) -> str:
    """Say what differs between stamps and those of today, as in "mine.py, results version 6".

    Args:
        stored: of some blocks.
        now: of the same blocks, as they would be drawn today.
    """
    changed: set[str] = set()
    for old, new in zip(stored, now, strict=True):
        if old["results_version"] != new["results_version"]:
            changed.add(f"results version {old['results_version']}")
        for part, files in new["sources"].items():
            before = dict(old["sources"].get(part, {}))
            changed |= {name for name, _ in before.items() ^ files.items()}
    return ", ".join(sorted(changed))


def find_sources(target: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return file -> digest of all that the results of an environment or agent depend on.

    Args:
        target: `module:Class` or `module:Id-v0`.
        options: keyword arguments, JSON-able.

    Returns:
        Modules by their paths in the folder that they are imported from, other files as they are
        named; empty where everything comes with the project.
    """
    modules = _find_modules(target, options)
    _renew(modules)
    found = {module.path: module.digest for module in modules.values()}
    for text in texts(options):
        for path in named_files(text):
            found[text] = _digest(path.read_bytes())
    return dict(sorted(found.items()))  # in the same order in all processes, as receipts compare


def named_files(text: str) -> Iterator[Path]:
    """Yield the files that a string may name."""
    with suppress(OSError, ValueError):  # too long for a path, or no path at all
        for path in (Path(text), Path(f"{text}.zip")):  # which Stable-Baselines3 leaves out
            if path.is_file():
                yield path


def find_module(name: str) -> Path | None:
    """Return the file that a module would be imported from; nothing is imported."""
    with suppress(ImportError, ValueError, AttributeError):  # no name of a module at all
        spec = _find(name)
        return Path(spec.origin).absolute() if spec and spec.origin and spec.has_location else None
    return None


def texts(value: Any) -> list[str]:
    """Return all strings among the values of nested options."""
    if isinstance(value, str):
        return [value]
    inner: Iterable[Any] = value.values() if isinstance(value, Mapping) else ()
    return [text for item in (value if isinstance(value, list) else inner) for text in texts(item)]


def find_code(experiment: Any, known: Iterable[str]) -> list[str]:
    """List what an experiment runs that does not come with this project, as a person reads it.

    Nothing is imported.

    Args:
        experiment: an `Experiment`.
        known: the targets that do.
    """
    kinds = {"environment": experiment.environments, "agent": experiment.agents}
    found = []
    for kind, entries in kinds.items():
        for entry in entries:
            if entry.target not in known:
                found.append(_describe(kind, entry.target))
            for option, value in entry.options.items():
                for text in texts(value):
                    if NAMED.fullmatch(text):
                        found.append(_describe(option, text))
                    elif entry.target == LOADER and option == "path":
                        found.append(f"saved model {text} ({next(named_files(text), None)})")
    return list(dict.fromkeys(found))


def check_trust(directory: Path, codes: Iterable[str]) -> None:
    """Refuse to go on with a folder that names code.

    Raises:
        ValueError: if there is any; all of it is listed.
    """
    listed = "; ".join(codes)
    if listed:
        raise ValueError(
            f"the folder must name no code that does not come with this package, got "
            f"{str(directory)!r} with: {listed}; look at it, and repeat with --trust."
        )


@contextlib.contextmanager
def importing_from(*folders: str) -> Iterator[None]:
    """Let modules be found in these folders too, after all that is installed."""
    added = [folder for folder in folders if folder not in sys.path]
    sys.path += added
    try:
        yield
    finally:
        for folder in added:
            with suppress(ValueError):  # the code that ran may have changed it
                sys.path.remove(folder)


def _describe(kind: str, name: str) -> str:
    module = name.rpartition(":")[0]
    return f"{kind} {name} ({find_module(module) if module else None})"


def _renew(modules: Mapping[str, Module]) -> None:
    """Forget the user's modules if one of these has changed since its import, to be imported anew.

    All of them go, so that none goes on with an old one that it has imported.
    """
    if any(_is_outdated(name, module) for name, module in modules.items()):
        forgotten = {*_imported, *modules}
        for name in forgotten:
            sys.modules.pop(name, None)
        for env_id, spec in list(gym.registry.items()):
            if not forgotten.isdisjoint(_entry_modules(spec)):
                del gym.registry[env_id]
        _imported.clear()
    _imported.update((name, module.digest) for name, module in modules.items())


def _is_outdated(name: str, module: Module) -> bool:
    if name in _imported:
        return _imported[name] != module.digest
    # imported by others, we do not know when
    return name in sys.modules and module.file.stat().st_mtime > _BORN


def _find_modules(target: str, options: Mapping[str, Any]) -> dict[str, Module]:
    module = target.rpartition(":")[0]
    named = {module} if module else set(_entry_modules(gym.registry.get(target)))
    named |= {match[1] for match in map(NAMED.fullmatch, texts(options)) if match}
    return {name: module for first in named for name, module in _follow(first).items()}


def _entry_modules(spec: Any) -> Iterator[str]:
    """Yield the modules that make a registered environment."""
    for entry in (getattr(spec, "entry_point", None), getattr(spec, "vector_entry_point", None)):
        if isinstance(entry, str):
            yield entry.partition(":")[0]
        else:
            yield getattr(entry, "__module__", "")


def _follow(first: str) -> dict[str, Module]:
    """Return by name the module and all that it imports from its own top-level folder."""
    home = _home(first.partition(".")[0])
    found, waiting, seen = {}, {first}, set()
    while home and waiting:
        name = waiting.pop()
        seen.add(name)
        spec = _find(name) if _home(name.partition(".")[0]) == home else None
        if spec and spec.origin and spec.has_location:
            digest, imports = _read(Path(spec.origin).read_bytes())
            path = Path(spec.origin).absolute()
            found[name] = Module(path, path.relative_to(home).as_posix(), digest)
            waiting |= {name.rpartition(".")[0] or name, *_absolute(imports, spec)} - seen
    return found


def _home(top: str) -> Path | None:
    """Return the folder that a top-level name is imported from; None if it is not the user's."""
    if top in OURS or top in sys.stdlib_module_names or not top.isidentifier():
        return None
    spec = _find(top)
    places = spec.submodule_search_locations or [spec.origin or ""] if spec else [""]
    place = next(iter(places))
    folder = Path(place).absolute().parent if place else None
    return None if folder is None or INSTALLED & {*folder.parts} else folder


def _find(name: str) -> ModuleSpec | None:
    """Find a module as an import would; nothing is imported."""
    parent = name.rpartition(".")[0]
    if parent:
        package = _find(parent)
        places = package and package.submodule_search_locations
        return PathFinder.find_spec(name, list(places)) if places else None
    found = (finder.find_spec(name, None) for finder in sys.meta_path)
    return next((spec for spec in found if spec is not None), None)


@lru_cache(maxsize=4096)
def _read(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the digest of a module, and what it imports; relative names begin with dots."""
    try:
        tree = ast.parse(data)
        return _digest(ast.dump(tree).encode()), tuple({*_imports(tree)})
    except (SyntaxError, ValueError, RecursionError):  # compiled, or beyond this Python
        return _digest(data), ()


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield what may be modules among the names of a syntax tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            joint = "" if base.endswith(".") else "."
            yield from (base, *(f"{base}{joint}{alias.name}" for alias in node.names))


def _absolute(names: Iterable[str], spec: ModuleSpec) -> Iterator[str]:
    package = spec.name if spec.submodule_search_locations else spec.parent
    for name in names:
        with suppress(ImportError, ValueError):  # beyond the top
            yield resolve_name(name, package)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
