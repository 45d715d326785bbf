import numpy as np
import pytest

from bandit_gym.fidelity import distance


def test_total_variation_is_half_the_absolute_difference():
    assert distance.total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.5, 0.3])) == 0.3


def test_noise_floor_of_two_decisions_between_two_arms_is_a_quarter():
    # Two fair decisions agree with probability 1/2, at a distance of 1/2, and else are at 0.
    mean, high = distance.noise_floor(np.array([0.5, 0.5]), 2)
    assert abs(mean - 0.25) <= 4 * 0.25 / np.sqrt(distance.NUM_FLOORS)
    assert high == 0.5


@pytest.mark.parametrize("true", [0.0, 0.03, 0.3])
def test_interval_of_the_excess_covers_the_distance(true):
    law = np.array([0.4, 0.3, 0.2, 0.1])
    own = law + np.array([-true, true / 2, true / 2, 0.0])
    samples = np.random.default_rng(1).multinomial(1000, own, 200) / 1000
    found = [distance.measure_excess(shares, law, 1000) for shares in samples]
    covered = np.mean([each.low <= true <= each.high for each in found])
    assert covered >= 0.95 - 4 * (0.95 * 0.05 / 200) ** 0.5
