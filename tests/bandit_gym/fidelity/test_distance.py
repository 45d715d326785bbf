import numpy as np
import pytest

from bandit_gym.fidelity import distance
from bandit_gym.fidelity.suite import load_suite


def test_total_variation_is_half_the_absolute_difference():
    assert distance.total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.5, 0.3])) == 0.3


def test_noise_floor_of_two_decisions_between_two_arms_is_a_quarter():
    # Two fair decisions agree with probability 1/2, at a distance of 1/2, and else are at 0.
    mean, high = distance.noise_floor(np.array([0.5, 0.5]), 2)
    assert abs(mean - 0.25) <= 4 * 0.25 / np.sqrt(distance.NUM_FLOORS)
    assert high == 0.5


NUM_SETS = 2000
TWO = {"n=1000": (np.array([0.9, 0.1]), 1000), "n=10000": (np.array([0.5, 0.5]), 10_000)}


@pytest.fixture
def few_floors(monkeypatch):
    """A quarter of the samples, for the sake of time."""
    monkeypatch.setattr(distance, "NUM_FLOORS", 500)


def ends(law, own, num_decisions, num_sets=NUM_SETS):
    """Return (2, num_sets) ends of intervals; equal data sets are measured once."""
    sets = np.random.default_rng(1).multinomial(num_decisions, own, num_sets)
    sets, which = np.unique(sets, axis=0, return_inverse=True)
    found = [distance.find_interval(each / num_decisions, law, num_decisions) for each in sets]
    return np.array(found)[which.ravel()].T


@pytest.mark.parametrize(
    ("size", "true"), [("n=1000", 0.01), ("n=1000", 0.015), ("n=10000", 0.005)]
)
def test_interval_covers_the_distance_between_two_arms(size, true):
    law, num_decisions = TWO[size]
    low, high = ends(law, law + [-true, true], num_decisions)
    assert 0.93 <= np.mean((low <= true) & (true <= high)) <= 0.98
    assert np.mean(high < true) <= 0.04


@pytest.mark.parametrize(("num_arms", "num_sets"), [(2, 2000), (3, 100), (4, 60), (5, 40)])
@pytest.mark.usefixtures("few_floors")
def test_interval_covers_distributions_of_the_suites_mixed_with_uniform_ones(num_arms, num_sets):
    laws = [case.probabilities for case in load_suite().cases]
    laws = [law for law in laws if len(law) == num_arms][:2]
    found = []
    for law in laws:
        own = 0.9 * law + 0.1 / num_arms
        true = distance.total_variation(own, law)
        low, high = ends(law, own, 1000, num_sets)
        found += [(low > true, high < true)]
    too_high, too_low = np.mean(found, axis=(0, 2))
    total = num_sets * len(laws)
    assert too_high + too_low <= 0.05 + 4 * (0.05 * 0.95 / total) ** 0.5
    assert too_low <= 0.025 + 4 * (0.025 * 0.975 / total) ** 0.5


@pytest.mark.usefixtures("few_floors")
def test_lower_end_is_0_where_decisions_are_exact():
    law = np.array([0.4, 0.3, 0.2, 0.1])
    low, _ = ends(law, law, 1000, 200)
    assert np.mean(low > 0) <= 0.05 + 4 * (0.05 * 0.95 / 200) ** 0.5


@pytest.mark.usefixtures("few_floors")
def test_lower_end_stays_below_a_distance_that_two_of_ten_arms_make():
    law, true = np.full(10, 0.1), 0.09
    low, _ = ends(law, law + true * (np.eye(10)[0] - np.eye(10)[1]), 1000, 60)
    assert np.mean(low > true) <= 0.05 + 4 * (0.05 * 0.95 / 60) ** 0.5


@pytest.mark.usefixtures("few_floors")
def test_interval_covers_a_distance_that_two_of_five_arms_make():
    """The interval that took noise for differences of other arms covered 91.4 % here."""
    law, true, num_sets = np.array([0.3, 0.3, 0.2, 0.1, 0.1]), 0.02, 300
    low, high = ends(law, law + true * (np.eye(5)[4] - np.eye(5)[0]), 1000, num_sets)
    assert np.mean(low > true) <= 0.025 + 4 * (0.025 * 0.975 / num_sets) ** 0.5
    assert np.mean((low <= true) & (true <= high)) >= 0.93


@pytest.mark.usefixtures("few_floors")
def test_upper_end_stays_above_a_distance_that_twenty_arms_make_alike():
    """Each differs by about a standard error, in which counting hides most."""
    law, true, num_sets = np.full(20, 0.05), 0.07, 60
    own = law + true / 10 * np.where(np.arange(20) % 2, 1, -1)
    _, high = ends(law, own, 1000, num_sets)
    assert np.mean(high < true) <= 0.025 + 4 * (0.025 * 0.975 / num_sets) ** 0.5


def test_upper_end_where_an_arm_is_never_played_is_above_0():
    low, high = distance.find_interval(np.array([1.0, 0.0]), np.array([1.0, 0.0]), 1000)
    assert low == 0
    assert 0.003 <= high <= 0.005  # the chance of none in 1,000 is 5 % at a share of 0.003


def test_interval_of_a_single_arm_is_0():
    assert distance.find_interval(np.ones(1), np.ones(1), 10) == (0, 0)


def test_interval_is_part_of_the_excess():
    shares, law = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.3, 0.3])
    found = distance.measure_excess(shares, law, 1000)
    assert (found.low, found.high) == distance.find_interval(shares, law, 1000)
    assert found.low < found.excess < found.high
