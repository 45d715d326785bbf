"""When a race is over: line 12 of Algorithm 2, beside which only a number of samples ends one.

Notation: K arms, N lanes, R races still on, d draws so far in a race, delta error probability.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from agents.racing.races import Races, add_sample
from bandit_gym.checks import check_choice, check_integer, check_keys, check_real, message
from bandit_gym.numerics.compiled import inner, kernel

THRESHOLDS = ("printed", "shortened")
SCALES = ("value", "weight")

EFFECTIVE_SAMPLES, MAX_SAMPLES_PER_RACE = 12.0, 100_000
MAX_REQUESTED_SAMPLES = 10**7
"""Samples that a race may be asked for; the paper's threshold is kept for each of them."""

CALL_COST = 5000.0
"""Fixed time of a round (drawing, weighting, racing), in units of the time to draw one mean."""

ROW_COST = 10.0
"""Fixed time per arm and race in a round, in units of the time to draw one mean."""

FIRST_ROUND_SAMPLES = 16.0
"""Samples expected before line 12 first holds; later, as many again as were drawn so far."""


class StoppingThresholds(NamedTuple):
    """Line 12, in the form that compiled loops read.

    Attributes:
        gaps: (max_samples + 1,) what the gap between the two best averages has to exceed after d
            draws.
        by_value: whether v is divided by the largest v seen, and not by the largest w.
        log_weight_bound: log of a weight that v is divided by until a sample has a larger one.
    """

    gaps: np.ndarray
    by_value: bool
    log_weight_bound: float = -math.inf

    def choose_size(self, num_samples: np.ndarray, num_arms: int) -> int:
        """Return the number of samples in a round of races.

        Samples after line 12 holds are wasted. Let m more be expected, each of cost 1, and a round
        of s samples have the fixed cost c. The m / s rounds cost c m / s, and s / 2 samples are
        wasted on average. The sum is least at s = sqrt(2 m c).

        Args:
            num_samples: (R,) that the races have so far.
            num_arms: K.
        """
        expected = max(FIRST_ROUND_SAMPLES, num_samples.mean())
        fixed_cost = ROW_COST + CALL_COST / (num_arms * num_samples.size)
        return round(math.sqrt(2 * expected * fixed_cost))

    def race(
        self, races: Races, lanes: np.ndarray, log_weights: np.ndarray, winners: np.ndarray
    ) -> None:
        """Add samples as `add_samples` does, until line 12 holds."""
        race_by_line_12(races, self, lanes, log_weights, winners)


@dataclass(frozen=True)
class Paper:
    """Line 12 of Algorithm 2: f_1 - f_2 > 2 beta(m, delta) - sigma.

    Arguments:
        delta: error probability in (0, 1) that the threshold is made for.
        sigma: slack > 0: a winner whose expectation is below the best by less than this will do, in
            units of v after scaling.
        threshold: "printed" or "shortened"; see `threshold_function`.
        scale: what v is divided by, for sigma and beta mean something only for v in a known range.
            "value": the largest e^{eps_i} w(mu) seen in the race, which keeps v in [0, 1] so far.
            "weight": the largest w(mu) seen, e^{eps_i} left as it is, so that v may exceed 1.
        max_samples: a race ends here in any case; 10 million at most.
    """

    delta: float = 0.1
    sigma: float = 0.1
    threshold: str = "printed"
    scale: str = "value"
    max_samples: int = MAX_SAMPLES_PER_RACE

    def __post_init__(self) -> None:
        check_real("delta", self.delta, above=0.0, below=1.0)
        check_real("sigma", self.sigma, above=0.0)
        check_choice("threshold", self.threshold, THRESHOLDS)
        check_choice("scale", self.scale, SCALES)
        check_integer("max_samples", self.max_samples, minimum=1, maximum=MAX_REQUESTED_SAMPLES)

    def to_dict(self) -> dict[str, Any]:
        """Return the options from which `make_stop` makes an equal one."""
        return dict(vars(self))

    def thresholds(self) -> StoppingThresholds:
        """Return what line 12 asks for after each number of draws."""
        m = np.arange(1, self.max_samples + 1) + 1.0  # line 6: m is 1 before the first draw
        gaps = 2 * threshold_function(self.threshold, m, self.delta) - self.sigma
        return StoppingThresholds(np.append(np.inf, gaps), self.scale != "weight")


Stop = Paper | int | None


def make_stop(stopping: Any) -> Stop:
    """Return the stop that the argument of `RacingThompson` names.

    Args:
        stopping: `Paper`, a dict of its options, a number of samples, or None.

    Raises:
        TypeError: if it is of another kind.
        ValueError: if an option is unknown or out of range.
    """
    if stopping is None or isinstance(stopping, Paper):
        return stopping
    if isinstance(stopping, Mapping):
        names = [field.name for field in fields(Paper)]
        check_keys("stopping", stopping, required=[], optional=names)
        return Paper(**stopping)
    if not isinstance(stopping, Integral):
        condition = "be a Paper of agents.racing.stopping, a dict of its options, a positive "
        raise TypeError(message("stopping", condition + "integer or None", stopping))
    return check_integer("stopping", stopping, minimum=1, maximum=MAX_REQUESTED_SAMPLES)


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


@kernel
def race_by_line_12(
    races: Races,
    stop: StoppingThresholds,
    lanes: np.ndarray,
    log_weights: np.ndarray,
    winners: np.ndarray,
) -> None:
    """Do lines 9 to 14 of Algorithm 2, sample by sample; arguments are those of `add_samples`."""
    for r in range(lanes.size):
        n = lanes[r]
        totals, sums, scale = races.totals[n], races.weight_sums[n], races.log_scale[n]
        d, eps = races.num_samples[n], races.gumbels[n]
        scale, factors = max(scale, stop.log_weight_bound + eps.max()), np.exp(eps)
        for j in range(log_weights.shape[1]):
            log_weight, i = log_weights[r, j], winners[r, j]
            log_value = log_weight + eps[i] if stop.by_value else log_weight
            scale = add_sample(totals, sums, scale, i, log_weight, log_value)
            d += 1  # line 9: m is d + 1
            first, second = find_two_largest(totals, factors)  # line 11
            is_over = first > 0.0 and (first - second) / (d + 1) > stop.gaps[d]  # line 12
            if is_over or d == races.max_samples:
                races.lengths[n] = d
                break  # line 13
        races.num_samples[n], races.log_scale[n] = d, scale


@inner
def find_two_largest(totals: np.ndarray, factors: np.ndarray) -> tuple[float, float]:
    """Return the two largest of the sums of f_i = e^{eps_i} w 1{i is best}."""
    first, second = 0.0, 0.0
    for i in range(totals.size):
        value = totals[i] * factors[i]
        second = max(second, min(value, first))
        first = max(first, value)
    return first, second
