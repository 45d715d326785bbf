"""Posteriors of arms that are independent a priori, and where their modes are.

A posterior may be as wide as its support or a million times narrower, may have a density without
bound at an end (Beta(1/100, 1/100)) or a heavy tail. So means x are measured in a coordinate u that
runs over the line and in which every integrable density decays at both ends, as an exponential
where the density of x is a power of the distance to the end. One set of panels of u serves
posteriors of any shape.

Panels that are halved find a single mode from anywhere, but a spike beside a flat density only if
one of their nodes meets it. So points are placed first: at draws of the prior, at what the arms
paid, at equal steps, and then again and again inside the intervals that may hold most mass. A panel
ends wherever the log-density rises or falls by much between neighbours.

Notation: K arms, S draws, M points, I intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from bandit_gym.checks import message
from bandit_gym.checks.typing import FloatArray
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem

MIN_END_DISTANCE = 2e-13
"""Share of an end's size that means keep from it: a thousand units in the last place."""

MIN_MAGNITUDE, MAX_MAGNITUDE = 1e-300, 1e150  # squares must not overflow

NUM_ORACLE_DRAWS, MIN_ORACLE_DRAWS = 1 << 14, 64
"""Of the prior in all, and of each distribution that it is a mixture of."""

NUM_TYPICAL = 4
"""Draws of each arm at which panels end, wherever they are."""

NUM_GRID_POINTS, MAX_SEARCH_DRAWS = 512, 1024
"""Points at equal steps of the means, and draws that are kept, at most."""

NUM_ZOOMS, NUM_ZOOMED = 20, 64
"""Rounds that look for peaks, each in a seventh of the width before, and how many intervals each
splits."""

NUM_REFINEMENTS = 2
"""Rounds that split a fourth of the intervals, so that none can hide a spike beside a mode."""

MAX_REFINED_POINTS = 1 << 19
"""Of all arms, fifty or so, after which only peaks are looked for."""

NUM_PIECES = 7
EDGE_LOG_CHANGE, MAX_EDGE_DEPTH = 4.0, 48.0
"""Change of the log-density after which a panel ends, and how far below its top it counts."""

Density = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Line:
    """A smooth increasing map x(u) from the line onto an interval of means.

    Logistic on a bounded interval, exponential above a lowest mean, else hyperbolic sine.

    Attributes:
        low: left end of the interval, -inf allowed.
        high: right end of the interval, inf allowed.
        centre: a typical mean, where there is no lowest one.
        scale: a typical distance from the centre, or from the lowest mean.
    """

    low: float
    high: float
    centre: float = 0.0
    scale: float = 1.0

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are finite."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    def means(self, u: FloatArray) -> FloatArray:
        """Return x(u), strictly inside the interval for u within `limits`."""
        if self.is_bounded:
            width = self.high - self.low
            return np.where(u < 0, self.low + width * expit(u), self.high - width * expit(-u))
        if np.isfinite(self.low):
            return self.low + self.scale * np.exp(u)
        return self.centre + self.scale * np.sinh(u)

    def log_slope(self, u: FloatArray) -> FloatArray:
        """Return log dx/du, which turns a density of x into one of u."""
        if self.is_bounded:
            return np.asarray(np.log(self.high - self.low) + log_expit(u) + log_expit(-u))
        if np.isfinite(self.low):
            return np.log(self.scale) + u
        return np.log(self.scale / 2) + np.logaddexp(u, -u)

    def positions(self, means: FloatArray) -> FloatArray:
        """Return u(x), clipped to `limits`."""
        u = self.exact_positions(np.clip(means, self.low, self.high))
        return np.asarray(np.clip(u, *self.limits))

    def exact_positions(self, means: FloatArray) -> FloatArray:
        """Return u(x) of means strictly inside the interval."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.is_bounded:
                return np.asarray(np.log(means - self.low) - np.log(self.high - means))
            if np.isfinite(self.low):
                return np.log((means - self.low) / self.scale)
            return np.arcsinh((means - self.centre) / self.scale)

    def find_rounding(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return the shares of panels, with these (P,) ends, that x may be rounded by."""
        first, last = self.means(np.clip([left, right], *self.limits))
        step = np.spacing(np.maximum(np.abs(first), np.abs(last)))
        return np.where(last > first, step / np.maximum(last - first, step), 0.0)

    @cached_property
    def limits(self) -> FloatArray:
        """(2,) range of u in which the distance of x to its ends has three digits or more."""
        reach = np.log(MAX_MAGNITUDE / self.scale)
        length = self.high - self.low if self.is_bounded else self.scale
        left = np.log(_min_end_distance(self.low) / length) if np.isfinite(self.low) else -reach
        right = -np.log(_min_end_distance(self.high) / length) if self.is_bounded else reach
        return np.array([left, right])


