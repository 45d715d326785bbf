"""The distance between two distributions of an arm, and how much of it is the noise of counting."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from bandit_gym.checks.typing import FloatArray

INTERVAL_LEVEL = 0.95
"""Of the interval: either end misses with half of what is left."""

NUM_FLOORS = 2000
"""Samples that show how far from a distribution counting leads."""

DISTANCE_ROUNDING = 1e-12
"""Distance below which distributions are the same."""

HALF_WIDTH = 1.96
"""Half of a 95 % interval, in standard errors."""


class Excess(NamedTuple):
    """A distance over the noise of counting.

    Attributes:
        tv: distance of the counted frequencies from the truth.
        floor: what as many decisions by the true distribution would show on average.
        excess: tv less floor.
        std: standard error of tv.
        low: end of a 95 % interval of the distance of the distribution itself; at least 0.
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
    """Return the mean and a quantile of the distance of a sample from its own distribution.

    Args:
        probabilities: (K,) probabilities.
        num_decisions: size of the sample.
        level: of the quantile.
    """
    distances = _draw_distances(probabilities, probabilities, num_decisions)
    return float(distances.mean()), float(np.quantile(distances, level))


def measure_excess(shares: FloatArray, distribution: FloatArray, num_decisions: int) -> Excess:
    """Return how far the distribution of independent decisions is from another.

    Counting adds to a distance: the whole floor where the distributions are the same, and less the
    farther they are. The excess takes off the whole floor, so on average it is too low. The
    interval takes off what counting adds at each distance; see `find_interval`.

    Args:
        shares: (K,) frequencies of the decisions' arms.
        distribution: (K,) that they should have.
        num_decisions: how many there were.
    """
    tv = float(total_variation(shares, distribution))
    floor = noise_floor(distribution, num_decisions)[0]
    std = float(_draw_distances(shares, distribution, num_decisions).std())
    return Excess(tv, floor, tv - floor, std, *find_interval(shares, distribution, num_decisions))


def find_interval(
    shares: FloatArray, distribution: FloatArray, num_decisions: int
) -> tuple[float, float]:
    r"""Return a 95 % interval of the distance between the distribution of decisions and another.

    The interval holds the distances that two tests, each of level 2.5 %, do not reject. Let
    :math:`q` be the distribution, :math:`\hat p` the frequencies, :math:`p` a distribution to be
    tested and :math:`T` the distance of its samples from :math:`q`. One test rejects :math:`p` if
    the observed :math:`T` is above the 97.5 % quantile of the samples', the other if it is below
    the 2.5 % quantile. A distance below the floor :math:`f` is luck and says no more than the floor
    does, so they depend on :math:`\max(T, f)`. The samples are drawn, so nothing takes the
    distribution of :math:`T` for normal: it is folded at 0.

    With two arms, all distributions on one side of :math:`q` are on a line. With more,
    distributions of the same distance :math:`d` differ in what counting adds,

    .. math:: \mathrm{E}_p T - d = \frac{1}{2} \sum_i
        \bigl( \mathrm{E} |\delta_i + \varepsilon_i| - |\delta_i| \bigr), \qquad
        \delta = p - q,

    where :math:`\varepsilon` is the noise of counting. A term falls from the whole
    :math:`\mathrm{E} |\varepsilon_i|` at :math:`\delta_i = 0` to 0 where :math:`|\delta_i|` is many
    standard errors, and it is convex. So counting adds most if few arms differ, and least, by
    Jensen's inequality, if all differ by equally many standard errors. Each end tests the
    distributions that are hardest to reject among those like the sample:

    * The lower end: arms differ as in the sample, the most significant first, up to the distance
      :math:`d`; the others do not differ.
    * The upper end: arms differ as in the sample, or by a standard error where that is more. Where
      the test accepts the farthest of these distributions, it is sought on the other side of
      :math:`q` too.

    If the distributions are the same, the lower end is 0 in 97.5 % of samples, and the upper end
    never below.

    Args:
        shares: (K,) frequencies of the decisions' arms.
        distribution: (K,) that they should have.
        num_decisions: how many there were.
    """
    test = _Test(shares, distribution, num_decisions)
    return test.find_lower_end(), test.find_upper_end()


