"""The exact regret of a rule: no simulation, no intervals.

The distribution of the states after t pulls follows from that after t - 1 and from what the rule
does in each of them; it gives the expected reward of every pull. States come in blocks of common
counts n, as arrays of n_1 + 1 by ... by n_K + 1 successes.

Under Thompson sampling the probability of an arm is that each arm has the largest mean,

    P_i = int p_i(x) prod_{j != i} F_j(x) dx

for all states of a block at once: on nodes that resolve the posteriors of every arm after any
number of pulls, that is a product of matrices. Other rules are asked.

The same integrals serve single states that were reached (`thompson_probabilities`). Few of them are
different: arms of one prior may be exchanged, and of states that are alike one is solved.

Notation: K arms, T horizon, S states, P panels, Q nodes each, G nodes in all; N states of which U
are different, R rows of a table of posteriors.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import reduce
from math import comb
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from agents import make_agent
from agents.base import Agent
from agents.oracle import action_probabilities
from agents.oracle.arms import ArmPosteriors, Arms
from agents.oracle.panels import exclusive_products, make_panels
from agents.oracle.predictive import (
    SUMS_PER_BATCH,
    OneArm,
    check_solvable,
    expected_best_mean,
    group_arms,
    predictive_means,
)
from agents.rules.horizon import HorizonRule
from bandit_gym.checks import check_choice, check_keys, message
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.likelihoods import is_binary
from bandit_gym.problem import BanditProblem

MAX_REGRET_STATES = 1e9
"""Of all stages together: some minutes."""

PROBABILITY_TOLERANCE = 1e-6
"""Of the sum of probabilities that a function of the user's returns."""

MIN_NODE_MASS = 1e-17
"""Mass of a node, in each of an arm's posteriors, below which it is left out."""

MAX_NUMBERS_PER_BATCH = 2**17
"""Of one table of a batch, 1 MB; larger ones leave the cache."""

BlockPolicy = Callable[[tuple[int, ...]], FloatArray]
"""Takes the counts of a block, returns the (K, n_1 + 1, ..., n_K + 1) probabilities of each arm."""

RuleLike = str | Agent | Callable[[np.ndarray, np.ndarray], np.ndarray]
NAMED_RULES = "greedy", "epsilon_greedy", "bayes_ucb", "ucb1", "kl_ucb", "random"
"""Agents that use counts and sums alone, by their short names; "thompson" is another rule."""

Counts = tuple[int, ...]


@threadpool_limits.wrap(limits=1)  # for products of small matrices threads only wait
def expected_regret(
    problem: BanditProblem, rule: RuleLike, horizon: int, **options: Any
) -> FloatArray:
    """Return the (T,) expected regret of a rule after 1, ..., T pulls, exactly.

    Args:
        problem: Bernoulli rewards, arms independent a priori: a prior with `arm_log_density`.
        rule: "thompson" or a name of `NAMED_RULES`; an agent that uses counts and sums alone;
            or a function that takes these, (S, K) each, and returns (S, K) probabilities of each
            arm.
        horizon: T >= 1.
        options: of a rule that is named, as its agent has them.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if the problem is another one, there are too many states, or the rule is
            unknown or returns no probabilities.
    """
    check_solvable(problem, horizon)
    num_states = comb(horizon - 1 + 2 * problem.num_arms, 2 * problem.num_arms)
    if num_states > MAX_REGRET_STATES:
        condition = f"give at most {MAX_REGRET_STATES:.0e} states with {problem.num_arms} arms"
        raise ValueError(message("horizon", f"{condition}, not {num_states:.3g}", horizon))
    means = predictive_means(problem, horizon)
    means = np.broadcast_to(means, (problem.num_arms, horizon, horizon))
    policy = make_block_policy(rule, problem, horizon, options)
    rewards = _expected_rewards(means, policy, horizon)
    return np.cumsum(expected_best_mean(problem) - rewards)


def _expected_rewards(means: FloatArray, policy: BlockPolicy, horizon: int) -> FloatArray:
    """Return the (T,) expected rewards of each pull."""
    num_arms, rewards = len(means), np.zeros(horizon)
    masses = {(0,) * num_arms: np.ones((1,) * num_arms)}
    for pull in range(horizon):
        later: dict[Counts, FloatArray] = {}
        for counts, mass in masses.items():
            for arm, probability in enumerate(policy(counts)):
                flow = np.moveaxis(mass * probability, arm, -1)
                successes = flow * means[arm, counts[arm], : counts[arm] + 1]
                rewards[pull] += successes.sum()
                reached = (*counts[:arm], counts[arm] + 1, *counts[arm + 1 :])
                if reached not in later:
                    later[reached] = np.zeros([n + 1 for n in reached])
                masses_after = np.moveaxis(later[reached], arm, -1)
                masses_after[..., 1:] += successes
                masses_after[..., :-1] += flow - successes
        masses = later
    total = sum(mass.sum() for mass in masses.values())
    if not abs(total - 1) < 1e-9:
        raise ArithmeticError(f"the distribution of the states must sum to 1, got {total!r}.")
    return rewards


