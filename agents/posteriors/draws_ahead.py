"""Exact Thompson sampling in a single lane, where a call costs more than what it computes.

Between two decisions the posterior of one arm changes, the one that was pulled. A draw of any
other arm may as well have been made earlier: as long as nobody has looked at it, it is independent
of all that has happened. So each arm keeps a row of draws for the decisions to come, of which a new
reward makes one row worthless; that takes one call of NumPy for many draws of one arm instead of
one for a draw of each, which is several times as fast.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from agents.numerics.choices import random_argmax
from agents.numerics.laws import Law

DEPTH = 32
"""Decisions that draws are made for; a reward costs half as many draws on average."""


class DrawsAhead:
    """Draws from a row of Table 1 for one lane; an arm's are remade once it has been pulled.

    Arguments:
        law: of a mean.
        prior: (K, 2) parameters without data.
        weights: (2, 2) what a pull and a unit of reward add to them.
    """

    state_names = ("_draws", "_place", "_pulls")

    def __init__(self, law: Law, prior: np.ndarray, weights: np.ndarray) -> None:
        self.law = law
        self.prior: list[list[float]] = prior.tolist()
        self.weights: list[list[float]] = weights.tolist()
        self._draws: list[list[float]] = [[]] * len(prior)
        self._place, self._pulls = DEPTH, [-1]

    def draw_best(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return the (1,) arm that is best in the next draw, given (1, K) statistics.

        Lists of Python serve one number at a time, where arrays would take twice as long.
        """
        if self._place == DEPTH:
            self._place, self._pulls = 0, [-1] * len(self.prior)
        pulls: list[int] = counts[0].tolist()
        if pulls != self._pulls:
            for arm, new in enumerate(pulls):
                if new != self._pulls[arm]:
                    self._draws[arm] = self._draw(rng, arm, new, sums.item(0, arm))
            self._pulls = pulls
        at = self._place - DEPTH  # from the end, where rows of all lengths meet
        means = [draws[at] for draws in self._draws]
        self._place += 1
        best = max(means)
        if means.count(best) > 1:
            return random_argmax(rng, np.array([means]))
        return np.array([means.index(best)])

    def _draw(self, rng: Generator, arm: int, pulls: int, total: float) -> list[float]:
        """Return draws for the decisions left; infinity where there is no posterior."""
        (a, b), (c, d) = self.weights
        first = self.prior[arm][0] + a * pulls + b * total
        second = self.prior[arm][1] + c * pulls + d * total
        if second == 0.0:
            return [math.inf] * DEPTH
        draws: list[float] = self.law.draw(rng, first, second, DEPTH - self._place).tolist()
        return draws
