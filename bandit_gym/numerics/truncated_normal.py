"""The standard normal law on an interval, accurate in the middle and far out in the tails.

Everything is computed from the logarithm of the distribution function, after turning an interval
to the right of 0 into its mirror image on the left, where that logarithm keeps its digits.
"""

import numpy as np
import scipy

from bandit_gym.typing import BoolArray, FloatArray


def log_mass(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return log P(low < Z < high) of a standard normal Z, elementwise.

    Args:
        low: lower limits in standard deviations.
        high: upper limits, above `low`.
    """
    return _turned_log_masses(low, high)[1]


def quantile(
    low: FloatArray, high: FloatArray, uniforms: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return quantiles of a standard normal given that it lies in an interval, elementwise.

    Args:
        low: lower limits in standard deviations.
        high: upper limits, above `low`.
        uniforms: values in (0, 1).

    Returns:
        The quantiles, in [low, high] and nondecreasing in `uniforms`; and `log_mass(low, high)`,
        which is needed on the way.
    """
    log_left, log_inside, is_turned = _turned_log_masses(low, high)
    # SciPy's log, as NumPy's may round differently in long and in short arrays.
    log_part = log_inside + scipy.special.xlogy(1.0, np.where(is_turned, 1.0 - uniforms, uniforms))
    values = scipy.special.ndtri_exp(np.logaddexp(log_left, log_part))
    return np.clip(np.where(is_turned, -values, values), low, high), log_inside


def rounding_error(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the relative error that rounding leaves in the mass of an interval, roughly.

    The logarithm far out is a large number, and a narrow interval is a small difference of two.
    """
    nearest = np.maximum(np.maximum(low, -high), 1.0)
    return np.finfo(float).eps * np.square(nearest) / np.minimum((high - low) * nearest, 1.0)


def _turned_log_masses(
    low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    is_turned = low + high > 0
    log_left = scipy.special.log_ndtr(np.where(is_turned, -high, low))
    log_right = scipy.special.log_ndtr(np.where(is_turned, -low, high))
    return log_left, log_right + np.log(-np.expm1(log_left - log_right)), is_turned
