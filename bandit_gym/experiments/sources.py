"""What results depend on beside settings: the user's own modules, and files that options name.

A module is known by a digest of its syntax tree, so that comments and layout do not count (but
docstrings, which a program can read, do), and another file by that of its bytes. Modules are found
by reading, never by importing: from the one that an agent or an environment names, and any
`module:name` in options or in the text of a module, along all imports that stay in the same
top-level folder. Neither the standard library nor installed packages nor this project's own are
among them; those have versions.

Python keeps a module as it was first imported. So that a process computes with the sources that it
states, `renew` makes it forget modules whose files have changed since.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from bandit_gym.checks import NAMED

OURS = ("bandit_gym", "agents")
INSTALLED = {"site-packages", "dist-packages"}

_BORN = time.time()
_imported: dict[str, str] = {}  # the user's own modules -> digests, as this process has them


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


def find_sources(target: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return file -> digest of all that the results of an environment or agent depend on.

    Args:
        target: `module:Class` or `module:Id-v0`.
        options: keyword arguments, JSON-able.

    Returns:
        Modules by their paths in the folder that they are imported from, other files as they are
        named; empty where everything comes with the project.
    """
    found = {module.path: module.digest for module in _find_all(target, options).values()}
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


def renew(target: str, options: Mapping[str, Any]) -> bool:
    """Forget the user's modules if one that these settings name has changed since its import.

    All of them go, so that none goes on with an old one that it has imported.

    Returns:
        Whether they had to go.

    Raises:
        RuntimeError: if one of them is the script that runs.
    """
    found = _find_all(target, options)
    has_changed = any(_is_outdated(name, module) for name, module in found.items())
    if has_changed and "__main__" in found:
        file = found["__main__"].file
        raise RuntimeError(f"{file} must be as it was when it was started; start it anew.")
    if has_changed:
        _forget({*_imported, *found})
    _imported.update((name, module.digest) for name, module in found.items())
    return has_changed


def _is_outdated(name: str, module: Module) -> bool:
    if name in _imported:
        return _imported[name] != module.digest
    # imported by others, we do not know when
    return name in sys.modules and module.file.stat().st_mtime > _BORN


def _forget(modules: set[str]) -> None:
    for name in modules:
        sys.modules.pop(name, None)
    for env_id, spec in list(gym.registry.items()):
        if not modules.isdisjoint(_entry_modules(spec)):
            del gym.registry[env_id]
    _imported.clear()


def _find_all(target: str, options: Mapping[str, Any]) -> dict[str, Module]:
    module = target.rpartition(":")[0]
    named = {module} if module else set(_entry_modules(gym.registry.get(target)))
    named |= {match[1] for match in map(NAMED.fullmatch, texts(options)) if match}
    return {name: module for first in named for name, module in _follow(first).items()}


def _entry_modules(spec: Any) -> Iterator[str]:
    """Yield the modules that make a registered environment."""
    for entry in (getattr(spec, "entry_point", None), getattr(spec, "vector_entry_point", None)):
        module = entry.partition(":")[0] if isinstance(entry, str) else entry
        yield module if isinstance(module, str) else getattr(entry, "__module__", "")


def texts(value: Any) -> list[str]:
    """Return all strings among the values of nested options."""
    if isinstance(value, str):
        return [value]
    inner: Iterable[Any] = value.values() if isinstance(value, Mapping) else ()
    return [text for item in (value if isinstance(value, list) else inner) for text in texts(item)]


def _follow(first: str) -> dict[str, Module]:
    """Return by name the module and all that it imports from its own top-level folder."""
    home_of = cache(_home)
    home = home_of(first.partition(".")[0])
    found, waiting, seen = {}, {first}, set()
    while home and waiting:
        name = waiting.pop()
        seen.add(name)
        spec = _find(name) if home_of(name.partition(".")[0]) == home else None
        if spec and spec.origin and spec.has_location:
            digest, imports = _read(_load(spec))
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
    if name == "__main__":
        file = getattr(sys.modules[name], "__file__", None)
        return spec_from_file_location(name, file) if file else None
    found = (finder.find_spec(name, None) for finder in sys.meta_path)
    return next((spec for spec in found if spec is not None), None)


def _load(spec: ModuleSpec) -> bytes:
    loader: Any = spec.loader
    return bytes(loader.get_data(spec.origin))


@lru_cache(maxsize=4096)
def _read(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the digest of a module, and what it imports; relative names begin with dots."""
    try:
        tree = ast.parse(data)
        return _digest(written(tree).encode()), tuple({*_imports(tree)})
    except (SyntaxError, ValueError, RecursionError):  # compiled, or beyond this Python
        return _digest(data), ()


def written(node: Any) -> str:
    """Write a syntax tree without its empty fields, of which each Python has others."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []))
        listed = ",".join(f"{name}={written(value)}" for name, value in fields)
        return f"{type(node).__name__}({listed})"
    return f"[{','.join(map(written, node))}]" if isinstance(node, list) else repr(node)


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield what may be modules among the names of a syntax tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            joint = "" if base.endswith(".") else "."
            yield from (base, *(f"{base}{joint}{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (match[1] for match in [NAMED.fullmatch(node.value)] if match)
        elif isinstance(node, ast.Call) and "import_module" in vars(node.func).values():
            names = (getattr(argument, "value", None) for argument in node.args)
            yield from (name for name in names if isinstance(name, str))


def _absolute(names: Iterable[str], spec: ModuleSpec) -> Iterator[str]:
    package = spec.name if spec.submodule_search_locations else spec.parent
    for name in names:
        with suppress(ImportError, ValueError):  # beyond the top
            yield resolve_name(name, package)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
