"""Agents that know the last w rewards of each lane, or let data fade."""

import numpy as np
import pytest
from families import CONJUGATE_PROBLEMS, names_with, typical_mean
from surface import started

from agents import SlidingWindow
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian
from bandit_gym.priors import Beta, InverseGamma, Normal
from bandit_gym.problem import BanditProblem

PROBLEM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4)
WINDOW = 7
FORGETS_FEATURES_ALONE = {"laplace", "lin_ucb", "racing"}
RULES = [r for r in names_with("window", "discount") if r not in FORGETS_FEATURES_ALONE]


def play(agent, num_steps, num_envs):
    """Let the agent play in some lanes at a time; return what each lane was paid for what."""
    rng, history = np.random.default_rng(0), [[] for _ in range(num_envs)]
    for _ in range(num_steps):
        actions, mask = agent.act(), rng.random(num_envs) < 0.8
        means = np.full(num_envs, typical_mean(agent.problem.likelihood))
        rewards = agent.problem.likelihood.sample(means, rng.random(num_envs))
        agent.observe(actions, rewards, mask=mask)
        for lane in np.flatnonzero(mask):
            history[lane].append((actions[lane], rewards[lane]))
    return history


@pytest.mark.parametrize("problem", CONJUGATE_PROBLEMS, ids=lambda each: each.likelihood.name)
def test_statistics_are_those_of_the_last_rewards(problem):
    agent = started("sliding_window", problem, 3, window=WINDOW)
    for lane, pairs in enumerate(play(agent, 40, 3)):
        actions, rewards = zip(*pairs[-WINDOW:], strict=True)
        counts, sums = (np.bincount(actions, weights, 4) for weights in (None, rewards))
        assert agent.counts[lane].tolist() == counts.tolist()
        np.testing.assert_allclose(agent.sums[lane], sums, rtol=1e-12)


def test_an_arm_without_rewards_in_the_window_is_as_new():
    """Sums are added anew: of exponential rewards nothing is left of 1e9 beside those of 1e-9."""
    problem = BanditProblem(Exponential(), InverseGamma(3.0, 2.0), 2)
    agent = started("sliding_window", problem, None, window=2)
    for arm, reward in [(0, 1e9), (0, 1e-9), (0, 1e-9), (1, 1.0), (1, 1.0)]:
        agent.observe(arm, reward)
    assert agent.counts.tolist() == [0, 2] and agent.sums.tolist() == [0.0, 2.0]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_forgets_what_has_left_its_window(rule):
    """An arm's thirty successes are gone after as many failures, and others know nothing."""
    agent = started(rule, PROBLEM, 300, window=30)
    for reward in [1.0] * 30 + [0.0] * 30:
        agent.observe(np.zeros(300, dtype=int), np.full(300, reward))
    plain = started(rule, PROBLEM, 300, [30, 0, 0, 0], [0, 0, 0, 0])
    assert agent.counts.tolist() == plain.counts.tolist() and not agent.sums.any()
    found, law = (each.action_probabilities().mean(axis=0) for each in (agent, plain))
    noise = 0.02 if rule == "smc" else 1e-12  # 4 sqrt(p (1 - p) / (300 lanes * 20 particles))
    np.testing.assert_allclose(found, law, atol=noise)


def test_particles_follow_several_rewards_that_come_between_two_decisions():
    agent = started("smc", PROBLEM, num_particles=20_000, window=2)
    agent.observe(0, 0.0)
    agent.act(), agent.observe(0, 1.0), agent.observe(0, 1.0)
    # Left are two ones: Beta(3, 1), of deviation .194; the particles are worth 5,000 and more.
    assert abs(agent.posterior().mean()[0] - 0.75) < 4 * 0.194 / 5000**0.5


