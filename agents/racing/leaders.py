"""Who leads a race, and whether it is clear of all others as `agents.racing.stopping` has it.

Letters: K arms.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from agents.racing.stopping import StoppingRule
from bandit_gym.numerics.compiled import inner


class Sums(NamedTuple):
    """What the samples of one race add up to; see `Races`.

    Attributes:
        totals: (K,) of v.
        squares: (K,) of v^2.
        weight_sums: (2,) of w and of w^2.
        factors: (K,) e^{eps}.
    """

    totals: np.ndarray
    squares: np.ndarray
    weight_sums: np.ndarray
    factors: np.ndarray


@inner
def is_clear(rule: StoppingRule, sums: Sums, leader: int) -> bool:
    """Say whether the leader is clear of all, see `stopping`; sums are per largest w."""
    total, squares, factors = sums.totals, sums.squares, sums.factors
    level = rule.level + math.log(total.size - 1)
    if total[leader] < level * factors[leader]:  # no r < 1 could do
        return False
    for i in range(total.size):
        if i != leader:
            bound = max(factors[leader], factors[i])
            gap = (total[leader] - total[i]) / bound
            variance = (squares[leader] + squares[i]) / (bound * bound)
            if largest_evidence(rule.tilts, gap, variance) <= level:
                return False
    return True


@inner
def largest_evidence(tilts: np.ndarray, gap: float, variance: float) -> float:
    """Return the largest of r S - psi(r) V over the values of r."""
    best = 0.0
    for k in range(tilts.shape[0]):
        best = max(best, tilts[k, 0] * gap - tilts[k, 1] * variance)
    return best


@inner
def find_leaders(total: np.ndarray) -> tuple[int, float]:
    """Return the arm with the largest total, and the largest total of the others."""
    leader, second = 0, 0.0
    for i in range(1, total.size):
        leader = i if total[i] > total[leader] else leader
    for i in range(total.size):
        if i != leader and total[i] > second:
            second = total[i]
    return leader, second


@inner
def shrink_sums(sums: Sums, shrink: float) -> None:
    """Shrink sums to a new maximum of the scale, which keeps the order of the totals."""
    for i in range(sums.totals.size):
        sums.totals[i] *= shrink
        sums.squares[i] *= shrink * shrink
    sums.weight_sums[0] *= shrink
    sums.weight_sums[1] *= shrink * shrink
