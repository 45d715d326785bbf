"""Features that are drawn at each step, by name or by a user's own function.

Linear predictors have the deviation 2 under coefficients of unit variance, and .5 under a log link,
where a larger one makes a few visitors pay for all. Wider priors make wider predictors.

Notation: M lanes, K arms, d features of an arm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from bandit_gym.checks import call_method, check_callback, check_choice, load_named, message
from bandit_gym.checks.typing import FloatArray
from bandit_gym.contexts.blocks import add_intercept, put_in_both_blocks, put_in_own_block
from bandit_gym.numerics.streams import make_generator

DEVIATION, DEVIATION_OF_LOG = 2.0, 0.5
"""Of linear predictors under coefficients of unit variance; the second under a log link."""

MAX_FEATURE = 1e6
"""Of features that are drawn: checkers of environments ask for ends of their space."""

Draw = Callable[[Sequence[Generator], int, int], FloatArray]
"""From the generators of M lanes, K and d to (M, K, d) features."""

UserDraw = Callable[[Generator, int, int], FloatArray]
"""From one generator, K and d to (K, d) features."""


class Contexts(NamedTuple):
    """How features arise.

    Attributes:
        make: draws them.
        num_blocks: of coefficients, given K; d is a multiple of it.
        is_fixed: whether they are drawn once an episode.
        scale: of the features.
    """

    make: Draw
    num_blocks: Callable[[int], int] | None = None
    is_fixed: bool = False
    scale: float = 1.0

    def draw(self, rngs: Sequence[Generator], num_arms: int, num_features: int) -> FloatArray:
        """Return the (M, K, d) features of one step in M lanes, each lane's of its generator."""
        return self.scale * self.make(rngs, num_arms, num_features)


def _draw_normal(rngs: Sequence[Generator], *shape: int) -> FloatArray:
    drawn = np.empty((len(rngs), *shape))
    for rng, out in zip(rngs, drawn, strict=True):
        rng.standard_normal(out=out)
    return drawn


def _draw_arms(rngs: Sequence[Generator], num_arms: int, num_features: int) -> FloatArray:
    """Draw each arm's features by themselves."""
    return _draw_normal(rngs, num_arms, num_features) / np.sqrt(num_features)


def _draw_disjoint(rngs: Sequence[Generator], num_arms: int, num_features: int) -> FloatArray:
    size = num_features // num_arms
    visitors = add_intercept(_draw_normal(rngs, size - 1))
    return put_in_own_block(visitors / np.sqrt(size), num_arms)


def _draw_hierarchical(rngs: Sequence[Generator], num_arms: int, num_features: int) -> FloatArray:
    size = num_features // (num_arms + 1)
    visitors = add_intercept(_draw_normal(rngs, size - 1))
    return put_in_both_blocks(visitors / np.sqrt(2 * size), num_arms)


CONTEXTS = {
    "normal": Contexts(_draw_arms),
    "fixed": Contexts(_draw_arms, is_fixed=True),
    "disjoint": Contexts(_draw_disjoint, int),
    "hierarchical": Contexts(_draw_hierarchical, (1).__add__),
}
"""By name; here linear predictors have the deviation 1 under coefficients of unit variance."""


def count_coefficients(contexts: Any, num_arms: int, num_features: int) -> int:
    """Return d, where each block of coefficients has `num_features`; other arguments unchecked."""
    known = CONTEXTS.get(contexts) if isinstance(contexts, str) else None
    return num_features * (known.num_blocks(num_arms) if known and known.num_blocks else 1)


def make_contexts(contexts: Any, num_arms: int, num_features: int, link: str) -> Contexts:
    """Return how features arise, by name, as `module:name`, or as a function.

    Args:
        contexts: a name of `CONTEXTS`, or a user's `(rng, num_arms, num_features) -> (K, d)`.
        num_arms: K.
        num_features: d.
        link: name of the link, which decides how large features are.

    Raises:
        TypeError: if it is neither a name nor a function.
        ValueError: if the name is unknown, d does not fit the blocks, or a user's function returns
            something else than (K, d) numbers within [-1e6, 1e6].
    """
    if isinstance(contexts, str) and ":" in contexts:
        contexts = load_named("contexts", contexts)
    if not isinstance(contexts, str):
        check_callback("contexts", contexts)
        _draw_checked(contexts, [make_generator("trial of contexts")], num_arms, num_features)
        return Contexts(partial(_draw_checked, contexts))
    known = CONTEXTS[check_choice("contexts", contexts, CONTEXTS)]
    if num_features % (blocks := count_coefficients(contexts, num_arms, 1)):
        condition = f"be a multiple of {blocks}, a block for each, under {contexts} contexts"
        raise ValueError(message("num_features", condition, num_features))
    return known._replace(scale=DEVIATION_OF_LOG if link == "log" else DEVIATION)


def _draw_checked(
    draw: UserDraw, rngs: Sequence[Generator], num_arms: int, num_features: int
) -> FloatArray:
    """Return what a user's function draws for each lane, if it is (K, d) features."""
    name, shape = "contexts(rng, num_arms, num_features)", (num_arms, num_features)
    features = np.stack([call_method(name, shape, draw, rng, *shape) for rng in rngs])
    if not (np.abs(features) <= MAX_FEATURE).all():
        condition = f"return numbers within [{-MAX_FEATURE:g}, {MAX_FEATURE:g}]"
        raise ValueError(message(name, condition, features))
    return features
