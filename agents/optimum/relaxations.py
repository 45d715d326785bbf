"""Information relaxations: what one would earn who saw the future, less a penalty for seeing it.

A scenario is all that pulls would pay: for each arm the successes s_n of its first n pulls. Who
knows it pulls so that the sum of what pulls pay less a penalty z is largest. If z has expectation 0
for those who do not know it, the expected maximum is at least the Bayes-optimal value (Brown, Smith
and Sun 2010). The penalties of Min, Maglaras and Moallemi (2019), "Thompson sampling with
information relaxation penalties", and what that leaves of the pull of an arm after n of its own and
t in all, with h = T - t - 1:

| name     | z = reward less ...                | a pull is worth                                  |
|----------|------------------------------------|--------------------------------------------------|
| ts       | its mean given all means           | mu                                               |
| fh       | its mean given T - 1 pulls of each | m(T - 1, s_{T-1})                                |
| v_zero   | m(n, s_n)                          | m(n, s_n)                                        |
| v_emax   | m less the gain of h E max_j mu_j  | m(n, s_n) - h (E max after it - E max before it) |
| v_levels | m less the gain of T sum w f       | m(n, s_n) - T sum w (f after it - f before it)   |

The first two leave nothing to choose but one arm, v_zero and v_levels how many pulls each arm gets,
v_emax their order too, so that only two and three arms are within reach. v_levels is ours: see
`_tuned_gains`.

Letters: K arms, T horizon.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from agents.optimum.predictive import predictive_means
from agents.optimum.pull_splits import split_pulls, worths
from agents.optimum.thompson_law import Nodes, make_nodes
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

QUANTILES = (0.02, 0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95)
"""Of v_levels: quantiles of the best mean to place its levels at."""

NUM_TRIALS, RATE = 600, 0.05
"""Scenarios that their weights are found on, and the step by which each of these may move them."""

FULL_WEIGHT_AT = 4
"""The pull of an arm from which on its weight is whole; it rises to that from the first."""


class Scenario(NamedTuple):
    """What the future holds.

    Attributes:
        means: (K,) of the arms.
        sums: (K, T) successes s_n of the first n = 0, ..., T - 1 pulls of each arm.
    """

    means: FloatArray
    sums: np.ndarray


Relaxation = Callable[[Scenario], float]
"""Takes a scenario, returns the largest total reward less penalties."""


def draw_scenario(problem: BanditProblem, horizon: int, rng: Generator) -> Scenario:
    """Draw means from the prior and rewards given them."""
    means = problem.prior.sample(rng, (problem.num_arms,))
    pays = rng.random((problem.num_arms, horizon - 1)) < means[:, None]
    sums = np.zeros((problem.num_arms, horizon), dtype=np.int64)
    np.cumsum(pays, axis=1, out=sums[:, 1:])
    return Scenario(means, sums)


def ts(problem: BanditProblem, horizon: int, rng: Generator) -> Relaxation:
    """Return the relaxation that knows the means."""
    return lambda scenario: horizon * float(scenario.means.max())


def fh(problem: BanditProblem, horizon: int, rng: Generator) -> Relaxation:
    """Return the relaxation that knows what T - 1 pulls of each arm would teach."""
    last, arms = predictive_means(problem, horizon)[:, -1], np.arange(problem.num_arms)
    arms %= len(last)
    return lambda scenario: horizon * float(last[arms, scenario.sums[:, -1]].max())


def v_zero(problem: BanditProblem, horizon: int, rng: Generator) -> Relaxation:
    """Return the relaxation whose pulls are worth their predictive means."""
    means = predictive_means(problem, horizon)
    return lambda scenario: split_pulls(worths(scenario.sums, means, np.zeros_like(means)))[0]


def v_emax(problem: BanditProblem, horizon: int, rng: Generator) -> Relaxation:
    """Return the relaxation that pays for what is learnt of the best mean."""
    means, nodes = predictive_means(problem, horizon), make_nodes(problem, horizon)

    def relax(scenario: Scenario) -> float:
        num_arms = problem.num_arms
        places = np.indices((horizon,) * num_arms)
        left = np.maximum(horizon - 1 - places.sum(axis=0), 0)
        best = _best_means(nodes, scenario)
        worth = []
        for arm, path in enumerate(scenario.sums):
            mean = means[arm % len(means), np.arange(horizon), path][places[arm]]
            gain = np.diff(best, axis=arm, append=np.take(best, [-1], axis=arm))
            worth.append(mean - left * gain)
        return _best_order(worth, horizon)

    return relax


def v_levels(problem: BanditProblem, horizon: int, rng: Generator) -> Relaxation:
    """Return the relaxation that pays for what is learnt of an arm's worth beyond a level."""
    means = predictive_means(problem, horizon)
    gains = _tuned_gains(problem, means, rng)
    return lambda scenario: split_pulls(worths(scenario.sums, means, gains))[0]


