"""The wrappers, each with options of every kind, and environments under them."""

import gymnasium as gym

from bandit_gym import wrappers

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


def make_env(name, options, *, env="BernoulliBandit-v0", limit=7, num_envs=None, **more):
    """Make a wrapped environment of four arms, single or, given `num_envs`, a vector one."""
    env = "BernoulliBandit-v0" if name == "BinaryReward" else env  # which takes no other id
    settings = {"num_arms": 4, "max_episode_steps": limit, **more}
    if num_envs is None:
        wrapped_env = gym.make(f"bandit_gym:{env}", **settings)
    else:
        wrapped_env = gym.make_vec(f"bandit_gym:{env}", num_envs=num_envs, **settings)
    return getattr(wrappers, name)(wrapped_env, **options)