def test_particles_follow_a_reward_that_takes_the_place_of_another():
    problem = BanditProblem(Gaussian(1.0), Normal(0.0, 3.0), 2)
    agent = started("smc", problem, num_particles=20_000, window=1)
    for reward in (0.0, 5.0):
        agent.act(), agent.observe(0, reward)
    # The posterior of a reward of 5 is Normal(4.5, .95); particles are worth 1,000 and more.
    assert abs(agent.posterior().mean()[0] - 4.5) < 4 * 0.95 / 1000**0.5


@pytest.mark.parametrize(("options", "pulls"), [({"window": 20}, 20), ({"discount": 0.5}, 2)])
def test_one_lane_that_forgets_draws_from_what_it_holds(options, pulls):
    """The counts of an arm pulled ever again stay, while its rewards turn from 1 to 0."""
    agent = started("exact", PROBLEM, None, **options)
    for reward in [1.0] * 80 + [0.0] * 80:
        agent.observe(0, reward)
        agent.act()
    plain = started("exact", PROBLEM, None, [pulls, 0, 0, 0], [0, 0, 0, 0])
    law = plain.action_probabilities()
    np.testing.assert_allclose(agent.posterior().mean(), plain.posterior().mean(), atol=1e-12)
    share = np.mean([agent.act() == 0 for _ in range(2000)])
    assert abs(share - law[0]) < 4 * np.sqrt(law[0] * (1 - law[0]) / 2000)


@pytest.mark.parametrize("rule", RULES)
def test_discount_lets_earlier_data_of_a_lane_count_less_at_each_of_its_rewards(rule):
    agent = started(rule, PROBLEM, 2, discount=0.5)
    agent.observe([0, 0], [1.0, 1.0])
    agent.observe([1, 1], [0.0, 1.0], mask=np.array([True, False]))
    agent.observe([0, 0], [1.0, 0.0])
    assert agent.counts[:, :2].tolist() == [[1.25, 0.5], [1.5, 0.0]]
    assert agent.sums[:, :2].tolist() == [[1.25, 0.0], [0.5, 0.0]]
    assert agent.act().shape == (2,)


def test_totals_have_no_order_and_stay_in_a_window():
    agent = started("sliding_window", PROBLEM, 2, window=2)
    agent.observe([0, 0], [1.0, 1.0])
    agent.warm_start([3, 0, 0, 0], [2.0, 0, 0, 0])
    for arm in (1, 2, 3):
        agent.observe([arm, 0], [1.0, 0.0], mask=np.array([True, False]))
    assert agent.counts.tolist() == [[3, 0, 1, 1], [4, 0, 0, 0]]
    assert agent.sums.tolist() == [[2.0, 0.0, 1.0, 1.0], [3.0, 0.0, 0.0, 0.0]]
    agent = started("sliding_window", BanditProblem(Gaussian(1.0), Normal(0.0, 1.0), 2), window=1)
    agent.observe(0, 1e17)  # beside which 300 would be 304
    agent.warm_start([100, 0], [300.0, 0.0])
    agent.observe(1, 0.0)
    assert agent.sums.tolist() == [300.0, 0.0]


def test_a_weight_is_one_place_in_a_window_and_one_step_of_a_discount():
    agent = started("sliding_window", PROBLEM, 1, window=2)
    agent.warm_start([3, 0, 0, 0], [2.0, 0, 0, 0])
    for weight in (0.1, 0.2, 0.4, 1.0):
        agent.observe([0], [1.0], weight=weight)
    assert agent.counts[0, 0] == 3 + (0.4 + 1.0) and agent.sums[0, 0] == 2 + (0.4 + 1.0)
    agent = started("exact", PROBLEM, 1, discount=0.5)
    for weight in (4.0, 3.0):
        agent.observe([0], [1.0], weight=weight)
    assert agent.counts[0, 0] == 5.0 and agent.sums[0, 0] == 5.0


def test_window_refuses_more_rewards_than_memory_holds():
    agent = SlidingWindow(PROBLEM, window=10**6)
    with pytest.raises(ValueError, match="num_envs must be at most 100, got 1000"):
        agent.reset(1000)
