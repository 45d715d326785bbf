import numpy as np
import pytest

from agents.optimum.brackets import played_regrets
from agents.optimum.horizon_ucb import HorizonBayesUCB
from agents.rules.bayes_ucb import BayesUCB
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem

TEN = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 10)
TWO = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)


def test_the_level_falls_as_pulls_run_out():
    # Arm 1 has failed once and is worth a second look, while there is time to make use of it.
    choices = []
    for horizon in (1000, 11):
        agent = HorizonBayesUCB(TWO, horizon=horizon)
        agent.reset(1, seed=0)
        agent.warm_start([8, 1], [4.0, 0.0])
        choices.append(int(agent.act()[0]))
    assert choices == [1, 0]


def test_it_loses_less_than_bayes_ucb_where_arms_are_many():
    regrets = [
        played_regrets(agent, 200, 600, seed=0)
        for agent in (HorizonBayesUCB(TEN, horizon=200), BayesUCB(TEN))
    ]
    gain = regrets[1] - regrets[0]
    assert gain.mean() > 4 * gain.std() / np.sqrt(len(gain))


def test_pull_beyond_the_horizon_is_refused_in_one_sentence():
    agent = HorizonBayesUCB(TWO, horizon=5)
    agent.reset(2, seed=0)
    agent.warm_start([3, 2], [0, 0])
    with pytest.raises(ValueError, match="horizon must be more than the 5 pulls so far, got 5"):
        agent.act()
