"""Bounds of the probability that an arm is not the best, and the flags that they take off."""

import numpy as np
import pytest

from agents import SMCThompson
from agents.oracle import action_probabilities
from agents.posteriors.doubts import Doubts
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import (
    Beta,
    Gamma,
    InverseGamma,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.priors.mixtures import Mixture
from bandit_gym.problem import BanditProblem

PLAIN = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
CASES = [
    (Bernoulli(), Beta(2.0, 3.0), [[40, 60, 25], [200, 300, 100]], [[24, 28, 8], [90, 180, 44]]),
    (Exponential(), InverseGamma(3.0, 2.0), [[9, 4, 7], [50, 80, 40]], [[18, 3, 5], [60, 50, 33]]),
    (Gaussian(), Normal(0.0, 1.0), [[9, 4, 1], [50, 80, 9]], [[6, -2, -1], [20, -5, -2]]),
    (Poisson(), Gamma(2.0, 1.0), [[9, 4, 7], [50, 80, 40]], [[24, 5, 9], [100, 121, 66]]),
]


def bound(problem, arm, counts, sums):
    return Doubts(problem).bound(np.array([arm]), np.array([counts]), np.array([sums]))[0]


@pytest.mark.parametrize(("likelihood", "prior", "counts", "sums"), CASES)
def test_bounds_are_near_the_probability_where_there_is_little_doubt(
    likelihood, prior, counts, sums
):
    """Within a factor of two of the oracle's, or both below a thousandth."""
    problem, data = BanditProblem(likelihood, prior, 3), (np.array(counts), np.array(sums, float))
    law = action_probabilities(problem, *data)
    best = law.argmax(axis=1)
    truth = 1 - law[np.arange(2), best]
    found = Doubts(problem).bound(best, *data)
    assert (truth < 0.2).all()
    assert ((found < 2 * truth + 1e-3) & (found > truth / 2 - 1e-3)).all()


def test_an_arm_of_lower_average_is_in_doubt_whatever_the_data():
    assert bound(PLAIN, 1, [1000, 1000], [900.0, 100.0]) >= 0.5


def test_the_prior_takes_part_where_data_are_few():
    sure = BanditProblem(Gaussian(), Normal((1.0, 0.0), 0.1), 2)
    assert bound(sure, 0, [0, 0], [0.0, 0.0]) < 1e-6
    assert bound(sure, 1, [1, 1], [0.0, 0.5]) >= 0.5


def test_arms_that_are_all_but_equal_a_priori_stay_in_doubt():
    def problem(correlation):
        covariance = [[0.04, 0.04 * correlation], [0.04 * correlation, 0.04]]
        return BanditProblem(Bernoulli(), TruncatedMultivariateNormal(0.5, covariance), 2)

    data = 0, [500, 500], [275.0, 225.0]
    assert bound(problem(0.0), *data) < 0.01
    assert bound(problem(0.9999), *data) > 0.3


def test_data_that_the_prior_hardly_leads_to_leave_all_in_doubt():
    prior = Mixture([Beta(20.0, 20.0), TruncatedNormal(0.97, 0.003)], [0.998, 0.002])
    problem = BanditProblem(Bernoulli(), prior, 2)
    assert bound(problem, 0, [30, 1000], [30.0, 850.0]) == 1.0
    assert bound(problem, 0, [300, 300], [180.0, 120.0]) < 0.01


def test_rewards_beyond_the_support_and_beyond_numbers_leave_all_in_doubt():
    problem = BanditProblem(Gaussian(), TruncatedNormal(0.0, 1.0, -1.0, 1.0), 2)
    for sums in ([50.0, 40.0], [5e9, 1e9]):
        assert bound(problem, 0, [5, 5], sums) >= 0.5


def test_collapsed_particles_are_flagged_but_for_the_arm_that_data_leave_no_doubt_of():
    agent = SMCThompson(PLAIN, num_particles=10)
    agent.reset(200, seed=0)
    agent.warm_start([300, 300], [180.0, 120.0])
    arms = agent.act()
    assert (agent.inner.effective_sample_size() < 10).all()
    assert 0 < (arms == 0).sum() < 200
    np.testing.assert_array_equal(agent.diagnostics()["is_unreliable"], arms == 1)


def test_a_lane_that_begins_anew_is_looked_at_anew():
    agent = SMCThompson(PLAIN, num_particles=10)
    agent.reset(40, seed=0)
    agent.warm_start([300, 300], [180.0, 120.0])
    assert 0 in agent.act()
    agent.reset_lanes(np.arange(40) < 39)
    agent.warm_start([3, 3], [1.0, 1.0])
    agent.act()
    assert agent.diagnostics()["is_unreliable"][:39].all()


def test_a_sure_lane_that_takes_another_arm_is_flagged():
    agent = SMCThompson(PLAIN, num_particles=10)
    agent.reset(500, seed=0)
    agent.warm_start([300, 300], [180.0, 120.0])
    first, second = agent.act(), agent.act()
    flags = agent.diagnostics()["is_unreliable"]
    assert ((first == 0) & (second == 1)).any()
    assert flags[second == 1].all() and not flags[(first == 0) & (second == 0)].any()


def test_flags_of_particles_that_are_resampled_stay():
    agent = SMCThompson(PLAIN, num_particles=10, resampling="systematic")
    agent.reset(20, seed=0)
    agent.warm_start([300, 300], [180.0, 120.0])
    assert 0 in agent.act()
    assert agent.diagnostics()["is_unreliable"].all()


def test_a_heavy_tail_leads_to_averages_of_many_deviations():
    problem = BanditProblem(Exponential(), InverseGamma(3.0, 2.0), 2)  # beyond 5 in 1 of 126
    assert bound(problem, 0, [100, 100], [500.0, 100.0]) < 0.01


def test_what_was_found_holds_until_the_pulls_have_grown_by_a_fifth():
    agent = SMCThompson(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), num_particles=10)
    agent.reset(20, seed=3)
    agent.warm_start([100, 100], [70.0, 30.0])
    agent.act()
    looks = agent._look_at.copy()
    agent.warm_start([10, 10], [7.0, 3.0])
    agent.act()
    np.testing.assert_array_equal(agent._look_at, looks)
    agent.warm_start([20, 20], [14.0, 6.0])
    agent.act()
    assert (agent._look_at[looks > 0] > looks[looks > 0]).all() and (looks > 0).any()
