"""How the inner loops are compiled: lazily, once per machine, and no more of them than needed.

A first `compare` waits for the compiler, and about half of what a small loop costs there is the
code by which Python would call it. So only what Python does call is a `kernel`, whose machine code
is kept on disk; what serves kernels alone is an `inner` function, which Python sees uncompiled
and which is kept as a part of its kernels. Assigned slices, array expressions
and methods of arrays compile many times as slowly as loops. Division by 0 gives inf or NaN, as in
NumPy. Numba's passes for closures, literals and array expressions are left out, and an inner
function is optimised and becomes machine code as a part of its kernels alone: together a quarter of
the time.

Numba's own cache does not see that a function or constant of another module has changed, and two
processes that compile two signatures of a kernel at once may take each other's file. So a kernel
has one file for each signature, and the file's name holds a digest of what the kernel is made of
(`digest_of`): its code, that of the functions it calls, and the constants that they read. An edit
elsewhere compiles nothing anew, and checkouts may share a folder. One process compiles a signature,
for which others wait. The folder is NUMBA_CACHE_DIR, or where
Numba would have it: `__pycache__` beside the source, else the user's cache; where none can be
written to, what is there is read, and nothing is kept.
"""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import sys
import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numba
import numpy as np
from filelock import FileLock
from numba.core import event, typed_passes, untyped_passes
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.serialize import dumps
from numba.core.types import NamedTuple, NamedUniTuple
from numba.extending import register_jitable

from bandit_gym.files import write_atomically

MAX_WAIT = 300
"""Seconds to wait for another process that compiles the same; the slowest takes a tenth of it."""

OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}

UNUSED_PASSES = {
    untyped_passes.WithLifting,
    untyped_passes.InlineClosureLikes,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.RewriteDynamicRaises,
    untyped_passes.MakeFunctionToJitFunction,
    untyped_passes.FindLiterallyCalls,
    untyped_passes.LiteralUnroll,
    untyped_passes.LiteralPropagationSubPipelinePass,
    typed_passes.InlineOverloads,
    typed_passes.NopythonRewrites,
}
"""Of numba's: each costs a search of all code, for what kernels do not have."""


class KernelFlags(Flags):
    """Numba's flags of a function, which it compares at each operation: put together once."""

    @cached_property
    def _all(self) -> dict[str, Any]:
        return super().values()  # type: ignore[no-untyped-call]

    def values(self) -> dict[str, Any]:
        """Return them by name."""
        return self._all


class KernelCompiler(CompilerBase):
    """Numba's compiler without the passes that no kernel needs."""

    def __init__(self, typing: Any, target: Any, *others: Any) -> None:
        super().__init__(typing, target, *others)  # type: ignore[no-untyped-call]
        self.state.flags = KernelFlags(self.state.flags)  # type: ignore[no-untyped-call]

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        manager.passes = [each for each in manager.passes if each[0] not in UNUSED_PASSES]
        manager.finalize()
        return [manager]


class InnerCompiler(KernelCompiler):
    """The same for a function that kernels alone call."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes, at the end of which there is no machine code."""
        generator, name = self.state.targetctx.codegen(), self.state.func_id.func_qualname
        self.state.library = InnerLibrary(generator, name)  # type: ignore[no-untyped-call]
        return super().define_pipelines()


