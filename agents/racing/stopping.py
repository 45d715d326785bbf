"""When a race is decided: the paper's rule, one that knows no scale, and a fixed number of samples.

Letters: K arms, d draws so far in a race, delta error probability.

The self-normalised rule ends a race in one of two ways.

It is *clear*: the leader L is compared with every other arm j through the increments
D = v_L - v_j, which are at least -b for b = max(e^eps_L, e^eps_j) max w. Fan's inequality
exp(r x - psi(r) x^2) <= 1 + r x for x >= -1, psi(r) = -log(1 - r) - r, makes
exp(r S - psi(r) V), S = sum D / b, V = sum D^2 / b^2, a supermartingale wherever E[D] <= 0, for
each r in (0, 1). By Ville's inequality and a union over n values of r and K - 1 arms the largest of
r S - psi(r) V exceeds log(n (K - 1) / delta) for all j of a wrong leader, at any d, with
probability at most delta. Neither the scale of the weights nor e^eps enters, no tail is assumed
subgaussian and the bound is not asymptotic. One thing is taken on trust: max w is the largest
weight *seen*. So the promise is delta if no weight is larger than those of the race; arms whose
expectation rests on weights too rare to have been seen are beyond it, as they are beyond every rule
that knows no bound on the weights (Bahadur and Savage 1956).

Or it has *enough*: certainty about the leader is more than Thompson sampling asks for. The arm that
leads after a number of samples that was fixed before is a draw from the self-normalised importance
weights, whose law is within 12 / (effective sample size) of the target in any event's probability
(Agapiou et al. 2017, Theorem 2.1), and in practice far closer. So the rule also stops once samples
enough are drawn for a chosen effective size, by the *share* of it that a sample is worth. That
share is known before the race, from draws that decide nothing (`agents.racing.vetting`): to stop
*when* the weights of the race itself reach the size prefers races that have not yet met their
largest weights (a table in `docs/racing-thompson.md` says how far that errs). Being clear takes an
effective sample size above log(n (K - 1) / delta) too: no leader is believed on fewer.

References:
    Fan, Grama and Liu (2015), "Exponential inequalities for martingales with applications".
    Howard, Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic
    confidence sequences".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

TILTS = np.array([(r, -math.log1p(-r) - r) for r in (0.05, 0.1, 0.2, 0.4, 0.8)])
"""(n, 2) r and psi(r). Small r tell close arms apart after many draws, large r far ones soon."""


TINY = 1e-300
"""The least share that is divided by."""

FIRST_GUESS = 16.0
"""Samples that a race is expected to take before any was run."""


class StoppingRule(NamedTuple):
    """What ends a race, by the number d = 0, ..., cap of its draws; the cap always does.

    Attributes:
        bars: (cap + 1,) what the gap between the two best averages has to exceed, line 12.
        tilts: (n, 2) r and psi(r).
        level: log(n / delta); with log(K - 1) what the leader's evidence has to exceed.
        enough_size: effective sample size that a race is made for; inf where it sets no length.
        by_value: whether v is divided by the largest v seen, and not by the largest w.
        cap: largest number of draws.
        is_fixed: whether nothing but the cap ends a race.
    """

    bars: np.ndarray
    tilts: np.ndarray
    level: float
    enough_size: float
    by_value: bool
    cap: int
    is_fixed: bool = False

    def lengths(self, shares: np.ndarray) -> np.ndarray:
        """Return the (N,) samples that end races whose samples are worth (N,) effective ones."""
        if self.enough_size == math.inf:
            return np.full(len(shares), self.cap)
        wanted = np.ceil(self.enough_size / np.maximum(shares, TINY))
        return np.minimum(wanted, self.cap).astype(np.int64)

    @property
    def first_guess(self) -> float:
        """Samples to expect of a race before any was run."""
        return float(self.cap) if self.is_fixed else FIRST_GUESS


def threshold_function(name: str, m: np.ndarray, delta: float) -> np.ndarray:
    """Return the threshold function beta(m, delta) of the paper at each m >= 1.

    "printed" is sqrt((log(1/delta) + 3 log log(1/delta) + 1.5 log log(em/2)) / 2m). Its second
    term is negative for delta > 1/e and the radicand is clamped at 0, so that at large delta the
    race stops at once. "shortened" leaves that term out; the paper's own sample counts (Table 2)
    come closer to it.
    """
    level = math.log(1 / delta)
    constant = level + 3 * math.log(level) if name == "printed" else level
    radicand = (constant + 1.5 * np.log(np.log(math.e * m / 2))) / (2 * m)
    return np.sqrt(np.maximum(radicand, 0.0))


def paper_rule(
    threshold: str, delta: float, sigma: float, cap: int, *, by_value: bool
) -> StoppingRule:
    """Return line 12 of Algorithm 2: f_1 - f_2 > 2 beta(m, delta) - sigma."""
    m = np.arange(cap + 1) + 1.0  # line 6: m is 1 before the first draw
    bars = np.full(cap + 1, np.inf)
    bars[1:] = 2 * threshold_function(threshold, m[1:], delta) - sigma
    return StoppingRule(bars, TILTS, np.inf, np.inf, by_value, cap)


def fixed_rule(num_samples: int) -> StoppingRule:
    """Return the rule that stops at exactly so many draws: the cap alone."""
    never = np.full(num_samples + 1, np.inf)
    return StoppingRule(never, TILTS, np.inf, np.inf, True, num_samples, is_fixed=True)


def self_normalised_rule(delta: float, enough_size: float, cap: int) -> StoppingRule:
    """Return the rule that knows no scale; see the module."""
    never = np.full(cap + 1, np.inf)
    level = math.log(len(TILTS) / delta)
    return StoppingRule(never, TILTS, level, enough_size, False, cap)
