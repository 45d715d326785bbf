"""Check of an agent and an environment against each other."""

from typing import Any

from gymnasium.spaces import Discrete

from bandit_gym.checks.messages import message


def check_fit(agent: Any, env: Any) -> None:
    """Refuse environments whose actions are not 0 .. K - 1, and agents made for other spaces.

    An agent that knows its number of arms has it in `problem`; one that knows its observations too,
    as a trained model does, has a method `check_spaces`.
    """
    for name in ("reset", "act", "observe"):
        if not callable(getattr(agent, name, None)):
            raise TypeError(message("agent", "have the methods reset, act and observe", agent))
    if not hasattr(env, "action_space"):
        raise TypeError(message("env", "be a Gymnasium environment", env))
    space = getattr(env, "single_action_space", env.action_space)
    if not isinstance(space, Discrete) or space.start != 0:
        raise TypeError(f"env must have Discrete actions that start at 0, got {space!r}.")
    num_arms = getattr(getattr(agent, "problem", None), "num_arms", space.n)
    if num_arms != space.n:
        raise ValueError(
            f"agent must have as many arms as the environment, {space.n}, got {num_arms}; "
            "build it with the environment's own problem."
        )
    if hasattr(agent, "check_spaces"):
        agent.check_spaces(env)