def _tuned_gains(problem: BanditProblem, means: FloatArray, rng: Generator) -> FloatArray:
    """Return (k, T, T) what v_levels charges a success more than a failure.

    The ideal charge is the gain of the optimal value. In its place goes a sum over arms, so that
    pulls still add up arm by arm: f(n, s) = E[(m(T - 1, S) - c)^+ | n, s] says what an arm may be
    worth beyond a level c, and T times the gains of several f are charged with a weight each, less
    for an arm's first pulls. Any levels and weights give a bound.
    """
    levels = np.quantile(_draw_best_means(problem, rng), QUANTILES)
    rise = np.minimum(1.0, np.arange(1.0, means.shape[1] + 1) / FULL_WEIGHT_AT)[:, None]
    gains = np.stack([rise * level_gains(means, level) for level in levels])
    return np.asarray(np.tensordot(_tuned_weights(problem, means, gains, rng), gains, axes=1))


def _tuned_weights(
    problem: BanditProblem, means: FloatArray, gains: FloatArray, rng: Generator
) -> FloatArray:
    """Return (L,) weights of the levels that give about the lowest bound.

    It is convex in them: stochastic subgradients with steps as in AdaGrad (Duchi, Hazan and Singer
    2011), and the average over their second half. The bound itself is computed on other scenarios.
    """
    weights, squares = np.full(len(gains), 1 / len(gains)), np.zeros(len(gains))
    visited = []
    for _ in range(NUM_TRIALS):
        sums = draw_scenario(problem, means.shape[1], rng).sums
        charges = _charges(sums, means, gains)
        plain = worths(sums, means, np.zeros_like(means))
        _, split = split_pulls(plain - np.tensordot(weights, charges, axes=1))
        slopes = -charges[:, np.arange(len(split)), split].sum(axis=1)
        squares += slopes**2
        weights = weights - RATE * slopes / np.sqrt(np.maximum(squares, np.finfo(float).tiny))
        visited.append(weights)
    return np.asarray(np.mean(visited[NUM_TRIALS // 2 :], axis=0))


def _charges(sums: np.ndarray, means: FloatArray, gains: FloatArray) -> FloatArray:
    """Return the (L, K, T + 1) charges for the first n pulls of each arm, by (L, k, T, T) gains."""
    num_arms, horizon = sums.shape
    kinds, n = np.arange(num_arms)[:, None] % len(means), np.arange(horizon - 1)
    before = sums[:, :-1]
    surprises = np.diff(sums, axis=1) - means[kinds, n, before]
    charges = np.zeros((len(gains), num_arms, horizon + 1))
    np.cumsum(gains[:, kinds, n, before] * surprises, axis=2, out=charges[..., 1:-1])
    charges[..., -1] = charges[..., -2]  # the last pull teaches nothing that could be used
    return charges


def _draw_best_means(problem: BanditProblem, rng: Generator) -> FloatArray:
    return np.asarray(problem.prior.sample(rng, (4096, problem.num_arms)).max(axis=1))


def level_gains(means: FloatArray, level: float) -> FloatArray:
    """Return (k, T, T) how much higher T f is after a success than after a failure.

    Args:
        means: (k, T, T) predictive means.
        level: c of f(n, s) = E[(m(T - 1, S) - c)^+ | n, s].
    """
    horizon = means.shape[1]
    gains, worth = np.zeros(means.shape), np.maximum(means[:, -1] - level, 0.0)
    for n in reversed(range(horizon - 1)):
        failed, paid = worth[:, :-1], worth[:, 1:]
        gains[:, n, : n + 1] = horizon * (paid - failed)
        worth = failed + means[:, n, : n + 1] * (paid - failed)
    return gains


def _best_means(nodes: Nodes, scenario: Scenario) -> FloatArray:
    """Return the (T, ..., T) expectations of the best mean after n pulls of each arm."""
    paths = list(zip(nodes.tables, scenario.sums, strict=True))
    shares = [np.array([t.shares[s] for t, s in zip(*path, strict=True)]) for path in paths]
    below = [np.array([t.below[s] for t, s in zip(*path, strict=True)]) for path in paths]
    best = []
    for arm in range(len(paths)):
        factors = [shares[j] * nodes.means if j == arm else below[j] for j in range(len(paths))]
        *others, last = factors
        product = reduce(lambda a, b: a[..., None, :] * b, others)
        best.append(product @ last.T)
    return np.asarray(sum(best))


def _best_order(worth: list[FloatArray], horizon: int) -> float:
    """Return the largest sum of T pulls' worth, each told where it is made; by recursion."""
    values = np.maximum.reduce(worth)  # of one pull, from each (n_1, ..., n_K)
    for _ in range(horizon - 1):
        # Where an arm had T pulls, there are none left: what is rolled in is never asked for.
        after = (np.roll(values, -1, axis=arm) for arm in range(len(worth)))
        values = np.maximum.reduce([each + later for each, later in zip(worth, after, strict=True)])
    return float(values.ravel()[0])


RELAXATIONS: dict[str, Callable[[BanditProblem, int, Generator], Relaxation]] = {
    "ts": ts,
    "fh": fh,
    "v_zero": v_zero,
    "v_emax": v_emax,
    "v_levels": v_levels,
}
"""By the names of the table above."""