def _min_end_distance(end: float) -> float:
    return max(MIN_END_DISTANCE * abs(end), MIN_MAGNITUDE)


class Arms:
    """What is known of the arms before any data.

    Arms are compared by values * means - costs; that is what stands on the line.

    Arguments:
        problem: likelihood, and a prior with `arm_log_density`.
        prices: (K,) values above 0 and (K,) costs; None where arms have none.
    """

    def __init__(self, problem: BanditProblem, prices: tuple[Any, Any] | None = None) -> None:
        self.problem, self._has_prices = problem, prices is not None
        plain: tuple[Any, Any] = 1.0, 0.0
        self._values, self._costs = prices or plain

    def worth(self, means: FloatArray) -> FloatArray:
        """Return what (..., K) means are worth."""
        return self._values * means - self._costs

    def means(self, worth: FloatArray) -> FloatArray:
        """Return the (..., K) means that are worth so much."""
        return (worth + self._costs) / self._values

    @cached_property
    def is_smooth(self) -> bool:
        """Whether densities are exponentials of five smooth features, for any data.

        Such a density has one mode, or one at either end, and nothing that hides.
        """
        has_features = type(self.problem.likelihood) in (Bernoulli, Exponential, Gaussian, Poisson)
        if self.problem.likelihood.needs_squares or self._has_prices:
            return False
        return self.problem.offers("natural_parameters") and has_features

    @cached_property
    def support(self) -> FloatArray:
        """(K, 2) interval of what each arm's mean is worth."""
        return self.worth(self.problem.arm_support().T).T

    @cached_property
    def draws(self) -> FloatArray:
        """(S, K) prior draws, sorted per arm, which show where the prior has its modes.

        A mixture shows each of its distributions, however rare. The generator is fixed so that the
        probabilities are a function of the problem and data.
        """
        parts, rng = find_components(self.problem.prior), make_generator("draws of the oracle")
        num_draws = MIN_ORACLE_DRAWS if self.is_smooth else NUM_ORACLE_DRAWS // len(parts)
        shape = (max(num_draws, MIN_ORACLE_DRAWS), self.problem.num_arms)
        draws = self.worth(np.concatenate([part.sample(rng, shape) for part in parts]))
        return np.sort(np.clip(draws, *self.support.T), axis=0)

    @cached_property
    def line(self) -> Line:
        """The coordinate that all arms share, so that the largest u is the largest mean."""
        low, high = float(self.support[:, 0].min()), float(self.support[:, 1].max())
        centre = float(np.median(self.draws))
        origin = low if np.isfinite(low) else centre
        scale = max(float(np.median(np.abs(self.draws - origin))), 1e-100)
        return Line(low, high, centre, scale)

    def log_prior(self, worth: FloatArray) -> FloatArray:
        """Return each arm's log-density, to a constant, at (M, K) places, -inf off its support."""
        prior: Any = self.problem.prior
        means = self.means(worth)
        with np.errstate(all="ignore"):
            values = np.asarray(prior.arm_log_density(means), dtype=np.float64)
        is_inside = (worth >= self.support[:, 0]) & (worth <= self.support[:, 1])
        values = np.where(is_inside, values, -np.inf)
        require_density("problem.prior.arm_log_density", values, means)
        return values


