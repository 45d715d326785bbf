import pytest

from agents import InformationDirected
from bandit_gym.likelihoods import Gaussian
from bandit_gym.priors import Normal, TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem


def test_dependent_prior_is_served():
    prior = TruncatedMultivariateNormal(0.5, [[1.0, 0.9], [0.9, 1.0]])
    agent = InformationDirected(BanditProblem(Gaussian(), prior, 2))
    agent.reset(4, seed=0)
    agent.warm_start([0, 40], [0.0, 4.0])
    assert agent.act().shape == (4,)


def test_information_is_of_bernoulli_rewards_alone():
    with pytest.raises(ValueError, match="Bernoulli.* for gain='information'.*gain='variance'"):
        InformationDirected(BanditProblem(Gaussian(), Normal(0.0, 1.0), 2), gain="information")
