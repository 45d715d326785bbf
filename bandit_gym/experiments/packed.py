"""Code and objects that have no importable name: those of a notebook, and priors as objects.

In settings a *packed* object stands under a name made of its own and a digest of its sources, such
as `<own>:MyAgent.0123456789abcdef`. This process keeps the object; entries that are sent to workers
take it along, pickled by value as joblib's loky does with functions. Nothing of it goes into
folders of results, but the name.

The digest tells a function by the syntax tree of its source, so that comments and layout do not
count, and by what its code names in its module or encloses; a class by its methods, values and
bases; an object by its class and its attributes. What can be imported is told by its name alone.
"""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import pickle
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from bandit_gym.checks import message

PREFIX = "<own>:"
"""What no module can be called."""

PACKED = re.compile(r"<own>:[\w.]+\.[0-9a-f]{16}")

UNNAMED = re.compile(r"\W")
"""What a name does not have, such as the brackets of <lambda>."""

INSIDE = ("__func__", "fget", "py_func", "__wrapped__")
"""Where methods of classes, properties, compiled and remembering functions keep the function."""

METHODS = FunctionType | staticmethod | classmethod | property

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


def packed_names(value: Any) -> list[str]:
    """Return the packed names among the strings of nested settings."""
    if isinstance(value, Mapping | list):
        items = value.values() if isinstance(value, Mapping) else value
        return [name for item in items for name in packed_names(item)]
    return [value] if is_packed(value) else []


def pickles_of(value: Any) -> dict[str, bytes]:
    """Return the pickles of what nested settings name, for another process."""
    return {name: _pickles[name] for name in packed_names(value) if name in _pickles}


def take_in(pickles: Mapping[str, bytes]) -> None:
    """Keep what another process has sent; it is unpickled when it is first used."""
    _pickles.update(pickles)


def digest_of(value: Any) -> str:
    """Return a digest of what an object does, as hexadecimal digits."""
    lines = "\n".join(_describe(value, {}))
    return hashlib.sha256(lines.encode("utf-8", "backslashreplace")).hexdigest()


def importable_name(value: Any) -> str | None:
    """Return `module:name` of a class or function that any process can import; None if none can."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    found = sys.modules.get(module or "")
    has_home = module in sys.builtin_module_names or getattr(found, "__file__", None) is not None
    if module == "__main__" or not has_home or getattr(found, name, None) is not value:
        return None
    return f"{module}:{name}"


def _describe(value: Any, seen: dict[int, Any]) -> Iterator[str]:
    """Yield lines that are equal for equal objects, in any process.

    Args:
        value: the object.
        seen: what is described already; kept, so that no other object gets its id.
    """
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, ModuleType):
        yield value.__name__
    elif isinstance(value, FunctionType | type):
        name = importable_name(value)
        yield name or value.__qualname__  # whatever a session calls its module
        if name is None:
            inner = _members(value) if isinstance(value, type) else _parts(value)
            yield from _describe([*inner], seen)
    elif isinstance(value, Mapping | list | tuple):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in items:
            yield repr(key)
            yield from _describe(item, seen)
    elif inside := [name for name in INSIDE if hasattr(value, name)]:
        yield from _describe(getattr(value, inside[0]), seen)
    elif hasattr(value, "__dict__"):
        yield from _describe(type(value), seen)
        yield from _describe(vars(value), seen)
    else:
        yield _hash(value)


def _members(kind: type) -> Iterator[Any]:
    """Yield what makes a class."""
    yield kind.__bases__
    for name, member in sorted(vars(kind).items()):
        is_by_python = name.startswith("__") and not isinstance(member, METHODS)
        if not is_by_python and name != "_abc_impl":
            yield name, member


def _parts(function: FunctionType) -> Iterator[Any]:
    """Yield what makes a function."""
    try:
        yield _written(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except (OSError, TypeError, SyntaxError):  # of a shell, made by other code, or part of a line
        yield _write_code(function.__code__)
    yield function.__defaults__, function.__kwdefaults__
    yield [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    for name in sorted({*_names(function.__code__)} & function.__globals__.keys()):
        yield name, function.__globals__[name]


def _written(node: Any) -> str:
    """Write a syntax tree without its empty fields, of which each Python has others."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []))
        listed = ",".join(f"{name}={_written(value)}" for name, value in fields)
        return f"{type(node).__name__}({listed})"
    return f"[{','.join(map(_written, node))}]" if isinstance(node, list) else repr(node)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # of a function that names itself, while it is made
        return False


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that code, and code within it, looks up in its module."""
    steps = dis.get_instructions(code)
    yield from (step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _write_code(code: CodeType) -> str:
    """Write code without the place that it was read from."""
    constants = [_write_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"


def _hash(value: Any) -> str:
    import joblib  # slow to start, and seldom needed

    try:
        return str(joblib.hash(value))
    except Exception:  # of anybody's, such as a lock
        return type(value).__qualname__
