"""The one map between the support of means and the line, plain and compiled.

A posterior may be as wide as its support or a million times narrower, may have a density without
bound at an end (Beta(1/2, 1/2)) or a heavy tail. So means x are measured in a coordinate u that
runs over the line, and along which every integrable density decays at both ends.

Letters: K arms, S draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, log_expit

from bandit_gym.numerics.compiled import inner
from bandit_gym.typing import FloatArray

_LARGEST = 1e150  # squares must not overflow
_SMALLEST = 1e-300


@dataclass(frozen=True)
class Coordinate:
    """A smooth increasing map x(u) from the line onto an interval of means.

    Logistic on a bounded interval, exponential on a half-line, hyperbolic sine on the line, so
    that powers of the distance to an end, and of x far out, become exponentials of u.

    Attributes:
        low: left end of the interval, -inf allowed.
        high: right end of the interval, inf allowed.
        centre: a typical mean.
        scale: a typical distance from the centre, or from the finite end of a half-line.
    """

    low: float
    high: float
    centre: float = 0.0
    scale: float = 1.0

    @classmethod
    def of_draws(cls, support: FloatArray, draws: FloatArray) -> Coordinate:
        """Return the coordinate that all arms share, so that the largest u is the largest mean.

        Args:
            support: (K, 2) interval of each arm's mean.
            draws: (S, K) from the prior, which show what is typical.
        """
        low, high = float(support[:, 0].min()), float(support[:, 1].max())
        centre = float(np.median(draws))
        origin = next((end for end in (low, high) if np.isfinite(end)), centre)
        return cls(low, high, centre, max(float(np.median(np.abs(draws - origin))), 1e-100))

    @property
    def ends(self) -> FloatArray:
        """(4,) low, high, centre and scale, for kernels."""
        return np.array([self.low, self.high, self.centre, self.scale])

    def means(self, u: FloatArray) -> FloatArray:
        """Return x(u), strictly inside the interval for u within `limits`."""
        low, high = self.low, self.high
        if np.isfinite(low) and np.isfinite(high):
            width = high - low
            return np.where(u < 0, low + width * expit(u), high - width * expit(-u))
        if np.isfinite(low):
            return low + self.scale * np.exp(u)
        if np.isfinite(high):
            return high - self.scale * np.exp(-u)
        return self.centre + self.scale * np.sinh(u)

    def log_slope(self, u: FloatArray) -> FloatArray:
        """Return log dx/du, which turns a density of x into one of u."""
        low, high = self.low, self.high
        if np.isfinite(low) and np.isfinite(high):
            return np.asarray(np.log(high - low) + log_expit(u) + log_expit(-u))
        if np.isfinite(low):
            return np.log(self.scale) + u
        if np.isfinite(high):
            return np.log(self.scale) - u
        return np.log(self.scale / 2) + np.logaddexp(u, -u)

    def positions(self, means: FloatArray) -> FloatArray:
        """Return u(x), clipped to `limits`."""
        low, high = self.low, self.high
        with np.errstate(divide="ignore", invalid="ignore"):
            if np.isfinite(low) and np.isfinite(high):
                u = np.log(means - low) - np.log(high - means)
            elif np.isfinite(low):
                u = np.log((means - low) / self.scale)
            elif np.isfinite(high):
                u = -np.log((high - means) / self.scale)
            else:
                u = np.arcsinh((means - self.centre) / self.scale)
        first, last = self.limits
        u = np.where(np.isnan(u), np.where(means > low, last, first), u)
        return np.asarray(np.clip(u, first, last))

    @cached_property
    def limits(self) -> FloatArray:
        """(2,) range of u in which x stays a few units in the last place away from its ends."""
        low, high = self.low, self.high
        far = np.log(_LARGEST / self.scale)
        length = high - low if np.isfinite(high - low) else self.scale
        left = np.log(_room_beside(low) / length) if np.isfinite(low) else -far
        right = -np.log(_room_beside(high) / length) if np.isfinite(high) else far
        return np.array([left, right])


def _room_beside(end: float) -> float:
    return max(8 * np.finfo(float).eps * abs(end), _SMALLEST)


@inner
def position_of(ends: np.ndarray, x: float) -> float:
    """Return u(x), infinite at and beyond the ends; compiled, as `Coordinate.positions`."""
    low, high, centre, scale = ends[0], ends[1], ends[2], ends[3]
    if x <= low:
        return -np.inf
    if x >= high:
        return np.inf
    if low > -np.inf and high < np.inf:
        return math.log((x - low) / (high - x))
    if low > -np.inf:
        return math.log((x - low) / scale)
    if high < np.inf:
        return -math.log((high - x) / scale)
    return math.asinh((x - centre) / scale)


@inner
def mean_at(ends: np.ndarray, u: float) -> float:
    """Return x(u); compiled, as `Coordinate.means`."""
    low, high, centre, scale = ends[0], ends[1], ends[2], ends[3]
    if low > -np.inf and high < np.inf:
        return low + (high - low) / (1.0 + math.exp(-u))
    if low > -np.inf:
        return low + scale * math.exp(u)
    if high < np.inf:
        return high - scale * math.exp(-u)
    return centre + scale * math.sinh(u)
