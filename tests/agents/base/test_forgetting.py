"""Data that fade."""

import numpy as np
import pytest
from surface import started

from agents import ExactThompson, make_agent
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem

PROBLEM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4)


FORGETFUL = ("exact", "smc", "top_two", "bayes_ucb", "greedy", "epsilon_greedy", "ucb1", "kl_ucb")


@pytest.mark.parametrize("name", FORGETFUL)
def test_discount_lets_earlier_data_of_a_lane_count_less_at_each_of_its_rewards(name):
    agent = make_agent(name, PROBLEM, discount=0.5)
    agent.reset(2, seed=0)
    agent.observe([0, 0], [1.0, 1.0])
    agent.observe([1, 1], [0.0, 1.0], mask=np.array([True, False]))
    agent.observe([0, 0], [1.0, 0.0])
    assert agent.counts[:, :2].tolist() == [[1.25, 0.5], [1.5, 0.0]]
    assert agent.sums[:, :2].tolist() == [[1.25, 0.0], [0.5, 0.0]]
    assert agent.act().shape == (2,)


def test_discount_of_one_changes_nothing():
    plain, faded = (started("exact", PROBLEM, 5, **options) for options in ({}, {"discount": 1.0}))
    for step in range(20):
        actions = plain.act()
        assert (faded.act() == actions).all()
        for agent in (plain, faded):
            agent.observe(actions, (np.arange(5) + step) % 3 == 0)
    assert faded.counts.dtype == np.int64


def test_discount_leaves_the_prior_and_what_a_single_lane_draws_follows_the_data():
    """Ever the same arm: counts near 1 / (1 - discount), and stay there while the sums move on."""
    agent = ExactThompson(BanditProblem(Bernoulli(), Beta(2.0, 3.0), 2), discount=0.5)
    agent.reset(seed=0)
    for reward in [1.0] * 80 + [0.0] * 80:
        agent.observe(0, reward)
        agent.act()
    assert agent.counts.tolist() == [2.0, 0.0]
    np.testing.assert_allclose(agent.posterior().mean(), [2 / 7, 2 / 5], atol=1e-12)
    draws = np.array([agent.act() for _ in range(2000)]).mean()
    law = agent.action_probabilities()[1]
    assert abs(draws - law) < 4 * np.sqrt(law * (1 - law) / 2000)
