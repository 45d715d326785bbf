"""What kernels ask of Table 1's distributions: draws, log-densities, and the rewards they go with.

Each function chooses by the code of a distribution.

Notation: m draws or places.

References:
    Marsaglia and Tsang (2000), "A simple method for generating gamma variables".
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from agents.numerics.distributions import (
    BETA,
    GAMMA,
    INVERSE_GAMMA,
    NORMAL,
    TINY,
    MeanDistributions,
)
from bandit_gym.numerics.compiled import inner

ALMOST_ONE = 1 - 2.0**-53


@inner
def draw_conjugate_means(
    rng: Generator, distributions: MeanDistributions, out: np.ndarray, workspace: np.ndarray
) -> None:
    """Fill `out` (m,) with a draw from each of m distributions, inside the means' support.

    `workspace` (m,) is overwritten.
    """
    first, second = distributions.first, distributions.second
    if distributions.family == NORMAL:
        for j in range(out.size):
            out[j] = first[j] / second[j] + rng.standard_normal() / math.sqrt(second[j])
        return
    draw_gammas(rng, first, out)
    if distributions.family == BETA:
        draw_gammas(rng, second, workspace)
        combine_gammas(rng, distributions, out, workspace)
    elif distributions.family == GAMMA:
        for j in range(out.size):
            out[j] = max(out[j] / second[j], TINY)
    else:
        for j in range(out.size):
            out[j] = second[j] / max(out[j], TINY)


@inner
def combine_gammas(
    rng: Generator, distributions: MeanDistributions, out: np.ndarray, other: np.ndarray
) -> None:
    """Turn Gamma(alpha) variates in `out` and Gamma(beta) in `other` into Beta ones in `out`.

    Where both are too small for a floating-point number, so is the mean or its distance from 1.
    """
    alpha, beta, num_lost = distributions.first, distributions.second, 0
    for j in range(out.size):
        total = out[j] + other[j]
        num_lost += total == 0.0
        out[j] = min(max(out[j] / total, TINY), ALMOST_ONE)
    if num_lost > 0:
        for j in range(out.size):
            if np.isnan(out[j]):
                is_high = rng.random() * (alpha[j] + beta[j]) < alpha[j]
                out[j] = ALMOST_ONE if is_high else TINY


@inner
def draw_gammas(rng: Generator, shapes: np.ndarray, out: np.ndarray) -> None:
    """Fill `out` (m,) with Gamma(shape, 1) variates d (1 + y)^3, for normal x = y sqrt(9 d).

    With h = x^2 / 2 + d (1 - (1 + y)^3 + 3 log(1 + y)) such a draw is kept where log u < h. That is
    so if u < 1 + h, and h >= -3/4 d y^4 (1 + 0.8 z + 2 z^2), z = max(-y, 0), for y > -3/4, by the
    series of log(1 + y): a squeeze that settles more draws than Marsaglia and Tsang's, and nearly
    all where the shape is large. One u serves until a draw fails: as long as it is below the
    product of the chances to be kept so far, it is uniform below that product.

    Args:
        rng: source of randomness.
        shapes: (m,) shape of each, > 0; those below 1 are boosted to shape + 1.
        out: receives the variates.
    """
    u, chance = rng.random(), 1.0
    for j in range(out.size):
        shape = shapes[j]
        d = (shape + 1.0 if shape < 1.0 else shape) - 1.0 / 3.0
        x = rng.standard_normal()
        y = x / math.sqrt(9.0 * d)
        z = max(-y, 0.0)
        bound = 0.75 * d * (y * y) * (y * y) * (1.0 + z * (0.8 + 2.0 * z))
        rest = chance * (1.0 - bound) if y > -0.75 else 0.0
        if u < rest:
            out[j], chance = d * ((1.0 + y) * (1.0 + y) * (1.0 + y)), rest
        else:
            out[j] = reject_gamma(rng, d, x, u / chance)
            u, chance = rng.random(), 1.0
        if shape < 1.0:
            out[j] *= (1.0 - rng.random()) ** (1.0 / shape)


@inner
def reject_gamma(rng: Generator, d: float, x: float, u: float) -> float:
    """Return a Gamma(d + 1/3, 1) draw by the rejection itself, starting from these x and u."""
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        v = 1.0 + c * x
        v = v * v * v
        if v > 0.0 and math.log(max(u, TINY)) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return d * v
        x, u = rng.standard_normal(), rng.random()


@inner
def find_mode_and_curvature(family: int, first: float, second: float) -> tuple[float, float]:
    """Return the mode of the log-density on the family's line, and its curvature there.

    The line is the logit of a Beta mean, the logarithm of a gamma one, and a normal one as it is;
    there all four are log-concave.
    """
    if family == BETA:
        return math.log(first / second), first * second / (first + second)
    if family == GAMMA:
        return math.log(first / second), first
    if family == INVERSE_GAMMA:
        return math.log(second / first), first
    return first / second, second


@inner
def centred_log_density(family: int, first: float, second: float, off: float) -> float:
    """Return the log-density on the family's line, `off` from its mode, less that at the mode."""
    if family == BETA:  # of log x - log(1 - x), by the smaller parameter, so that none is lost
        total, smaller, away = first + second, first, off
        if second < first:
            smaller, away = second, -off
        if away > 600.0:  # where e^off has no number
            return -(total - smaller) * away
        return smaller * away - total * math.log1p((smaller / total) * math.expm1(away))
    if family == GAMMA:
        return -first * (math.expm1(off) - off)
    if family == INVERSE_GAMMA:
        return -first * (math.expm1(-off) + off)
    return -0.5 * second * off * off


@inner
def reward_variance(family: int, mean: float) -> float:
    """Return the variance of a reward of this mean; of normal ones it is known otherwise."""
    if family == BETA:
        return mean * (1.0 - mean)
    if family == GAMMA:
        return mean
    return mean * mean


@inner
def divergence(family: int, p: float, q: float) -> float:
    """Return kl(p, q) between rewards with these means, q > p > 0, in terms that vanish at p."""
    step = q - p
    above = math.log1p(step / p)
    if family == BETA:
        return -(1.0 - p) * math.log1p(-step / (1.0 - p)) - p * above
    if family == GAMMA:
        return step - p * above
    return above - step / q
