"""Lanes: episodes in lockstep with a generator of their own, the base of all agents, SB3's too.

Notation: K arms, N lanes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gymnasium.error import ResetNeeded
from numpy.random import PCG64, Generator, SeedSequence

from agents.base.evidence import MAX_STATISTICS
from agents.base.threads import ThreadSafe
from bandit_gym.checks import check_integer, message


class Lanes(ThreadSafe):
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

    @contextmanager
    def _generator_kept(self) -> Iterator[None]:
        """Put the generator back to where it is: a tenth of the time that a copy takes."""
        bits = self.rng.bit_generator
        state = bits.state
        try:
            yield
        finally:
            bits.state = state

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

    def _refuse_option(self, name: str, value: Any, reason: str) -> None:
        """Refuse an option that is nothing for this class, unless it is None."""
        if value is not None:
            condition = f"be left out for {type(self).__name__}, {reason}"
            raise TypeError(message(name, condition, value))

    def _refuse_available(self, available: Any) -> None:
        """Refuse a mask of available arms, unless it is None."""
        self._refuse_option("available", available, "which decides among all arms")
