import pickle

import numpy as np
import pytest

from agents import ExactThompson
from agents.posteriors.draws_ahead import DEPTH
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal
from bandit_gym.problem import BanditProblem

NUM = 20_000
PROBLEMS = [
    BanditProblem(Bernoulli(), Beta(2.0, 1.0), 3),
    BanditProblem(Exponential(), InverseGamma(2.0, 3.0), 3),
    BanditProblem(Gaussian(0.5), Normal(0.0, 1.0), 3),
    BanditProblem(Poisson(), Gamma(0.5, 1.0), 3),
]
COUNTS, SUMS = [0, 3, 4], [0, 2, 2]


def one_lane(problem, seed=0, **options):
    agent = ExactThompson(problem, **options)
    agent.reset(seed=seed)
    return agent


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.likelihood.name)
def test_one_lane_plays_as_many_lanes_do(problem):
    alone, many = one_lane(problem), ExactThompson(problem)
    many.reset(NUM, seed=1)
    for agent in (alone, many):
        agent.warm_start(COUNTS, SUMS)
    actions = [alone.act() for _ in range(NUM)]
    shares = [np.bincount(drawn, minlength=3) / NUM for drawn in (actions, many.act())]
    assert shares[0] == pytest.approx(shares[1], abs=4 * np.sqrt(2 * 0.25 / NUM))


def test_next_decision_knows_of_the_last_reward():
    agent = one_lane(BanditProblem(Gaussian(1e-3), Normal(0.0, 1.0), 5))
    for arm in range(5):
        agent.observe(arm, float(arm))
        assert agent.act() >= arm  # for sure: each reward is the mean, but for 0.001


def test_lane_that_starts_anew_forgets_its_draws():
    agent = one_lane(BanditProblem(Gaussian(1e-3), Normal(0.0, 1.0), 2))
    for total in (1e3, -1e3):
        agent.warm_start([100_000, 100_000], [total, 0.0])
        assert agent.act() == int(total < 0)
        agent.reset_lanes(np.array([True]))


def test_arms_without_a_posterior_are_pulled_first_in_random_order():
    problem, orders = BanditProblem(Gaussian(), Normal(0.0, 1.0), 3), set()
    for seed in range(60):
        agent, order = one_lane(problem, seed, prior="reference"), []
        for _ in range(3):
            order.append(agent.act())
            agent.observe(order[-1], 0.0)
        orders.add(tuple(order))
    assert len(orders) == 6  # misses one of the orders with probability 6 (5/6)^60 < 2e-4


def test_copy_in_the_middle_goes_on_alike():
    agent = one_lane(PROBLEMS[0])
    for _ in range(DEPTH // 2):
        agent.observe(agent.act(), 1.0)
    copy = pickle.loads(pickle.dumps(agent))
    assert [copy.act() for _ in range(2 * DEPTH)] == [agent.act() for _ in range(2 * DEPTH)]
