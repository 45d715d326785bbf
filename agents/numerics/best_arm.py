"""The probability that each of K independent arms is the best, computed and not drawn.

Of any densities it is integrated between the quantiles of all arms, where they bend; of those of
Table 1, `agents.numerics.march` finds it sooner.

Notation: K arms, N lanes, Q nodes of a panel, M nodes in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from agents.numerics.choices import raise_to_floor
from agents.numerics.distributions import (
    BETA_DISTRIBUTION,
    GAMMA_DISTRIBUTION,
    INVERSE_GAMMA_DISTRIBUTION,
    NORMAL_DISTRIBUTION,
    MeanDistributions,
)
from agents.numerics.march import NODE_WEIGHTS, NODES, NUM_NODES, TO_RIGHT, conjugate_best_arms
from bandit_gym.checks import check_available, check_choice, check_numbers, message
from bandit_gym.checks.typing import FloatArray

NUM_LEVELS = (13, 25, 49, 97, 193)
"""Quantiles of each arm between which integrals are taken: more until two answers agree."""

MAX_ERROR, MAX_NAMED_ERROR = 1e-6, 1e-7
"""Differences between two answers, the finer of which is better by far; the second with names."""

FAMILIES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "beta": (BETA_DISTRIBUTION, ("alpha", "beta")),
    "gamma": (GAMMA_DISTRIBUTION, ("shape", "rate")),
    "inverse_gamma": (INVERSE_GAMMA_DISTRIBUTION, ("shape", "scale")),
    "normal": (NORMAL_DISTRIBUTION, ("mean", "std")),
    "student_t": (None, ("df", "location", "scale")),
}
"""Distributions that have names, and their parameters; None is not conjugate to rewards."""


class Arms(NamedTuple):
    """Distributions of K arms in N lanes, each a function of places (M, N, K).

    Attributes:
        density: at places.
        cdf: at places; None to integrate the density, where that takes less time.
        quantile: at levels (M, 1, 1).
        max_error: that two answers may differ by.
    """

    density: Callable[[FloatArray], FloatArray]
    cdf: Callable[[FloatArray], FloatArray] | None
    quantile: Callable[[FloatArray], FloatArray]
    max_error: float = MAX_ERROR


def integrate_best_arms(arms: Arms, available: np.ndarray | None = None) -> np.ndarray:
    """Return the (N, K) probabilities that arms are best; see `integrate_positions`."""
    return integrate_positions(arms, 1, available)[:, 0]


def integrate_positions(arms: Arms, top: int, available: np.ndarray | None = None) -> np.ndarray:
    """Return the (N, top, K) probabilities of each place, the largest first, of any densities.

    Arm i has place j where j - 1 others are above it. How many are is a sum of independent events,
    and its probabilities at u are the coefficients of the product of all F_k(u) + (1 - F_k(u)) z.

    Args:
        arms: their distributions.
        top: how many places.
        available: (N, K) arms that have one; None for all.

    Returns:
        NaN of lanes whose `max_error` is not reached.
    """
    last: Any = np.inf
    for num_levels in NUM_LEVELS:
        levels = special.expit(np.linspace(-32, 32, num_levels))[:, None, None]
        ends = np.asarray(arms.quantile(levels)).transpose(1, 0, 2)  # (N, M, K)
        if np.isnan(ends).any():
            raise ValueError(message("distributions", "have parameters in range", "NaN quantiles"))
        ends = np.sort(ends.reshape(len(ends), -1), axis=1)
        probabilities = _integrate_panels(arms, ends, top, available)
        change, rest = probabilities - last, probabilities.sum(axis=2) - 1
        errors = np.maximum(np.abs(change).max(axis=2), np.abs(rest)).max(axis=1)
        if (errors <= arms.max_error).all():
            break
        last = probabilities
    probabilities = probabilities / probabilities.sum(axis=2, keepdims=True)
    probabilities[~(errors <= arms.max_error)] = np.nan
    return probabilities


def _integrate_panels(
    arms: Arms, ends: FloatArray, top: int, available: np.ndarray | None
) -> FloatArray:
    """Return (N, top, K) integrals between (N, M) ends, in order."""
    half, middle = np.diff(ends) / 2, (ends[:, 1:] + ends[:, :-1]) / 2
    x = (middle[..., None] + half[..., None] * NODES).reshape(len(ends), -1).T[..., None]
    sizes = (half[..., None] * NODE_WEIGHTS).reshape(len(ends), -1).T[..., None]
    with np.errstate(all="ignore"):
        density = np.asarray(arms.density(x))
        density = np.where(np.isfinite(density), density, 0.0)  # an end of the support, by rounding
        below = _integrate_up(density, half) if arms.cdf is None else arms.cdf(x)
    if available is not None:
        density, below = np.where(available, density, 0.0), np.where(available, below, 1.0)
    before = _multiply_factors(below, top)
    after = _multiply_factors(below[..., ::-1], top)[..., ::-1]
    found = np.empty((len(ends), top, below.shape[2]))
    for j in range(top):
        others = sum(before[k] * after[j - k] for k in range(j + 1))
        found[:, j] = (density * others * sizes).sum(axis=0)
    return found


def _multiply_factors(below: FloatArray, top: int) -> FloatArray:
    """Return the (top, M, N, K) chances that so many of the arms before one are above a place."""
    chances = np.zeros((top, *below.shape))
    chances[0, ..., 0] = 1.0
    for i in range(below.shape[-1] - 1):
        f = below[..., i]
        chances[..., i + 1] = f * chances[..., i]
        chances[1:, ..., i + 1] += (1 - f) * chances[:-1, ..., i]
    return chances


def _integrate_up(density: FloatArray, half: FloatArray) -> FloatArray:
    """Return (M, N, K) integrals up to the nodes of panels with (N, P) half lengths."""
    panels = (
        density.reshape(half.shape[1], NUM_NODES, *density.shape[1:]) * half.T[:, None, :, None]
    )
    masses = np.tensordot(NODE_WEIGHTS, panels, (0, 1))  # (P, N, K)
    to_right = np.tensordot(TO_RIGHT, panels, (0, 1)).swapaxes(0, 1)  # (P, Q, N, K)
    above = np.flip(np.cumsum(np.flip(masses, axis=0), axis=0), axis=0) - masses
    return np.clip(1.0 - above[:, None] - to_right, 0.0, 1.0).reshape(density.shape)


def best_arm_probabilities(
    distributions: Any,
    *,
    values: Any = None,
    costs: Any = None,
    available: Any = None,
    floor: float = 0.0,
) -> np.ndarray:
    """Return the probability that each arm has the largest value * mean - cost.

    It is the propensity with which Thompson sampling plays an arm, if the distributions are its
    posterior. A service that keeps alphas and betas needs nothing else of this package:

        best_arm_probabilities(("beta", [31, 45], [970, 1156]))

    Args:
        distributions: of the K arms' means, independent. A name and arrays of parameters, (K,)
            or (N, K): ("beta", alpha, beta), ("gamma", shape, rate), ("inverse_gamma", shape,
            scale), ("normal", mean, std) or ("student_t", df, location, scale). Or a continuous
            distribution of `scipy.stats`, frozen with such arrays, or a list of K frozen ones, of
            any families.
        values: (K,) or (N, K) above 0; None is 1.
        costs: (K,) or (N, K); None is 0.
        available: (K,) or (N, K) bool, the arms that can be played; None is all.
        floor: least probability of an available arm: max(s p, floor), with the one s for which they
            sum to 1.

    Returns:
        (K,) or (N, K) probabilities: to 1e-7 for names without values and costs, else to 1e-6.

    Raises:
        TypeError: if a distribution has no density.
        ValueError: if a parameter, a value or a cost is out of range, a floor is above 1 by the
            number of available arms, or 1e-6 is not reached.
    """
    shape, arms, conjugate = _read_arms(distributions)
    value = 1.0 if values is None else check_numbers("values", values)
    cost = 0.0 if costs is None else check_numbers("costs", costs)
    if not (np.all(np.greater(value, 0)) and np.all(np.isfinite(value))):
        raise ValueError(message("values", "be above 0 and finite", values))
    if not np.all(np.isfinite(cost)):
        raise ValueError(message("costs", "be finite", costs))
    try:
        shape = np.broadcast_shapes(shape, np.shape(value), np.shape(cost))
    except ValueError:
        condition = f"have shapes that go with {shape}, that of the distributions"
        raise ValueError(
            message("values and costs", condition, (np.shape(value), np.shape(cost)))
        ) from None
    if len(shape) not in (1, 2):
        raise ValueError(message("distributions", "be of (K,) or (N, K) arms", shape))
    lanes, num_envs = (1, *shape)[-2:], shape[0] if len(shape) == 2 else None
    mask = None if available is None else check_available(available, shape[-1], num_envs)
    if conjugate is not None and values is None and costs is None:
        probabilities = conjugate_best_arms(conjugate, mask)
        if np.isnan(probabilities).any():
            probabilities = integrate_best_arms(arms, mask)
    else:
        probabilities = integrate_best_arms(price_arms(arms, value, cost, lanes), mask)
    if np.isnan(probabilities).any():
        condition = f"have densities whose integrals are found to {arms.max_error:g}"
        raise ValueError(message("distributions", condition, distributions))
    probabilities = raise_to_floor(probabilities, floor, mask)
    return probabilities if num_envs else probabilities[0]


def _read_arms(distributions: Any) -> tuple[tuple[int, ...], Arms, MeanDistributions | None]:
    """Return the shape of arms, their functions, and what the march takes if it can."""
    is_several = isinstance(distributions, Sequence) and len(distributions) > 0
    if is_several and isinstance(distributions[0], str):
        distribution, first, second, *others = _read_named(*distributions)
        if distribution is None:
            from scipy import stats  # which takes a third of a second to load

            one = stats.t(first, second, *others)
            return first.shape, Arms(one.pdf, one.cdf, one.ppf, MAX_NAMED_ERROR), None
        parameters = np.atleast_2d(first), np.atleast_2d(second)
        arms = Arms(
            lambda x: np.exp(distribution.log_density(first, second, x)),
            lambda x: distribution.cdf(first, second, x),
            lambda p: distribution.quantile(first, second, p),
        )
        return first.shape, arms, MeanDistributions(distribution.code, *parameters)
    distributions = [*distributions] if is_several else [distributions]
    for one in distributions:
        if not all(hasattr(one, name) for name in ("pdf", "cdf", "ppf")):
            condition = "be a name with parameters, or continuous distributions of scipy.stats"
            raise TypeError(message("distributions", condition, one))
    shapes = [np.shape(one.ppf(0.5)) for one in distributions]
    if not is_several:
        (one,) = distributions
        return shapes[0], Arms(one.pdf, one.cdf, one.ppf), None
    if any(shapes):
        raise ValueError(message("distributions", "be single ones, in a list", shapes))

    def apply(name: str, x: FloatArray) -> FloatArray:
        """Return each arm's function in its own place of the last axis."""
        x = np.broadcast_to(x, (*x.shape[:-1], len(distributions)))
        values = [getattr(one, name)(x[..., i]) for i, one in enumerate(distributions)]
        return np.stack(values, axis=-1)

    arms = Arms(partial(apply, "pdf"), partial(apply, "cdf"), partial(apply, "ppf"))
    return (len(distributions),), arms, None