class InnerLibrary(JITCodeLibrary):
    """The code of an inner function, linked to kernels as it is and optimised with them."""

    @property
    def codegen(self) -> Any:
        """What numba asks to `set_env`."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: what is not loaded has no place for it."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


def kernel(function: Any) -> Any:
    """Compile a function for Python to call, and keep its machine code on disk if that can be."""
    try:
        compiled: Any = numba.njit(cache=True, pipeline_class=KernelCompiler, **OPTIONS)(function)
    except RuntimeError:  # numba finds no folder that it may write to
        compiled = numba.njit(pipeline_class=KernelCompiler, **OPTIONS)(function)
        compiled._cache = ReadCache(function)
    if compiled is not function:  # which it is under NUMBA_DISABLE_JIT
        cache = compiled._cache
        folder = Path(os.environ.get("NUMBA_CACHE_DIR") or cache.cache_path)
        cache._cache_file = KernelFiles(folder, compiled)
    return compiled


def inner(function: Any) -> Any:
    """Let kernels call a function, compiled, which in Python stays as it is."""
    return register_jitable(pipeline_class=InnerCompiler, **OPTIONS)(function)


class PausedCollection(event.Listener):
    """No garbage collection while numba compiles, which is a sixth of the time it would take."""

    def __init__(self) -> None:
        self._was_enabled: list[bool] = []  # before each function that compiles now

    def on_start(self, event: Any) -> None:
        """Pause it."""
        self._was_enabled.append(gc.isenabled())
        gc.disable()

    def on_end(self, event: Any) -> None:
        """Go on as before."""
        if self._was_enabled.pop():
            gc.enable()


event.register("numba:compile", PausedCollection())  # type: ignore[no-untyped-call]


class ReadCache(FunctionCache):
    """Numba's cache where no folder can be written to: what an image brings along is read."""

    def __init__(self, function: Any) -> None:
        self._name, self._py_func = repr(function), function
        self._impl = object.__new__(CompileResultCacheImpl)  # which would look for a folder
        self._cache_path = Path(inspect.getfile(function)).parent / "__pycache__"
        self.enable()  # type: ignore[no-untyped-call]

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Say that this process compiles for itself alone."""
        text = "No folder for compiled code can be written to; set NUMBA_CACHE_DIR to one that can."
        warnings.warn(text, RuntimeWarning, stacklevel=1)


class KernelFiles:
    """One file of machine code for each signature of a kernel, in place of numba's index and data.

    Attributes:
        folder: where they are.
        compiled: the kernel.
    """

    def __init__(self, folder: Path, compiled: Any) -> None:
        self.folder, self.compiled = folder, compiled
        self._locks: dict[Path, FileLock] = {}  # of what this process compiles now

    def load(self, key: tuple) -> Any:
        """Return the data saved under numba's key, or None: then this process compiles it."""
        path = self._path(key)
        if (data := _read_data(path)) is not None or path in self._locks:
            return data
        lock = FileLock(path.with_suffix(".lock"), timeout=MAX_WAIT)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except (OSError, NotImplementedError):  # no locks there, or the other takes too long
            return None
        if (data := _read_data(path)) is None:
            self._locks[path] = lock
        else:
            _release(lock)
        return data

    def save(self, key: tuple, data: Any) -> None:
        """Save data under numba's key, and delete what was made of other sources.

        Where there is no room for it, this process goes on with what it has compiled.
        """
        path = self._path(key)
        try:
            write_atomically(path, dumps(data))  # type: ignore[no-untyped-call]
        except OSError:
            return
        finally:
            if lock := self._locks.pop(path, None):
                _release(lock)
        fingerprint = path.name.rpartition("-")[0]
        for other in self.folder.glob(f"{fingerprint.rpartition('-')[0]}-*.nbc"):
            if not other.name.startswith(f"{fingerprint}-"):
                other.unlink(missing_ok=True)

    def _path(self, key: tuple) -> Path:
        module, name = self.compiled.__module__, self.compiled.__name__
        python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
        signature, processor = key[:2]
        made_for = repr((signature, processor, [*_fields(signature)]))
        digest = sha256(made_for.encode()).hexdigest()[:16]
        return self.folder / f"{module}.{name}.{python}-{digest_of(self.compiled)}-{digest}.nbc"


def _read_data(path: Path) -> Any:
    """Return what a file holds; None if there is none, or it is torn or names what has moved."""
    try:
        return pickle.loads(path.read_bytes())
    except Exception:
        return None


def _release(lock: FileLock) -> None:
    """Remove a lock's file, which those who wait make again, and let them go on."""
    Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


def digest_of(function: Any) -> str:
    """Return a digest of numba's version and of all that a kernel's machine code is made of."""
    parts = [numba.__version__, *_iterate_parts(function, set())]
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def _fields(signature: Iterable[Any]) -> Iterator[str]:
    """Yield the fields of each NamedTuple among numba's types, whose order counts; nested too."""
    for each in signature:
        if isinstance(each, NamedTuple | NamedUniTuple):
            yield str(each.fields)
            yield from _fields(each)


def _iterate_parts(value: Any, seen: set[int]) -> Iterator[str]:
    """Yield what decides how a global that compiled code reads is compiled, each function once."""
    value = getattr(value, "py_func", value)
    if isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    elif isinstance(value, type) and hasattr(value, "_fields"):
        yield f"{value.__qualname__} {value._fields}"
    elif isinstance(value, CodeType):
        yield f"{value.co_code.hex()} {value.co_varnames}"
        yield from (*value.co_names, *value.co_freevars)
        for constant in value.co_consts:  # among them the code of comprehensions
            yield from _iterate_parts(constant, seen)
    elif isinstance(value, FunctionType):
        if id(value) not in seen:
            seen.add(id(value))
            parts = [*_iterate_parts(value.__code__, seen)]
            scope = {**value.__globals__, **inspect.getclosurevars(value).nonlocals}
            yield from parts
            for name in sorted(scope.keys() & {*parts}):
                yield from _iterate_parts(scope[name], seen)
    else:  # a number; or a module or a function of NumPy, which has a name
        yield str(getattr(value, "__name__", None) or repr(value))
