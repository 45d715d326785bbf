"""The exact regret of a rule: no simulation, no intervals.

Forwards, the law of the states after t pulls follows from that after t - 1 and from what the rule
does in each of them; it gives the expected reward of every pull. Backwards, the recursion of
`agents.optimum.recursion` with the rule's probabilities in place of the maximum gives the total.

Letters: K arms, T horizon.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from agents.optimum.action_laws import ActionLaw, Rule, make_law
from agents.optimum.predictive import check_solvable, expected_best_mean, predictive_means
from bandit_gym.checks import message
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

MOST_STATES = 1e9
"""Of all stages together: some minutes."""

LARGEST_MISS = 1e-9
"""Of the mass of a law of states."""

Counts = tuple[int, ...]


@threadpool_limits.wrap(limits=1)  # for products of small matrices threads only wait
def expected_regret(problem: BanditProblem, rule: Rule, horizon: int, **options: Any) -> FloatArray:
    """Return the (T,) expected regret of a rule after 1, ..., T pulls, exactly.

    Args:
        problem: Bernoulli rewards, arms independent a priori: a prior with `arm_log_density`.
        rule: a name, one of `agents.optimum.action_laws.RULES`, or a function that takes (S, K)
            counts and sums and returns (S, K) probabilities of each arm.
        horizon: T >= 1.
        options: of a rule that is named, as its agent has them.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if the problem is another one, there are too many states, or the rule is
            unknown or returns no probabilities.
    """
    means, law = _prepare(problem, rule, horizon, options)
    rewards = _rewards_forwards(means, law, horizon)
    return np.cumsum(expected_best_mean(problem) - rewards)


@threadpool_limits.wrap(limits=1)
def expected_reward(problem: BanditProblem, rule: Rule, horizon: int, **options: Any) -> float:
    """Return the expected total reward of a rule, backwards; see `expected_regret`."""
    means, law = _prepare(problem, rule, horizon, options)
    return _total_backwards(means, law, horizon)


def _prepare(
    problem: BanditProblem, rule: Rule, horizon: int, options: dict[str, Any]
) -> tuple[FloatArray, ActionLaw]:
    check_solvable(problem, horizon)
    num_states = comb(horizon - 1 + 2 * problem.num_arms, 2 * problem.num_arms)
    if num_states > MOST_STATES:
        condition = f"give at most {MOST_STATES:.0e} states with {problem.num_arms} arms, not "
        raise ValueError(message("horizon", f"{condition}{num_states:.3g}", horizon))
    means = predictive_means(problem, horizon)
    means = np.broadcast_to(means, (problem.num_arms, horizon, horizon))
    return means, make_law(rule, problem, horizon, options)


def _rewards_forwards(means: FloatArray, law: ActionLaw, horizon: int) -> FloatArray:
    """Return the (T,) expected rewards of each pull."""
    num_arms, rewards = len(means), np.zeros(horizon)
    masses = {(0,) * num_arms: np.ones((1,) * num_arms)}
    for pull in range(horizon):
        later: dict[Counts, FloatArray] = {}
        for counts, mass in masses.items():
            for arm, share in enumerate(law(counts)):
                flow = mass * share
                paid = flow * _along(arm, num_arms, means[arm, counts[arm], : counts[arm] + 1])
                rewards[pull] += paid.sum()
                reached = _pulled(counts, arm)
                if reached not in later:
                    later[reached] = np.zeros([n + 1 for n in reached])
                later[reached][_part(arm, 1, None)] += paid
                later[reached][_part(arm, None, -1)] += flow - paid
        masses = later
    total = sum(mass.sum() for mass in masses.values())
    if not abs(total - 1) < LARGEST_MISS:
        raise ArithmeticError(f"the law of the states must sum to 1, got {total!r}.")
    return rewards


def _total_backwards(means: FloatArray, law: ActionLaw, horizon: int) -> float:
    """Return the expected total reward."""
    num_arms = len(means)
    later = {counts: 0.0 * _ones(counts) for counts in _all_counts(horizon, num_arms)}
    for pull in reversed(range(horizon)):
        values = {}
        for counts in _all_counts(pull, num_arms):
            values[counts] = 0.0 * _ones(counts)
            for arm, share in enumerate(law(counts)):
                mean = _along(arm, num_arms, means[arm, counts[arm], : counts[arm] + 1])
                value = later[_pulled(counts, arm)]
                paid, failed = value[_part(arm, 1, None)], value[_part(arm, None, -1)]
                values[counts] += share * (mean * (1 + paid) + (1 - mean) * failed)
        later = values
    return float(later[(0,) * num_arms].item())


def _all_counts(total: int, num_arms: int) -> list[Counts]:
    if num_arms == 1:
        return [(total,)]
    return [(n, *rest) for n in range(total + 1) for rest in _all_counts(total - n, num_arms - 1)]


def _ones(counts: Counts) -> FloatArray:
    return np.ones([n + 1 for n in counts])


def _pulled(counts: Counts, arm: int) -> Counts:
    return (*counts[:arm], counts[arm] + 1, *counts[arm + 1 :])


def _along(arm: int, num_arms: int, values: FloatArray) -> FloatArray:
    """Return (L,) values laid along one of K axes."""
    return values.reshape([-1 if axis == arm else 1 for axis in range(num_arms)])


def _part(arm: int, begin: int | None, end: int | None) -> tuple[slice | Any, ...]:
    """Return what cuts the axis of one arm."""
    return (*(slice(None),) * arm, slice(begin, end))
