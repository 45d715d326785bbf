"""The distance between two laws of an arm, and how much of it is the noise of counting."""

import numpy as np

from bandit_gym.typing import FloatArray

NUM_FLOORS = 2000


def total_variation(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return half the absolute difference of (..., K) distributions, summed over arms."""
    return np.asarray(np.abs(first - second).sum(axis=-1) / 2)


def noise_floor(
    probabilities: FloatArray, num_decisions: int, *, level: float = 0.975
) -> tuple[float, float]:
    """Return the mean and a quantile of the distance of a sample from its own law.

    Args:
        probabilities: (K,) law.
        num_decisions: size of the sample.
        level: of the quantile.
    """
    draws = np.random.default_rng(0).multinomial(num_decisions, probabilities, NUM_FLOORS)
    distances = total_variation(draws / num_decisions, probabilities)
    return float(distances.mean()), float(np.quantile(distances, level))
