"""Table 2 under every number of arms and reading: the paper says neither K nor all of line 12.

Algorithm 2 for Bernoulli arms with Beta priors, a run at a time in compiled code, so that thousands
of combinations can be played; `racing_paper` is compared with it in the tests. A *reading* is what
the text leaves open: the bound of line 12, what v is divided by, whether m is the number of draws
or one more, from what is drawn, and how many draws there are before a stop is tested.

Notation: K arms, R runs, d draws of a race, D deltas, S sigmas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from agents.racing.stopping import threshold_function
from bandit_gym.checks.typing import FloatArray
from bandit_gym.numerics.compiled import kernel

VALUE, WEIGHT, SUPREMUM = SCALES = "value", "weight", "supremum"
MAX_DRAWS = 5000
"""Of a race; at delta = sigma = .1 the printed bound ends any at 1,566."""

PRINTED_DIGIT = 0.1
"""The paper's last decimal of counts: rounding adds PRINTED_DIGIT^2 / 12 to their variance."""


class Reading(NamedTuple):
    """How Algorithm 2 may be read.

    Attributes:
        threshold: "printed" or "shortened", as `threshold_function` has it.
        scale: of v, one of `SCALES`.
        is_matched: whether is drawn from the posterior itself, where all weights are equal.
        by_draws: whether m is the number of draws, not one more.
    """

    threshold: str
    scale: str
    is_matched: bool = False
    by_draws: bool = False

    def find_bars(self, delta: float, sigma: float, first_stop: int) -> FloatArray:
        """Return what m times the gap of the two best averages has to exceed after d draws."""
        m = np.arange(MAX_DRAWS + 1) + (0.0 if self.by_draws else 1.0)
        m[0] = 1.0
        bars = m * (2 * threshold_function(self.threshold, m, delta) - sigma)
        bars[:first_stop] = np.inf
        return bars


def play_reading(
    reading: Reading, bars: FloatArray, priors: FloatArray, horizon: int, seed: Any
) -> FloatArray:
    """Play runs of Algorithm 2 in Bernoulli problems with means from their priors.

    Args:
        reading: of Algorithm 2.
        bars: see `Reading.find_bars`.
        priors: (R, 2, K) alpha and beta of each arm, at least 1.
        horizon: T.
        seed: of all that is random; the means are the same for each reading.

    Returns:
        (3, R): samples of a decision, pseudo-regret of the run, and samples of its shortest race.
    """
    rng = np.random.default_rng(seed)
    means = rng.beta(priors[:, 0], priors[:, 1])
    scale = SCALES.index(reading.scale)
    return np.asarray(_play(rng, bars, scale, reading.is_matched, priors, means, horizon))


@kernel
def _play(
    rng: Generator,
    bars: np.ndarray,
    scale: int,
    is_matched: bool,
    priors: np.ndarray,
    means: np.ndarray,
    horizon: int,
) -> np.ndarray:
    found = np.zeros((3, len(priors)))
    found[2] = np.inf
    num_arms = priors.shape[2]
    eps, totals = np.empty(num_arms), np.empty(num_arms)
    for run in range(len(priors)):
        prior, mean = priors[run], means[run]
        counted = np.ones((2, num_arms))  # Beta(1 + ones, 1 + zeros), or the posterior
        if is_matched:
            counted[:] = prior
        supremum = 0.0  # of log w, at the mode of each arm's prior
        if not is_matched:
            for k in range(num_arms):
                a, b = prior[0, k] - 1, prior[1, k] - 1
                supremum += a * math.log(a / (a + b)) if a > 0 else 0.0
                supremum += b * math.log(b / (a + b)) if b > 0 else 0.0
        for _ in range(horizon):
            for k in range(num_arms):
                eps[k], totals[k] = -math.log(rng.standard_exponential()), 0.0  # line 5
            log_scale = supremum + eps.max() if scale == 2 else -np.inf
            best, second, d, is_over = 0, 0.0, 0, False  # line 6
            while not is_over:  # line 7
                d += 1
                winner, top, log_weight = 0, -1.0, 0.0
                for k in range(num_arms):  # line 8
                    x = rng.beta(counted[0, k], counted[1, k])
                    if x > top:
                        winner, top = k, x
                    if not is_matched:
                        log_weight += (prior[0, k] - 1) * math.log(x)
                        log_weight += (prior[1, k] - 1) * math.log1p(-x)
                log_value = log_weight + eps[winner]
                size = log_weight if scale == 1 else log_value
                if size > log_scale:
                    totals *= math.exp(log_scale - size)
                    second *= math.exp(log_scale - size)
                    log_scale = size
                totals[winner] += math.exp(log_value - log_scale)  # line 10
                if winner != best:  # line 11
                    second = max(second, min(totals[winner], totals[best]))
                    best = winner if totals[winner] > totals[best] else best
                is_over = totals[best] - second > bars[d] or d == len(bars) - 1  # line 12
            reward = rng.random() < mean[best]  # line 17
            counted[0 if reward else 1, best] += 1
            found[0, run] += d / horizon
            found[1, run] += mean.max() - mean[best]
            found[2, run] = min(found[2, run], d)
    return found


def play_table(
    reading: Reading,
    num_arms: int,
    first_stops: Sequence[int],
    settings: Mapping[str, Any],
    *,
    num_runs: int,
    horizon: int,
) -> list[dict[str, Any]]:
    """Return samples and regrets of all cells of Table 2, for each number of draws before a stop.

    Returns:
        for each of `first_stops` the (D, S) means and the standard deviations of runs.
    """
    levels = [*product(settings["deltas"], settings["sigmas"])]
    priors = np.full((num_runs, 2, num_arms), 5.0)
    seed, played = [settings["seed"], num_arms], {}
    tables = []
    for first_stop in first_stops:
        for level in levels:
            if level in played and played[level][2].min() >= first_stop:
                continue  # no race was so short: the same runs
            bars = reading.find_bars(*level, first_stop)
            played[level] = play_reading(reading, bars, priors, horizon, seed)
        cells = np.array([played[level][:2] for level in levels])
        cells = cells.reshape(len(settings["deltas"]), len(settings["sigmas"]), 2, num_runs)
        table: dict[str, Any] = {"first stop": first_stop}
        for number, which in enumerate(("samples", "regrets")):
            table[which] = _round(cells[:, :, number].mean(axis=-1))
            table[f"{which} std"] = _round(cells[:, :, number].std(axis=-1, ddof=1))
        tables.append(table)
    return tables


def _round(numbers: FloatArray) -> Any:
    return np.vectorize(lambda x: float(f"{x:.5g}"))(numbers).tolist()
