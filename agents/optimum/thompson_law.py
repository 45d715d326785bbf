"""Thompson sampling's law in every state: the probability that each arm has the largest mean.

    P_i = int p_i(x) prod_{j != i} F_j(x) dx

for all states of a block at once: on nodes that resolve the posteriors of every arm after any
number of pulls, that is a product of matrices.

Letters: K arms, T horizon, P panels, Q nodes each, G nodes in all, S successes.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

from agents.optimum.predictive import SUMS_AT_ONCE, OneArm, kinds_of_arms
from agents.oracle.arms import ArmPosteriors, Arms
from agents.oracle.panels import make_panels
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

SMALLEST_SHARE = 1e-17
"""Mass of a node, in each of an arm's posteriors, below which it is left out."""


class ArmTable(NamedTuple):
    """The posteriors of an arm after n pulls.

    Attributes:
        shares: (n + 1, G) mass at each node, for s = 0 to n successes.
        below: (n + 1, G) distribution function there.
    """

    shares: FloatArray
    below: FloatArray


class Nodes(NamedTuple):
    """Posteriors of every arm, on common nodes.

    Attributes:
        means: (G,) means at the nodes.
        tables: of arm i after n pulls, `tables[i][n]`.
    """

    means: FloatArray
    tables: list[list[ArmTable]]


class ThompsonLaw:
    """The law of Thompson sampling's arm, by blocks of states.

    Arguments:
        problem: Bernoulli rewards, arms independent a priori.
        horizon: T; blocks have fewer pulls.
    """

    def __init__(self, problem: BanditProblem, horizon: int) -> None:
        self._tables = make_nodes(problem, horizon).tables

    def __call__(self, counts: tuple[int, ...]) -> FloatArray:
        """Return the (K, n_1 + 1, ..., n_K + 1) probabilities of each arm."""
        tables = [self._tables[arm][n] for arm, n in enumerate(counts)]
        found = [self._chance(arm, tables) for arm in range(len(counts) - 1)]
        last = np.maximum(1 - np.sum(found, axis=0), 0.0)
        return np.stack([*found, last])

    @staticmethod
    def _chance(arm: int, tables: list[ArmTable]) -> FloatArray:
        """Return the (n_1 + 1, ..., n_K + 1) probabilities that one arm is the best."""
        others = [table.below for j, table in enumerate(tables) if j != arm]
        product = reduce(lambda a, b: a[..., None, :] * b, others)
        found = np.tensordot(tables[arm].shares, product, axes=(-1, -1))
        return np.moveaxis(found, 0, arm)


def make_nodes(problem: BanditProblem, horizon: int) -> Nodes:
    """Return the posteriors of every arm after fewer than T pulls."""
    kinds = kinds_of_arms(Arms(problem))
    arms = {kind: OneArm(problem, kind) for kind in kinds}
    edges = np.unique(np.concatenate([_edges(arm, horizon) for arm in arms.values()]))
    tables = {kind: _tables(arm, horizon, edges) for kind, arm in arms.items()}
    largest = np.max([t.shares.max(axis=0) for each in tables.values() for t in each], axis=0)
    is_seen = largest > SMALLEST_SHARE
    for each in tables.values():
        for n, table in enumerate(each):  # one after the other: together they take gigabytes
            each[n] = ArmTable(table.shares[:, is_seen], table.below[:, is_seen])
    arm = arms[kinds[0]]
    places = make_panels(lambda u: np.zeros((len(u), 1)), edges, arm.line.grain).places
    return Nodes(arm.line.means(places).ravel()[is_seen], [tables[kind] for kind in kinds])


def _edges(arm: OneArm, horizon: int) -> FloatArray:
    """Return edges that resolve an arm's posteriors before any pull and after all of them."""
    sums, pulls = np.arange(float(horizon)), float(horizon - 1)
    groups = np.split(sums, range(SUMS_AT_ONCE, horizon, SUMS_AT_ONCE))
    resolved = [arm.resolve(np.full(len(group), pulls), group) for group in groups]
    resolved.append(arm.resolve(np.zeros(1), np.zeros(1)))
    return np.concatenate([panels.edges for panels in resolved])


def _tables(arm: OneArm, horizon: int, edges: FloatArray) -> list[ArmTable]:
    tables = []
    for n in range(horizon):
        posteriors = ArmPosteriors(arm, np.full(n + 1, float(n)), np.arange(n + 1.0))
        panels = make_panels(posteriors.along, edges, arm.line.grain)
        tables.append(ArmTable(_by_state(panels.shares), _by_state(panels.distributions())))
    return tables


def _by_state(values: FloatArray) -> FloatArray:
    """Return (P, Q, S) values at nodes as (S, G)."""
    return np.ascontiguousarray(values.reshape(-1, values.shape[-1]).T)
