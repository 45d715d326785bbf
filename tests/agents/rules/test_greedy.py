import numpy as np
import pytest
from families import DensityOnly

from agents import EpsilonGreedy, Greedy
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian
from bandit_gym.priors import Beta, InverseGamma, TruncatedNormal
from bandit_gym.problem import BanditProblem


def act(agent, counts, sums, num_envs=40):
    agent.reset(num_envs, seed=0)
    agent.warm_start(counts, sums)
    return agent.act()


@pytest.mark.parametrize(
    ("prior", "options"),
    [(Beta(50.0, 50.0), {"estimate": "average"}), (DensityOnly(Beta(1.0, 1.0)), {})],
    ids=["where asked", "where there is no posterior"],
)
def test_greedy_follows_averages(prior, options):
    agent = Greedy(BanditProblem(Bernoulli(), prior, 2), **options)
    assert (act(agent, [1, 100], [1, 60]) == 0).all()
    assert agent.diagnostics() == {}


@pytest.mark.parametrize(
    "prior", [Beta(50.0, 50.0), TruncatedNormal(0.5, 0.05)], ids=lambda prior: prior.name
)
def test_greedy_on_the_posterior_weighs_the_prior(prior):
    # one success among one pull says less than 60 among 100 under a prior this narrow
    problem = BanditProblem(Bernoulli(), prior, 2)
    assert (act(Greedy(problem), [1, 100], [1, 60]) == 1).all()


def test_greedy_on_the_posterior_says_where_that_is_unsure_of_itself():
    far = TruncatedNormal(0.0, 1.0, -1.0, 1.0)  # rewards of 1e13 leave no table that fits
    agent = Greedy(BanditProblem(Gaussian(), far, 3), estimate="posterior")
    act(agent, [5, 5, 0], [5e13, 2.0, 0.0], num_envs=2)
    assert agent.diagnostics()["is_unreliable"].tolist() == [True, True]
    act(agent, [5, 5, 0], [5.0, 2.0, 0.0], num_envs=2)
    assert agent.diagnostics()["is_unreliable"].tolist() == [False, False]


def test_infinite_posterior_mean_comes_first_and_is_no_error():
    prior = InverseGamma(0.5, 1.0)  # no expectation without data
    agent = Greedy(BanditProblem(Exponential(), prior, 2), estimate="posterior")
    assert (act(agent, [0, 9], [0.0, 900.0]) == 0).all()
    assert agent.estimates()[0, 0] == np.inf


def test_epsilon_greedy_on_the_posterior_is_greedy_when_epsilon_is_0():
    problem = BanditProblem(Bernoulli(), Beta(50.0, 50.0), 2)
    agent = EpsilonGreedy(problem, epsilon=0.0, estimate="posterior")
    assert (act(agent, [1, 100], [1, 60]) == 1).all()
