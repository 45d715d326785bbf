"""What an agent holds of each arm's mean, as heights over a common range of means.

Letters: K arms, C cells of the range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bandit_gym.envs.rendering import likelihood_interval
from bandit_gym.likelihoods import Likelihood
from bandit_gym.typing import FloatArray

NUM_CELLS = 96
NUM_DRAWS = 2000
"""Of posteriors that are held as draws, for a histogram."""

ASKED = ("mean", "std", "density", "sample", "source")
"""Of a posterior, as `agents.snapshots` has them."""

INTERVAL_HEIGHT = 0.4
NUM_STDS = 3
"""Of a posterior's width to either side of its mean, where nothing better tells the range."""

Range = tuple[float, float]


class Belief(NamedTuple):
    """What an agent holds of the arms at one time.

    Attributes:
        name: of what is drawn, in words.
        centre: (K,) posterior means or averages, inf or nan for arms of which nothing is known.
        low: (K,) ends of where each arm's mean may lie.
        high: (K,) the other ends.
        draw: from a range of means to the (K, C) heights in its cells, each arm's highest at 1.
    """

    name: str
    centre: FloatArray
    low: FloatArray
    high: FloatArray
    draw: Callable[[Range], FloatArray]


def find_belief(agent: Any, likelihood: Likelihood, counts: Any, sums: Any) -> Belief:
    """Return the posterior of an agent's single lane, or what averages say if it has none.

    Args:
        agent: the learner; asking for its posterior changes nothing in it.
        likelihood: law of the rewards.
        counts: (K,) pulls of each arm that the averages are taken over.
        sums: (K,) their rewards.
    """
    posterior = _ask(agent)
    if posterior is None:
        return _averages(likelihood, np.asarray(counts, float), np.asarray(sums, float))
    centre, std = np.ravel(posterior.mean()), np.ravel(posterior.std())
    with np.errstate(invalid="ignore"):
        low, high = centre - NUM_STDS * std, centre + NUM_STDS * std

    def draw(cells: Range) -> FloatArray:
        return _to_own_height(_masses(posterior, cells), centre, cells)

    return Belief(f"posterior, from {posterior.source}", centre, low, high, draw)


def _ask(agent: Any) -> Any:
    """Return an agent's posterior; None of rules that need no prior, and of others' agents."""
    try:
        posterior = agent.posterior()
    except (AttributeError, TypeError):
        return None
    return posterior if all(hasattr(posterior, name) for name in ASKED) else None


def _averages(likelihood: Likelihood, counts: FloatArray, sums: FloatArray) -> Belief:
    """Return averages with their 95 % likelihood intervals, drawn as bars."""
    centre, low, high = np.full((3, len(counts)), np.nan)
    is_seen = counts > 0
    centre[is_seen] = sums[is_seen] / counts[is_seen]
    low[is_seen], high[is_seen] = likelihood_interval(likelihood, counts[is_seen], sums[is_seen])

    def draw(cells: Range) -> FloatArray:
        edges = np.linspace(*cells, NUM_CELLS + 1)
        is_inside = (edges[1:] >= low[:, None]) & (edges[:-1] <= high[:, None])
        return _marked(np.where(is_inside, INTERVAL_HEIGHT, 0.0), is_seen, centre, cells)

    return Belief("average, 95 % interval", centre, low, high, draw)


def _masses(posterior: Any, cells: Range) -> FloatArray:
    """Return (K, C) densities at the middles of the cells, or how many draws fall into each."""
    edges = np.linspace(*cells, NUM_CELLS + 1)
    try:
        found = posterior.density((edges[1:] + edges[:-1]) / 2).reshape(NUM_CELLS, -1).T
    except TypeError:
        draws = posterior.sample(NUM_DRAWS, seed=0).reshape(NUM_DRAWS, -1).T
        found = np.array([np.histogram(each, edges)[0] for each in draws], dtype=float)
    return np.nan_to_num(found, nan=0.0, posinf=0.0)


def _to_own_height(masses: FloatArray, centre: FloatArray, cells: Range) -> FloatArray:
    """Scale each arm's masses to a highest of 1; what falls between cells stands at its mean."""
    highest = masses.max(axis=1, keepdims=True)
    is_lost = highest[:, 0] == 0
    return _marked(masses / np.where(highest > 0, highest, 1.0), is_lost, centre, cells)


def _marked(heights: FloatArray, where: Any, centre: FloatArray, cells: Range) -> FloatArray:
    """Return heights that are 1 in the cell of the centre of some arms, where that is in range."""
    low, high = cells
    with np.errstate(invalid="ignore"):
        arms = np.flatnonzero(where & (centre >= low) & (centre <= high))
    places = ((centre[arms] - low) / (high - low) * NUM_CELLS).astype(int)
    heights[arms, np.minimum(places, NUM_CELLS - 1)] = 1.0
    return heights


def find_range(
    means: FloatArray | None, belief: Belief, likelihood: Likelihood, before: Range | None
) -> Range:
    """Return the range of means to draw: half as far beyond the true ones as they are apart.

    Args:
        means: (K,) true means, None where they are not told.
        belief: whose finite ends tell the range otherwise.
        likelihood: outside whose support nothing is drawn.
        before: the range so far, within which nothing moves.
    """
    ends = np.concatenate([belief.low, belief.high] if means is None else [means])
    ends = ends[np.isfinite(ends)]
    low, high = (ends.min(), ends.max()) if len(ends) else (0.0, 0.0)
    if means is not None or low == high:
        margin = (high - low) / 2 or float(likelihood.reward_std(low)) or 1.0
        low, high = low - margin, high + margin
    least, most = likelihood.support
    low, high = max(low, least), min(high, most)
    return (low, high) if before is None else (min(low, before[0]), max(high, before[1]))