def _read_named(name: str, *parameters: Any) -> tuple[Any, ...]:
    """Return a named distribution and its parameters, as the house has them."""
    check_choice("distributions", name, [*FAMILIES])
    distribution, names = FAMILIES[name]
    if len(parameters) != len(names):
        condition = f"be ({name!r}, {', '.join(names)})"
        raise ValueError(message("distributions", condition, (name, *parameters)))
    checked = [*map(check_numbers, names, parameters)]
    for label, given in zip(names, checked, strict=True):
        is_place = label in ("mean", "location")
        if not (np.isfinite(given) & ((given > 0) | is_place)).all():
            rule = "finite" if is_place else "above 0 and finite"
            raise ValueError(message(label, f"be {rule}", given))
    try:
        arrays = [np.array(each) for each in np.broadcast_arrays(*checked)]
    except ValueError:
        condition = f"have {', '.join(names[:-1])} and {names[-1]} of shapes that go together"
        shapes = tuple(map(np.shape, checked))
        raise ValueError(message("distributions", condition, shapes)) from None
    if arrays[0].ndim not in (1, 2):
        raise ValueError(message("distributions", "be of (K,) or (N, K) arms", arrays[0].shape))
    if name == "normal":  # the precision times the mean, and the precision
        mean, std = arrays
        arrays = [mean / std**2, 1 / std**2]
    return distribution, *arrays


def price_arms(arms: Arms, value: Any, cost: Any, shape: tuple[int, ...]) -> Arms:
    """Return the distributions of value * mean - cost, for (N, K) arms."""

    def means(y: FloatArray) -> FloatArray:
        return np.broadcast_to((y + cost) / value, (len(y), *shape))

    return Arms(
        lambda y: arms.density(means(y)) / value,
        lambda y: arms.cdf(means(y)),  # type: ignore[misc]  # no arms lack it here
        lambda p: np.broadcast_to(value * arms.quantile(p) - cost, (len(p), *shape)),
    )