class _Test:
    """What was observed, and which distributions could show it.

    Frequencies that equal the distribution differ towards its rarest arm.

    Attributes:
        distribution: (K,) from which distances are measured.
        differences: (K,) difference of the frequencies from it.
        noise: (K,) standard errors of these under the distribution, at least a decision.
        num_decisions: of a sample.
        floor: average distance of a sample from its distribution.
        observed: distance, at least the floor.
        precision: a tenth of a decision; ties within it are accepted.
    """

    def __init__(self, shares: FloatArray, distribution: FloatArray, num_decisions: int) -> None:
        self.distribution, self.num_decisions = distribution, num_decisions
        self.precision = 0.1 / num_decisions
        tv = float(total_variation(shares, distribution))
        self.floor = noise_floor(distribution, num_decisions)[0]
        self.observed = max(tv, self.floor)
        if tv <= DISTANCE_ROUNDING:
            shares = np.eye(len(distribution))[np.argmin(distribution)]
        self.differences = shares - distribution
        variances = np.maximum(distribution * (1 - distribution), 1 / num_decisions)
        self.noise = np.sqrt(variances / num_decisions)

    def margin(self, distribution: FloatArray, side: int) -> float:
        """Return how much farther above (1) or below (-1) the observed distance may be."""
        drawn = _draw_distances(distribution, self.distribution, self.num_decisions)
        end = np.quantile(np.maximum(drawn, self.floor), (1 + side * INTERVAL_LEVEL) / 2)
        return float(self.precision + side * (end - self.observed))

    def concentrate_differences(self, distance: float) -> FloatArray:
        """Return the distribution at that distance whose most significant arms alone differ."""
        order = np.argsort(-np.abs(self.differences) / self.noise)
        moved = self.distribution.copy()
        for sign in (1, -1):
            one_sided = np.maximum(sign * self.differences[order], 0.0)
            reached = np.minimum(np.cumsum(one_sided), distance)
            moved[order] += sign * np.diff(reached, prepend=0.0)
        return _normalise_distribution(moved)

    def spread_differences(self, step: float) -> FloatArray:
        """Return the distribution a step away, negative shares cut, of which all arms differ."""
        sizes = np.maximum(np.abs(self.differences), self.noise)
        gains, losses = sizes * (self.differences > 0), sizes * (self.differences < 0)
        all_gains, all_losses = (max(each.sum(), DISTANCE_ROUNDING) for each in (gains, losses))
        differences = gains / all_gains - losses / all_losses
        return _normalise_distribution(self.distribution + step * differences)

    def find_lower_end(self) -> float:
        """Return the smallest accepted distance."""

        def margin(distance: float) -> float:
            return self.margin(self.concentrate_differences(distance), 1)

        if margin(0.0) >= 0:
            return 0.0
        return float(brentq(margin, 0.0, self.observed, xtol=5 * self.precision))

    def find_upper_end(self) -> float:
        """Return the largest accepted distance."""

        def reach(last: float) -> tuple[float, bool]:
            """Return how far acceptance goes on the way to the last step, and whether it ends."""
            if is_ending := margin(last) < 0:
                last = brentq(margin, 0.0, last, xtol=5 * self.precision)
            reached = total_variation(self.spread_differences(last), self.distribution)
            return float(reached), is_ending

        def margin(step: float) -> float:
            return self.margin(self.spread_differences(step), -1)

        upper_end, is_ending = reach(1.0)
        return upper_end if is_ending else max(upper_end, reach(-1.0)[0])


def _normalise_distribution(distribution: FloatArray) -> FloatArray:
    distribution = np.maximum(distribution, 0.0)
    return np.asarray(distribution / distribution.sum())


def _draw_distances(
    probabilities: FloatArray, distribution: FloatArray, num_decisions: int
) -> FloatArray:
    """Return the distances from a distribution of samples from another, always the same ones."""
    draws = np.random.default_rng(0).multinomial(num_decisions, probabilities, NUM_FLOORS)
    return total_variation(draws / num_decisions, distribution)
