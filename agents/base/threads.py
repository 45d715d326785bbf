"""Objects that threads may share: a server calls one agent, or asks one posterior, from many.

Each public method is atomic: it holds the object's lock from its first line to its last. The lock
is re-entrant, as public methods call each other. Processes share nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Self, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


class ThreadSafe:
    """An object that threads may share: each of its public methods is one step.

    Copies and pickles are such steps too. They have a lock of their own.
    """

    _lock: RLock

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Make the lock before any constructor; copies and pickles come through here too."""
        created = super().__new__(cls)
        created._lock = RLock()
        return created

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies and pickles have: all but the lock."""
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def _copy_shallow(self) -> Self:
        """Return another one that shares all with this one, the lock too."""
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy all in one step."""
        with self._lock:
            memo[id(self)] = copied = type(self).__new__(type(self))
            vars(copied).update(copy.deepcopy(self.__getstate__(), memo))
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle a copy, which no other thread can change meanwhile."""
        return object.__reduce_ex__(copy.deepcopy(self), protocol)


def atomic(method: Method) -> Method:
    """Let no other thread into an object while one of its methods runs."""

    @wraps(method)
    def run_alone(self: ThreadSafe, *arguments: Any, **options: Any) -> Any:
        with self._lock:
            return method(self, *arguments, **options)

    return run_alone  # type: ignore[return-value]
