"""Worlds that misbehave, named in experiments as `stub_envs:ID`."""

import gymnasium as gym
import numpy as np

from bandit_gym.envs import BanditEnv, BanditVectorEnv
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem

PROBLEM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)


class Short(gym.vector.VectorWrapper):
    """Ends the episode of lane i after 2 + i steps, and later by the number of the arm pulled."""

    def reset(self, **options):
        self.t = 0
        return self.env.reset(**options)

    def step(self, actions):
        self.t += 1
        observations, rewards, _, truncated, infos = self.env.step(actions)
        has_ended = self.t == 2 + np.arange(self.num_envs) + actions
        return observations, rewards, has_ended, truncated, infos


gym.register(
    "Short-v0",
    entry_point=lambda **options: BanditEnv(PROBLEM, **options),
    vector_entry_point=lambda **options: Short(BanditVectorEnv(problem=PROBLEM, **options)),
    max_episode_steps=1000,
)


class Silent(gym.Env):
    """Pays the action, and reports no regret, and the means only if it is told to."""

    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Discrete(1)

    def __init__(self, tells_means=False):
        self.told = {"means": np.arange(2.0)} if tells_means else {}

    def reset(self, *, seed=None, options=None):
        return 0, self.told

    def step(self, action):
        return 0, float(action), False, False, {}


gym.register("Silent-v0", entry_point=Silent, max_episode_steps=1000)
