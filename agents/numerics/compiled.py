"""How the inner loops are compiled: lazily, once per machine, and no more of them than needed.

A first `compare` waits for the compiler, and about half of what a small loop costs there is the
code by which Python would call it. So only what Python does call is a `kernel`; whatever serves
kernels alone is an `inner` function, which Python sees uncompiled. Both are cached on disk, where
nothing tells them apart: no function may be both.

Numba compiles a kernel again when its own file has changed, but not when that of a function it
calls has. An installation writes every file anew; when editing by hand, delete
`agents/__pycache__/*.nb*`.
"""

from __future__ import annotations

from numba import njit
from numba.extending import register_jitable

kernel = njit(cache=True, error_model="numpy")
inner = register_jitable(cache=True, error_model="numpy", no_cfunc_wrapper=True)
