"""What Thompson sampling and the best policy do in states that were reached, exactly.

With Bernoulli arms that are independent a priori a state is each arm's pulls and successes. Few
states are reached often, and arms of one prior may be exchanged, so that of all states that are
alike in this way one is solved.

Notation: N states, U of them different, K arms, G nodes, R pulls and successes of an arm.
"""

from __future__ import annotations

import numpy as np

from agents.bayes_optimal import BayesOptimal
from agents.bayes_optimal.regret import MIN_NODE_MASS, ArmTable, find_edges, make_table
from agents.oracle import action_probabilities
from agents.oracle.arms import Arms
from agents.oracle.predictive import SUMS_PER_BATCH, OneArm, group_arms
from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.problem import BanditProblem

MAX_NUMBERS_PER_BATCH = 2**17
"""Of one table of a batch, 1 MB; larger ones leave the cache."""


def optimal_actions(
    problem: BanditProblem, counts: IntArray, sums: FloatArray, horizon: int
) -> BoolArray | None:
    """Return (N, K) True for the arms that the best policy for T pulls may pull, all ties marked.

    Args:
        problem: likelihood and prior.
        counts: (N, K) pulls of each arm, fewer than T in a state.
        sums: (N, K) total rewards.
        horizon: T.

    Returns:
        None where the recursion does not reach: `agents.bayes_optimal.optimal_value` says where.
    """
    try:
        policy = BayesOptimal(problem, horizon=horizon).policy
    except ValueError:
        return None
    return policy.best_arms(counts, sums)  # type: ignore[no-any-return]


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
    if not (isinstance(problem.likelihood, Bernoulli) and problem.offers("arm_log_density")):
        states, places = np.unique(np.concatenate([counts, sums], 1), axis=0, return_inverse=True)
        num_arms = problem.num_arms
        found = action_probabilities(problem, states[:, :num_arms], states[:, num_arms:])
        return found[places.reshape(-1)]  # type: ignore[no-any-return]
    rows, (shares, below) = _make_rows(problem, counts, sums)
    order = np.argsort(rows, axis=1)  # which exchanges arms of one prior
    in_order = np.take_along_axis(rows, order, axis=1)
    states, places = np.unique(in_order, axis=0, return_inverse=True)
    found = np.empty(states.shape)
    size = max(1, MAX_NUMBERS_PER_BATCH // shares.shape[1])
    for begin in range(0, len(states), size):
        batch = slice(begin, begin + size)
        found[batch] = _integrate_states(shares, below, states[batch])
    probabilities = np.empty(rows.shape)
    np.put_along_axis(probabilities, order, found[places.reshape(-1)], axis=1)
    return probabilities


def _make_rows(
    problem: BanditProblem, counts: IntArray, sums: FloatArray
) -> tuple[IntArray, ArmTable]:
    """Return the (N, K) rows of states in a table of all posteriors that occur, and the table."""
    arms, num_pulls = Arms(problem), int(counts.max()) + 1
    kinds = group_arms(arms)
    keys = (np.array(kinds) * num_pulls + counts) * num_pulls + sums.astype(np.int64)
    seen, rows = np.unique(keys, return_inverse=True)
    found = {kind: OneArm(arms.problem, kind) for kind in kinds}
    edges = np.unique(np.concatenate([find_edges(arm, num_pulls) for arm in found.values()]))
    tables = []
    for kind, arm in sorted(found.items()):
        own = seen[seen // num_pulls**2 == kind]
        for some in np.split(own, range(SUMS_PER_BATCH, len(own), SUMS_PER_BATCH)):
            pulls, successes = some // num_pulls % num_pulls, some % num_pulls
            tables.append(make_table(arm, pulls.astype(float), successes.astype(float), edges))
    shares, below = (np.concatenate(parts) for parts in zip(*tables, strict=True))
    is_seen = shares.max(axis=0) > MIN_NODE_MASS
    return rows.reshape(counts.shape), ArmTable(shares[:, is_seen], below[:, is_seen])


def _integrate_states(shares: FloatArray, below: FloatArray, states: IntArray) -> FloatArray:
    """Return (U, K) probabilities of the best arm, from (R, G) tables and (U, K) rows of them."""
    arms = range(states.shape[1])
    one = np.ones((len(states), below.shape[1]))
    before = [one]  # (U, G) probability that all arms before one are below a node
    for arm in arms[:-1]:
        before.append(before[-1] * below[states[:, arm]])
    after, found = one, np.empty(states.shape)
    for arm in reversed(arms):
        found[:, arm] = np.einsum("ug,ug->u", before[arm] * after, shares[states[:, arm]])
        after = after * below[states[:, arm]]
    return found / found.sum(axis=1, keepdims=True)
