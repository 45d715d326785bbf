"""The exact regret of a rule: no simulation, no intervals.

The distribution of the states after t pulls follows from that after t - 1 and from what the rule
does in each of them; it gives the expected reward of every pull. States come in blocks of common
counts n, as arrays of n_1 + 1 by ... by n_K + 1 successes.

Under Thompson sampling the probability of an arm is that each arm has the largest mean,

    P_i = int p_i(x) prod_{j != i} F_j(x) dx

for all states of a block at once: on nodes that resolve the posteriors of every arm after any
number of pulls, that is a product of matrices. Other rules are asked.

Notation: K arms, T horizon, S states, P panels, Q nodes each, G nodes in all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import comb
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from agents.base import Agent, build_agent
from agents.oracle.arms import ArmPosteriors, Arms
from agents.oracle.panels import make_panels
from agents.oracle.predictive import (
    SUMS_PER_BATCH,
    OneArm,
    check_solvable,
    expected_best_mean,
    group_arms,
    predictive_means,
)
from agents.rules.greedy import EpsilonGreedy, Greedy, UniformRandom
from agents.rules.horizon import HorizonRule
from agents.rules.ucb import KLUCB, UCB1, BayesUCB
from bandit_gym.checks import check_choice, check_keys, message
from bandit_gym.checks.typing import FloatArray
from bandit_gym.problem import BanditProblem

MAX_REGRET_STATES = 1e9
"""Of all stages together: some minutes."""

PROBABILITY_TOLERANCE = 1e-6
"""Of the sum of probabilities that a function of the user's returns."""

MIN_NODE_MASS = 1e-17
"""Mass of a node, in each of an arm's posteriors, below which it is left out."""

BlockPolicy = Callable[[tuple[int, ...]], FloatArray]
"""Takes the counts of a block, returns the (K, n_1 + 1, ..., n_K + 1) probabilities of each arm."""

RuleLike = str | Agent | Callable[[np.ndarray, np.ndarray], np.ndarray]
NAMED_RULES: Mapping[str, type[Agent]] = {
    "greedy": Greedy,
    "epsilon_greedy": EpsilonGreedy,
    "bayes_ucb": BayesUCB,
    "ucb1": UCB1,
    "kl_ucb": KLUCB,
    "random": UniformRandom,
}
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
        condition = (
            f"give at most {MAX_REGRET_STATES:.0e} states with {problem.num_arms} arms, not "
        )
        raise ValueError(message("horizon", f"{condition}{num_states:.3g}", horizon))
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
            for arm, share in enumerate(policy(counts)):
                flow = mass * share
                paid = flow * _reshape_to_axis(
                    arm, num_arms, means[arm, counts[arm], : counts[arm] + 1]
                )
                rewards[pull] += paid.sum()
                reached = _add_pull(counts, arm)
                if reached not in later:
                    later[reached] = np.zeros([n + 1 for n in reached])
                later[reached][_slice_axis(arm, 1, None)] += paid
                later[reached][_slice_axis(arm, None, -1)] += flow - paid
        masses = later
    total = sum(mass.sum() for mass in masses.values())
    if not abs(total - 1) < 1e-9:
        raise ArithmeticError(f"the distribution of the states must sum to 1, got {total!r}.")
    return rewards


def _add_pull(counts: Counts, arm: int) -> Counts:
    return (*counts[:arm], counts[arm] + 1, *counts[arm + 1 :])


def _reshape_to_axis(arm: int, num_arms: int, values: FloatArray) -> FloatArray:
    """Return (L,) values laid along one of K axes."""
    return values.reshape([-1 if axis == arm else 1 for axis in range(num_arms)])


def _slice_axis(arm: int, begin: int | None, end: int | None) -> tuple[slice | Any, ...]:
    """Return what cuts the axis of one arm."""
    return (*(slice(None),) * arm, slice(begin, end))


def make_block_policy(
    rule: RuleLike, problem: BanditProblem, horizon: int, options: dict[str, Any]
) -> BlockPolicy:
    """Return what a rule does in the states of a block.

    Raises:
        ValueError: if a name or an option is unknown.
    """
    if (
        isinstance(rule, str)
        and check_choice("rule", rule, ("thompson", *NAMED_RULES)) != "thompson"
    ):
        rule = build_agent(rule, NAMED_RULES[rule], problem, options)
    else:
        check_keys("options", options)
    if rule == "thompson":
        return ThompsonPolicy(problem, horizon)
    function = make_rule_function(rule) if isinstance(rule, Agent) else rule
    return lambda counts: _call_rule(function, counts)


