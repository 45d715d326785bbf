"""What a wrapper does to N lanes of a world, whatever kind of environment it wraps.

A single environment is one lane. All that is drawn comes from the lanes' own addressed streams, at
the lane's step, so that a lane is the same alone and among others.

Letters: N lanes, M of them, K arms.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from bandit_gym.envs.dynamics import Changeable
from bandit_gym.typing import FloatArray, IntArray

Told = dict[str, np.ndarray]
"""Infos: name -> (N, ...) values, of which those of the lanes at hand mean something."""


class Effect:
    """An effect on the steps of N lanes; this one does nothing.

    Attributes:
        kind: what it changes; a world has one effect of a kind.
        world: the environment.
        steps: (N,) steps that the lanes' episodes have had.
    """

    kind: ClassVar[str]

    def __init__(self, world: Changeable) -> None:
        self.world = world
        self.num_lanes, self.num_arms = len(world.streams.seeds), world.problem.num_arms
        self.steps = np.zeros(self.num_lanes, dtype=np.int64)

    def restart(self, lanes: IntArray) -> Told:
        """Begin new episodes in the (M,) lanes; return what a reset tells of them."""
        self.steps[lanes] = 0
        return {}

    def begin(self, lanes: IntArray, actions: IntArray) -> None:
        """Before the (M,) lanes play: refuse (N,) actions, or draw what the step needs.

        Whoever refuses has changed nothing.
        """

    def follow(
        self, lanes: IntArray, actions: IntArray, rewards: FloatArray
    ) -> tuple[FloatArray, Told]:
        """After the (M,) lanes have played: return (N,) rewards, and what a step tells of them."""
        self.steps[lanes] += 1
        return rewards, {}
