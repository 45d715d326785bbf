"""The line that means are measured on, so that one set of panels serves posteriors of any shape.

A posterior may be as wide as its support or a million times narrower, may have a density without
bound at an end (Beta(1/100, 1/100)) or a heavy tail. So means x are measured in a coordinate u that
runs over the line and in which every integrable density decays at both ends, as an exponential
where the density of x is a power of the distance to the end.

Notation: K arms, M points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, log_expit

from bandit_gym.checks.typing import FloatArray

MIN_END_DISTANCE = 2e-13
"""Share of an end's size that means keep from it: a thousand units in the last place."""

MIN_MAGNITUDE, MAX_MAGNITUDE = 1e-300, 1e150  # squares must not overflow


@dataclass(frozen=True)
class Line:
    """A smooth increasing map x(u) from the line onto an interval of means.

    Logistic on a bounded interval, exponential on a half-line, hyperbolic sine on the line.

    Attributes:
        low: left end of the interval, -inf allowed.
        high: right end of the interval, inf allowed.
        centre: a typical mean, where x is not bounded on either side.
        scale: a typical distance from the centre, or from the finite end of a half-line.
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
        if np.isfinite(self.high):
            return self.high - self.scale * np.exp(-u)
        return self.centre + self.scale * np.sinh(u)

    def log_slope(self, u: FloatArray) -> FloatArray:
        """Return log dx/du, which turns a density of x into one of u."""
        if self.is_bounded:
            return np.asarray(np.log(self.high - self.low) + log_expit(u) + log_expit(-u))
        if np.isfinite(self.low):
            return np.log(self.scale) + u
        if np.isfinite(self.high):
            return np.log(self.scale) - u
        return np.log(self.scale / 2) + np.logaddexp(u, -u)

    def positions(self, means: FloatArray) -> FloatArray:
        """Return u(x), clipped to `limits`."""
        u, (first, last) = self.exact_positions(means), self.limits
        u = np.where(np.isnan(u), np.where(means > self.low, last, first), u)
        return np.asarray(np.clip(u, first, last))

    def exact_positions(self, means: FloatArray) -> FloatArray:
        """Return u(x) of means strictly inside the interval."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.is_bounded:
                return np.asarray(np.log(means - self.low) - np.log(self.high - means))
            if np.isfinite(self.low):
                return np.log((means - self.low) / self.scale)
            if np.isfinite(self.high):
                return -np.log((self.high - means) / self.scale)
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
        right = -np.log(_min_end_distance(self.high) / length) if np.isfinite(self.high) else reach
        return np.array([left, right])


def make_line(support: FloatArray, draws: FloatArray) -> Line:
    """Return the line that all arms share, so that the largest u is the largest mean.

    Args:
        support: (K, 2) interval of each arm's mean.
        draws: (S, K) from the prior, which show what is typical.
    """
    low, high = float(support[:, 0].min()), float(support[:, 1].max())
    centre = float(np.median(draws))
    origin = next((end for end in (low, high) if np.isfinite(end)), centre)
    return Line(low, high, centre, max(float(np.median(np.abs(draws - origin))), 1e-100))


def _min_end_distance(end: float) -> float:
    return max(MIN_END_DISTANCE * abs(end), MIN_MAGNITUDE)
