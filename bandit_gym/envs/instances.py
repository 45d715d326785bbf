"""The instances that episodes are played on: fixed means, or means drawn from the prior."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bandit_gym.checks import check_parameter, message
from bandit_gym.dynamics import draw_means
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

LARGEST_MEAN = 1e150
"""The squares of larger rewards overflow."""


def check_means(means: Any, problem: BanditProblem) -> FloatArray | None:
    """Return the means of a fixed instance as a (K,) array, or None."""
    if means is None:
        return None
    checked = check_parameter("means", means)
    if isinstance(checked, float):
        raise TypeError(f"means must be a list of one number per arm, got {means!r}.")
    values = np.array(checked)
    if len(values) != problem.num_arms:
        raise ValueError(
            f"means must have num_arms={problem.num_arms} entries, got {len(values)}; "
            f"pass num_arms={len(values)} too."
        )
    if not problem.likelihood.contains(values).all():
        low, high = problem.likelihood.support
        raise ValueError(
            f"means must be possible for {problem.likelihood.name} rewards, "
            f"from {low:g} to {high:g}, got {means!r}."
        )
    check_size("means", values)
    return values


def draw_instances(
    problem: BanditProblem,
    fixed_means: FloatArray | None,
    rngs: Sequence[np.random.Generator],
) -> FloatArray:
    """Return the (N, K) means of N new episodes, each drawn with its own generator.

    A prior whose draws cost more one by one may offer `sample_each(rngs)`, equal to the last bit.
    """
    if fixed_means is not None:
        return np.tile(fixed_means, (len(rngs), 1))
    means = _draw(problem, rngs)
    check_size("prior.sample", means)
    return means


def check_size(name: str, means: FloatArray) -> None:
    """Refuse (..., K) means that are NaN, infinite or so large that rewards would overflow."""
    is_good = np.abs(means) <= LARGEST_MEAN
    if not is_good.all():
        condition = f"stay within [{-LARGEST_MEAN:g}, {LARGEST_MEAN:g}]"
        raise ValueError(message(name, condition, means[~is_good][0]))


def _draw(problem: BanditProblem, rngs: Sequence[np.random.Generator]) -> FloatArray:
    prior: Any = problem.prior
    if problem.offers("sample_each"):
        return np.array(prior.sample_each(rngs), dtype=np.float64)
    return np.stack([draw_means(problem.prior, rng, problem.num_arms) for rng in rngs])
