"""When a race is decided: the paper's rule, one that knows no scale, and a fixed number of samples.

Letters: K arms, d draws so far in a race, delta error probability.

The self-normalised rule compares the leader L with every other arm j through the increments
D = v_L - v_j: it is clear of j once (sum D)^2 exceeds ell(d, delta) sum D^2. Both sides scale
alike, so neither the scale of the weights nor e^eps matters, and no bound on them is needed.
ell is Robbins' normal-mixture boundary. For symmetric increments it holds at all d together with
probability 1 - delta whatever their tails (de la Pena 1999: exp(t S - t^2 sum D^2 / 2) is a
supermartingale); for others as an asymptotic confidence sequence (Waudby-Smith et al. 2024).

Certainty about the leader is more than Thompson sampling asks for. The arm that leads after a
fixed number of samples is a draw from the self-normalised importance weights, whose law is within
12 / (effective sample size) of the target in any event's probability (Agapiou et al. 2017, Theorem
2.1), and in practice far closer. So the rule also stops once that size has reached a chosen value,
and it never stops, for whatever reason, at less than a quarter of it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

TIGHTEST_AT = 30
"""Draws at which the mixture boundary is tightest."""

GUARD = 0.25
"""Share of the sufficient effective sample size below which no leader is believed."""


class StoppingRule(NamedTuple):
    """What ends a race, by the number d = 0, ..., cap of its draws; the cap always does.

    Attributes:
        bars: (cap + 1,) what the gap between the two best averages has to exceed, line 12.
        levels: (cap + 1,) ell(d, delta), what the squared self-normalised gaps have to exceed.
        least_size: effective sample size below which `levels` are not looked at.
        enough_size: effective sample size that ends the race.
    """

    bars: np.ndarray
    levels: np.ndarray
    least_size: float
    enough_size: float

    @property
    def cap(self) -> int:
        """Largest number of draws."""
        return len(self.bars) - 1


def threshold_function(name: str, m: np.ndarray, delta: float) -> np.ndarray:
    """Return the threshold function beta(m, delta) of the paper at each m >= 2.

    "printed" is sqrt((log(1/delta) + 3 log log(1/delta) + 1.5 log log(em/2)) / 2m). Its second
    term is negative for delta > 1/e and the radicand is clamped at 0, so that at large delta the
    race stops at once. "shortened" leaves that term out; the paper's own sample counts (Table 2)
    come closer to it.
    """
    level = math.log(1 / delta)
    constant = level + 3 * math.log(level) if name == "printed" else level
    radicand = (constant + 1.5 * np.log(np.log(math.e * m / 2))) / (2 * m)
    return np.sqrt(np.maximum(radicand, 0.0))


def paper_rule(threshold: str, delta: float, sigma: float, cap: int) -> StoppingRule:
    """Return line 12 of Algorithm 2: f_1 - f_2 > 2 beta(m, delta) - sigma."""
    m = np.arange(cap + 1) + 1.0  # line 6: m is 1 before the first draw
    bars = np.full(cap + 1, np.inf)
    bars[1:] = 2 * threshold_function(threshold, m[1:], delta) - sigma
    return StoppingRule(bars, np.full(cap + 1, np.inf), np.inf, np.inf)


def fixed_rule(num_samples: int) -> StoppingRule:
    """Return the rule that stops at exactly so many draws: the cap alone."""
    never = np.full(num_samples + 1, np.inf)
    return StoppingRule(never, never, np.inf, np.inf)


def self_normalised_rule(delta: float, enough_size: float, cap: int) -> StoppingRule:
    """Return the rule that knows no scale; see the module."""
    never = np.full(cap + 1, np.inf)
    return StoppingRule(never, mixture_boundary(delta, cap), GUARD * enough_size, enough_size)


def mixture_boundary(delta: float, cap: int) -> np.ndarray:
    """Return ell(d, delta) at d = 0, ..., cap; infinite at 0.

    ell = (1 + 1 / (d r)) log((d r + 1) / delta^2), the boundary of a normal mixture of variance r,
    which is the one that is tightest at TIGHTEST_AT draws.

    References:
        Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), "Time-uniform central limit theory
        and asymptotic confidence sequences", Theorem 2.2 and Appendix B.2.
    """
    size = -2 * math.log(delta)
    variance = (size + math.log(size + 1)) / TIGHTEST_AT
    growth = np.arange(cap + 1) * variance
    levels = np.full(cap + 1, np.inf)
    levels[1:] = (1 + 1 / growth[1:]) * np.log((growth[1:] + 1) / delta**2)
    return levels
