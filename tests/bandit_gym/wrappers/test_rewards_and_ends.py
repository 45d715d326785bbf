"""Rewards that become 0 or 1, and episodes that end with their last pull."""

from itertools import permutations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from wrapped_envs import TwoCoins

import bandit_gym as bg
from agents import ExactThompson
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout
from bandit_gym.wrappers import BinaryReward, DelayedReward, Drift, EndsAtHorizon

OTHERS = (lambda env: env, lambda env: Drift(env, std=0.1), lambda env: DelayedReward(env, delay=2))


PROBLEM = BanditProblem(TwoCoins(), Beta(1.0, 1.0), 3)


def test_reward_is_1_as_often_as_it_was_large():
    """A half becomes 1 half of the time, to four standard errors: .5 / sqrt(n)."""
    num_envs, num_steps = 500, 20
    kept, binary = (bg.make_vec(PROBLEM, num_envs) for _ in range(2))
    binary = BinaryReward(binary)
    kept.reset(seed=3), binary.reset(seed=3)
    actions = np.arange(num_envs) % 3
    pairs = [(kept.step(actions), binary.step(actions)) for _ in range(num_steps)]
    were, are = (np.array([pair[i][1] for pair in pairs]) for i in range(2))
    assert all(np.array_equal(one[4]["regret"], other[4]["regret"]) for one, other in pairs)
    assert (are[were == 0] == 0).all() and (are[were == 1] == 1).all()
    halves = are[were == 0.5]
    assert set(halves) == {0, 1} and abs(halves.mean() - 0.5) < 4 * 0.5 / halves.size**0.5


@pytest.mark.parametrize("num_envs", [None, 3])
def test_agents_are_given_bernoulli_rewards(num_envs):
    env = bg.make(PROBLEM) if num_envs is None else bg.make_vec(PROBLEM, num_envs)
    for around in (BinaryReward(env), DelayedReward(BinaryReward(Drift(env, std=0.1)), 2)):
        agent = ExactThompson(around)
        assert Drift(env, std=0.1).problem == PROBLEM
        assert agent.problem == around.problem == BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
        assert agent.method == "conjugate"
        assert set(rollout(agent, around, seed=0, horizon=9).rewards.ravel()) <= {0.0, 1.0}
    lanes = SyncVectorEnv([lambda: BinaryReward(bg.make(PROBLEM))] * 2)
    assert ExactThompson(lanes).problem.likelihood == Bernoulli()


@pytest.mark.parametrize("mode", AutoresetMode)
def test_the_last_pull_terminates_and_nothing_is_cut_off(mode):
    options = {"max_episode_steps": 3, "num_arms": 2}
    for inner, outer in permutations(OTHERS, 2):
        lanes = gym.make_vec("BernoulliBandit-v0", 2, autoreset_mode=mode, **options)
        for env, action in ((gym.make("BernoulliBandit-v0", **options), 0), (lanes, [0, 1])):
            env = outer(EndsAtHorizon(inner(env)))
            env.reset(seed=0)
            ends = [env.step(action)[2:4] for _ in range(3)]
            assert [np.all(terminated) for terminated, _ in ends] == [False, False, True], env
            assert not any(np.any(truncated) for _, truncated in ends), env
