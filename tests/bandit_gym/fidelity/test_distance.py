import numpy as np

from bandit_gym.fidelity import distance


def test_total_variation_is_half_the_absolute_difference():
    assert distance.total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.5, 0.3])) == 0.3


def test_noise_floor_of_two_decisions_between_two_arms_is_a_quarter():
    # Two fair decisions agree with probability 1/2, at a distance of 1/2, and else are at 0.
    mean, high = distance.noise_floor(np.array([0.5, 0.5]), 2)
    assert abs(mean - 0.25) <= 4 * 0.25 / np.sqrt(distance.NUM_FLOORS)
    assert high == 0.5
