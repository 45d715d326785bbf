"""What rules do in every state: the probabilities that they pull each arm.

Written from the rules' definitions, not by asking the agents, so that either can judge the other.
States come in blocks of common counts n, as arrays of n_1 + 1 by ... by n_K + 1 successes.

Letters: K arms, T horizon, S states of one arm or of a block, G nodes of a quadrature.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from numpy.random import default_rng
from scipy.special import rel_entr

from agents.optimum.policy import find_policy
from agents.optimum.predictive import predictive_means
from agents.optimum.thompson_law import ThompsonLaw
from agents.posteriors.base import Posterior
from agents.posteriors.choosing import exact_posterior
from bandit_gym.checks import check_choice, check_keys, check_real, message
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

LARGEST_MISS = 1e-6
"""Of the sum of probabilities that a function of the user's returns."""

BISECTIONS = 52
"""What is left of an interval of length 1 is a unit of its mantissa."""

ActionLaw = Callable[[tuple[int, ...]], FloatArray]
"""Takes the counts of a block, returns the (K, n_1 + 1, ..., n_K + 1) probabilities of each arm."""

Rule = str | Callable[[np.ndarray, np.ndarray], np.ndarray]
Scores = Callable[[int], FloatArray]
"""Takes t, returns (S, K) scores of each arm after n pulls and s successes, see `arm_states`."""


def make_law(
    rule: Rule, problem: BanditProblem, horizon: int, options: dict[str, Any]
) -> ActionLaw:
    """Return the law of a rule, by name or as a function of (S, K) counts and sums.

    Raises:
        ValueError: if a name or an option is unknown.
    """
    if callable(rule):
        check_keys("options of a function", options)
        return lambda counts: _ask(rule, counts)
    make = RULES[check_choice("rule", rule, RULES)]
    check_keys(f"{rule} options", options, optional=list(signature(make).parameters)[2:])
    return make(problem, horizon, **options)


