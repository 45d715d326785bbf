import pytest
from families import DensityOnly

from agents import Greedy
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, TruncatedNormal
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


def test_greedy_on_the_posterior_says_where_that_is_unsure_of_itself():
    far = TruncatedNormal(0.0, 1.0, -1.0, 1.0)  # rewards of 1e13 leave no table that fits
    agent = Greedy(BanditProblem(Gaussian(), far, 3), estimate="posterior")
    act(agent, [5, 5, 0], [5e13, 2.0, 0.0], num_envs=2)
    assert agent.diagnostics()["is_unreliable"].tolist() == [True, True]
    act(agent, [5, 5, 0], [5.0, 2.0, 0.0], num_envs=2)
    assert agent.diagnostics()["is_unreliable"].tolist() == [False, False]
