import pytest

from agents import InformationDirected
from bandit_gym.likelihoods import Gaussian
from bandit_gym.priors import Normal
from bandit_gym.problem import BanditProblem


def test_information_is_of_bernoulli_rewards_alone():
    with pytest.raises(ValueError, match="Bernoulli.* for gain='information'.*gain='variance'"):
        InformationDirected(BanditProblem(Gaussian(), Normal(0.0, 1.0), 2), gain="information")
