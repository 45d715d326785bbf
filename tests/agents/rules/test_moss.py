import pytest

from agents import MOSS
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem

PROBLEM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)


def chosen(counts, sums, **options):
    agent = MOSS(PROBLEM, **options)
    agent.reset(20, seed=0)
    agent.warm_start(counts, sums)
    return agent.act()


def test_arm_pulled_more_than_its_share_has_no_bonus():
    # 100 pulls are more than T / K = 65.5; the other's bound is 0.6 + sqrt(log(2.18) / 30) = 0.761
    assert (chosen([100, 30], [77, 18], horizon=131) == 0).all()
    assert (chosen([100, 30], [75, 18], horizon=131) == 1).all()


def test_horizon_that_is_over_is_refused():
    with pytest.raises(ValueError, match="horizon must be more than the 40 pulls already observed"):
        chosen([20, 20], [9, 9], horizon=40)
