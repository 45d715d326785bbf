"""Variates made elementwise of given uniform numbers, some of which must be thrown away.

What is made of a number depends on no other, so that the lanes of a batch draw what each would draw
alone. Functions are SciPy's where rounding is not fixed: NumPy's may round differently in long and
in short arrays. `uniforms` are rows in [0, 1), one for each number that a proposal takes.
"""

import numpy as np
import scipy

from bandit_gym.checks.typing import BoolArray, FloatArray, RealArray

MIN_FLOAT, MAX_FLOAT = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)
_THIRD = 1.0 / 3.0

_LEAST_UNIFORM = 2.0**-54
"""The middle of [0, 2^-53), for all of which a uniform of 0 stands: quantiles at 0 are infinite, or
far below all that ever occurs."""


def standard_normal(uniforms: RealArray) -> FloatArray:
    """Return quantiles."""
    return scipy.special.ndtri(np.maximum(uniforms, _LEAST_UNIFORM))


def beta(
    alpha: FloatArray | float, beta: FloatArray | float, uniforms: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Propose Beta variates, of two Gamma variates whose chances to be kept are taken together.

    Args:
        alpha: parameters, broadcast against a row of uniforms.
        beta: likewise.
        uniforms: 3 rows, 5 where a parameter is below 1.

    Returns:
        The variates, and which are to be kept.
    """
    boosts = uniforms[3:] if len(uniforms) > 3 else (None, None)
    above, chance_above = _log_gamma(alpha, uniforms[0], boosts[0])
    below, chance_below = _log_gamma(beta, uniforms[1], boosts[1])
    is_kept = _is_accepted(chance_above + chance_below, uniforms[2])
    return scipy.special.expit(above - below), is_kept


def log_gamma(shape: FloatArray | float, uniforms: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Propose logarithms of Gamma(shape, 1) variates.

    Args:
        shape: parameters, broadcast against a row of uniforms.
        uniforms: 2 rows, 3 where a shape is below 1.

    Returns:
        The logarithms, and which are to be kept.
    """
    boosts = uniforms[2] if len(uniforms) > 2 else None
    values, log_chance = _log_gamma(shape, uniforms[0], boosts)
    return values, _is_accepted(log_chance, uniforms[1])


def exp(values: FloatArray) -> FloatArray:
    """Return e^x, by the one function of SciPy's that does no more."""
    return scipy.special.inv_boxcox(values, 0.0)


def _log_gamma(
    shape: FloatArray | float, uniforms: FloatArray, boosts: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Propose log(d (1 + y)^3), with d = shape - 1/3 and y = z / sqrt(9 d) of normal z.

    A shape below 1 is that of shape + 1 times a uniform number to the power of 1 / shape.

    Returns:
        The logarithms, and those of the chances to be kept, which average at least 95 %; NaN for 0.

    References:
        Marsaglia and Tsang (2000), "A simple method for generating gamma variables".
    """
    is_small = np.less(shape, 1.0)
    d = shape + is_small - _THIRD
    y = standard_normal(uniforms) / np.sqrt(9.0 * d)
    log_root = scipy.special.log1p(y)
    # z^2 / 2 + d (1 - (1 + y)^3 + 3 log(1 + y)), without the terms that cancel
    log_chance = 3.0 * d * (log_root - y * (1.0 + y * (y * _THIRD - 0.5)))
    values = scipy.special.xlogy(1.0, d) + 3.0 * log_root
    if boosts is not None:
        values = values + np.where(is_small, scipy.special.log1p(-boosts) / shape, 0.0)
    return values, log_chance


def _is_accepted(log_chance: FloatArray, uniforms: FloatArray) -> BoolArray:
    return scipy.special.log1p(-uniforms) <= log_chance


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
    m, u = np.broadcast_arrays(m, np.maximum(uniforms, _LEAST_UNIFORM))
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
