"""Code and objects that have no importable name: those of a notebook, and priors as objects.

Settings hold a *packed* object by a name such as `<own>:MyAgent.0123456789abcdef`: its own name and
a digest. This process keeps the object. Entries that are sent to workers take it along, pickled by
value as joblib's loky does with functions. Folders of results store the name alone.

The digest in the name is of the object's source text and plain values. Another digest, of the whole
pickle, decides whether stored blocks still count. The pickle also has what the code calls, so the
same cell of another session is other code. What can be imported is known by its name alone.
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
import re
import sys
import textwrap
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from bandit_gym.checks import message
from bandit_gym.experiments.provenance import texts

PREFIX = "<own>:"
"""What no module can be called."""

PACKED = re.compile(r"<own>:[\w.]+\.[0-9a-f]{16}")

UNNAMED = re.compile(r"\W")
"""What a name does not have, such as the brackets of <lambda>."""

TRACKER = re.compile(rb"[0-9a-f]{32}")
"""The random name that cloudpickle gives each class; a cell that is run again has another."""

_objects: dict[str, Any] = {}
_pickles: dict[str, bytes] = {}


def pack(value: Any) -> str:
    """Keep an object, and return the name that stands for it.

    Raises:
        TypeError: if it cannot be sent to other processes.
    """
    import cloudpickle  # slow to start, and seldom needed

    label = getattr(value, "__name__", type(value).__name__)
    try:
        pickled = cloudpickle.dumps(value)
    except Exception as error:  # of any kind, as what an object holds may be anything
        reason = f"{type(error).__name__}: {error}".rstrip(".")
        raise TypeError(message(label, "be picklable", value, reason)) from error
    name = f"{PREFIX}{UNNAMED.sub('_', label)}.{digest_of(value)[:16]}"
    _pickles[name] = pickled
    _objects[name] = value
    return name


def is_packed(value: Any) -> bool:
    """Say whether a value is a name that stands for an object."""
    return isinstance(value, str) and PACKED.fullmatch(value) is not None


def shown(name: str) -> str:
    """Return what people call what a packed name stands for; any other name as it is."""
    return name.removeprefix(PREFIX).rpartition(".")[0] if is_packed(name) else name


def unpack(name: str) -> Any:
    """Return the object that a name stands for.

    Raises:
        ValueError: if this process does not have it; says how it would.
    """
    if name not in _objects and name in _pickles:
        _objects[name] = pickle.loads(_pickles[name])
    if name not in _objects:
        label = shown(name)
        raise ValueError(
            f"{label} must be importable to be run from a folder, got code of a session, of which "
            f"the folder has a digest only; put it into a module and name it 'module:{label}'."
        )
    return _objects[name]


def unpack_options(value: Any) -> Any:
    """Return options in which objects are what stood for them, as `{"name": packed name}`."""
    if isinstance(value, Mapping):
        if is_packed(value.get("name")):
            return unpack(value["name"])
        return {key: unpack_options(item) for key, item in value.items()}
    return [unpack_options(item) for item in value] if isinstance(value, list) else value


def pickles_of(value: Any) -> dict[str, bytes]:
    """Return the pickles of what nested settings name, for another process."""
    return {text: _pickles[text] for text in texts(value) if text in _pickles}


def sources_of(value: Any) -> dict[str, str]:
    """Return a digest of the pickle of each object that nested settings name."""
    return {
        name: hashlib.sha256(TRACKER.sub(b"", data)).hexdigest()
        for name, data in pickles_of(value).items()
    }


def take_in(pickles: Mapping[str, bytes]) -> None:
    """Keep what another process has sent; it is unpickled when it is first used."""
    _pickles.update(pickles)


def digest_of(value: Any) -> str:
    """Return a digest of an object's source text and plain values, as hexadecimal digits.

    It is the same in any process, so that the seeds that it enters are. Code that the object calls
    does not count here; see `Entry.sources`.
    """
    is_code = isinstance(value, FunctionType | type)
    code = value if is_code else type(value)
    try:
        source = inspect.getsource(code)
    except (OSError, TypeError):  # of a shell, or made by other code
        source = code.__qualname__
    if isinstance(value, FunctionType):
        held: Any = [cell.cell_contents for cell in value.__closure__ or ()], value.__defaults__
    else:
        held = None if is_code else getattr(value, "__dict__", repr(value))
    text = f"{textwrap.dedent(source)}\n{_hash(held)}"
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def importable_name(value: Any) -> str | None:
    """Return `module:name` of a class or function that any process can import; None if none can."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    found = sys.modules.get(module or "")
    has_home = module in sys.builtin_module_names or getattr(found, "__file__", None) is not None
    if module == "__main__" or not has_home or getattr(found, name, None) is not value:
        return None
    return f"{module}:{name}"


def _hash(value: Any) -> str:
    import joblib  # slow to start, and seldom needed

    try:
        return str(joblib.hash(value))
    except Exception:  # of anybody's, such as a lock
        return type(value).__qualname__
