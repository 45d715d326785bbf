from families import DensityOnly
from surface import started

from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, TruncatedNormal
from bandit_gym.problem import BanditProblem


def test_greedy_follows_averages_where_there_is_no_posterior():
    problem = BanditProblem(Bernoulli(), DensityOnly(Beta(1.0, 1.0)), 2)
    agent = started("greedy", problem, 40, [1, 100], [1, 60])
    assert (agent.act() == 0).all() and agent.diagnostics() == {}


def test_greedy_on_the_posterior_says_where_that_is_unsure_of_itself():
    far = TruncatedNormal(0.0, 1.0, -1.0, 1.0)
    for total in (5e13, 5.0):  # the larger leaves no table that fits
        agent = started("greedy", BanditProblem(Gaussian(), far, 3), 2, [5, 5, 0], [total, 2.0, 0])
        agent.act()
        assert agent.diagnostics()["is_unreliable"].tolist() == [total > 5.0] * 2
