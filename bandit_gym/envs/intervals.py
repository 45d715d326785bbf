"""Confidence intervals for the mean of one arm, the same way for every likelihood."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from bandit_gym.likelihoods import Likelihood
from bandit_gym.typing import BoolArray, FloatArray

_CHI_SQUARED_95 = 3.841458820694124  # 95 % quantile of chi-squared with one degree of freedom
_NUM_DOUBLINGS = 60
_NUM_HALVINGS = 50


def likelihood_interval(
    likelihood: Likelihood, counts: ArrayLike, sums: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Compute 95 % likelihood-ratio intervals of the mean, {mu : 2 (l(s / n) - l(mu)) <= 3.84}.

    Unlike s / n +- 1.96 standard errors they stay inside the support, and they do not shrink to a
    point when all rewards are equal.

    Args:
        likelihood: law of the rewards.
        counts: (K,) number of rewards of each arm, at least 1.
        sums: (K,) their sums.

    Returns:
        (K,) lower and (K,) upper ends. Both are s / n where the likelihood has no largest value.
    """
    counts, sums = np.asarray(counts, dtype=np.float64), np.asarray(sums, dtype=np.float64)
    centre = sums / counts
    peak = likelihood.log_likelihood(centre, counts, sums)
    has_peak = np.isfinite(peak)
    peak = np.where(has_peak, peak, 0.0)

    def is_inside(means: FloatArray) -> BoolArray:
        return 2.0 * (peak - likelihood.log_likelihood(means, counts, sums)) <= _CHI_SQUARED_95

    step = likelihood.reward_std(centre) / np.sqrt(counts) + 1.0 / counts
    low, high = likelihood.support
    lower = _find_end(is_inside, centre, centre - step if np.isinf(low) else low)
    upper = _find_end(is_inside, centre, centre + step if np.isinf(high) else high)
    return np.where(has_peak, lower, centre), np.where(has_peak, upper, centre)


def _find_end(
    is_inside: Callable[[FloatArray], BoolArray], centre: FloatArray, guess: float | FloatArray
) -> FloatArray:
    """Find where the interval around `centre` ends: step past it by doubling, then halve."""
    outside = np.broadcast_to(guess, centre.shape)
    for _ in range(_NUM_DOUBLINGS):
        is_in = is_inside(outside)
        if not is_in.any():
            break
        outside = np.where(is_in, 2.0 * outside - centre, outside)
    inside = centre
    for _ in range(_NUM_HALVINGS):
        middle = 0.5 * (inside + outside)
        is_in = is_inside(middle)
        inside, outside = np.where(is_in, middle, inside), np.where(is_in, outside, middle)
    return inside
