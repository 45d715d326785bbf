"""One visitor's vector becomes the features of each arm, in blocks of coefficients.

Notation: K arms, p entries of a visitor's vector with the intercept, d features of an arm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bandit_gym.checks import check_integer, check_numbers, message
from bandit_gym.checks.typing import FloatArray


def disjoint(x: Any, num_arms: int, intercept: bool = True) -> FloatArray:
    """Return (..., K, d) features that give each arm a block of coefficients of its own.

    Arm a has the visitor's vector in block a and zeros elsewhere, so that the mean of an arm says
    nothing of another arm's.

    Args:
        x: (...,) numbers of each visitor on the last axis; other axes are several visitors.
        num_arms: K, at least 2.
        intercept: whether each block begins with a 1 before the visitor's numbers.

    Returns:
        (..., K, d) features, d = K p.

    Raises:
        TypeError: if x is not made of numbers.
        ValueError: if x is infinite or NaN, or has no numbers and there is no intercept.
    """
    return put_in_own_block(
        check_visitors(x, intercept), check_integer("num_arms", num_arms, minimum=2)
    )


def hierarchical(x: Any, num_arms: int, intercept: bool = True) -> FloatArray:
    """Return (..., K, d) features that give all arms one block, and each arm one of its own.

    The coefficients of arm a are those of the shared block, first, plus those of block a: with
    independent priors, a hierarchical model of arms that resemble each other.

    Args:
        x: (...,) numbers of each visitor on the last axis; other axes are several visitors.
        num_arms: K, at least 2.
        intercept: whether each block begins with a 1 before the visitor's numbers.

    Returns:
        (..., K, d) features, d = (K + 1) p.

    Raises:
        TypeError: if x is not made of numbers.
        ValueError: if x is infinite or NaN, or has no numbers and there is no intercept.
    """
    num_arms = check_integer("num_arms", num_arms, minimum=2)
    return put_in_both_blocks(check_visitors(x, intercept), num_arms)


def check_visitors(x: Any, intercept: bool) -> FloatArray:
    """Return (..., p) finite vectors, with a leading 1 if there is an intercept."""
    vectors = check_numbers("x", x)
    if not np.isfinite(vectors).all():
        raise ValueError(message("x", "be finite", x))
    if vectors.ndim == 0 or vectors.shape[-1] + bool(intercept) == 0:
        raise ValueError(message("x", "have a last axis of features", x))
    return add_intercept(vectors) if intercept else vectors


def add_intercept(vectors: FloatArray) -> FloatArray:
    """Return the (..., p) vectors of p - 1 numbers with a 1 before them."""
    return np.concatenate([np.ones((*vectors.shape[:-1], 1)), vectors], axis=-1)


def put_in_own_block(vectors: FloatArray, num_arms: int) -> FloatArray:
    """Return the (..., K, K p) features that `disjoint` describes."""
    *others, size = vectors.shape
    features, arms = np.zeros((*others, num_arms, num_arms, size)), np.arange(num_arms)
    features[..., arms, arms, :] = vectors[..., None, :]
    return features.reshape(*others, num_arms, num_arms * size)


def put_in_both_blocks(vectors: FloatArray, num_arms: int) -> FloatArray:
    """Return the (..., K, (K + 1) p) features that `hierarchical` describes."""
    shared = np.repeat(vectors[..., None, :], num_arms, axis=-2)
    return np.concatenate([shared, put_in_own_block(vectors, num_arms)], axis=-1)
