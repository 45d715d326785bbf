"""The distance between two laws of an arm, and how much of it is the noise of counting."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from bandit_gym.checks.typing import FloatArray

LEVEL = 0.95
"""Share of samples that a test accepts."""

NUM_FLOORS = 2000
"""Samples that show how far from a law counting leads."""

ROUNDING = 1e-12
"""Distance below which laws are the same."""

HALF_WIDTH = 1.96
"""Half of a 95 % interval, in standard errors."""


class Excess(NamedTuple):
    """A distance over the noise of counting.

    Attributes:
        tv: distance of the counted frequencies from the truth.
        floor: what as many decisions by the true law would show on average.
        excess: tv less floor.
        std: standard error of tv.
        low: end of a 95 % interval of the distance of the law itself; at least 0.
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
    distances = _draw_distances(probabilities, probabilities, num_decisions)
    return float(distances.mean()), float(np.quantile(distances, level))


def measure_excess(shares: FloatArray, law: FloatArray, num_decisions: int) -> Excess:
    """Return how far the law of independent decisions is from another.

    Counting adds to a distance: the whole floor where the laws are the same, and less the farther
    they are. The excess takes off the whole floor, so on average it is too low. The interval
    takes off what counting adds at each distance; see `find_interval`.

    Args:
        shares: (K,) frequencies of the decisions' arms.
        law: (K,) that they should have.
        num_decisions: how many there were.
    """
    tv = float(total_variation(shares, law))
    floor = noise_floor(law, num_decisions)[0]
    std = float(_draw_distances(shares, law, num_decisions).std())
    return Excess(tv, floor, tv - floor, std, *find_interval(shares, law, num_decisions))


def find_interval(shares: FloatArray, law: FloatArray, num_decisions: int) -> tuple[float, float]:
    r"""Return a 95 % interval of the distance between the law of decisions and another.

    The interval holds the distances that a test does not reject. Let :math:`q` be the law and
    :math:`\hat p` the frequencies. The test tries the laws on the line from :math:`q` through
    :math:`\hat p`, with negative shares cut to 0:

    .. math:: p_t \propto \max(q + t\,(\hat p - q), 0).

    A sample of :math:`p_t` is at a distance :math:`T` from :math:`q`. A distance below the floor
    :math:`f` is luck and says no more than the floor does, so the test looks at
    :math:`S = \max(T, f)`. It accepts :math:`p_t` if the observed :math:`S` is as near to its
    mean as 95 % of the samples' are:

    .. math:: |S - \mathrm{E}_t S| \le c_t, \qquad P_t(|S - \mathrm{E}_t S| \le c_t) = 0.95.

    The samples are drawn, so nothing takes the law of :math:`T` for normal: near 0 it is folded.
    With two arms the line holds all laws on its side of :math:`q`. With more arms it estimates
    how a distance spreads over them, as a parametric bootstrap does. The more the distance is
    that of a few arms, the more counting adds in the others. So the lower end is sought on a
    second line, where an arm's part is in proportion to the square of its difference. Where the
    test accepts the far end of the first line, the upper end is sought on the other side of
    :math:`q` as well.

    If the laws are the same, the lower end is 0 in 95 % of samples, and the upper end never below.

    Args:
        shares: (K,) frequencies of the decisions' arms.
        law: (K,) that they should have.
        num_decisions: how many there were.
    """
    line = _Line.through(shares, law, num_decisions)
    return line.find_nearest(), line.find_farthest()


class _Line(NamedTuple):
    """Laws on a line through another, by their signed distance, and what was observed.

    Attributes:
        law: (K,) at 0.
        away: (K,) direction, of distance 1.
        num_decisions: of a sample.
        floor: average distance of a sample from its law.
        observed: distance, at least the floor.
    """

    law: FloatArray
    away: FloatArray
    num_decisions: int
    floor: float
    observed: float

    @classmethod
    def through(cls, shares: FloatArray, law: FloatArray, num_decisions: int) -> "_Line":
        """Draw the line from a law through frequencies; to its rarest arm where they agree."""
        tv, floor = float(total_variation(shares, law)), noise_floor(law, num_decisions)[0]
        other = shares if tv > ROUNDING else np.eye(len(law))[np.argmin(law)]
        length = max(float(total_variation(other, law)), ROUNDING)  # 0 with a single arm
        return cls(law, (other - law) / length, num_decisions, floor, max(tv, floor))

    @property
    def precision(self) -> float:
        """A tenth of a decision; ties within it are accepted."""
        return 0.1 / self.num_decisions

    def law_at(self, step: float) -> FloatArray:
        moved = np.maximum(self.law + step * self.away, 0.0)
        return np.asarray(moved / moved.sum())

    def distance_at(self, step: float) -> float:
        return float(total_variation(self.law_at(step), self.law))

    def room(self, step: float, side: int) -> float:
        """Return how much farther above (1) or below (-1) the mean the observed may be."""
        drawn = _draw_distances(self.law_at(step), self.law, self.num_decisions)
        drawn = np.maximum(drawn, self.floor)
        reach = np.quantile(np.abs(drawn - drawn.mean()), LEVEL)
        return float(reach + self.precision - side * (self.observed - drawn.mean()))

    def find_end(self, side: int, last: float) -> float:
        """Return the distance at which acceptance ends, or begins, before the last step."""
        return self.distance_at(brentq(self.room, 0.0, last, args=(side,), xtol=5 * self.precision))

    def sharpened(self) -> "_Line":
        """Return a line whose gains and losses are in proportion to the squares of this one's."""
        gains, losses = np.maximum(self.away, 0.0) ** 2, np.maximum(-self.away, 0.0) ** 2
        return self._replace(away=gains / gains.sum() - losses / losses.sum())

    def find_nearest(self) -> float:
        """Return the smallest accepted distance."""
        if self.room(0.0, 1) >= 0:
            return 0.0
        line = self.sharpened()
        if line.room(self.observed, 1) < 0:  # cut at the edge, it does not lead far enough
            line = self
        return line.find_end(1, self.observed)

    def find_farthest(self) -> float:
        """Return the largest accepted distance."""
        if self.room(1.0, -1) < 0:
            return self.find_end(-1, 1.0)
        if self.room(-1.0, -1) < 0:
            return max(self.distance_at(1.0), self.find_end(-1, -1.0))
        return max(self.distance_at(1.0), self.distance_at(-1.0))


def _draw_distances(probabilities: FloatArray, law: FloatArray, num_decisions: int) -> FloatArray:
    """Return the distances from a law of samples from another, always the same ones."""
    draws = np.random.default_rng(0).multinomial(num_decisions, probabilities, NUM_FLOORS)
    return total_variation(draws / num_decisions, law)
