import numpy as np
import pytest
from surface import started

from agents import InformationDirected
from agents.rules.lookahead import minimise_information_ratio
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal
from bandit_gym.problem import BanditProblem


def test_information_is_of_bernoulli_rewards_alone():
    with pytest.raises(ValueError, match="Bernoulli.* for gain='information'.*gain='variance'"):
        InformationDirected(BanditProblem(Gaussian(), Normal(0.0, 1.0), 2), gain="information")


def test_arms_without_regret_are_played_alone_whatever_they_tell():
    (law,) = minimise_information_ratio(np.array([[0.0, 0.0, 1.0]]), np.array([[1.0, 2.0, 1.0]]))
    assert law.tolist() == [0.5, 0.5, 0.0]


def test_of_arms_that_tell_nothing_the_least_regret_is_played():
    (law,) = minimise_information_ratio(np.array([[0.2, 0.1, 0.3]]), np.zeros((1, 3)))
    assert law.tolist() == [0.0, 1.0, 0.0]


def test_an_arm_that_is_hardly_ever_the_best_has_a_mean_all_the_same():
    counts = [1, 130, 41, 1, 38, 0, 2, 1, 1, 5]  # arm 2 has a probability of 7e-10
    sums = [0.0, 130.0, 32.0, 0.0, 32.0, 0.0, 1.0, 0.0, 0.0, 4.0]
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 10)
    agent = started("information_directed", problem, None, counts, sums, gain="information")
    means = agent.belief().best_arm_moments()[1]
    assert (means >= 0).all() and (means <= 1).all()
    assert agent.action_probabilities().sum() == pytest.approx(1)


def test_a_race_on_the_posterior_itself_is_asked_anew_after_data():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
    options = {"num_envs": None, "posterior": "racing"}
    asked, fresh = (started("information_directed", problem, **options) for _ in range(2))
    asked.act()
    for agent in (asked, fresh):
        agent.warm_start([50] * 3, [5, 45, 10])
    assert asked.action_probabilities().tolist() == fresh.action_probabilities().tolist()
