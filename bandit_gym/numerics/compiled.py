"""How the inner loops are compiled: lazily, once per machine, and no more of them than needed.

A first `compare` waits for the compiler, and about half of what a small loop costs there is the
code by which Python would call it. So only what Python does call is a `kernel`, whose machine code
is kept on disk; whatever serves kernels alone is an `inner` function, which Python sees uncompiled
and which is kept as a part of its kernels.

Numba's own cache would load a kernel that calls a function, reads a constant or takes a record of
another module, and does not see that module change. So a kernel's file is named for all that its
machine code is made of (`fingerprint`), and another name is another file: what is loaded cannot be
stale. A file appears whole or not at all, and takes the place of the kernel's older ones, so that
processes may share the folder. Where that is, numba decides: NUMBA_CACHE_DIR, else `__pycache__`
beside the source, else the user's cache; where none can be written to, nothing is kept. Division
by 0 gives inf or NaN, as in NumPy.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import warnings
from collections.abc import Iterator
from functools import cached_property
from hashlib import sha256
from multiprocessing import current_process
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.extending import register_jitable

from bandit_gym.files import write_atomically

INNER_OPTIONS = {"error_model": "numpy", "no_cfunc_wrapper": True}

PLAIN = {"tuple", "float", "int", "bool", "None", "np.uint64"}
"""What functions may return that count no references."""

SAID = "BANDIT_GYM_KEEPS_NO_COMPILED_CODE"
"""In the environment: whether the user knows."""

_inner_options: dict[FunctionType, dict[str, Any]] = {}


def kernel(function: Any) -> Any:
    """Compile a function for Python to call, and keep its machine code on disk if that can be."""
    return _compile(function)


def _compile(function: Any, **options: Any) -> Any:
    options["error_model"] = "numpy"
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba finds no folder that it may write to
        _say_that_nothing_is_kept()
        return numba.njit(**options)(function)
    if compiled is not function:  # which it is under NUMBA_DISABLE_JIT
        kept = compiled._cache
        kept._cache_file = KernelFiles(Path(kept.cache_path), compiled)
    return compiled


def _say_that_nothing_is_kept() -> None:
    """Say so once: here and then, by what they inherit, in no process that is started by this one.

    Of workers that start before it is said, the first one says it.
    """
    if SAID not in os.environ and current_process().name in ("MainProcess", "LokyProcess-1"):
        warnings.warn(
            "No folder for compiled code can be written to, so each process compiles anew; "
            "set NUMBA_CACHE_DIR to one that can.",
            RuntimeWarning,
            stacklevel=1,
        )
    os.environ[SAID] = "1"


def inner(function: Any) -> Any:
    """Let kernels call a function, compiled, which in Python stays as it is.

    It works on the arrays of its callers, and neither makes nor is handed back any: so nobody has
    to count who holds them, which would take a tenth of the time of tables.

    Raises:
        TypeError: if it says that it returns an array, which would be freed while it is held.
    """
    returned = str(function.__annotations__.get("return"))
    if not PLAIN.issuperset(re.findall(r"[\w.]+", returned)):
        raise TypeError(f"{function.__name__} must be an inner_maker to return a {returned}.")
    return _let_kernels_call(function, counts_references=False)


def inner_maker(function: Any) -> Any:
    """Let kernels call a function as `inner` does, but for those that make arrays."""
    return _let_kernels_call(function, counts_references=True)


def _let_kernels_call(function: Any, *, counts_references: bool) -> Any:
    _inner_options[function] = INNER_OPTIONS | {"_nrt": counts_references}
    return register_jitable(**_inner_options[function])(function)


class KernelFiles:
    """One file of machine code for each signature of a kernel, in place of numba's index and data.

    Attributes:
        folder: where they are.
        compiled: the kernel.
    """

    def __init__(self, folder: Path, compiled: Any) -> None:
        self.folder, self.compiled = folder, compiled
        python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
        self._name = f"{compiled.__module__}.{compiled.__name__}.{python}"

    @cached_property
    def _stamp(self) -> str:
        """Found when first needed: by then all that the kernel calls is defined."""
        return fingerprint(self.compiled)

    def load(self, key: tuple) -> Any:
        """Return the data saved under numba's key, or None; what cannot be read is made again."""
        try:
            return pickle.loads(self._path(key).read_bytes())
        except Exception:  # a torn file, one of another numba, one that names what has moved
            return None

    def save(self, key: tuple, data: Any) -> None:
        """Save data under numba's key, and delete what was made of other sources.

        Where there is no room for it, this process goes on with what it has compiled.
        """
        try:
            write_atomically(self._path(key), dumps(data))  # type: ignore[no-untyped-call]
        except OSError:
            return
        for path in self.folder.glob(f"{self._name}-*.nbc"):
            if not path.name.startswith(f"{self._name}-{self._stamp}-"):
                path.unlink(missing_ok=True)

    def flush(self) -> None:
        """Delete all files of the kernel."""
        for path in self.folder.glob(f"{self._name}-*.nbc"):
            path.unlink(missing_ok=True)

    def _path(self, key: tuple) -> Path:
        signature, processor, _ = key
        made_for = _digest([repr(_layout(argument)) for argument in signature] + [repr(processor)])
        return self.folder / f"{self._name}-{self._stamp}-{made_for}.nbc"


def fingerprint(compiled: Any) -> str:
    """Return a digest of a kernel, all that it calls compiled, and the constants that they read.

    Comments, documentation and places in a file are not part of it.
    """
    return _digest([numba.__version__, *_describe(compiled, (), set())])


def _digest(parts: list[str]) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def _layout(numba_type: Any) -> tuple:
    """Return the type in words, with fields and home of records, which numba's words leave out."""
    parts = [_layout(part) for part in getattr(numba_type, "types", ())]
    home = getattr(getattr(numba_type, "instance_class", None), "__module__", "")
    return str(numba_type), home, getattr(numba_type, "fields", ()), parts


def _describe_function(function: Any, seen: set[FunctionType]) -> Iterator[str]:
    if function in seen:
        return
    seen.add(function)
    yield repr((function.__defaults__, function.__kwdefaults__))
    for cell in function.__closure__ or ():
        yield from _describe(cell.cell_contents, (), seen)
    for code in _codes(function.__code__):
        constants = [c for c in code.co_consts if c != function.__doc__ and type(c) is not CodeType]
        yield repr((code.co_code, code.co_flags, code.co_varnames, code.co_names, constants))
        for name in code.co_names:
            if name in function.__globals__:
                yield from _describe(function.__globals__[name], code.co_names, seen)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code and that of the functions and comprehensions inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _describe(value: Any, names: tuple[str, ...], seen: set[FunctionType]) -> Iterator[str]:
    """Yield what a value that a function refers to is made of.

    Args:
        value: any.
        names: what the function may take from it if it is a module.
        seen: functions described before.
    """
    if isinstance(value, Dispatcher):
        yield repr(value.targetoptions)
        yield from _describe_function(value.py_func, seen)
    elif isinstance(value, FunctionType) and value in _inner_options:
        yield repr(_inner_options[value])
        yield from _describe_function(value, seen)
    elif isinstance(value, ModuleType):
        for name in names:
            if name in vars(value):
                yield from _describe(vars(value)[name], names, seen)
    elif isinstance(value, tuple):
        for part in value:
            yield from _describe(part, names, seen)
    elif isinstance(value, np.ndarray):
        yield repr((value.dtype, value.shape, value.tobytes()))
    else:  # classes of records have fields, functions of other libraries an address in their repr
        yield repr((getattr(value, "_fields", ()), getattr(value, "__qualname__", value)))
