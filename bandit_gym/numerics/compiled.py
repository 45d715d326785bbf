"""How the inner loops are compiled: lazily, once per machine, and no more of them than needed.

A first `compare` waits for the compiler, and about half of what a small loop costs there is the
code by which Python would call it. So only what Python does call is a `kernel`, whose machine code
is kept on disk; whatever serves kernels alone is an `inner` function, which Python sees uncompiled
and which is kept as a part of its kernels. Division by 0 gives inf or NaN, as in NumPy.

Numba's own cache does not see that a function or constant of another module has changed, and two
processes that compile two signatures of a kernel at once may take each other's file. So a kernel
has one file for each signature, and the file's name holds a digest of all sources (`digest_of`):
any edit compiles everything anew. Numba decides where the folder is: NUMBA_CACHE_DIR, else
`__pycache__` beside the source, else the user's cache; where none can be written to, nothing is
kept.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numba
from numba.core.serialize import dumps
from numba.extending import register_jitable

from bandit_gym.checks.files import write_atomically

INNER_OPTIONS = {"error_model": "numpy", "no_cfunc_wrapper": True}


def kernel(function: Any) -> Any:
    """Compile a function for Python to call, and keep its machine code on disk if that can be."""
    try:
        compiled: Any = numba.njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # numba finds no folder that it may write to
        warnings.warn(
            "No folder for compiled code can be written to, so each process compiles anew; "
            "set NUMBA_CACHE_DIR to one that can.",
            RuntimeWarning,
            stacklevel=1,
        )
        return numba.njit(error_model="numpy")(function)
    if compiled is not function:  # which it is under NUMBA_DISABLE_JIT
        kept = compiled._cache
        kept._cache_file = KernelFiles(Path(kept.cache_path), compiled)
    return compiled


def inner(function: Any) -> Any:
    """Let kernels call a function, compiled, which in Python stays as it is."""
    return register_jitable(**INNER_OPTIONS)(function)


class KernelFiles:
    """One file of machine code for each signature of a kernel, in place of numba's index and data.

    Attributes:
        folder: where they are.
        compiled: the kernel.
    """

    def __init__(self, folder: Path, compiled: Any) -> None:
        self.folder, self.compiled = folder, compiled

    def load(self, key: tuple) -> Any:
        """Return the data saved under numba's key, or None; what cannot be read is made again."""
        try:
            return pickle.loads(self._path(key).read_bytes())
        except Exception:  # a torn file, or one that names what has moved
            return None

    def save(self, key: tuple, data: Any) -> None:
        """Save data under numba's key, and delete what was made of other sources.

        Where there is no room for it, this process goes on with what it has compiled.
        """
        path = self._path(key)
        try:
            write_atomically(path, dumps(data))  # type: ignore[no-untyped-call]
        except OSError:
            return
        stamp = path.name.rpartition("-")[0]
        for other in self.folder.glob(f"{stamp.rpartition('-')[0]}-*.nbc"):
            if not other.name.startswith(f"{stamp}-"):
                other.unlink(missing_ok=True)

    def _path(self, key: tuple) -> Path:
        module, name = self.compiled.__module__, self.compiled.__name__
        python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
        made_for = sha256(repr(key[:2]).encode()).hexdigest()[:16]  # signature and processor
        sources = digest_of(module.partition(".")[0])
        return self.folder / f"{module}.{name}.{python}-{sources}-{made_for}.nbc"


@cache
def digest_of(package: str) -> str:
    """Return a digest of the sources of a package, of `bandit_gym`, and of numba's version."""
    digest = sha256(numba.__version__.encode())
    for name in sorted({package, "bandit_gym"}):
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations if spec else None) or ():
            for path in sorted(Path(folder).rglob("*.py")):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
