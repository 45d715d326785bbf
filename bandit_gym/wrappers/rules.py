"""Which wrapper may go around which environment."""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Discrete

from bandit_gym.checks import message
from bandit_gym.wrappers.effects import Effect


def check_place(env: Any, effect_class: type[Effect]) -> None:
    """Refuse a second effect of a kind, one in the wrong order, and rewards that would be seen.

    Args:
        env: an environment of this package, with wrappers or without.
        effect_class: what is to go around it.
    """
    kinds = _kinds(env)
    if effect_class.kind in kinds:
        condition = f"have no other wrapper that changes its {effect_class.kind}"
        raise ValueError(message("env", condition, env))
    if effect_class.kind == "means" and "arms" in kinds:
        condition = "not be one whose arms come and go, for Drift"
        raise ValueError(message("env", condition, env, "let Drift go around it first"))
    space = getattr(env, "single_observation_space", env.observation_space)
    if effect_class.kind == "delays" and not isinstance(space, Discrete):
        condition = "have observation='constant', for others show rewards at once"
        raise ValueError(message("env", condition, space))


def _kinds(env: Any) -> set[str]:
    found = set()
    while hasattr(env, "env"):
        effect = vars(env).get("effect")
        found |= {effect.kind} if isinstance(effect, Effect) else set()
        env = env.env
    return found
