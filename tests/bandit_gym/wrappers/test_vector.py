"""Each wrapper around a vector environment equals its single form, to the last bit."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from worlds import WORLDS, make_world

from bandit_gym.wrappers import AvailableArms, DelayedReward, Drift, vector

ENVS = ("BernoulliBandit-v0", "GaussianBandit-v0")
MASK = np.array([True, False, True])


def play_both(ours, theirs, num_steps, rng):
    """Yield what every call returns, of both; actions are arms that are there."""
    mode = ours.metadata["autoreset_mode"]
    results = ours.reset(seed=5), theirs.reset(seed=5)
    yield results
    available = results[0][1].get("action_mask", np.ones((3, 4)))
    for step in range(num_steps):
        actions = (available * rng.random((3, 4))).argmax(axis=1)
        results = ours.step(actions), theirs.step(actions)
        yield results
        available = results[0][4].get("action_mask", available)
        has_ended = results[0][2] | results[0][3]
        if mode is AutoresetMode.DISABLED:
            has_ended = MASK if step == 10 else has_ended
            if has_ended.any():
                options = {"reset_mask": has_ended}
                yield ours.reset(options=options), theirs.reset(options=options)
                available = ours.action_masks() if hasattr(ours, "action_masks") else available


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize(("name", "options"), WORLDS)
def test_vector_wrapper_equals_single_ones(name, options, mode, rng):
    env = ENVS[len(str(options)) % 2]
    ours = make_world(name, options, env=env, num_envs=3, autoreset_mode=mode)
    assert type(ours) is getattr(vector, name)
    singles = [lambda: make_world(name, options, env=env)] * 3
    theirs = SyncVectorEnv(singles, autoreset_mode=mode)
    for one, other in play_both(ours, theirs, 20, rng):
        assert data_equivalence(one, other, exact=True)


def test_stacked_vector_wrappers_equal_stacked_single_ones(rng):
    def stack(env):
        return DelayedReward(AvailableArms(Drift(env, std=0.1)), delay=2)

    def make():
        return gym.make("bandit_gym:PoissonBandit-v0", num_arms=4, max_episode_steps=6)

    ours = gym.make_vec("bandit_gym:PoissonBandit-v0", num_envs=3, num_arms=4, max_episode_steps=6)
    for one, other in play_both(stack(ours), SyncVectorEnv([lambda: stack(make())] * 3), 20, rng):
        assert data_equivalence(one, other, exact=True)


def test_vector_wrapper_lets_lanes_that_wait_for_a_reset_pull_anything():
    env = make_world("AvailableArms", {"masks": [[1, 0, 0, 0]]}, limit=2, num_envs=2)
    env.reset(seed=0)
    env.step([0, 0])
    env.step([0, 0])
    env.step([3, 3])  # resets, whatever it holds
    with pytest.raises(InvalidAction, match=r"one of \[0\], got 3 in lane 1\.$"):
        env.step([0, 3])


def test_vector_wrapper_asks_for_resets():
    env = make_world("Drift", {"std": 0.1}, limit=1, num_envs=2, autoreset_mode="Disabled")
    with pytest.raises(ResetNeeded):
        env.step([0, 0])
    env.reset(seed=0)
    env.step([0, 0])
    with pytest.raises(ResetNeeded):
        env.step([0, 0])


def test_vector_wrapper_refuses_environments_stepped_one_by_one():
    env = SyncVectorEnv([lambda: gym.make("bandit_gym:BernoulliBandit-v0")])
    with pytest.raises(TypeError, match=r"bandit_gym's, got Sync.*; wrap each environment"):
        Drift(env, std=0.1)
