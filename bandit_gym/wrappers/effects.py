"""What a wrapper does to N lanes of a world, whatever kind of environment it wraps.

A single environment is one lane. All that is drawn comes from the lanes' own addressed streams, at
the lane's step, so that a lane is the same alone and among others.

Letters: N lanes, M of them, K arms.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Discrete

from bandit_gym.checks import message
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.envs.bandit import World

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

    def __init__(self, world: World) -> None:
        self.world = world
        self.num_lanes, self.num_arms = len(world.streams.seeds), world.problem.num_arms
        self.steps = np.zeros(self.num_lanes, dtype=np.int64)

    def restart(self, lanes: IntArray) -> Told:
        """Begin new episodes in the (M,) lanes; return what a reset tells of them."""
        self.steps[lanes] = 0
        return {}

    def begin(self, lanes: IntArray, actions: IntArray) -> None:
        """Before the (M,) lanes play: refuse (N,) actions, or draw what the step needs.

        An effect that refuses has changed nothing.
        """

    def follow(
        self, lanes: IntArray, actions: IntArray, rewards: FloatArray
    ) -> tuple[FloatArray, Told]:
        """After the (M,) lanes have played: return (N,) rewards, and what a step tells of them."""
        self.steps[lanes] += 1
        return rewards, {}


def check_place(env: Any, effect_class: type[Effect]) -> None:
    """Refuse a second effect of a kind, one in the wrong order, and rewards that would be seen.

    Args:
        env: an environment of this package, with wrappers or without.
        effect_class: what is to go around it.
    """
    inner = env
    while hasattr(inner, "env"):
        effect, inner = vars(inner).get("effect"), inner.env
        if isinstance(effect, Effect) and effect.kind == effect_class.kind:
            condition = f"have no other wrapper that changes its {effect_class.kind}"
            raise ValueError(message("env", condition, env))
    space = getattr(env, "single_observation_space", env.observation_space)
    if effect_class.kind == "delays" and not isinstance(space, Discrete):
        condition = "have observation='constant', for others show rewards at once"
        raise ValueError(message("env", condition, space))
