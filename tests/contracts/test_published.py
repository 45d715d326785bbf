"""Regret beside published numbers: Bernoulli arms with uniform means, K = 10, T = 1,000."""

import numpy as np
import pytest

from agents import make_agent
from bandit_gym.envs import BanditVectorEnv
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout

PUBLISHED = {"exact": 28.1, "bayes_ucb": 22.8, "ucb_tuned": 36.3, "ucb1": 130.7}
"""Russo and Van Roy (2018), "Learning to optimize via information-directed sampling", Operations
Research 66, Table 1, quoted from memory."""

PUBLISHED_ERROR = 0.7
"""Their standard errors were about 0.3 to 0.7."""


@pytest.mark.slow
@pytest.mark.nightly  # what a rule plays, `test_rules.py` says to the last digit
@pytest.mark.parametrize("name", PUBLISHED)
def test_regret_is_the_published_one(name):
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 10)
    env = BanditVectorEnv(200, problem, max_episode_steps=1000)
    regrets = rollout(make_agent(name, problem), env, seed=0, horizon=1000).regret.sum(axis=1)
    error = np.hypot(regrets.std(ddof=1) / np.sqrt(len(regrets)), PUBLISHED_ERROR)
    assert abs(regrets.mean() - PUBLISHED[name]) <= 4 * error
