"""The rate of regret, by hand."""

import math

import numpy as np
import pytest

from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.likelihoods.lai_robbins import lai_robbins_slope


def test_lai_robbins_slope_is_two_variances_over_the_gap_for_gaussian_rewards() -> None:
    """KL(N(0, 4), N(1, 4)) = 1 / 8, so gap / KL = 8."""
    assert lai_robbins_slope(Gaussian(2.0), np.array([0.0, 1.0])) == pytest.approx(8.0)


def test_lai_robbins_slope_counts_every_worse_arm_for_bernoulli_rewards() -> None:
    divergence = 0.2 * math.log(0.2 / 0.5) + 0.8 * math.log(0.8 / 0.5)
    slope = lai_robbins_slope(Bernoulli(), np.array([0.2, 0.5, 0.2, 0.5]))
    assert slope == pytest.approx(2 * 0.3 / divergence)
