"""Rewards that have arrived late, for the agents that are to learn from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bandit_gym.checks import check_integer, check_kind, check_mask, message
from bandit_gym.typing import IntArray

FEEDBACK = {"feedback_step": "iu", "feedback_action": "iu", "feedback_reward": "biuf"}
"""What a step tells, and the kinds of its numbers, as NumPy has them."""


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
    if not isinstance(info, Mapping):
        raise TypeError(message("info", "be a dict, as a step tells it", info))
    if "regret" not in info and "feedback_step" not in info:  # all lanes were reset
        return
    if not {*FEEDBACK} <= {*info}:
        condition = f"tell {' and '.join(FEEDBACK)}, as worlds of late rewards do"
        raise ValueError(message("info", condition, sorted(info)))
    steps, actions, rewards = _read_late(info)
    is_here = np.ones(steps.shape, dtype=bool)
    for name, lanes in (("_feedback_step", info.get("_feedback_step")), ("mask", mask)):
        if lanes is not None:
            is_here &= check_mask(name, lanes, len(steps))[:, None]
    _refuse_untaken(np.where(is_here, steps, -1), num_taken)
    is_here &= steps >= 0
    for arrived, arms, paid in zip(is_here.T, actions.T, rewards.T, strict=True):
        if np.ndim(info["feedback_step"]) == 1:  # a single run
            if arrived[0]:
                agent.observe(int(arms[0]), float(paid[0]))
        elif arrived.any():
            agent.observe(arms, paid, mask=arrived)


def _read_late(info: Mapping[str, Any]) -> list[np.ndarray[Any, Any]]:
    """Return (N, W) steps, actions and rewards as numbers, N = 1 for a single run."""
    found = [check_kind(name, info[name], kinds) for name, kinds in FEEDBACK.items()]
    for name, values in zip(FEEDBACK, found, strict=True):
        if values.shape != found[0].shape:
            condition = f"have the shape of feedback_step, {found[0].shape}"
            raise ValueError(message(name, condition, info[name]))
    return [np.atleast_2d(values) for values in found]


def _refuse_untaken(steps: IntArray, num_taken: Any) -> None:
    """Refuse (N, W) steps of which some are beyond those that were taken, or below -1."""
    if np.ndim(num_taken) == 0:
        check_integer("num_taken", num_taken, minimum=1)
    elif np.shape(num_taken) != (len(steps),):
        raise ValueError(message("num_taken", "be one number, or one per lane", num_taken))
    last = np.broadcast_to(num_taken, len(steps)) - 1
    is_wrong = (steps > last[:, None]) | (steps < -1)
    if is_wrong.any():
        lane = int(np.argmax(is_wrong.any(axis=1)))
        condition = f"be a step that was taken, from 0 to {last[lane]}"
        text = message("feedback_step", condition, steps[is_wrong][0])
        raise ValueError(f"{text[:-1]} in lane {lane}.")