def make_block_policy(
    rule: RuleLike, problem: BanditProblem, horizon: int, options: dict[str, Any]
) -> BlockPolicy:
    """Return what a rule does in the states of a block.

    Raises:
        TypeError: if it is no name, agent or function.
        ValueError: if a name or an option is unknown, or an agent has other arms, or forgets.
    """
    names = "thompson", *NAMED_RULES
    if isinstance(rule, str) and check_choice("rule", rule, names) != "thompson":
        rule = make_agent(rule, problem, **options)
    else:
        check_keys("options", options)
    if isinstance(rule, str):
        return make_thompson_policy(problem, horizon)
    if isinstance(rule, type) or not (isinstance(rule, Agent) or callable(rule)):
        condition = "be a name, an agent, or a function of counts and sums"
        raise TypeError(message("rule", condition, rule))
    if isinstance(rule, Agent):
        if rule.problem.num_arms != problem.num_arms:
            condition = f"be for {problem.num_arms} arms, as the problem"
            raise ValueError(message("rule", condition, rule.problem.num_arms))
        if not rule.evidence.is_cumulative:
            raise ValueError(message("rule", "be an agent without discount or window", rule))
        if not rule.has_exact_probabilities:
            condition = "be an agent whose action_probabilities are those of act"
            raise ValueError(message("rule", condition, rule, "play it by bandit_gym.rollout"))
    function = make_rule_function(rule) if isinstance(rule, Agent) else rule
    return lambda counts: _call_rule(function, counts)


def make_rule_function(agent: Agent) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return what an agent does in states, as a function of (S, K) counts and sums."""
    agent = copy.deepcopy(agent)  # which the caller may go on with

    def rule(counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        agent.reset(len(counts), seed=0)
        agent.warm_start(counts, sums)
        if isinstance(agent, HorizonRule):
            agent.lane_decisions = counts.sum(axis=1)
        return np.asarray(agent.action_probabilities())

    return rule


def _call_rule(rule: Any, counts: tuple[int, ...]) -> FloatArray:
    """Return what a function of the user's says, laid out as a block."""
    sizes = [n + 1 for n in counts]
    sums = np.indices(sizes).reshape(len(counts), -1).T
    returned = rule(np.tile(counts, (len(sums), 1)), sums.astype(np.float64))
    probabilities = np.asarray(returned, dtype=float)
    if probabilities.shape != sums.shape:
        raise ValueError(message("rule", f"return probabilities {sums.shape}", probabilities.shape))
    errors = np.abs(probabilities.sum(axis=1) - 1)
    is_wrong = ~((probabilities >= 0).all(axis=1) & (errors < PROBABILITY_TOLERANCE))
    if is_wrong.any():
        condition = f"return probabilities that sum to 1 at counts {counts}"
        raise ValueError(message("rule", condition, probabilities[is_wrong.argmax()].tolist()))
    return (probabilities / probabilities.sum(axis=1, keepdims=True)).T.reshape(-1, *sizes)


