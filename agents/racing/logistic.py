"""Draws from normal laws cut to intervals, by logistic laws of the same centre and width.

With F(y) = 1 / (1 + e^-y). The line is turned so that an interval's far end is on the right, and
1 - F is divided by e^-c, c being the point of the interval nearest to 0: so nothing cancels and
nothing is lost, however far out the interval lies.

A cut logistic law takes a few exponentials and logarithms, of many samples at once, where the cut
normal law itself would take rejection or its quantile function; and where a proposal has lighter
tails than the posterior, weights have heavy ones. So its tails are no loss: on the histories of
`sites.SITE_POWER` an effective sample took 1.99 samples from normal laws and 1.93 from logistic
ones.

Letters: m samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import log_expit

from agents.numerics.laws import TINY
from agents.numerics.vector_math import exp_all, log_all
from bandit_gym.numerics.compiled import inner

SLOPE = 1.7
"""Of a logistic law, per standard deviation of the normal law that it stands in for. With 1.6, 1.7
and 1.8 an effective sample took 2.03, 1.93 and 1.94 samples on those histories. Where the interval
is further out than that many deviations, the slope is as large as the normal law's there."""


class CutLaw(NamedTuple):
    """A normal law of mean 0, moved from sample to sample, cut to an interval that stays.

    Attributes:
        low: end of the interval.
        high: its other end.
        scale: one over the standard deviation.
    """

    low: float
    high: float
    scale: float


class LogisticDraws(NamedTuple):
    """Draws and what to weigh them by.

    Attributes:
        off: (m,) how far the law has moved; receives the draws.
        ratio: (m,) receives 1 / q, up to a constant.
        log_phi: (m,) the log-density of the normal law is added to it, up to a constant.
    """

    off: np.ndarray
    ratio: np.ndarray
    log_phi: np.ndarray


@inner
def draw_logistic(rng: Generator, law: CutLaw, draws: LogisticDraws, spare: np.ndarray) -> None:
    """Draw from cut logistic laws, one for each of m samples; `spare` is (5, m)."""
    low, high, scale = law
    off, ratio = draws.off, draws.ratio
    near, slope, left, right = spare[0], spare[1], spare[2], spare[3]
    for j in range(off.size):
        first, last = (low - off[j]) * scale, (high - off[j]) * scale
        is_turned = last < 0.0
        first, last = (-last if is_turned else first), (-first if is_turned else last)
        near[j] = max(first, 0.0)
        slope[j] = max(near[j], SLOPE)
        left[j], right[j] = -abs(first) * slope[j], (near[j] - last) * slope[j]
    exp_all(left, spare[4])
    exp_all(right, spare[4])
    for j in range(off.size):
        ratio[j] = rng.random()
    for j in range(off.size):
        is_beyond = near[j] > 0.0
        unit, start = (left[j] if is_beyond else 1.0), (1.0 if is_beyond else 1.0 / left[j])
        below_first, below_last = 1.0 / (1.0 + unit * start), 1.0 / (1.0 + unit * right[j])
        mass = max((start - right[j]) * below_first * below_last, TINY)
        above = right[j] * below_last + ratio[j] * mass
        below = below_first + (1.0 - ratio[j]) * (unit * mass)
        left[j] = below / above
        ratio[j] = mass / (below * above * slope[j])
    log_all(left, spare[4])
    for j in range(off.size):
        z = near[j] + left[j] / slope[j]
        z = -z if (high - off[j]) * scale < 0.0 else z
        draws.log_phi[j] -= 0.5 * z * z
        off[j] += z / scale


def log_logistic(z: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the log-density that `draw_logistic` draws z from, in standard deviations.

    Args:
        z: (...) draws.
        low: (...) ends of the intervals.
        high: (...) their other ends.
    """
    is_turned = high < 0.0
    first, last = np.where(is_turned, -high, low), np.where(is_turned, -low, high)
    slope = np.maximum(first, SLOPE)
    y, above_first, above_last = slope * z, log_expit(-slope * first), log_expit(-slope * last)
    log_mass = above_first + np.log1p(-np.exp(above_last - above_first))
    return np.log(slope) + log_expit(y) + log_expit(-y) - log_mass
