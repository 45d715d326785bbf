"""Reward noise for many lanes, drawn ahead in blocks from one generator per lane."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bandit_gym.typing import FloatArray, IntArray

_MOST_STEPS = 512
_MOST_UNIFORMS = 2**20  # 8 MiB


class LaneNoise:
    """Hands out one uniform per lane and step, each lane's from its own generator, in its order.

    Asking N generators for one number each would take most of a step's time, and asking them for a
    block takes hardly longer. So blocks are kept, a row per lane and a column per step. All lanes
    share the column that comes next: a lane that restarts overwrites its row from there on.

    Args:
        num_envs: N.
        max_steps: no lane needs more steps than this before it restarts; None if nobody knows.
    """

    def __init__(self, num_envs: int, max_steps: int | None) -> None:
        steps = max(1, min(_MOST_STEPS, _MOST_UNIFORMS // num_envs, max_steps or _MOST_STEPS))
        self._uniforms: FloatArray = np.empty((num_envs, steps))
        self._next_step = steps
        self._generators: list[Any] = [None] * num_envs

    def restart(self, lanes: IntArray, generators: Sequence[np.random.Generator]) -> None:
        """Give the listed lanes new generators; what was drawn ahead for them is thrown away."""
        if len(lanes) == len(self._uniforms):
            self._next_step = self._uniforms.shape[1]
        for lane, generator in zip(lanes.tolist(), generators, strict=True):
            self._generators[lane] = generator
            generator.random(out=self._uniforms[lane, self._next_step :])

    def take(self) -> FloatArray:
        """Return the (N,) uniforms of the next step."""
        if self._next_step == self._uniforms.shape[1]:
            for uniforms, generator in zip(self._uniforms, self._generators, strict=True):
                generator.random(out=uniforms)
            self._next_step = 0
        self._next_step += 1
        return self._uniforms[:, self._next_step - 1]
