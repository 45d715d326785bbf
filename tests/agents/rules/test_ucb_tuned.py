import numpy as np
import pytest

from agents import UCBTuned
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal
from bandit_gym.problem import BanditProblem


def chosen(counts, sums, num_envs=20):
    agent = UCBTuned(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2))
    agent.reset(num_envs, seed=0)
    agent.warm_start(counts, sums)
    return agent.act()


def bound(average, pulls, t):
    variance = average * (1 - average) + np.sqrt(2 * np.log(t) / pulls)
    return average + np.sqrt(np.log(t) / pulls * min(0.25, variance))


def test_arm_of_the_larger_bound_is_pulled():
    for sums in ([1408, 160], [1360, 168], [1408, 176]):
        bounds = [bound(s / n, n, 1800) for s, n in zip(sums, (1600, 200), strict=True)]
        assert (chosen([1600, 200], sums) == np.argmax(bounds)).all()


def test_variance_seen_tightens_the_bound_below_that_of_a_fair_coin():
    # With the variance 1/4 of UCB's worst case, the second arm would have the larger bound.
    counts, sums = np.array([1_000_000, 100_000]), np.array([970_000, 96_700])
    worst = sums / counts + np.sqrt(np.log(counts.sum()) / counts / 4)
    assert worst[1] > worst[0]
    assert (chosen(counts, sums) == 0).all()


def test_rewards_that_are_not_0_or_1_are_refused():
    with pytest.raises(ValueError, match=r"problem.likelihood must be Bernoulli\(\) for UCBTuned"):
        UCBTuned(BanditProblem(Gaussian(), Normal(0.0, 1.0), 2))
