"""The least possible regret after each of some numbers of pulls, or bounds, within a given time.

What a comparison of agents draws below their curves: no rule, whatever its horizon, has less regret
after t pulls than the best policy for t pulls. The time that it takes is estimated before, from
counts of operations and rates of one core, so that whether there is a line depends on no machine.

Letters: K arms, T horizon.
"""

from __future__ import annotations

from math import comb, factorial, inf
from typing import NamedTuple

import numpy as np

from agents.optimum.brackets import NUM_PILOTS, optimal_bracket
from agents.optimum.predictive import (
    check_solvable,
    expected_best_mean,
    kinds_of_arms,
    predictive_means,
)
from agents.optimum.recursion import optimal_total
from agents.optimum.relaxations import NUM_TRIALS, QUANTILES
from agents.optimum.states import MOST_ARMS, MOST_BYTES, bytes_needed
from agents.oracle.arms import Arms
from agents.posteriors.conjugate import is_conjugate
from bandit_gym.checks import message
from bandit_gym.problem import BanditProblem

NUM_SAMPLES = 1000
NUM_POINTS, NUM_BRACKETS = 16, 5
LOADING = 2.0
"""Seconds in which compiled code is there."""

UPDATES = 3e8
"""Of states by arms, a second: measured 4e8 to 6e8."""

SPLITS = 4.5e9
"""Of pulls between arms, K T^2 / 2 a scenario: measured 4.7e9."""

TRIAL = 4
"""Splits that one step towards the best penalty takes as long as."""

QUANTILE, TABLE_QUANTILE = 4.5e-7, 2e-5
"""Seconds that a quantile takes, of a conjugate posterior and of one in a table."""


class Line(NamedTuple):
    """What is known of the least possible regret.

    Attributes:
        kind: "exact", "bracket", or "none" where there was no time.
        seconds: that it would take at the least, by estimate.
        steps: numbers of pulls, the last of them T.
        lower: least expected regret of so many pulls, or a bound that holds with 95 % confidence.
        upper: the same number, or a bound from above.
    """

    kind: str
    seconds: float
    steps: list[int]
    lower: list[float]
    upper: list[float]


def optimal_line(problem: BanditProblem, horizon: int, budget: float) -> Line:
    """Return the least regret, exactly if there is time for it, else bounds, else nothing.

    Args:
        problem: Bernoulli rewards, arms independent a priori: a prior with `arm_log_density`.
        horizon: T >= 1.
        budget: seconds.

    Raises:
        ValueError: if the problem is another one, or there is no room for either.
    """
    check_solvable(problem, horizon)
    exact, bracket = estimate_exact(problem, horizon), estimate_bracket(problem, horizon)
    if exact == inf:
        _check_room(problem, horizon)
    if exact <= budget:  # and if both would do, the one without a doubt
        steps = _points(horizon, NUM_POINTS, smallest=1)
        regrets = _least_regrets(problem, steps)
        return Line("exact", exact, steps, regrets, regrets)
    if bracket <= budget:
        steps = _points(horizon, NUM_BRACKETS, smallest=1 + horizon // 2**NUM_BRACKETS)
        found = [optimal_bracket(problem, t, num_samples=NUM_SAMPLES) for t in steps]
        lower, upper = (
            [each.best - each.upper for each in found],
            [each.best - each.lower for each in found],
        )
        return Line("bracket", bracket, steps, lower, upper)
    return Line("none", min(exact, bracket), [], [], [])


def estimate_exact(problem: BanditProblem, horizon: int) -> float:
    """Return the seconds that the recursions would take; infinite where they have no room."""
    num_arms, is_symmetric = problem.num_arms, _are_alike(problem)
    if num_arms > MOST_ARMS or bytes_needed(horizon, num_arms, is_symmetric) > MOST_BYTES:
        return inf
    states = [
        comb(t - 1 + 2 * num_arms, 2 * num_arms) for t in _points(horizon, NUM_POINTS, smallest=1)
    ]
    alike = factorial(num_arms) if is_symmetric else 1
    return LOADING + num_arms * sum(states) / alike / UPDATES


def estimate_bracket(problem: BanditProblem, horizon: int) -> float:
    """Return the seconds that relaxations and played games would take."""
    num_arms = problem.num_arms
    scenarios = NUM_PILOTS + NUM_SAMPLES + TRIAL * NUM_TRIALS
    steps = np.array(_points(horizon, NUM_BRACKETS, smallest=1 + horizon // 2**NUM_BRACKETS))
    relaxed = scenarios * num_arms * float((steps**2.0).sum()) / 2 / SPLITS
    a_quantile = QUANTILE if is_conjugate(problem.likelihood, problem.prior) else TABLE_QUANTILE
    return LOADING + relaxed + NUM_SAMPLES * num_arms * float(steps.sum()) * a_quantile


def _are_alike(problem: BanditProblem) -> bool:
    return not any(kinds_of_arms(Arms(problem)))


def _check_room(problem: BanditProblem, horizon: int) -> None:
    """Refuse what has too long tables of predictive means, and of charges at each level."""
    num_tables = (1 if _are_alike(problem) else problem.num_arms) * (2 + len(QUANTILES))
    needed = 8.0 * num_tables * float(horizon) ** 2
    if needed > MOST_BYTES:
        condition = f"need at most {MOST_BYTES / 1e9:g} GB for bounds, not {needed / 1e9:.3g} GB"
        raise ValueError(message("horizon", condition, horizon))


def _least_regrets(problem: BanditProblem, steps: list[int]) -> list[float]:
    means, best = predictive_means(problem, steps[-1]), expected_best_mean(problem)
    return [t * best - optimal_total(means[:, :t, :t], t, problem.num_arms) for t in steps]


def _points(horizon: int, num_points: int, *, smallest: int) -> list[int]:
    """Return increasing numbers of pulls, evenly spaced in log t, up to T."""
    spaced = np.geomspace(smallest, horizon, num_points)
    return [int(t) for t in np.unique(np.rint(spaced))]
