"""How the time that is left is told, however an environment is made."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

ENV = "bandit_gym:BernoulliBandit-v0"
every_learning_mode = pytest.mark.parametrize("observation", ["counts", "history"])


def times_left(env, num_steps):
    """Return the (1 + T,) last numbers of the observations of an episode."""
    action = np.zeros(env.num_envs, int) if hasattr(env, "num_envs") else 0
    shown = [env.reset(seed=1)[0], *(env.step(action)[0] for _ in range(num_steps))]
    return [np.ravel(each)[-1] for each in shown]


@every_learning_mode
def test_horizon_is_what_is_told_and_not_what_ends_the_episode(observation):
    options = {"observation": observation, "horizon": 20, "max_episode_steps": 7}
    assert times_left(TimeLimit(gym.make(ENV, **options), 5), 1)[1] == np.float32(1 - 1 / 20)
    assert times_left(gym.make_vec(ENV, 2, **options), 1)[1] == np.float32(1 - 1 / 20)
    assert times_left(gym.make_vec(ENV, 2, observation=observation), 1)[1] == np.float32(0.999)
