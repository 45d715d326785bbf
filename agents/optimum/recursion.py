"""The Bayes-optimal value by backward recursion.

    V_t(n, s) = max_i m_i (1 + V_{t+1}(n + e_i, s + e_i)) + (1 - m_i) V_{t+1}(n + e_i, s)

with m_i = m(n_i, s_i) the predictive mean of arm i, and V_T = 0. Two stages of V are kept.

Arms whose pulls are worth the same are equally good, and an agent takes the lowest of them.
Rounding must not choose in its place, so values count as the same that rounding could have made
different. One stage adds at most 4 (h + 1) units of 1.1e-16 to the error of a value of h more
pulls, hence `margin`: 4e-10 at h = 1,000. All that it costs is below T times as much.

Letters: K arms, T horizon, S states.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from agents.optimum.states import Stage, make_stage, make_successors
from agents.optimum.sweeps import fill_stage

UNIT = 2.0**-53


class Solved(NamedTuple):
    """A stage with its values and choices.

    Attributes:
        stage: the states.
        values: (S,) expected rewards from here on.
        choices: (S,) uint8, bit i set where arm i is as good as any; empty if not asked for.
    """

    stage: Stage
    values: np.ndarray
    choices: np.ndarray


def margin(pulls_left: int) -> float:
    """Return the difference that rounding can make between two values of so many pulls."""
    return 4 * UNIT * pulls_left * (pulls_left + 3)


def solve(
    means: np.ndarray, horizon: int, num_arms: int, *, with_choices: bool
) -> Iterator[Solved]:
    """Yield the stages from the last to the first; each is lost when the next is asked for.

    Args:
        means: (K, T, T) predictive means m(n, s) of each arm, or (1, T, T) of arms that are alike.
        horizon: T >= 1.
        num_arms: K.
        with_choices: whether to say which arms are best.
    """
    means = np.ascontiguousarray(means)
    is_symmetric = len(means) == 1
    later = make_stage(horizon, num_arms, is_symmetric)
    later_values, buffer = np.zeros(later.num_states), np.empty(0)
    for num_pulls in reversed(range(horizon)):
        stage = make_stage(num_pulls, num_arms, is_symmetric)
        successors = make_successors(stage, later, is_symmetric)
        if len(buffer) < stage.num_states:
            buffer = np.empty(stage.num_states)
        values = buffer[: stage.num_states]
        choices = np.empty(stage.num_states if with_choices else 0, dtype=np.uint8)
        solved = Solved(stage, values, choices)
        fill_stage(solved, successors, means, later_values, margin(horizon - num_pulls))
        yield solved
        later, later_values, buffer = stage, values, later_values


def optimal_total(means: np.ndarray, horizon: int, num_arms: int) -> float:
    """Return the expected total reward of the best policy; see `solve`."""
    *_, (_, values, _) = solve(means, horizon, num_arms, with_choices=False)
    return float(values[0])
