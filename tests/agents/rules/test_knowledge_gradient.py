import pytest

from agents import KnowledgeGradient
from bandit_gym.likelihoods import Bernoulli, Poisson
from bandit_gym.priors import Beta, Gamma
from bandit_gym.problem import BanditProblem


def test_kg_star_tries_an_arm_that_one_reward_cannot_lift():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    for variant, arm in (("kg", 0), ("kg*", 1)):
        agent = KnowledgeGradient(problem, horizon=200, variant=variant)
        agent.reset(20, seed=0)
        agent.warm_start([8, 0], [6, 0])
        assert (agent.act() == arm).all()


def test_last_pull_is_greedy():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    agent = KnowledgeGradient(problem, horizon=1, variant="kg*")
    agent.reset(20, seed=0)
    agent.warm_start([8, 0], [5, 0])
    assert (agent.act() == 0).all()


def test_other_rewards_are_refused():
    with pytest.raises(ValueError, match="must be Bernoulli or Gaussian for KnowledgeGradient"):
        KnowledgeGradient(BanditProblem(Poisson(), Gamma(2.0, 2.0), 2))
