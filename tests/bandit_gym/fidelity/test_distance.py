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


@pytest.fixture
def few_floors(monkeypatch):
    """A quarter of the samples, for the sake of time."""
    monkeypatch.setattr(distance, "NUM_FLOORS", 500)


def misses(law, own, num_sets, num_decisions=1000):
    """Return the shares of intervals above and below the distance between two distributions."""
    law, true = np.array(law), distance.total_variation(np.array(own), np.array(law))
    sets = np.random.default_rng(1).multinomial(num_decisions, own, num_sets)
    sets, repeats = np.unique(sets, axis=0, return_counts=True)  # equal ones are measured once
    found = [distance.find_interval(each / num_decisions, law, num_decisions) for each in sets]
    low, high = np.array(found).T
    return repeats @ np.transpose([low > true, high < true]) / num_sets


def noise(share, num_sets):
    """Return four standard deviations of the share of sets in which that is the chance."""
    return 4 * (share * (1 - share) / num_sets) ** 0.5


@pytest.mark.parametrize(
    ("law", "own", "num_decisions"),
    [
        ([0.9, 0.1], [0.89, 0.11], 1000),
        ([0.9, 0.1], [0.885, 0.115], 1000),
        ([0.5, 0.5], [0.495, 0.505], 10_000),
    ],
)
def test_interval_covers_the_distance_between_two_arms(law, own, num_decisions):
    """It is 1 to 1.5 standard errors, so even the upper end of no difference is above it."""
    too_high, too_low = misses(law, own, 2000, num_decisions)
    quantile_of_samples = noise(0.025, distance.NUM_FLOORS)
    assert abs(too_high - 0.025) <= np.hypot(noise(0.025, 2000), quantile_of_samples)
    assert too_low == 0


TEN, TWENTY = np.eye(10), np.arange(20)
FIVE = np.array([0.3, 0.3, 0.2, 0.1, 0.1])
DISTANCES = {
    "none": ([0.4, 0.3, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1], 200),
    "of two of ten arms": (np.full(10, 0.1), 0.1 + 0.09 * (TEN[0] - TEN[1]), 60),
    "of two of five arms": (FIVE, FIVE + 0.02 * (np.eye(5)[4] - np.eye(5)[0]), 150),
    # Each arm differs by about a standard error, in which counting hides most.
    "of twenty arms alike": (np.full(20, 0.05), 0.05 + 0.007 * np.where(TWENTY % 2, 1, -1), 60),
}


@pytest.mark.parametrize(("law", "own", "num_sets"), DISTANCES.values(), ids=DISTANCES)
@pytest.mark.usefixtures("few_floors")
def test_each_end_leaves_a_distance_out_in_one_of_forty_samples_at_most(law, own, num_sets):
    """Both together in 5 %; where noise was taken for differences of other arms, it was 8.6 %."""
    found = misses(law, own, num_sets)
    assert max(found) <= 0.025 + noise(0.025, num_sets)
    assert sum(found) <= 0.05 + noise(0.05, num_sets)


def test_upper_end_where_an_arm_is_never_played_is_above_0_and_that_of_a_single_arm_is_0():
    low, high = distance.find_interval(np.array([1.0, 0.0]), np.array([1.0, 0.0]), 1000)
    assert low == 0
    assert 0.003 <= high <= 0.005  # the chance of none in 1,000 is 5 % at a share of 0.003
    assert distance.find_interval(np.ones(1), np.ones(1), 10) == (0, 0)


def test_interval_is_part_of_the_excess():
    shares, law = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.3, 0.3])
    found = distance.measure_excess(shares, law, 1000)
    assert (found.low, found.high) == distance.find_interval(shares, law, 1000)
    assert found.low < found.excess < found.high
