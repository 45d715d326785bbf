"""What agents lend to their snapshots."""

from functools import partial

import numpy as np
import pytest

from agents import ExactThompson, Greedy
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem

CHAINS = BanditProblem(Bernoulli(), TruncatedMultivariateNormal(0.5, [[0.1, 0.05], [0.05, 0.1]]), 2)


@pytest.mark.parametrize("make", [ExactThompson, partial(Greedy, estimate="posterior")])
def test_state_that_was_lent_is_copied_before_it_moves(make):
    draws = []
    for is_later in (False, True):
        agent = make(CHAINS)
        agent.reset(2, seed=0)
        agent.observe([0, 1], [1.0, 0.0])
        snapshot = agent.posterior()
        if is_later:
            agent.observe([0, 0], [0.0, 0.0])
            agent.act()
        draws.append(snapshot.sample(3, seed=0))
    np.testing.assert_array_equal(*draws)
