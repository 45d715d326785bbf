"""The loop that keeps the record of what was played, and changes what is seen of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bandit_gym.numerics.compiled import inner, kernel


@kernel
def add_plays(
    plays: Any, rule: Any, actions: np.ndarray, rewards: np.ndarray, shown: np.ndarray
) -> None:
    """Add one pull per lane, and show it.

    Args:
        plays: `Plays` of (N, K) and (N,) that were played before; changed in place.
        rule: `Rule` of what observations show.
        actions: (N,) arms pulled.
        rewards: (N,) what they paid.
        shown: (N, size) observations, changed where they change.
    """
    num_arms, per_pull = plays.pulls.shape[1], 1.0 / rule.horizon
    for lane in range(len(actions)):
        arm, before = actions[lane], plays.last_actions[lane]
        plays.last_actions[lane] = arm
        plays.lengths[lane] += 1
        plays.pulls[lane, arm] += 1
        plays.reward_sums[lane, arm] += rewards[lane]
        if rule.shows_counts:
            pulls = plays.pulls[lane, arm]
            mean = plays.reward_sums[lane, arm] / pulls
            shown[lane, arm] = min(pulls * per_pull, 1.0)
            shown[lane, num_arms + arm] = scale_reward(mean, rule)
            shown[lane, 2 * num_arms] = max((rule.horizon - plays.lengths[lane]) * per_pull, 0.0)
        elif rule.shows_history:
            if before >= 0:
                shown[lane, before] = 0.0
            shown[lane, arm] = 1.0
            shown[lane, num_arms] = scale_reward(rewards[lane], rule)
            shown[lane, num_arms + 1] = max((rule.horizon - plays.lengths[lane]) * per_pull, 0.0)


@inner
def scale_reward(reward: float, rule: Any) -> float:
    """Map rewards increasingly into [0, 1]; `bandit_gym.envs.observations` gives the maps."""
    if rule.per_unit > 0.0:
        return (reward - rule.low) * rule.per_unit
    if math.isfinite(rule.low):
        return (reward - rule.low) / (1.0 + reward - rule.low)
    return 0.5 * (1.0 + reward / (1.0 + abs(reward)))
