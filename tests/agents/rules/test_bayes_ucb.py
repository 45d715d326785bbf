import numpy as np
import pytest
from scipy import stats

from agents import BayesUCB, ExactThompson
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.problem import BanditProblem

# After 40 pulls the level is 1 - 1 / 41. Arm 0 was pulled 39 times, arm 1 once, for 0.
COUNTS, SUMS = np.array([39, 1]), np.array([20.0, 0.0])
NARROW = TruncatedNormal(0.4, 0.02)


def act(agent, num_envs=20):
    agent.reset(num_envs, seed=0)
    agent.warm_start(COUNTS, SUMS)
    return agent.act()


def test_reference_quantiles_are_those_of_table_1():
    level = 1 - 1 / 41
    quantiles = [stats.beta(21, 20).ppf(level), stats.beta(1, 2).ppf(level)]
    agent = BayesUCB(BanditProblem(Bernoulli(), NARROW, 2), prior="reference")
    assert (act(agent) == np.argmax(quantiles)).all()
    assert np.argmax(quantiles) == 1


def test_quantiles_are_those_of_the_problems_own_prior():
    # Under a prior this narrow an arm that paid 20 of 39 is ahead of one that failed once.
    assert (act(BayesUCB(BanditProblem(Bernoulli(), NARROW, 2))) == 0).all()


def test_conjugate_prior_of_the_problem_is_followed():
    prior = Beta(400.0, 600.0)
    assert (act(BayesUCB(BanditProblem(Bernoulli(), prior, 2))) == 0).all()
    assert (act(BayesUCB(BanditProblem(Bernoulli(), prior, 2), prior="reference")) == 1).all()


def test_dependent_prior_is_followed():
    # Arms that all but share their mean: one pull of arm 1 tells nothing that 39 of arm 0 do not.
    prior = TruncatedMultivariateNormal(0.5, [[1.0, 0.999], [0.999, 1.0]])
    problem = BanditProblem(Gaussian(0.5), prior, 2)
    agent = BayesUCB(problem)
    agent.reset(4, seed=0)
    agent.warm_start(COUNTS, SUMS)
    agent.act()
    quantiles = agent.inner.quantile(0.975)
    assert np.abs(quantiles[:, 0] - quantiles[:, 1]).max() < 0.2


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
