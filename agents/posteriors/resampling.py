"""Weighted particles: effective sample sizes, and resampling that keeps expectations.

Letters: R populations (rows) of P particles each.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

RESAMPLING = ("systematic", "stratified", "residual", "multinomial")

LOWEST = -700.0
"""Logarithm of a weight taken for zero, above those for which `exp` takes three times as long."""


def normalise(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weights that sum to one, and the logarithms of what they summed to before.

    Args:
        log_weights: (..., P), -inf for a particle that rules out the data.

    Returns:
        (..., P) weights, all equal in a population whose weights are all zero; and (...) the
        logarithm of their sum, -inf for such a population.
    """
    top = log_weights.max(axis=-1, keepdims=True)
    is_degenerate = np.isneginf(top)
    weights = log_weights - np.where(is_degenerate, 0.0, top)
    is_felt = weights > LOWEST
    np.exp(np.maximum(weights, LOWEST, out=weights), out=weights)
    weights *= is_felt
    weights[is_degenerate[..., 0]] = 1.0
    total = weights.sum(axis=-1, keepdims=True)
    weights /= total
    return weights, (top + np.log(total))[..., 0]


def effective_sample_size(weights: np.ndarray) -> np.ndarray:
    """Return (...) 1 / sum of squares of (..., P) normalised weights, between 1 and P."""
    return 1 / np.square(weights).sum(axis=-1)


def resample(rng: Generator, weights: np.ndarray, scheme: str) -> np.ndarray:
    """Return the (R, P) indices of the particles that go on; the expected number of copies is P w.

    "multinomial" draws them independently, "stratified" one from each P-th of the cumulative
    weights, "systematic" one at the same place of each, "residual" keeps floor(P w) copies of each
    particle for certain and draws the rest independently. A particle of weight zero never goes on.

    Args:
        rng: source of randomness.
        weights: (R, P) normalised weights.
        scheme: one of RESAMPLING.

    References:
        Douc, Cappe and Moulines (2005).
    """
    num_rows, num_particles = weights.shape
    if scheme == "residual":
        return _resample_residual(rng, weights)
    if scheme == "multinomial":
        places = np.sort(rng.random((num_rows, num_particles)), axis=1)
    else:
        size = (num_rows, 1 if scheme == "systematic" else num_particles)
        places = (np.arange(num_particles) + rng.random(size)) / num_particles
    return particles_at(weights, places)


def particles_at(weights: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the (R, M) particles at which the cumulative weights pass the (R, M) places in [0, 1).

    A row at a time is as fast as one search over all rows.
    """
    places = np.minimum(places, np.nextafter(1.0, 0.0))  # rounding may take a place to 1
    rows = zip(accumulate(weights), places, strict=True)
    return np.array([np.searchsorted(cumulative, row, side="right") for cumulative, row in rows])


def accumulate(weights: np.ndarray) -> np.ndarray:
    """Return the (..., P) cumulative weights, ending at exactly 1."""
    cumulative = np.cumsum(weights, axis=-1)
    return cumulative / cumulative[..., -1:]


def compare_populations(means: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return (K,) how likely each of K independent (K, P) populations has the largest mean.

    Where two arms tie each has half of it.
    """
    places = np.unique(means, return_inverse=True)[1].reshape(means.shape)
    masses = np.zeros((len(means), places.max() + 1))
    np.add.at(masses, (np.arange(len(means))[:, None], places), weights)
    below = np.cumsum(masses, axis=1) - masses / 2
    chances = np.empty(len(means))
    for arm, own in enumerate(places):
        others = below[:, own]
        others[arm] = weights[arm]
        chances[arm] = others.prod(axis=0).sum()
    return chances


def _resample_residual(rng: Generator, weights: np.ndarray) -> np.ndarray:
    num_particles = weights.shape[1]
    expected = weights * num_particles
    copies = np.floor(expected + 1e-9).astype(np.int64)
    rest = np.maximum(expected - copies, 0.0)
    chosen = np.empty(weights.shape, dtype=np.int64)
    for row, count in enumerate(copies.sum(axis=1)):
        chosen[row, :count] = np.repeat(np.arange(num_particles), copies[row])
        if count < num_particles:
            places = rng.random((1, num_particles - count))
            chosen[row, count:] = particles_at(rest[[row]], places)
    return chosen
