import pickle

import numpy as np
import pytest

from agents import make_agent
from agents.bayes_optimal import BayesOptimal, optimal_regret
from bandit_gym.envs import BanditVectorEnv
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout

HORIZON = 60


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BANDIT_GYM_CACHE", str(tmp_path))


def play(problem, num_lanes):
    """Regrets (N,) of whole episodes in the problem's world."""
    agent, env = BayesOptimal(problem, horizon=HORIZON), BanditVectorEnv(num_lanes, problem=problem)
    return rollout(agent, env, seed=0, horizon=HORIZON).pseudo_regret.sum(axis=1)


@pytest.mark.parametrize("beta", [1.0, [1.0, 2.0]])
def test_harness_finds_the_regret_that_the_recursion_says(beta):
    problem = BanditProblem(Bernoulli(), Beta(1.0, beta), 2)
    regrets = play(problem, 5000)
    error = regrets.std() / np.sqrt(len(regrets))
    assert abs(regrets.mean() - optimal_regret(problem, HORIZON)) < 4 * error


def test_ties_go_to_the_lowest_arm():
    agent = BayesOptimal(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3), horizon=9)
    agent.reset(1, seed=0)
    assert agent.act().tolist() == [0]
    agent.warm_start([3, 2, 2], [0.0, 2.0, 2.0])
    assert agent.act().tolist() == [1]


def test_pull_beyond_the_horizon_is_refused_in_one_sentence():
    agent = BayesOptimal(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), horizon=5)
    agent.reset(2, seed=0)
    agent.warm_start([[1, 1], [2, 3]], [[0, 0], [0, 0]])
    with pytest.raises(ValueError, match="horizon must be more than the 5 pulls so far, got 5"):
        agent.act()


def test_pickled_agent_goes_on_as_before():
    agent = BayesOptimal(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), horizon=20)
    agent.reset(3, seed=0)
    agent.observe([0, 0, 1], [1.0, 0.0, 1.0])
    assert pickle.loads(pickle.dumps(agent)).act().tolist() == agent.act().tolist() == [0, 1, 1]


UNIFORM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
DEPENDENT = TruncatedMultivariateNormal(0.5, [[1.0, 0.6], [0.6, 1.0]])


@pytest.mark.parametrize(
    ("problem", "options", "words"),
    [
        (UNIFORM, {}, "optimal options must have the key 'horizon'"),
        (UNIFORM, {"horizon": 0}, "horizon must be a positive integer, got 0"),
        (UNIFORM, {"horizon": 3000}, "at most 7 GB with 2 arms, not 42.8 GB, got 3000; optimal_br"),
        (BanditProblem(Bernoulli(), Beta(1.0, 1.0), 6), {"horizon": 9}, "at most 5 arms .* got 6;"),
        (BanditProblem(Gaussian(), Normal(0.0, 1.0), 2), {"horizon": 9}, "likelihood must be Bern"),
        (BanditProblem(Bernoulli(), DEPENDENT, 2), {"horizon": 9}, "prior must offer arm_log_dens"),
    ],
)
def test_what_has_no_table_is_refused_in_one_sentence(problem, options, words):
    with pytest.raises(ValueError, match=words):
        make_agent("optimal", problem, **options)
