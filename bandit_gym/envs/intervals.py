"""Confidence intervals for the mean of one arm, the same way for every likelihood."""

import numpy as np
from numpy.typing import ArrayLike

from bandit_gym.likelihoods import Likelihood
from bandit_gym.typing import FloatArray

_CHI_SQUARED_95 = 3.841458820694124  # 95 % quantile of chi-squared with one degree of freedom
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
    step = likelihood.reward_std(centre) / np.sqrt(counts) + 1.0 / counts

    def mean_at(share: FloatArray, end: float) -> FloatArray:
        """Return the mean at a share of the way to an end of the support, which may be infinite."""
        if np.isfinite(end):
            return centre + share * (end - centre)
        return centre + np.copysign(step * share / (1.0 - share), end)

    def find_end(end: float) -> FloatArray:
        inside, outside = np.zeros(centre.shape), np.ones(centre.shape)
        for _ in range(_NUM_HALVINGS):
            middle = 0.5 * (inside + outside)
            drop = peak - likelihood.log_likelihood(mean_at(middle, end), counts, sums)
            is_in = 2.0 * drop <= _CHI_SQUARED_95
            inside, outside = np.where(is_in, middle, inside), np.where(is_in, outside, middle)
        return np.where(has_peak, mean_at(inside, end), centre)

    low, high = likelihood.support
    return find_end(low), find_end(high)
