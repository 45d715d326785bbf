"""Rewards that have arrived late, for the agents that are to learn from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bandit_gym.checks import check_integer, message


def deliver(agent: Any, info: Mapping[str, Any], *, num_taken: Any, mask: Any = None) -> None:
    """Let an agent observe the rewards that have arrived, for the actions they belong to.

    `bandit_gym.wrappers.DelayedReward` says what `info` holds.

    Args:
        agent: the learner.
        info: what a step of a world of delayed rewards told.
        num_taken: steps that the episode has had, the present one included; one number, or (N,).
        mask: (N,) bool, the lanes in which to observe; None means all.

    Raises:
        ValueError: if a reward belongs to a step that was not taken; the agent is then unchanged.
    """
    if "feedback_step" not in info:
        if "regret" not in info:  # all lanes were reset
            return
        condition = "tell feedback_step, as worlds of delayed rewards do"
        raise ValueError(message("info", condition, sorted(info)))
    if np.ndim(num_taken) == 0:
        check_integer("num_taken", num_taken, minimum=1)
    steps = np.atleast_2d(np.asarray(info["feedback_step"], dtype=np.int64))
    actions, rewards = (
        np.atleast_2d(info[name]) for name in ("feedback_action", "feedback_reward")
    )
    told = np.ones(len(steps), dtype=bool)
    for lanes in (info.get("_feedback_step"), mask):
        told = told if lanes is None else told & lanes
    last = np.broadcast_to(num_taken, len(steps)) - 1
    is_wrong = told[:, None] & ((steps > last[:, None]) | (steps < -1))
    if is_wrong.any():
        lane = int(np.argmax(is_wrong.any(axis=1)))
        condition = f"be a step that was taken, from 0 to {last[lane]}"
        text = message("feedback_step", condition, steps[is_wrong][0])
        raise ValueError(f"{text[:-1]} in lane {lane}.")
    is_here = told[:, None] & (steps >= 0)
    for arrived, arms, paid in zip(is_here.T, actions.T, rewards.T, strict=True):
        if np.ndim(info["feedback_step"]) == 1:  # a single run
            if arrived[0]:
                agent.observe(int(arms[0]), float(paid[0]))
        elif arrived.any():
            agent.observe(arms, paid, mask=arrived)
