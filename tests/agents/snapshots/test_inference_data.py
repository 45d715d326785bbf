import numpy as np
import pytest

from agents import ExactThompson
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem

pytest.importorskip("arviz")


@pytest.mark.parametrize(("num_envs", "dims"), [(None, ("arm",)), (2, ("lane", "arm"))])
def test_arviz_gets_draws_rewards_and_data(num_envs, dims):
    agent = ExactThompson(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3))
    agent.reset(num_envs, seed=0)
    agent.warm_start([5, 2, 0], [4.0, 0.0, 0.0])
    snapshot = agent.posterior()
    found = snapshot.to_arviz(50, seed=1)
    mean, reward = found["posterior"]["mean"], found["posterior_predictive"]["reward"]
    assert mean.dims == reward.dims == ("chain", "draw", *dims)
    np.testing.assert_array_equal(mean[0], snapshot.sample(50, seed=1))
    assert found["constant_data"]["pulls"].dims == dims