def make_rule_function(agent: Agent) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return what an agent does in states, as a function of (S, K) counts and sums."""

    def rule(counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        agent.reset(len(counts), seed=0)
        agent.warm_start(counts, sums)
        if isinstance(agent, HorizonRule):
            agent.lane_decisions = counts.sum(axis=1)
        return np.asarray(agent.action_probabilities())

    return rule


def _call_rule(rule: Any, counts: tuple[int, ...]) -> FloatArray:
    """Return what a function of the user's says, laid out as a block."""
    sums = np.indices([n + 1 for n in counts]).reshape(len(counts), -1).T
    probabilities = np.asarray(
        rule(np.tile(counts, (len(sums), 1)), sums.astype(np.float64)), dtype=float
    )
    if probabilities.shape != sums.shape:
        raise ValueError(message("rule", f"return probabilities {sums.shape}", probabilities.shape))
    errors = np.abs(probabilities.sum(axis=1) - 1)
    if not ((probabilities >= 0).all() and (errors < PROBABILITY_TOLERANCE).all()):
        row = int(np.argmax(np.where((probabilities >= 0).all(axis=1), errors, np.inf)))
        condition = f"return probabilities that sum to 1 at counts {counts}"
        raise ValueError(message("rule", condition, probabilities[row].tolist()))
    return (probabilities / probabilities.sum(axis=1, keepdims=True)).T.reshape(
        -1, *(n + 1 for n in counts)
    )


class ArmTable(NamedTuple):
    """The posteriors of an arm after n pulls.

    Attributes:
        shares: (n + 1, G) mass at each node, for s = 0 to n successes.
        below: (n + 1, G) distribution function there.
    """

    shares: FloatArray
    below: FloatArray


class ThompsonPolicy:
    """The probabilities of Thompson sampling's arm, by blocks of states.

    Arguments:
        problem: Bernoulli rewards, arms independent a priori.
        horizon: T; blocks have fewer pulls.
    """

    def __init__(self, problem: BanditProblem, horizon: int) -> None:
        self._tables = make_posterior_tables(problem, horizon)

    def __call__(self, counts: tuple[int, ...]) -> FloatArray:
        """Return the (K, n_1 + 1, ..., n_K + 1) probabilities of each arm."""
        tables = [self._tables[arm][n] for arm, n in enumerate(counts)]
        found = [self._best_arm_probabilities(arm, tables) for arm in range(len(counts) - 1)]
        last = np.maximum(1 - np.sum(found, axis=0), 0.0)
        return np.stack([*found, last])

    @staticmethod
    def _best_arm_probabilities(arm: int, tables: list[ArmTable]) -> FloatArray:
        """Return the (n_1 + 1, ..., n_K + 1) probabilities that one arm is the best."""
        others = [table.below for j, table in enumerate(tables) if j != arm]
        product = reduce(lambda a, b: a[..., None, :] * b, others)
        found = np.tensordot(tables[arm].shares, product, axes=(-1, -1))
        return np.moveaxis(found, 0, arm)


def make_posterior_tables(problem: BanditProblem, horizon: int) -> list[list[ArmTable]]:
    """Return the posteriors of arm i after n < T pulls, `tables[i][n]`, on common nodes."""
    kinds = group_arms(Arms(problem))
    arms = {kind: OneArm(problem, kind) for kind in kinds}
    edges = np.unique(np.concatenate([find_edges(arm, horizon) for arm in arms.values()]))
    tables = {kind: _tables(arm, horizon, edges) for kind, arm in arms.items()}
    max_shares = np.max([t.shares.max(axis=0) for each in tables.values() for t in each], axis=0)
    is_seen = max_shares > MIN_NODE_MASS
    for each in tables.values():
        for n, table in enumerate(each):  # one after the other: together they take gigabytes
            each[n] = ArmTable(table.shares[:, is_seen], table.below[:, is_seen])
    return [tables[kind] for kind in kinds]


def find_edges(arm: OneArm, horizon: int) -> FloatArray:
    """Return edges that resolve an arm's posteriors before any pull and after all of them."""
    sums, pulls = np.arange(float(horizon)), float(horizon - 1)
    groups = np.split(sums, range(SUMS_PER_BATCH, horizon, SUMS_PER_BATCH))
    resolved = [arm.resolve_panels(np.full(len(group), pulls), group) for group in groups]
    resolved.append(arm.resolve_panels(np.zeros(1), np.zeros(1)))
    return np.concatenate([panels.edges for panels in resolved])


def _tables(arm: OneArm, horizon: int, edges: FloatArray) -> list[ArmTable]:
    tables = []
    for n in range(horizon):
        tables.append(make_table(arm, np.full(n + 1, float(n)), np.arange(n + 1.0), edges))
    return tables


def make_table(arm: OneArm, counts: FloatArray, sums: FloatArray, edges: FloatArray) -> ArmTable:
    """Return the posteriors of an arm after (S,) pulls and successes, a row for each."""
    posteriors = ArmPosteriors(arm, counts, sums)
    panels = make_panels(posteriors.shared_log_density, edges, arm.line.find_rounding)
    return ArmTable(_by_state(panels.shares), _by_state(panels.cumulative_probabilities()))


def _by_state(values: FloatArray) -> FloatArray:
    """Return (P, Q, S) values at nodes as (S, G)."""
    return np.ascontiguousarray(values.reshape(-1, values.shape[-1]).T)
