"""Logged data, as agents learn from them: a table of actions and rewards, in one call.

Letters: K arms, N lanes, M rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bandit_gym.checks import Log


def rounds(log: Log) -> Iterator[Log]:
    """Yield the first rows of all lanes, their second ones, and so on, as lanes learn together."""
    order = np.argsort(log.lanes, kind="stable")
    sizes = np.bincount(log.lanes, minlength=1)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(sizes.cumsum() - sizes, sizes)
    by_rank = np.argsort(ranks, kind="stable")
    for rows in np.split(by_rank, np.bincount(ranks).cumsum()[:-1]) if len(order) else ():
        yield Log(log.lanes[rows], log.actions[rows], log.rewards[rows])


def spread(log: Log, num_lanes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (N,) actions, rewards and mask of a log that has no lane twice."""
    actions, rewards = np.zeros(num_lanes, dtype=np.int64), np.zeros(num_lanes)
    mask = np.zeros(num_lanes, dtype=bool)
    actions[log.lanes], rewards[log.lanes], mask[log.lanes] = log.actions, log.rewards, True
    return actions, rewards, mask
