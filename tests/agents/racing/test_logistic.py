"""Draws from normal laws cut to intervals, by logistic laws."""

import math

import numpy as np
import pytest
from scipy import special, stats

from agents.racing.logistic import CutLaw, LogisticDraws, draw_logistic


@pytest.mark.parametrize(
    "low, high",
    [
        (-1.0, 2.0),
        (-0.1, 0.3),
        (-math.inf, 0.5),
        (0.2, 0.6),
        (0.3, 8.0),
        (2.0, math.inf),
        (-4.0, -3.5),
        (8.0, 8.05),
        (30.0, 40.0),
        (1e3, math.inf),
        (-1e9, 1e9),
        (0.5, 0.5 + 1e-6),
    ],
)
def test_weighted_logistic_draws_have_the_law_of_the_truncated_normal(low, high, rng):
    size, scale = 4000, 5.0
    off, log_weights = np.full(size, 0.7), np.zeros(size)
    ratios, spare = np.empty(size), np.empty((5, size))
    ends = [0.7 + end / scale for end in (low, high)]  # from what the arm's mean is without others
    draw_logistic(rng, CutLaw(*ends, scale), LogisticDraws(off, ratios, log_weights), spare)
    z = (off - 0.7) * scale
    assert ((z > low - 1e-9) & (z < high + 1e-9)).all()

    side = (low, high) if low < 0 else (-high, -low)  # where SciPy has no cancellation
    log_mass = special.log_ndtr(side[1]) + np.log1p(
        -np.exp(special.log_ndtr(side[0]) - special.log_ndtr(side[1]))
    )
    weights = np.exp(log_weights - log_mass) * ratios / math.sqrt(2 * math.pi)
    assert abs(weights.mean() - 1) < 4 * weights.std() / math.sqrt(size) + 1e-9
    with np.errstate(invalid="ignore"):  # of SciPy's higher moments
        errors = weights * (z - stats.truncnorm(low, high).mean())
    assert abs(errors.mean()) < 4 * errors.std() / math.sqrt(size)
    assert weights.mean() ** 2 / np.square(weights).mean() > 0.85
