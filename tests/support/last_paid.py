"""Agents of a user's own: one with a memory, and one that is stubborn."""

import numpy as np

from agents.base import Agent


class LastPaid(Agent):
    """Repeats what paid last."""

    state_names = ("paid", "history")

    def __init__(self, problem, *, first=0):
        super().__init__(problem)
        self.first, self.history = first, []

    def _restart(self, mask):
        if mask.all():
            self.paid = np.full(len(mask), self.first)
        self.paid[mask] = self.first

    def _learn(self, lanes, actions, rewards):
        self.paid[lanes] = np.where(rewards > 0, actions, self.paid[lanes])
        self.history = [*self.history, len(lanes)]

    def _choose(self):
        return self.paid.copy()


class Stubborn(Agent):
    """Plays the first arm, whatever is available."""

    def _choose(self):
        return np.zeros(self.num_lanes, dtype=np.int64)