def arm_states(horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (S,) pulls and successes of one arm, s = 0 to n for n = 0 to T - 1."""
    n = np.repeat(np.arange(horizon), np.arange(1, horizon + 1))
    return n, np.arange(len(n)) - n * (n + 1) // 2


def block_states(counts: tuple[int, ...]) -> np.ndarray:
    """Return the (S, K) successes of all states of a block."""
    return np.indices([n + 1 for n in counts]).reshape(len(counts), -1).T


def _of_arm(table: FloatArray, arm: int, counts: tuple[int, ...]) -> FloatArray:
    """Return the scores of an arm in a block, along its axis."""
    first = counts[arm] * (counts[arm] + 1) // 2
    values = table[first : first + counts[arm] + 1, arm]
    return values.reshape([-1 if axis == arm else 1 for axis in range(len(counts))])


def highest(scores: Scores) -> ActionLaw:
    """Return the law that pulls the arm of the highest score, all of them alike if several are."""
    tables: dict[int, FloatArray] = {}

    def law(counts: tuple[int, ...]) -> FloatArray:
        pull = sum(counts)
        if pull not in tables:
            tables.clear()
            tables[pull] = scores(pull)
        found = [_of_arm(tables[pull], arm, counts) for arm in range(len(counts))]
        is_best = np.stack(np.broadcast_arrays(*found)) == np.maximum.reduce(
            np.broadcast_arrays(*found)
        )
        return np.asarray(is_best / is_best.sum(axis=0))

    return law


def _uniform(problem: BanditProblem, horizon: int) -> ActionLaw:
    return lambda counts: np.full([len(counts), *(n + 1 for n in counts)], 1 / len(counts))


def _greedy(problem: BanditProblem, horizon: int, estimate: str = "posterior") -> ActionLaw:
    check_choice("estimate", estimate, ("average", "posterior"))
    if estimate == "posterior":
        means = _arm_posteriors(problem, horizon).mean()
    else:
        means = _averages(problem, horizon)
    return highest(lambda pull: means)


def _epsilon_greedy(
    problem: BanditProblem, horizon: int, epsilon: float = 0.1, estimate: str = "posterior"
) -> ActionLaw:
    check_real("epsilon", epsilon, minimum=0.0, maximum=1.0)
    greedy = _greedy(problem, horizon, estimate)
    return lambda counts: (1 - epsilon) * greedy(counts) + epsilon / len(counts)


def _ucb1(problem: BanditProblem, horizon: int, scale: float = 1.0) -> ActionLaw:
    check_real("scale", scale, above=0.0)
    averages, (n, _) = _averages(problem, horizon), arm_states(horizon)

    def scores(pull: int) -> FloatArray:
        log_t = np.log(max(pull, 1))
        return averages + scale * np.sqrt(2 * log_t / np.maximum(n, 1))[:, None]

    return highest(scores)


def _kl_ucb(problem: BanditProblem, horizon: int, c: float = 0.0) -> ActionLaw:
    check_real("c", c, minimum=0.0)
    n, s = arm_states(horizon)
    averages = s / np.maximum(n, 1)

    def scores(pull: int) -> FloatArray:
        log_t = np.log(max(pull, 1))
        level = (log_t + c * np.log(max(log_t, 1.0))) / np.maximum(n, 1)
        bounds = np.where(n > 0, _largest_mean(averages, level), np.inf)
        return np.repeat(bounds[:, None], problem.num_arms, axis=1)

    return highest(scores)


def _largest_mean(averages: FloatArray, level: FloatArray) -> FloatArray:
    """Return (S,) the largest q with kl(average, q) <= level, by bisection."""
    low, high = averages, np.ones(len(averages))
    for _ in range(BISECTIONS):
        q = (low + high) / 2
        is_inside = rel_entr(averages, q) + rel_entr(1 - averages, 1 - q) <= level
        low, high = np.where(is_inside, q, low), np.where(is_inside, high, q)
    return low


def _bayes_ucb(problem: BanditProblem, horizon: int) -> ActionLaw:
    posterior = _arm_posteriors(problem, horizon)
    return highest(lambda pull: posterior.quantile(1 - 1 / (pull + 1.0)))


def _optimal(problem: BanditProblem, horizon: int) -> ActionLaw:
    means = predictive_means(problem, horizon)
    policy = find_policy(means, horizon, problem.num_arms)

    def law(counts: tuple[int, ...]) -> FloatArray:
        sums = block_states(counts)
        best = policy.best_arms(np.broadcast_to(counts, sums.shape), sums)
        shares = best == np.arange(len(counts))[:, None]
        return shares.reshape(-1, *(n + 1 for n in counts)).astype(float)

    return law


def _averages(problem: BanditProblem, horizon: int) -> FloatArray:
    """Return (S, K) average rewards, infinite for an arm never pulled."""
    n, s = arm_states(horizon)
    averages = np.where(n > 0, s / np.maximum(n, 1), np.inf)
    return np.repeat(averages[:, None], problem.num_arms, axis=1)


def _arm_posteriors(problem: BanditProblem, horizon: int) -> Posterior:
    """Return the house's posterior in which lane j has all arms in state j."""
    states = [np.repeat(each[:, None], problem.num_arms, axis=1) for each in arm_states(horizon)]
    posterior = exact_posterior(problem)[1]
    posterior.follow(default_rng(0), states[0], states[1].astype(np.float64))
    return posterior


def _ask(rule: Any, counts: tuple[int, ...]) -> FloatArray:
    """Return what a function of the user's says, laid out as a block."""
    sums = block_states(counts)
    told = np.asarray(rule(np.tile(counts, (len(sums), 1)), sums.astype(np.float64)), dtype=float)
    if told.shape != sums.shape:
        raise ValueError(message("rule", f"return probabilities {sums.shape}", told.shape))
    misses = np.abs(told.sum(axis=1) - 1)
    if not ((told >= 0).all() and (misses < LARGEST_MISS).all()):
        row = int(np.argmax(np.where((told >= 0).all(axis=1), misses, np.inf)))
        condition = f"return probabilities that sum to 1 at counts {counts}"
        raise ValueError(message("rule", condition, told[row].tolist()))
    return (told / told.sum(axis=1, keepdims=True)).T.reshape(-1, *(n + 1 for n in counts))


RULES: dict[str, Callable[..., ActionLaw]] = {
    "thompson": ThompsonLaw,
    "greedy": _greedy,
    "epsilon_greedy": _epsilon_greedy,
    "bayes_ucb": _bayes_ucb,
    "ucb1": _ucb1,
    "kl_ucb": _kl_ucb,
    "random": _uniform,
    "optimal": _optimal,
}
"""Rules by the names of their agents, Thompson sampling being "exact" there."""
