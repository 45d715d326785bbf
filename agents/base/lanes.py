"""Lanes: episodes in lockstep with a generator of their own, the base of all agents, SB3's too.

Notation: K arms, N lanes.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Self, TypeVar

import numpy as np
from gymnasium.error import ResetNeeded
from numpy.random import PCG64, Generator, SeedSequence

from agents.base.evidence import MAX_STATISTICS
from bandit_gym.checks import check_integer, message

Method = TypeVar("Method", bound=Callable[..., Any])


class Shared:
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
        copied = type(self).__new__(type(self))
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


def one_step(method: Method) -> Method:
    """Let no other thread into an object while one of its methods runs."""

    @wraps(method)
    def run_alone(self: Shared, *arguments: Any, **options: Any) -> Any:
        with self._lock:
            return method(self, *arguments, **options)

    return run_alone  # type: ignore[return-value]


def view_read_only(values: np.ndarray) -> np.ndarray:
    """Return a view through which an array cannot be changed."""
    view = values.view()
    view.flags.writeable = False
    return view


class Lanes(Shared):
    """N episodes in lockstep, or one alone, and a generator of their own.

    Attributes:
        num_envs: N, or None for a single run, in which actions are scalars.
    """

    num_envs: int | None = None
    _rng: Generator | None = None

    @property
    def num_lanes(self) -> int:
        """N, which is 1 for a single run."""
        return 1 if self.num_envs is None else self.num_envs

    @property
    def max_lanes(self) -> int:
        """The most lanes that it takes; experiments refuse larger blocks at once."""
        return MAX_STATISTICS

    @property
    def rng(self) -> Generator:
        """The agent's own generator, which no other agent uses."""
        if self._rng is None:
            self._require_reset()
        return self._rng  # type: ignore[return-value]

    def _start_lanes(self, num_envs: int | None, seed: int | SeedSequence | None) -> None:
        """Set lanes and generator, see `Agent.reset`."""
        if num_envs is not None:
            num_envs = check_integer("num_envs", num_envs, minimum=1, maximum=self.max_lanes)
        if seed is not None or self._rng is None:
            if not isinstance(seed, SeedSequence):
                seed = None if seed is None else check_integer("seed", seed, minimum=0)
                key = zlib.crc32(type(self).__name__.encode())  # no other kind shares the stream
                seed = SeedSequence(seed, spawn_key=(key,))
            self._rng = Generator(PCG64(seed))
        self.num_envs = num_envs

    def _require_reset(self) -> None:
        if self._rng is None:
            raise ResetNeeded(f"call {type(self).__name__}.reset() before using the agent.")

    def _refuse_available(self, available: Any) -> None:
        """Refuse a mask of available arms, unless it is None."""
        if available is not None:
            condition = f"be left out for {type(self).__name__}, which decides among all arms"
            raise TypeError(message("available", condition, available))