@dataclass(frozen=True, eq=False)
class ArmPosteriors:
    """One-dimensional posteriors of the arms.

    Attributes:
        arms: what is known before any data.
        counts: (K,) pulls.
        sums: (K,) total rewards.
        squares: (K,) squares of rewards around their average, where their deviation is unknown.
    """

    arms: Arms
    counts: FloatArray
    sums: FloatArray
    squares: FloatArray | None = None

    @property
    def line(self) -> Line:
        """The coordinate shared by all arms."""
        return self.arms.line

    def log_density(self, worth: FloatArray) -> FloatArray:
        """Return the (M, K) log-densities, up to a constant per arm, at (M, K) places."""
        prior, means = self.arms.log_prior(worth), self.arms.means(worth)
        known: Any = self.arms.problem.likelihood
        data_of_arms = [self.counts, self.sums]
        if self.squares is not None:  # the deviation is integrated out
            known = self.arms.problem.prior
            data_of_arms.append(self.squares)
        with np.errstate(all="ignore"):
            data = known.log_likelihood(means, *data_of_arms)
            # No data say nothing, even at means whose squares overflow.
            values = np.where((prior == -np.inf) | (self.counts == 0), prior, prior + data)
        require_density("the log-density of a posterior", values, means)
        return values

    def shared_log_density(self, u: FloatArray) -> FloatArray:
        """Return the (M, K) log-densities of the coordinate at (M,) values of it."""
        return self.coordinate_log_density(np.repeat(u[:, None], len(self.counts), axis=1))

    def coordinate_log_density(self, u: FloatArray) -> FloatArray:
        """Return the (M, K) log-densities of the coordinate at (M, K) values of it.

        Beyond its limits, where distances to an end have no digits left, they go on as straight
        lines: the distribution of a density that is a power of the distance.
        """
        line = self.line
        values = self._log_density_of_coordinate(line.means(np.clip(u, *line.limits)))
        for is_beyond, end, value, slopes in zip(
            (u < line.limits[0], u > line.limits[1]), *self._ends, strict=True
        ):
            if is_beyond.any():
                with np.errstate(over="ignore"):
                    straight = value + slopes[0] * (u - end)
                values = np.where(is_beyond, straight, values)
        return values

    def slope_changes(self) -> FloatArray:
        """Return (2, K) shares by which slopes still change in a unit of u before either limit."""
        _, _, slopes = self._ends
        last, change = slopes[:, 0], np.abs(slopes[:, 1] - slopes[:, 0])
        return np.divide(change, np.abs(last), out=np.zeros_like(last), where=last != 0)

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Where the densities are continued: at either limit of the line, as far as means tell.

        The (2,) places, the (2, K) log-densities of u there, and their (2, 2, K) slopes over the
        last unit and the one before, 0 where there is no density.
        """
        inwards = np.arange(3.0) * [[1.0], [-1.0]]
        means = self.line.means(self.line.limits[:, None] + inwards)
        u = self.line.exact_positions(means)
        values = self._log_density_of_coordinate(
            np.repeat(means.reshape(-1, 1), len(self.counts), axis=1)
        ).reshape(2, 3, -1)
        with np.errstate(invalid="ignore"):
            slopes = np.diff(values, axis=1) / np.diff(u, axis=1)[..., None]
        return u[:, 0], values[:, 0], np.where(np.isfinite(slopes), slopes, 0.0)

    def _log_density_of_coordinate(self, means: FloatArray) -> FloatArray:
        """Return the log-densities of u at (M, K) means.

        The slope of the line is that where the rounded mean lies: near an end that makes a
        difference, but hardly any to the density of u.
        """
        return self.log_density(means) + self.line.log_slope(self.line.exact_positions(means))


def find_components(prior: Any) -> list[Any]:
    """Return the distributions that a prior is a mixture of: itself alone where it is none."""
    parts = getattr(prior, "components", None)
    if isinstance(parts, tuple) and all(hasattr(part, "sample") for part in parts):
        return [part for component in parts for part in find_components(component)]
    return [prior]


def require_density(name: str, values: FloatArray, means: FloatArray) -> None:
    """Refuse (M, K) log-densities that are NaN or infinite at some of (M, K) means."""
    is_bad = np.isnan(values) | (values == np.inf)
    if is_bad.any():
        row, arm = np.argwhere(is_bad)[0]
        place = f" for arm {arm} at the mean {means[row, arm]}"
        raise ValueError(message(name, "be a number or -inf", values[row, arm], place=place))


def find_first_edges(posteriors: ArmPosteriors) -> FloatArray:
    """Return (P + 1,) increasing u, far beyond all that can be seen of any arm."""
    arms, line = posteriors.arms, posteriors.line
    steps = np.concatenate([[0.0], 2.0 ** np.arange(-1, 21)])
    typical = arms.draws[:: max(1, len(arms.draws) // NUM_TYPICAL)].ravel()
    known = line.positions(
        np.concatenate([arms.support.ravel(), typical, _average_rewards(posteriors)])
    )
    edges = np.concatenate([-steps, steps, line.limits, known])
    return np.unique(edges if arms.is_smooth else np.append(edges, _search_peaks(posteriors)))


def _average_rewards(posteriors: ArmPosteriors) -> FloatArray:
    """Return what the average rewards are worth of the arms that were pulled."""
    averages = posteriors.sums / np.maximum(posteriors.counts, np.finfo(float).tiny)
    return posteriors.arms.worth(averages)[posteriors.counts > 0]


def _search_peaks(posteriors: ArmPosteriors) -> FloatArray:
    density = posteriors.coordinate_log_density
    u = _first_points(posteriors)
    values = density(u)
    for _ in range(NUM_ZOOMS):
        u, values = _split_intervals(density, u, values, NUM_ZOOMED)
    for _ in range(NUM_REFINEMENTS if u.size < MAX_REFINED_POINTS else 0):
        u, values = _split_intervals(density, u, values, len(u) // 4)
    return _level_changes(u, values)


def _first_points(posteriors: ArmPosteriors) -> FloatArray:
    """Return (M, K) sorted points: draws where there may be most mass, and a coarse grid."""
    arms, line = posteriors.arms, posteriors.line
    draws = line.positions(arms.draws)
    bounds = mass_bounds(draws, posteriors.coordinate_log_density(draws))
    rank = np.argsort(-bounds, axis=0)[: MAX_SEARCH_DRAWS // 2]
    likely = [np.take_along_axis(draws, rank + side, axis=0) for side in (0, 1)]
    typical = draws[:: max(1, len(draws) // MAX_SEARCH_DRAWS)]
    averages = _average_rewards(posteriors)
    known = np.append(arms.draws, averages)
    steps = np.linspace(known.min(), known.max(), NUM_GRID_POINTS)
    grid = line.positions(np.append(steps, averages))
    first, last = line.limits
    coarse = np.concatenate([grid, np.linspace(first, last, NUM_GRID_POINTS)])
    coarse = np.repeat(coarse[:, None], len(posteriors.counts), axis=1)
    return np.sort(np.concatenate([*likely, typical, coarse]), axis=0)


def _split_intervals(
    density: Density, u: FloatArray, values: FloatArray, num_intervals: int
) -> tuple[FloatArray, FloatArray]:
    """Return sorted points and values with those inside the most promising intervals added."""
    half = max(1, num_intervals // 2)
    ranks = [
        np.argpartition(-bounds, half, axis=0)[:half]
        for bounds in (mass_bounds(u, values), peak_bounds(u, values))
    ]
    chosen = np.concatenate(ranks)
    left, right = (np.take_along_axis(u, chosen + side, axis=0) for side in (0, 1))
    fractions = (np.arange(1, NUM_PIECES) / NUM_PIECES)[:, None, None]
    new = (left + (right - left) * fractions).reshape(-1, u.shape[1])
    u, values = np.concatenate([u, new]), np.concatenate([values, density(new)])
    order = np.argsort(u, axis=0, kind="stable")
    return np.take_along_axis(u, order, axis=0), np.take_along_axis(values, order, axis=0)


def mass_bounds(u: FloatArray, values: FloatArray) -> FloatArray:
    """Return the (I, K) logs of length times height at the higher end of each interval."""
    with np.errstate(divide="ignore"):
        return np.maximum(values[:-1], values[1:]) + np.log(np.diff(u, axis=0))


def peak_bounds(u: FloatArray, values: FloatArray) -> FloatArray:
    """Return (I, K) bounds, likewise, if the log-density is concave around each interval.

    Inside, it then lies below the straight lines through the intervals on either side.
    """
    lengths = np.diff(u, axis=0)
    known = np.maximum(values, values.max(axis=0) - 1e15)
    with np.errstate(all="ignore"):
        slopes = np.where(lengths > 0, np.diff(known, axis=0) / lengths, 0.0)
        before = np.maximum(np.concatenate([np.zeros_like(slopes[:1]), slopes[:-1]]), 0.0)
        after = np.maximum(np.concatenate([-slopes[1:], np.zeros_like(slopes[:1])]), 0.0)
        heights = np.minimum(known[:-1] + before * lengths, known[1:] + after * lengths)
        return np.asarray(heights + np.log(lengths))


def _level_changes(u: FloatArray, values: FloatArray) -> FloatArray:
    """Return (J,) places, of all arms, between which no log-density changes by much."""
    levels = np.floor(np.maximum(values - values.max(axis=0), -MAX_EDGE_DEPTH) / EDGE_LOG_CHANGE)
    changes = np.diff(levels, axis=0) != 0
    return np.concatenate([u[:-1][changes], u[1:][changes]])
