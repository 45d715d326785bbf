"""What results depend on beside settings.

Results depend on the engine's results version, on the user's own modules and on files that options
name. A block states all three; it counts while they are what they are now. A module is known by a
digest of its syntax tree, so that comments and layout do not count, and another file by that of its
bytes. Modules are found by reading, never by importing: from those that settings name, as
`module:name`, along all imports that stay in the same top-level folder, and all strings there that
read `module:name`, as entry points do. Installed packages and the standard library are not among
them.
"""

from __future__ import annotations

import ast
import hashlib
import platform
import re
import struct
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import cache_from_source, resolve_name
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gymnasium as gym

from bandit_gym.checks import NAME_PATTERN

OWN_PACKAGES = ("bandit_gym", "agents")
INSTALL_FOLDERS = {"site-packages", "dist-packages"}

_STARTED = time.time()
_imported: dict[str, str] = {}
"""The user's own modules -> digests, as this process has imported or is about to import them."""

TRACKER_PATTERN = re.compile(rb"[0-9a-f]{32}")
"""The random name that cloudpickle gives each class; a cell that is run again has another."""

VERSIONED_PACKAGES = ("bayesian-bandit-gym", "gymnasium", "numpy", "scipy", "numba", "pyarrow")


def find_sources(
    target: str, options: Mapping[str, Any], pickles: Mapping[str, bytes] = MappingProxyType({})
) -> dict[str, str]:
    """Return file -> digest of all that the results of an environment or agent depend on.

    Args:
        target: `module:Class` or `module:Id-v0`.
        options: keyword arguments, JSON-able.
        pickles: those of objects, by their names.

    Returns:
        Modules by their paths in the folder that they are imported from, other files and objects as
        they are named; empty where everything comes with the project.

    Raises:
        ValueError: if a module was edited since this process imported it.
    """
    texts = find_texts(options)
    module = target.rpartition(":")[0]
    named = {module} if module else _find_entry_modules(target)
    named |= {match[1] for match in map(NAME_PATTERN.fullmatch, texts) if match}
    digests = {path: digest for name in named for path, digest in _digest_modules(name).items()}
    for text in texts:
        with suppress(OSError, ValueError):  # too long for a path, or no path at all
            for path in (Path(text), Path(f"{text}.zip")):  # which Stable-Baselines3 leaves out
                if path.is_file():
                    digests[text] = _digest_bytes(path.read_bytes())
    for name, data in pickles.items():
        digests[name] = _digest_bytes(TRACKER_PATTERN.sub(b"", data))
    return dict(sorted(digests.items()))  # in the same order in all processes, as blocks hold them


def find_module(name: str) -> Path | None:
    """Return the file that a module would be imported from; nothing is imported."""
    home = _find_home(name)
    return home and _find_source_file(home, name)


def find_texts(value: Any) -> list[str]:
    """Return all strings among the values of nested options."""
    if isinstance(value, str):
        return [value]
    values = value.values() if isinstance(value, Mapping) else value
    inner: Iterable[Any] = values if isinstance(value, Mapping | list) else ()
    return [text for item in inner for text in find_texts(item)]


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    known = {"python": platform.python_version()}
    for package in VERSIONED_PACKAGES:
        with suppress(PackageNotFoundError):
            known[package] = version(package)
    return known


def _find_entry_modules(env_id: str) -> set[str]:
    """Return the modules that make a registered environment."""
    spec = gym.registry.get(env_id)
    entries = (getattr(spec, "entry_point", None), getattr(spec, "vector_entry_point", None))
    return {
        entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
        for entry in entries
    }


def _digest_modules(first: str) -> dict[str, str]:
    """Return path -> digest of a user's module and of all it imports from its top-level folder."""
    home, digests = _find_home(first), dict[str, str]()
    waiting, seen = [first], {""}
    while home and not INSTALL_FOLDERS & {*home.parts} and waiting:
        name = waiting.pop()
        is_ours = name.partition(".")[0] in {*OWN_PACKAGES, *sys.stdlib_module_names}
        file = None if is_ours or name in seen else _find_source_file(home, name)
        seen.add(name)
        if file:
            digest, imports = _parse_module(file.read_bytes())
            _check_unchanged(name, file, digest)
            digests[file.relative_to(home).as_posix()] = digest
            parent = name.rpartition(".")[0]
            waiting.append(parent)
            for imported in imports:
                with suppress(ImportError, ValueError):  # beyond the top
                    package = name if file.stem == "__init__" else parent
                    waiting.append(resolve_name(imported, package))
    return digests


def _find_home(name: str) -> Path | None:
    """Return the folder that the top-level name of a module is imported from."""
    top = name.partition(".")[0]
    specs = (finder.find_spec(top, None) for finder in sys.meta_path if top.isidentifier())
    spec = next((spec for spec in specs if spec is not None), None)
    if spec and (spec.submodule_search_locations or spec.has_location):
        location = next(iter(spec.submodule_search_locations or [str(spec.origin)]))
        return Path(location).absolute().parent
    return None


def _find_source_file(home: Path, name: str) -> Path | None:
    """Return the source of a module below the folder of its top-level name."""
    path = home.joinpath(*name.split("."))
    files = (path / "__init__.py", path.with_name(f"{path.name}.py"))
    return next((file for file in files if file.is_file()), None)


def _check_unchanged(name: str, file: Path, digest: str) -> None:
    """Refuse a module that was edited since its import: the old code would run."""
    if name not in sys.modules:
        _imported[name] = digest
    elif name not in _imported and (file.stat().st_mtime < _STARTED or _is_cached(file)):
        _imported[name] = digest  # imported by others, as it is now
    if _imported.get(name) != digest:
        raise ValueError(
            f"{name} must be as this process has imported it, got {str(file)!r}, which may have "
            "been edited since; restart Python (in a notebook its kernel)."
        )


def _is_cached(file: Path) -> bool:
    """Say whether the bytecode that an import has stored is that of the file as it is now."""
    with suppress(OSError, NotImplementedError):
        now = file.stat()
        source_fields = struct.pack("<2L", int(now.st_mtime) % 2**32, now.st_size % 2**32)
        return Path(cache_from_source(str(file))).read_bytes()[8:16] == source_fields
    return False


@lru_cache(maxsize=4096)
def _parse_module(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the digest of a module, and what it imports; relative names begin with dots."""
    try:
        tree = ast.parse(data)
        return _digest_bytes(ast.dump(tree).encode()), tuple({*_list_imports(tree)})
    except (SyntaxError, ValueError, RecursionError):  # beyond this Python
        return _digest_bytes(data), ()


def _list_imports(tree: ast.AST) -> Iterator[str]:
    """Yield what may be modules among the names of a syntax tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            joint = "" if base.endswith(".") else "."
            yield from (base, *(f"{base}{joint}{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if named := NAME_PATTERN.fullmatch(node.value):  # such as an entry point of an id
                yield named[1]


def _digest_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
