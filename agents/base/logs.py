"""Earlier data, as agents learn from them in one call: totals, or a table of actions and rewards.

Letters: K arms, N lanes, M rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from bandit_gym.checks import (
    Log,
    check_log,
    check_statistics,
)
from bandit_gym.problem import BanditProblem


class LogReader:
    """Learns from earlier data, in sums or row by row: the part of an agent that is about logs."""

    problem: BanditProblem
    num_envs: int | None
    lane_counts: np.ndarray
    lane_sums: np.ndarray
    _has_no_order: bool = True  # whether counts and sums are those of data in any order

    def warm_start(self, counts: Any, sums: Any) -> None:
        """Add earlier data, given as sufficient statistics, to every lane.

        Args:
            counts: (K,) or (N, K) number of earlier pulls of each arm.
            sums: (K,) or (N, K) total reward of those pulls, in reward units.

        Raises:
            ValueError: if the statistics are impossible under the likelihood; names the arm.
        """
        self._require_reset()
        shape = self.lane_counts.shape
        counts, sums = check_statistics(counts, sums, self.problem.likelihood, shape)
        self.lane_counts += counts
        self.lane_sums += sums

    def observe_log(self, frame: Any) -> None:
        """Learn from a table of logged data, row by row, in one call.

        Where counts and sums are all that is remembered, as with conjugate priors, a million rows
        take some 0.1 s. Nothing changes unless every row is valid.

        Args:
            frame: a data frame of pandas or polars, a table of pyarrow or a dict of sequences, with
                the columns `action` and `reward`, and `lane` if there are several lanes.

        Raises:
            gymnasium.error.InvalidAction, TypeError, ValueError: as `observe`, or if a column is
                missing; names the row, from 0.
        """
        self._require_reset()
        log = check_log(frame, self.problem.num_arms, self.problem.likelihood, self.num_envs)
        if type(self)._learn is LogReader._learn and self._has_no_order:
            cells = log.lanes * self.problem.num_arms + log.actions
            np.add.at(self.lane_sums.reshape(-1), cells, log.rewards)  # in the order of the rows
            pulls = np.bincount(cells, minlength=self.lane_counts.size)
            self.lane_counts += pulls.reshape(self.lane_counts.shape)
            return
        for part in rounds(log):  # what is learned depends on the order
            actions, rewards, mask = spread(part, len(self.lane_counts))
            if self.num_envs is None:
                self.observe(int(actions[0]), float(rewards[0]))
            else:
                self.observe(actions, rewards, mask)

    @abstractmethod
    def observe(self, action: Any, reward: Any, mask: np.ndarray | None = None) -> None:
        """Learn what each lane's pulled arm paid."""

    @abstractmethod
    def _require_reset(self) -> None:
        """Refuse what needs lanes before there are any."""

    def _learn(self, lanes: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        """Follow one reward in each of the given lanes, beside counts and sums."""


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
