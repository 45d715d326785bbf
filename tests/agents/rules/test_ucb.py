import numpy as np
import pytest
from geometric import Geometric
from surface import started

from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, Gamma
from bandit_gym.problem import BanditProblem


class Bounded(Geometric):
    """Its log-likelihood ratio to ever larger means is bounded, as an inverse Gaussian's is."""

    def log_likelihood(self, means, counts, sums):
        m = np.asarray(means, dtype=float)
        with np.errstate(all="ignore"):
            value = (counts - sums / (2 * m)) / m
        return np.where(self.contains(m) & (m > 0), value, -np.inf)

    def reward_std(self, means):
        return np.array(means, dtype=float)


class Lost(Geometric):
    """Its deviation is lost in rounding next to a mean of 0."""

    def reward_std(self, means):
        return np.where(np.asarray(means) < 1e-100, np.inf, super().reward_std(means))


def act(likelihood, counts, sums, num_envs=50):
    problem = BanditProblem(likelihood, Gamma(2.0, 1.0), 3)
    return started("kl_ucb", problem, num_envs, counts, sums).act()


@pytest.mark.parametrize("likelihood", [Geometric(), Lost()], ids=["known", "lost"])
def test_bound_of_an_arm_that_paid_nothing_is_above_its_average(likelihood):
    # kl(0, q) = log(1 + q): the bound exp(log(22) / 2) - 1 = 3.7 beats that of 3 in 10 pulls
    assert (act(likelihood, [2, 10, 10], [0, 3, 3]) == 0).all()
    # and exp(log(220) / 200) - 1 = 0.03 does not
    assert (act(likelihood, [200, 10, 10], [0, 3, 3]) != 0).all()


def test_bound_that_no_data_reach_is_infinite():
    # the ratio to an infinite mean is n / (2 average): 0.7, 17 and 17, where log t is 5.3
    assert (act(Bounded(), [2, 100, 100], [3, 300, 300]) == 0).all()


def test_arms_without_a_bound_are_pulled_evenly():
    # 0.7 and 1.1, both below log t = 4.6: neither pair of data speaks against any mean
    actions = act(Bounded(), [2, 5, 100], [3, 11, 300], num_envs=400)
    share = (actions == 0).mean()
    assert set(actions.tolist()) == {0, 1}
    assert abs(share - 0.5) <= 4 * np.sqrt(0.25 / 400)


def test_arm_pulled_more_than_its_share_has_no_bonus():
    # 100 pulls are more than T / K = 65.5; the other's bound is 0.6 + sqrt(log(2.18) / 30) = 0.761
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    for total, arm in (77, 0), (75, 1):
        agent = started("moss", problem, 20, [100, 30], [total, 18], horizon=131)
        assert (agent.act() == arm).all()
