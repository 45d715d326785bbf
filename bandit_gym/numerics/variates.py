"""Quantiles, elementwise of given uniform numbers.

What is made of a number depends on no other, so that the lanes of a batch draw what each would draw
alone. Functions are SciPy's where rounding is not fixed: NumPy's may round differently in long and
in short arrays.
"""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from bandit_gym.checks.typing import BoolArray, FloatArray, RealArray

MIN_FLOAT, MAX_FLOAT = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)

LEAST_UNIFORM = 2.0**-54
"""The middle of [0, 2^-53), for all of which a uniform of 0 stands: quantiles at 0 are infinite, or
far below all that ever occurs."""


def standard_normal(uniforms: RealArray) -> FloatArray:
    """Return quantiles."""
    return scipy.special.ndtri(np.maximum(uniforms, LEAST_UNIFORM))


def beta_quantile(alpha: ArrayLike, beta: ArrayLike, uniforms: RealArray) -> FloatArray:
    """Return quantiles, by SciPy's inverse.

    That errs where a parameter is 1,000 to the last bit, as of Beta(9100, 1000).
    """
    first, second = (np.where(np.equal(p, 1e3), np.nextafter(1e3, 0.0), p) for p in (alpha, beta))
    return scipy.special.betaincinv(first, second, uniforms)


_LARGE_MEAN = 16.0
_MAX_COUNT_AT_SMALL_MEAN = 64  # P(X > 64) is below 2^-54 for all means up to 16
_MAX_UNIFORM_FOR_ADDING = 1 - 2.0**-20  # above, the sum's rounding would decide


def poisson_quantile(means: RealArray, uniforms: RealArray) -> FloatArray:
    """Return the smallest count whose distribution function exceeds the uniform.

    scipy's `pdtrik` costs 1 to 40 µs a value; adding up probabilities costs about 0.05 µs where the
    mean is small, and correcting a normal approximation about 1 µs where it is large.

    Args:
        means: means of at least 0, broadcast against `uniforms`.
        uniforms: values in [0, 1).

    Returns:
        Whole numbers as float64, nondecreasing in means and uniforms.
    """
    m = np.asarray(means, dtype=np.float64)
    m, u = np.broadcast_arrays(m, np.maximum(uniforms, LEAST_UNIFORM))
    is_large = m >= _LARGE_MEAN
    if not is_large.any():
        return _quantile_by_adding(m, u)
    counts = np.empty(m.shape)
    counts[is_large] = _quantile_by_correcting(m[is_large], u[is_large])
    counts[~is_large] = _quantile_by_adding(m[~is_large], u[~is_large])
    return counts


def _quantile_by_adding(means: FloatArray, uniforms: FloatArray) -> FloatArray:
    """Count how many of P(X <= 0), P(X <= 1), ... do not exceed the uniform."""
    probability = np.exp(-means)
    cumulative = probability.copy()
    counts = np.zeros(means.shape)
    for count in range(1, _MAX_COUNT_AT_SMALL_MEAN + 1):
        is_above = cumulative <= uniforms
        if not is_above.any():
            break
        counts += is_above
        probability = probability * means / count
        cumulative = cumulative + probability
    is_extreme = uniforms > _MAX_UNIFORM_FOR_ADDING
    if is_extreme.any():
        m, u = means[is_extreme], uniforms[is_extreme]
        counts[is_extreme] = _step_up(np.zeros(m.shape), m, u, _MAX_COUNT_AT_SMALL_MEAN)
    return counts


def _quantile_by_correcting(means: FloatArray, uniforms: FloatArray) -> FloatArray:
    """Start just below the quantile and step up.

    The start is the Cornish-Fisher expansion less 1; for means from 16 on it is at most 2 too low,
    never too high. Far above a mean of 10^6, where scipy's distribution function loses digits, the
    result is therefore still within 3 of the quantile.
    """
    z, root = scipy.special.ndtri(uniforms), np.sqrt(means)
    guess = means + root * z + (np.square(z) - 1) / 6 + (z - z**3) / (72 * root)
    return _step_up(np.maximum(np.floor(guess - 0.5), 0.0), means, uniforms, 3)


def _step_up(
    counts: FloatArray, means: FloatArray, uniforms: FloatArray, num_steps: int
) -> FloatArray:
    """Raise each count until its distribution function exceeds the uniform."""
    is_low = np.ones(means.shape, dtype=np.bool_)
    for _ in range(num_steps):
        is_low[is_low] = ~_cdf_exceeds(counts[is_low], means[is_low], uniforms[is_low])
        if not is_low.any():
            break
        counts = counts + is_low
    return counts


def _cdf_exceeds(counts: FloatArray, means: FloatArray, uniforms: FloatArray) -> BoolArray:
    """Return whether P(X <= count) > u, computed in the smaller tail to keep its digits."""
    below = scipy.special.pdtr(counts, means) > uniforms
    above = scipy.special.pdtrc(counts, means) < 1.0 - uniforms
    return np.where(uniforms < 0.5, below, above)
