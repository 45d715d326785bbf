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

LARGEST_MISS = 0.01
"""Of the sum of the probabilities, ten times the error that tables of posteriors may have."""


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

    Raises:
        ArithmeticError: if the probabilities do not sum to one.
    """
    ends = np.unique(nodes[np.isfinite(nodes)])
    fractions, weights = np.polynomial.legendre.leggauss(NUM_GAUSS)
    lengths = np.diff(ends)[:, None]
    places = (ends[:-1, None] + lengths * (fractions + 1) / 2).reshape(-1, 1)
    shares = (lengths * weights / 2).reshape(-1)
    with np.errstate(all="ignore"):
        densities = density(places)
    # Where a density has no bound at an end, places that round to that end hold next to no mass.
    densities = np.where(np.isposinf(densities), 0.0, densities)
    found = shares @ (densities * exclusive_products(distribution(places)))
    total = found.sum()
    if not abs(total - 1) < LARGEST_MISS:
        raise ArithmeticError(
            f"best-arm probabilities must sum to 1 within {LARGEST_MISS:g}, got {total:.6g}; the "
            "posteriors are too narrow or too heavy in the tails for this quadrature."
        )
    return np.asarray(found / total)


def exclusive_products(factors: np.ndarray) -> np.ndarray:
    """Return the (..., K) products over all entries of the last axis but the one at hand.

    From running products on either side: dividing the full product by a factor would lose an arm
    whose distribution function is still 0 there.
    """
    ones = np.ones_like(factors[..., :1])
    before = np.cumprod(np.concatenate([ones, factors[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([ones, factors[..., :0:-1]], axis=-1), axis=-1)
    return np.asarray(before * after[..., ::-1])
