import numpy as np
import pytest

from agents import InformationDirected
from agents.rules.information_directed import minimise_information_ratio
from bandit_gym.likelihoods import Gaussian
from bandit_gym.priors import Normal
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
