"""The distance between two laws of an arm, and how much of it is the noise of counting."""

from typing import NamedTuple

import numpy as np

from bandit_gym.typing import FloatArray

NUM_FLOORS = 2000
HALF_WIDTH = 1.96
"""Of a 95 % interval, in standard errors."""


class Excess(NamedTuple):
    """A distance over the noise of counting.

    Attributes:
        tv: distance of the counted frequencies from the truth.
        floor: what as many decisions by the true law would show on average.
        excess: tv less floor.
        std: standard error of tv.
        low: end of a 95 % interval of the distance of the law itself.
        high: the other end.
    """

    tv: float
    floor: float
    excess: float
    std: float
    low: float
    high: float


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


def measure_excess(shares: FloatArray, law: FloatArray, num_decisions: int) -> Excess:
    """Return how far the law of independent decisions is from another.

    Counting adds to a distance: the whole floor where the laws are the same, and less the farther
    they are. So the floor bounds what is to be taken off. The upper end takes off what counting
    adds when it is done again, by the frequencies, which is less than the floor.

    Args:
        shares: (K,) frequencies of the decisions' arms.
        law: (K,) that they should have.
        num_decisions: how many there were.
    """
    tv = float(total_variation(shares, law))
    floor = noise_floor(law, num_decisions)[0]
    again = np.random.default_rng(0).multinomial(num_decisions, shares, NUM_FLOORS)
    distances = total_variation(again / num_decisions, law)
    std, added = float(distances.std()), float(distances.mean()) - tv
    low, high = tv - floor - HALF_WIDTH * std, tv - min(added, floor) + HALF_WIDTH * std
    return Excess(tv, floor, tv - floor, std, low, high)
