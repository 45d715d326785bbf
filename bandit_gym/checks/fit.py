"""Check of an agent and an environment against each other."""

import pickle
import warnings
from contextlib import suppress
from typing import Any

from gymnasium.spaces import Discrete

from bandit_gym.checks.arguments import message, shown


def check_fit(agent: Any, env: Any, *, warns: bool = True) -> None:
    """Refuse environments whose actions are not 0 .. K - 1, and agents made for other spaces.

    An agent that knows its number of arms has it in `problem`; one that knows its observations too,
    as a trained model does, has a method `check_spaces`.

    Args:
        agent: the learner.
        env: the world.
        warns: False where another belief is what was asked for.

    Warns:
        UserWarning: if the agent believes in another likelihood or prior than the environment's.
    """
    for name in ("reset", "act", "observe"):
        if not callable(getattr(agent, name, None)):
            raise TypeError(message("agent", "have the methods reset, act and observe", agent))
    if not hasattr(env, "action_space"):
        raise TypeError(message("env", "be a Gymnasium environment", env))
    space = getattr(env, "single_action_space", env.action_space)
    if not isinstance(space, Discrete) or space.start != 0:
        raise TypeError(f"env must have Discrete actions that start at 0, got {space!r}.")
    problem = getattr(agent, "problem", None)
    num_arms = getattr(problem, "num_arms", space.n)
    if num_arms != space.n:
        raise ValueError(
            f"agent must have as many arms as the environment, {space.n}, got {num_arms}; "
            "build it with the environment's own problem."
        )
    if hasattr(agent, "check_spaces"):
        agent.check_spaces(env)
    misbelief = find_misbelief(problem, find_problem(env)) if warns else None
    if misbelief:
        text = f"agent {misbelief}; its results are those of a misspecified agent."
        warnings.warn(text, stacklevel=3)  # the caller of what checks


def find_problem(env: Any) -> Any:
    """Return what an environment, or the first one of several, tells agents of; None if nothing."""
    inner = getattr(env, "unwrapped", None)
    first = next(iter(getattr(inner, "envs", ())), inner)
    return getattr(getattr(first, "unwrapped", None), "problem", None)


def find_misbelief(believed: Any, true: Any) -> str | None:
    """Say in words where an agent's problem differs from its environment's; None if it does not.

    Beliefs about another likelihood's means differ too, so the likelihood is told first.
    """
    for part in ("likelihood", "prior"):
        own, worlds = (getattr(problem, part, None) for problem in (believed, true))
        if own is not None and worlds is not None and _is_other(own, worlds):
            own, worlds = _told(own), _told(worlds)
            return f"believes in the {part} {own}, where the environment's is {worlds}"
    return None


def _told(value: Any) -> str:
    """Return the repr, or where it would be an address, what the object holds."""
    own: Any = type(value).__repr__
    if own is not object.__repr__:
        return shown(value)
    parts = getattr(value, "__dict__", {}).items()
    held = ", ".join(f"{key}={shown(part)}" for key, part in parts)
    return f"{type(value).__name__}({held})"


def _is_other(first: Any, second: Any) -> bool:
    """Say whether two objects differ, by content; of what cannot be compared, nothing is said."""
    with suppress(Exception):  # what others have written may neither compare nor pickle
        return not (first == second or pickle.dumps(first) == pickle.dumps(second))
    return False
