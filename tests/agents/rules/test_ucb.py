import numpy as np
from geometric import Geometric

from agents import KLUCB
from bandit_gym.priors import Gamma
from bandit_gym.problem import BanditProblem


class Bounded(Geometric):
    """Its log-likelihood ratio to ever larger means is bounded, as an inverse Gaussian's is."""

    def log_likelihood(self, means, counts, sums):
        m = np.asarray(means, dtype=float)
        with np.errstate(all="ignore"):
            value = (counts - sums / (2 * m)) / m
        return np.where(self.contains(m) & (m > 0), value, -np.inf)

    def reward_std(self, means):
        return np.full(np.shape(means), np.inf)


def act(likelihood, counts, sums):
    agent = KLUCB(BanditProblem(likelihood, Gamma(2.0, 1.0), 3))
    agent.reset(50, seed=0)
    agent.warm_start(counts, sums)
    return agent.act()


def test_bound_of_an_arm_that_paid_nothing_is_above_its_average():
    # kl(0, q) = log(1 + q): the bound exp(log(22) / 2) - 1 = 3.7 beats that of 3 in 10 pulls
    assert (act(Geometric(), [2, 10, 10], [0, 3, 3]) == 0).all()


def test_bound_that_no_data_reach_is_infinite():
    # the ratio to an infinite mean is n / (2 average): 0.7, 17 and 17, where log t is 5.3
    assert (act(Bounded(), [2, 100, 100], [3, 300, 300]) == 0).all()
