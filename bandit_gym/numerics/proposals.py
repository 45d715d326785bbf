"""Variates made elementwise of given uniform numbers, some of which must be thrown away.

What is made of a number depends on no other, so that the lanes of a batch draw what each would draw
alone. Functions are SciPy's where rounding is not fixed: NumPy's may round differently in long and
in short arrays. `uniforms` are rows in [0, 1), one for each number that a proposal takes.
"""

import numpy as np
import scipy

from bandit_gym.typing import BoolArray, FloatArray

_THIRD = 1.0 / 3.0


def standard_normal(uniforms: FloatArray) -> FloatArray:
    """Return quantiles; a uniform of 0, which stands for all of [0, 2^-53), is moved inside."""
    return scipy.special.ndtri(np.maximum(uniforms, 2.0**-54))


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
    return scipy.special.expit(above - below), _happens(chance_above + chance_below, uniforms[2])


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
    return values, _happens(log_chance, uniforms[1])


def exp(values: FloatArray) -> FloatArray:
    """Return e^x, by the one function of SciPy's that does no more."""
    with np.errstate(over="ignore"):
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


def _happens(log_chance: FloatArray, uniforms: FloatArray) -> BoolArray:
    return scipy.special.log1p(-uniforms) <= log_chance
