"""How likely each of K independent arms has the largest mean, from their distribution functions.

    P_i = int p_i(x) prod_{j != i} F_j(x) dx

by Gauss-Legendre quadrature between nodes that follow every arm: posteriors may differ in width by
orders of magnitude, and where one arm's distribution function rises, the integrand of all changes.

Letters: K arms, M points.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import special

NUM_GAUSS = 5
"""Points between two nodes."""


@cache
def logit_levels() -> np.ndarray:
    """Return probabilities at which to place an arm's nodes: one apart on the logit scale."""
    return np.asarray(special.expit(np.arange(-24.0, 24.5)))


def best_arm_probabilities(
    nodes: np.ndarray,
    density: Callable[[np.ndarray], np.ndarray],
    distribution: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Return the (K,) probabilities.

    Args:
        nodes: places between which each arm's density is smooth, in any order.
        density: takes (M, 1) places, returns the (M, K) densities.
        distribution: likewise the distribution functions.
    """
    ends = np.unique(nodes[np.isfinite(nodes)])
    fractions, weights = np.polynomial.legendre.leggauss(NUM_GAUSS)
    lengths = np.diff(ends)[:, None]
    places = (ends[:-1, None] + lengths * (fractions + 1) / 2).reshape(-1, 1)
    shares = (lengths * weights / 2).reshape(-1)
    found = shares @ (density(places) * exclusive_products(distribution(places)))
    return np.asarray(found / found.sum())


def exclusive_products(factors: np.ndarray) -> np.ndarray:
    """Return the (..., K) products over all entries of the last axis but the one at hand.

    From running products on either side: dividing the full product by a factor would lose an arm
    whose distribution function is still 0 there.
    """
    ones = np.ones_like(factors[..., :1])
    before = np.cumprod(np.concatenate([ones, factors[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([ones, factors[..., :0:-1]], axis=-1), axis=-1)
    return np.asarray(before * after[..., ::-1])
