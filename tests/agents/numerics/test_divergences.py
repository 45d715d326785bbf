"""Upper means against their definition, in more digits than they have, and at the edges."""

import math

import numpy as np
import pytest
from scipy import optimize

from agents.numerics.divergences import divergence, find_upper_means
from agents.numerics.families import BETA, GAMMA, INVERSE_GAMMA
from agents.posteriors.conjugate import TABLE_1
from bandit_gym.likelihoods import LIKELIHOODS

FAMILIES = [BETA, INVERSE_GAMMA, GAMMA]


def upper_mean(family, average, distance):
    out = np.empty((1, 1))
    find_upper_means(family, np.array([[average]]), np.array([[distance]]), out)
    return out[0, 0]


@pytest.mark.parametrize("name", ["bernoulli", "exponential", "poisson"])
def test_divergence_is_the_loss_of_log_likelihood(name):
    """n kl(s / n, q) = l(s / n) - l(q) for n rewards of total s."""
    likelihood = LIKELIHOODS[name]()
    family = TABLE_1[type(likelihood)].law.code
    best, other = likelihood.log_likelihood(np.array([0.3, 0.8]), 10, 3.0)
    assert 10 * divergence(family, 0.3, 0.8) == pytest.approx(best - other, rel=1e-13)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("average", [1e-12, 0.01, 0.4, 0.999])
@pytest.mark.parametrize("distance", [1e-9, 1e-3, 0.5, 30.0])
def test_upper_mean_lies_where_the_divergence_reaches_the_distance(family, average, distance):
    """A search by Brent's method; kl is known to 1e-15 of q - p, more of q where it is flat."""
    found = upper_mean(family, average, distance)
    end = np.nextafter(1.0, 0.0) if family == BETA else average * math.exp(35.0) + 100.0
    if divergence(family, average, end) <= distance:  # reached between the last number and 1
        assert found == pytest.approx(1.0, abs=4 * 2.0**-53)
        return
    expected = optimize.brentq(
        lambda q: divergence(family, average, q) - distance, average, end, xtol=1e-300
    )
    variance = {BETA: expected * (1 - expected), GAMMA: expected, INVERSE_GAMMA: expected**2}
    slope = (expected - average) / variance[family]
    largest_term = max(1.0, 1 / average if family == INVERSE_GAMMA else 1.0) * (expected - average)
    assert found == pytest.approx(expected, rel=1e-14, abs=1e-15 * largest_term / slope)


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_above_an_average_at_distance_0(family):
    assert upper_mean(family, 0.4, 0.0) == 0.4


def test_a_reward_every_time_leaves_no_room_above():
    assert upper_mean(BETA, 1.0, 0.5) == 1.0


def test_no_reward_at_all_has_bounds_in_closed_form():
    """-log(1 - q) and q are the divergences of a mean of 0."""
    assert upper_mean(BETA, 1e-300, 0.2) == pytest.approx(-math.expm1(-0.2), rel=1e-12)
    assert upper_mean(GAMMA, 1e-300, 0.2) == pytest.approx(0.2, rel=1e-12)


def test_bounds_of_scaled_rewards_are_scaled():
    bounds = [upper_mean(INVERSE_GAMMA, scale, 3.0) / scale for scale in (1e-300, 1.0, 1e200)]
    assert bounds == pytest.approx([bounds[1]] * 3, rel=1e-14)
