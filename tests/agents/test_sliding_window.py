"""Agents that know the last w rewards of each lane."""

import numpy as np
import pytest
from families import CONJUGATE_PROBLEMS

from agents import ExactThompson, SlidingWindow, make_agent
from agents.rules.sliding_window import RULES
from bandit_gym.likelihoods import Bernoulli, Exponential
from bandit_gym.priors import Beta, InverseGamma
from bandit_gym.problem import BanditProblem

PROBLEM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4)
WINDOW = 7


def play(agent, num_steps, num_envs):
    """Let the agent play in some lanes at a time; return what each lane was paid for what."""
    rng, history = np.random.default_rng(0), [[] for _ in range(num_envs)]
    for _ in range(num_steps):
        actions, mask = agent.act(), rng.random(num_envs) < 0.8
        means = np.full(num_envs, 0.5)
        rewards = agent.problem.likelihood.sample(means, rng.random(num_envs))
        agent.observe(actions, rewards, mask=mask)
        for lane in np.flatnonzero(mask):
            history[lane].append((actions[lane], rewards[lane]))
    return history


def statistics(pairs):
    counts, sums = np.zeros(4), np.zeros(4)
    for action, reward in pairs:
        counts[action] += 1
        sums[action] += reward
    return counts, sums


@pytest.mark.parametrize("problem", CONJUGATE_PROBLEMS, ids=lambda each: each.likelihood.name)
def test_statistics_are_those_of_the_last_rewards(problem):
    agent = SlidingWindow(problem, window=WINDOW)
    agent.reset(3, seed=0)
    for lane, pairs in enumerate(play(agent, 40, 3)):
        counts, sums = statistics(pairs[-WINDOW:])
        assert agent.counts[lane].tolist() == counts.tolist()
        np.testing.assert_allclose(agent.sums[lane], sums, rtol=1e-12)


def test_an_arm_without_rewards_in_the_window_is_as_new():
    """Sums are added anew: of exponential rewards nothing is left of 1e9 beside those of 1e-9."""
    agent = SlidingWindow(BanditProblem(Exponential(), InverseGamma(3.0, 2.0), 2), window=2)
    agent.reset(seed=0)
    for arm, reward in [(0, 1e9), (0, 1e-9), (0, 1e-9), (1, 1.0), (1, 1.0)]:
        agent.observe(arm, reward)
    assert agent.counts.tolist() == [0, 2] and agent.sums.tolist() == [0.0, 2.0]


@pytest.mark.parametrize("rule", RULES)
def test_a_long_window_changes_nothing(rule):
    plain, windowed = make_agent(rule, PROBLEM), SlidingWindow(PROBLEM, window=1000, rule=rule)
    for agent in (plain, windowed):
        agent.reset(50, seed=0)
    counts = np.random.default_rng(1).integers(1, 5, (50, 4))
    plain.warm_start(counts, counts // 2)
    windowed.warm_start(counts, counts // 2)
    law = plain.action_probabilities()
    np.testing.assert_allclose(windowed.action_probabilities(), law, atol=1e-12)


def test_a_window_of_one_lane_draws_from_what_it_holds():
    """The counts of an arm pulled ever again stay at w, while its rewards turn from 1 to 0."""
    agent = SlidingWindow(PROBLEM, window=20)
    agent.reset(seed=0)
    for reward in [1.0] * 30 + [0.0] * 30:
        agent.observe(0, reward)
        agent.act()
    plain = ExactThompson(PROBLEM)
    plain.reset(seed=0)
    plain.warm_start([20, 0, 0, 0], [0, 0, 0, 0])
    law = plain.action_probabilities()
    np.testing.assert_allclose(agent.posterior().mean(), plain.posterior().mean(), atol=1e-12)
    share = np.mean([agent.act() == 0 for _ in range(2000)])
    assert abs(share - law[0]) < 4 * np.sqrt(law[0] * (1 - law[0]) / 2000)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"window": 0}, "window must be a positive integer, got 0"),
        ({"rule": "racing"}, "rule must be one of 'exact', .*, got 'racing'"),
        ({"rule": {"name": "ucb1", "scal": 2}}, "ucb1 options must have no keys but .*'scale'"),
        ({"rule": {"name": "exact", "discount": 0.5}}, "rule must have no discount beside"),
        ({"rule": 3}, "rule must be a name, or a dict with the key 'name', got 3"),
    ],
)
def test_bad_windows_are_one_sentence(options, text):
    with pytest.raises((TypeError, ValueError), match=text):
        SlidingWindow(PROBLEM, **options)


def test_window_refuses_more_rewards_than_memory_holds():
    agent = SlidingWindow(PROBLEM, window=10**6)
    with pytest.raises(ValueError, match="num_envs must be at most 100, got 1000"):
        agent.reset(1000)
