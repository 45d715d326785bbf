"""Normal and gamma variates in bulk, each with parameters of its own.

NumPy draws them one after the other; here each step of the method is one loop over all m draws.
Loops without unpredictable branches run side by side in the processor: whatever a rejection method
cannot settle at once, a few per cent of the draws, is noted in `pending` and settled in a second
loop. That draws Beta variates with parameters of their own about twice as fast as NumPy's
`Generator.beta` (and `agents.numerics.draw_tables` is four times as fast again, for many draws from
one law).

References:
    Marsaglia and Tsang (2000), "The ziggurat method for generating random variables".
    Marsaglia and Tsang (2000), "A simple method for generating gamma variables".
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from agents.numerics.compiled import inner

NUM_LAYERS = 256
TAIL = 3.6541528853610088
"""Where the tail of the ziggurat's lowest layer begins, for 256 layers."""

COARSE = 2.0**-13
"""The grid of coarse uniform numbers, four of which are cut from the 53 bits of one."""


def make_edges() -> np.ndarray:
    """Return (NUM_LAYERS + 1,) right edges of layers of equal area under exp(-x^2 / 2), to 0.

    The first is the width that the lowest layer, tail included, would have as a rectangle.
    """
    tail_area = math.sqrt(math.pi / 2) * math.erfc(TAIL / math.sqrt(2))
    area = TAIL * math.exp(-(TAIL**2) / 2) + tail_area
    edges = [area / math.exp(-(TAIL**2) / 2), TAIL]
    for _ in range(NUM_LAYERS - 2):
        edges.append(math.sqrt(-2 * math.log(math.exp(-(edges[-1] ** 2) / 2) + area / edges[-1])))
    return np.array([*edges, 0.0])


EDGES = make_edges()


@inner
def settle_normal(rng: Generator, layer: int, x: float) -> float:
    """Return a standard normal draw, starting from a point of a layer that may not be inside."""
    while abs(x) >= EDGES[layer + 1]:
        if layer == 0:
            while True:
                beyond = -math.log(1.0 - rng.random()) / TAIL
                if -2.0 * math.log(1.0 - rng.random()) > beyond * beyond:
                    return math.copysign(TAIL + beyond, x)
        low, high = math.exp(-0.5 * EDGES[layer] ** 2), math.exp(-0.5 * EDGES[layer + 1] ** 2)
        if low + rng.random() * (high - low) < math.exp(-0.5 * x * x):
            break
        place = rng.random() * NUM_LAYERS
        layer = int(place)
        x = (2.0 * (place - layer) - 1.0) * EDGES[layer]
    return x


@inner
def draw_normal(rng: Generator) -> float:
    """Return one standard normal variate."""
    place = NUM_LAYERS * rng.random()
    layer = int(place)
    return settle_normal(rng, layer, (2.0 * (place - layer) - 1.0) * EDGES[layer])


@inner
def draw_normals(rng: Generator, out: np.ndarray, spare: np.ndarray, pending: np.ndarray) -> None:
    """Fill `out` (m,) with standard normal variates; `spare` and `pending` (m,) are scratch."""
    for j in range(out.size):
        spare[j] = NUM_LAYERS * rng.random()
    count = 0
    for j in range(out.size):
        layer = np.int32(spare[j])
        out[j] = (2.0 * (spare[j] - layer) - 1.0) * EDGES[layer]
        pending[count] = j
        count += not abs(out[j]) < EDGES[layer + 1]
    for p in range(count):
        j = pending[p]
        out[j] = settle_normal(rng, int(spare[j]), out[j])


@inner
def draw_coarse_uniforms(rng: Generator, out: np.ndarray) -> None:
    """Fill `out` with uniform numbers rounded down to COARSE, for decisions that are mostly clear.

    Where one is not, COARSE times another uniform number has to be added.
    """
    word = 0
    for j in range(out.size):
        if j % 4 == 0:
            word = int(rng.random() * 2.0**52)
        out[j] = (word & 8191) * COARSE
        word >>= 13


@inner
def draw_gammas(
    rng: Generator, shapes: np.ndarray, out: np.ndarray, spare: np.ndarray, pending: np.ndarray
) -> None:
    """Fill `out` (m,) with Gamma(shape, 1) variates d (1 + y)^3, for normal x = y sqrt(9 d).

    With h = x^2 / 2 + d (1 - (1 + y)^3 + 3 log(1 + y)) such a draw is kept where log u < h. That is
    so if u < 1 + h, and h >= -3/4 d y^4 (1 + 0.8 z + 2 z^2), z = max(-y, 0), for y > -3/4, by the
    series of log(1 + y): a squeeze that settles more draws than Marsaglia and Tsang's, and nearly
    all where the shape is large.

    Args:
        rng: source of randomness.
        shapes: (m,) shape of each, > 0; those below 1 are boosted to shape + 1.
        out: receives the variates.
        spare: (3, m) scratch space.
        pending: (m,) int64 scratch space.
    """
    normals, uniforms, squeezed = spare[0], spare[1], spare[2]
    draw_normals(rng, normals, uniforms, pending)
    draw_coarse_uniforms(rng, uniforms)
    num_boosted = 0
    for j in range(out.size):
        is_boosted = shapes[j] < 1.0
        num_boosted += is_boosted
        d = (shapes[j] + 1.0 if is_boosted else shapes[j]) - 1.0 / 3.0
        y = normals[j] / math.sqrt(9.0 * d)
        out[j] = d * ((1.0 + y) * (1.0 + y) * (1.0 + y))
        z = max(-y, 0.0)
        bound = 0.75 * d * (y * y) * (y * y) * (1.0 + z * (0.8 + 2.0 * z))
        squeezed[j] = uniforms[j] + COARSE + bound if y > -0.75 else 1.0
    count = 0
    for j in range(out.size):
        pending[count] = j
        count += not squeezed[j] < 1.0
    for p in range(count):
        j = pending[p]
        out[j] = settle_gamma(rng, shapes[j], normals[j], uniforms[j] + COARSE * rng.random())
    if num_boosted > 0:
        for j in range(out.size):
            if shapes[j] < 1.0:
                out[j] *= (1.0 - rng.random()) ** (1.0 / shapes[j])


@inner
def settle_gamma(rng: Generator, shape: float, x: float, u: float) -> float:
    """Return a Gamma(shape, 1) draw, of shape + 1 if below 1, starting from a normal and a uniform.

    Marsaglia and Tsang's rejection itself, without the squeeze.
    """
    d = (shape + 1.0 if shape < 1.0 else shape) - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        v = 1.0 + c * x
        v = v * v * v
        if v > 0.0 and math.log(max(u, 1e-300)) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return d * v
        x, u = draw_normal(rng), rng.random()
