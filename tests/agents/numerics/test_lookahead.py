"""What pulls of an arm may tell, against sums over all their outcomes."""

import numpy as np
import pytest
from numba import njit
from scipy import stats

from agents.numerics import lookahead as module

upper_gain = njit(module.upper_gain)


@pytest.mark.parametrize("num_pulls", [1, 2, 5, 60])
@pytest.mark.parametrize(("a", "b", "level"), [(3.0, 2.0, 0.65), (1.5, 4.0, 0.3), (1.0, 1.0, 0.9)])
def test_upper_gain_is_the_sum_over_the_rewards(a, b, level, num_pulls):
    paid = np.arange(num_pulls + 1)
    gains = np.maximum((a + paid) / (a + b + num_pulls) - level, 0.0)
    expected = stats.betabinom(num_pulls, a, b).pmf(paid) @ gains
    assert upper_gain(a, b, level, num_pulls) == pytest.approx(expected, rel=1e-10, abs=1e-300)
