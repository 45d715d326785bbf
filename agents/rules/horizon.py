"""What rules that know the horizon share: how many pulls are left.

Letters: K arms, N lanes, T pulls in an episode, t of them done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base import Agent
from bandit_gym.checks import check_integer

DEFAULT_HORIZON = 1000
"""Pulls in an episode of the project's environments, unless they are told otherwise."""


LONGEST = 2**62
"""Pulls of an episode that can be counted."""


def check_horizon(horizon: Any) -> int:
    """Return the pulls of an episode, from 1."""
    return check_integer("horizon", horizon, minimum=1, maximum=LONGEST)


def remaining_pulls(agent: Agent, horizon: int) -> np.ndarray:
    """Return the (N, 1) pulls T - t that are left, the one to be chosen now included.

    Args:
        agent: its counts are the t pulls done, those of a warm start among them.
        horizon: T.

    Raises:
        ValueError: if there is none left.
    """
    done = agent.lane_counts.sum(axis=1, keepdims=True)
    if done.max() >= horizon:
        raise ValueError(
            f"horizon must be more than the {done.max()} pulls already observed, got {horizon}; "
            f"build {type(agent).__name__} with the horizon of the run."
        )
    return horizon - done
