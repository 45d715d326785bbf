"""Which wrapper may go around which."""

import gymnasium as gym
import pytest

from bandit_gym.wrappers import AvailableArms, BatchedFeedback, DelayedReward, Drift


@pytest.fixture(params=[None, 2])
def env(request):
    if request.param is None:
        return gym.make("bandit_gym:BernoulliBandit-v0")
    return gym.make_vec("bandit_gym:BernoulliBandit-v0", num_envs=request.param)


def test_rewards_are_delayed_once(env):
    with pytest.raises(ValueError, match="env must have no other wrapper that changes its delays"):
        BatchedFeedback(AvailableArms(DelayedReward(env)))


def test_means_move_before_arms_are_refused(env):
    with pytest.raises(ValueError, match="let Drift go around it first"):
        Drift(AvailableArms(env), std=0.1)
