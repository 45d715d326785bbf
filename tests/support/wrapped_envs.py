"""The wrappers, each with options of every kind, and environments under them."""

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from scipy import special

from bandit_gym import wrappers
from bandit_gym.likelihoods import Likelihood
from bandit_gym.priors import Beta

WRAPPER_OPTIONS = (
    ("DelayedReward", {"delay": 3}),
    ("DelayedReward", {"delay": {"name": "uniform", "low": 0, "high": 5}}),
    ("BatchedFeedback", {"size": 4}),
    ("Drift", {"std": 0.1}),
    ("Drift", {"period": 3}),
    ("Drift", {"probability": 0.3}),
    ("BinaryReward", {}),
    ("EndsAtHorizon", {}),
)


class TwoCoins(Likelihood):
    """Half the heads of two throws of a coin with probability `mean`."""

    name, support, default_prior = "two_coins", (0.0, 1.0), Beta(1.0, 1.0)

    def is_possible(self, rewards):
        return np.isin(rewards, [0.0, 0.5, 1.0])

    def log_likelihood(self, means, counts, sums):
        tails = np.subtract(counts, sums)
        value = 2 * (special.xlogy(sums, means) + special.xlog1py(tails, np.negative(means)))
        return np.where(self.contains(means), value, -np.inf)

    def sample(self, means, uniforms):
        none, both = np.square(np.subtract(1.0, means)), np.square(means)
        return 0.5 * (np.greater_equal(uniforms, none) + np.greater_equal(uniforms, 1 - both))


def make_env(name, options, *, env="BernoulliBandit-v0", limit=7, num_envs=None, **more):
    """Make a wrapped environment of four arms, single or, given `num_envs`, a vector one."""
    settings = {"num_arms": 4, "max_episode_steps": limit, **more}
    if name == "BinaryReward":  # in which only rewards between 0 and 1 draw
        env, settings["likelihood"] = "CustomBandit-v0", "wrapped_envs:TwoCoins"
    if num_envs is None:
        wrapped_env = gym.make(f"bandit_gym:{env}", **settings)
    else:
        wrapped_env = gym.make_vec(f"bandit_gym:{env}", num_envs=num_envs, **settings)
    return getattr(wrappers, name)(wrapped_env, **options)


def play_both(ours, theirs, num_steps, num_arms=4):
    """Yield what every call returns, of both."""
    rng, mode = np.random.default_rng(0), ours.metadata["autoreset_mode"]
    results = ours.reset(seed=5), theirs.reset(seed=5)
    yield results
    for step in range(num_steps):
        actions = rng.integers(num_arms, size=ours.num_envs)
        results = ours.step(actions), theirs.step(actions)
        yield results
        has_ended = results[0][2] | results[0][3]
        if mode is AutoresetMode.DISABLED:
            has_ended = np.arange(ours.num_envs) != 1 if step == 10 else has_ended
            if has_ended.any():
                options = {"reset_mask": has_ended}
                yield ours.reset(options=options), theirs.reset(options=options)
