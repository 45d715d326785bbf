import numpy as np
import pytest

from agents import BayesUCB, ExactThompson
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import TruncatedNormal
from bandit_gym.problem import BanditProblem

# After 40 pulls the level is 1 - 1 / 41. Arm 0 was pulled 39 times, arm 1 once, for 0.
COUNTS, SUMS = np.array([39, 1]), np.array([20.0, 0.0])
NARROW = TruncatedNormal(0.4, 0.02)


def act(agent, num_envs=20):
    agent.reset(num_envs, seed=0)
    agent.warm_start(COUNTS, SUMS)
    return agent.act()


def test_quantiles_are_those_of_the_problems_own_prior():
    # Under a prior this narrow an arm that paid 20 of 39 is ahead of one that failed once.
    assert (act(BayesUCB(BanditProblem(Bernoulli(), NARROW, 2))) == 0).all()


def test_prior_that_the_exact_agent_refuses_is_refused_in_its_words():
    class Joint:
        def sample(self, rng, shape):
            return rng.random(shape)

        def log_density(self, means):
            return np.where((means > 0) & (means < 1), 0.0, -np.inf).sum(axis=-1)

    problem = BanditProblem(Bernoulli(), Joint(), 2)
    for agent in (BayesUCB, ExactThompson):
        with pytest.raises(ValueError, match="arm_log_density.*RacingThompson and SMCThompson"):
            agent(problem)
