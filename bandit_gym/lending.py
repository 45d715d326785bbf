"""Packages whose names load on first use, so that importing one brings only what is used of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lend(
    package: str, homes: Mapping[str, str], *others: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`, for names that live in its modules.

    Args:
        package: its `__name__`.
        homes: name -> module that defines it, relative to the package.
        others: public names that the package defines itself.
    """

    def lend_name(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return lend_name, lambda: sorted([*homes, *others])
