"""Do a prior's `sample` and `log_density` describe the same law? A test that cannot cry wolf.

If X has the density, so has the end X' of a Metropolis chain that starts at X and keeps that
density; the chain is reversible, so (X, X') and (X', X) have the same law, and f(X') - f(X) is
symmetric about 0 for every f. For n symmetric differences D the sum is beyond z sqrt(sum D^2) with
probability at most 2 exp(-z^2 / 2), whatever their tails (Hoeffding 1963). So draws of `sample`
that are moved under `log_density` and drift by more than that disagree with it, and nothing but the
level is left to chance: neither normalisation, dimension, nor a good proposal matters.

Letters: K arms, n draws, F functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from bandit_gym.typing import BoolArray, FloatArray

NUM_DRAWS, NUM_STEPS = 1000, 20
LEVEL = 1e-6
"""Probability of a warning where both methods agree."""

SMALLEST_STEP, LARGEST_STEP = 0.1, 3.0
"""Of the random walk, in standard deviations; drawn anew, evenly on the log scale."""

LogDensity = Callable[[FloatArray], FloatArray]


class Drift(NamedTuple):
    """What moved, and by how much, where the two methods disagree.

    Attributes:
        name: in words, which average.
        before: the average over draws of `sample`.
        after: the same after the moves.
        num_errors: how many root sums of squares the change is, of which `limit` are allowed.
        limit: z at the level.
    """

    name: str
    before: float
    after: float
    num_errors: float
    limit: float


class Chains(NamedTuple):
    """Where n Markov chains are: (n, K) means and their (n,) log-densities."""

    means: FloatArray
    log_densities: FloatArray


def find_drift(
    pilot: FloatArray, draws: FloatArray, log_density: LogDensity, *, level: float = LEVEL
) -> Drift | None:
    """Return what the moves change most, or None if nothing changes more than chance allows.

    Args:
        pilot: (n, K) draws that set the size of the steps.
        draws: (n, K) other draws, from which the chains start.
        log_density: of (n, K) means, -inf outside the support.
        level: probability of a drift by chance.
    """
    rng = np.random.default_rng(1)
    centre, spread = np.median(pilot, axis=0), pilot.std(axis=0)
    spread = np.where(spread > 0, spread, 0.1 * np.maximum(np.abs(centre), 1.0))
    start = Chains(draws, log_density(draws))
    moved = start
    for _ in range(NUM_STEPS):
        moved = _step(rng, moved, spread, log_density)
    precision = np.linalg.pinv(np.atleast_2d(np.cov(pilot, rowvar=False)), hermitian=True)
    before, after = (_summarise(chains, centre, precision) for chains in (start, moved))
    change = after - before
    size = np.sqrt(np.square(change).sum(axis=0))
    scores = np.abs(np.divide(change.sum(axis=0), size, out=np.zeros_like(size), where=size > 0))
    worst = int(scores.argmax())
    limit = math.sqrt(2 * math.log(2 * len(scores) / level))
    if scores[worst] <= limit:
        return None
    name = _names(draws.shape[1])[worst]
    averages = float(before[:, worst].mean()), float(after[:, worst].mean())
    return Drift(name, *averages, float(scores[worst]), limit)


def _step(rng: Generator, chains: Chains, spread: FloatArray, log_density: LogDensity) -> Chains:
    """Do one Metropolis step of each chain, in one arm or, as often, in all of them."""
    means, current = chains
    num_draws, num_arms = means.shape
    log_sizes = rng.uniform(math.log(SMALLEST_STEP), math.log(LARGEST_STEP), (num_draws, 1))
    is_alone = rng.random((num_draws, 1)) < 0.5
    is_chosen = np.arange(num_arms) == rng.integers(num_arms, size=(num_draws, 1))
    share = np.where(is_alone, is_chosen, 1 / math.sqrt(num_arms))
    proposed = means + np.exp(log_sizes) * share * spread * rng.standard_normal(means.shape)
    proposed_density = log_density(proposed)
    with np.errstate(invalid="ignore"):  # from outside the support to outside the support
        is_accepted = proposed_density - current > -rng.standard_exponential(num_draws)
    return Chains(
        np.where(is_accepted[:, None], proposed, means),
        np.where(is_accepted, proposed_density, current),
    )


def _summarise(chains: Chains, centre: FloatArray, precision: FloatArray) -> FloatArray:
    """Return the (n, F) numbers whose averages may drift, in the order of `_names`."""
    away = chains.means - centre
    distances = np.einsum("ni,ij,nj->n", away, precision, away)
    densities = np.clip(chains.log_densities, -1e6, 1e6)
    return np.column_stack([chains.means, np.abs(away), distances, densities])


def _names(num_arms: int) -> list[str]:
    arms = range(num_arms)
    return [
        *(f"mean of arm {arm}" for arm in arms),
        *(f"distance of arm {arm} from its median" for arm in arms),
        "squared distance of all arms from their medians, in units of their covariance",
        "log-density",
    ]


def restrict(log_density: LogDensity, is_inside: Callable[[FloatArray], BoolArray]) -> LogDensity:
    """Return the log-density with -inf where `is_inside` is False for an arm, without asking there.

    Args:
        log_density: of (n, K) means.
        is_inside: (n, K) means to (n, K) bool.
    """

    def restricted(means: FloatArray) -> FloatArray:
        is_possible = is_inside(means).all(axis=1)
        values = np.full(len(means), -np.inf)
        if is_possible.any():
            values[is_possible] = log_density(means[is_possible])
        return values

    return restricted
