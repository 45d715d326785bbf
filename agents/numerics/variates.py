"""Gamma variates, each with a shape of its own, in one loop.

Half as long as by the method that Numba and NumPy have (`docs/performance.md`), which ask for a
uniform number at every draw and for logarithms at many. `agents.numerics.draw_tables` is faster
again, for many draws from one law.

References:
    Marsaglia and Tsang (2000), "A simple method for generating gamma variables".
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from bandit_gym.numerics.compiled import inner


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
            out[j] = settle_gamma(rng, d, x, u / chance)
            u, chance = rng.random(), 1.0
        if shape < 1.0:
            out[j] *= (1.0 - rng.random()) ** (1.0 / shape)


@inner
def settle_gamma(rng: Generator, d: float, x: float, u: float) -> float:
    """Return a Gamma(d + 1/3, 1) draw by the rejection itself, starting from these x and u."""
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        v = 1.0 + c * x
        v = v * v * v
        if v > 0.0 and math.log(max(u, 1e-300)) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return d * v
        x, u = rng.standard_normal(), rng.random()