def make_thompson_policy(problem: BanditProblem, horizon: int) -> BlockPolicy:
    """Return the probabilities of Thompson sampling's arm, by blocks of states.

    Args:
        problem: Bernoulli rewards, arms independent a priori.
        horizon: T; blocks have fewer pulls.
    """
    kinds, states = group_arms(Arms(problem)), np.tril_indices(horizon)
    distinct_kinds, kind_of_arm = np.unique(kinds, return_inverse=True)
    keys = np.concatenate([find_keys(kind, *states, horizon) for kind in distinct_kinds])
    table = make_posterior_table(problem, kinds, keys, horizon)
    begins = kind_of_arm * len(states[0])

    def policy(counts: tuple[int, ...]) -> FloatArray:
        """Return the (K, n_1 + 1, ..., n_K + 1) probabilities that each arm is the best."""
        parts = [
            slice(begin + n * (n + 1) // 2, begin + (n + 1) * (n + 2) // 2)
            for begin, n in zip(begins, counts, strict=True)
        ]
        (shares, below), of_arms = ([values[part] for part in parts] for values in table), []
        for arm in range(len(counts) - 1):
            others = reduce(lambda a, b: a[..., None, :] * b, below[:arm] + below[arm + 1 :])
            chances = np.tensordot(shares[arm], others, axes=(-1, -1))
            of_arms.append(np.moveaxis(chances, 0, arm))
        return np.stack([*of_arms, np.maximum(1 - np.sum(of_arms, axis=0), 0.0)])

    return policy


def find_keys(kind: Any, counts: IntArray, sums: IntArray, horizon: int) -> IntArray:
    """Return integers that order posteriors by kind of arm, then pulls n < T and successes."""
    return np.asarray((kind * horizon + counts) * horizon + sums)


def make_posterior_table(
    problem: BanditProblem, kinds: list[int], keys: IntArray, horizon: int
) -> tuple[FloatArray, FloatArray]:
    """Return (R, G) masses of posteriors at each node, and their distribution functions there.

    The nodes resolve all posteriors after n < T pulls, of which those of increasing keys are asked.

    Args:
        problem: Bernoulli rewards, arms independent a priori.
        kinds: of the K arms, see `group_arms`; each is among the keys.
        keys: see `find_keys`.
        horizon: T.
    """
    all_arms = Arms(problem)
    arms = {kind: OneArm(all_arms, kind) for kind in sorted(set(kinds))}
    edges = np.unique(np.concatenate([find_edges(arm, horizon) for arm in arms.values()]))
    tables = []
    for kind, arm in arms.items():
        states = keys[keys // horizon**2 == kind] % horizon**2
        for some in np.split(states, range(SUMS_PER_BATCH, len(states), SUMS_PER_BATCH)):
            posteriors = ArmPosteriors(arm, *np.divmod(some, horizon))
            panels = make_panels(posteriors, edges)
            parts = panels.shares, panels.cumulative_probabilities()
            tables.append([part.reshape(-1, len(some)).T for part in parts])
    is_seen = np.max([shares.max(axis=0) for shares, _ in tables], axis=0) > MIN_NODE_MASS
    for table in tables:  # one after the other: together they take gigabytes
        table[:] = [np.ascontiguousarray(part[:, is_seen]) for part in table]
    shares, below = (np.concatenate(part) for part in zip(*tables, strict=True))
    return shares, below


def find_edges(arm: OneArm, horizon: int) -> FloatArray:
    """Return edges that resolve an arm's posteriors before any pull and after all of them."""
    sums, pulls = np.arange(float(horizon)), float(horizon - 1)
    groups = np.split(sums, range(SUMS_PER_BATCH, horizon, SUMS_PER_BATCH))
    resolved = [arm.resolve_panels(np.full(len(group), pulls), group) for group in groups]
    resolved.append(arm.resolve_panels(np.zeros(1), np.zeros(1)))
    return np.concatenate([panels.edges for panels in resolved])


def thompson_probabilities(
    problem: BanditProblem, counts: IntArray, sums: FloatArray
) -> FloatArray:
    """Return the (N, K) probabilities that exact Thompson sampling plays each arm.

    With Bernoulli arms that are independent a priori some 0.1 ms for each of U states, otherwise
    some milliseconds by `agents.oracle.action_probabilities`, which says what problems it takes.

    Args:
        problem: likelihood and prior.
        counts: (N, K) pulls of each arm.
        sums: (N, K) total rewards.
    """
    if not (is_binary(problem.likelihood) and problem.offers("arm_log_density")):
        states, places = np.unique(np.concatenate([counts, sums], 1), axis=0, return_inverse=True)
        num_arms = problem.num_arms
        of_states = action_probabilities(problem, states[:, :num_arms], states[:, num_arms:])
        return of_states[places.reshape(-1)]  # type: ignore[no-any-return]
    kinds, horizon = group_arms(Arms(problem)), int(counts.max()) + 1
    keys = find_keys(np.array(kinds), counts, sums.astype(np.int64), horizon)
    order = np.argsort(keys, axis=1)  # which exchanges arms of one prior
    seen, table_rows = np.unique(np.take_along_axis(keys, order, axis=1), return_inverse=True)
    states, places = np.unique(table_rows.reshape(counts.shape), axis=0, return_inverse=True)
    shares, below = make_posterior_table(problem, kinds, seen, horizon)
    of_states = np.empty(states.shape)
    size = max(1, MAX_NUMBERS_PER_BATCH // shares.shape[1])
    for begin in range(0, len(states), size):
        batch = slice(begin, begin + size)
        of_states[batch] = _integrate_states(shares, below, states[batch])
    probabilities = np.empty(counts.shape)
    np.put_along_axis(probabilities, order, of_states[places.reshape(-1)], axis=1)
    return probabilities


def _integrate_states(shares: FloatArray, below: FloatArray, states: IntArray) -> FloatArray:
    """Return (U, K) probabilities of the best arm, from (R, G) tables and (U, K) rows of them."""
    others = exclusive_products(below[states].swapaxes(1, 2))  # (U, G, K) all others are below
    probabilities = np.einsum("ugk,ukg->uk", others, shares[states])
    return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))
