"""Small Stable-Baselines3 models and environments; only what trains one imports it."""

import random
from importlib import import_module

import gymnasium as gym
import numpy as np

NUM_ARMS = 3
SB3, SHORT = "stable_baselines3", {"n_steps": 8, "batch_size": 16, "n_epochs": 2}
MEMORY = {"policy_kwargs": {"lstm_hidden_size": 8}}
ALGORITHMS = {
    "PPO": (SB3, "MlpPolicy", SHORT),
    "A2C": (SB3, "MlpPolicy", {"n_steps": 8}),
    "DQN": (SB3, "MlpPolicy", {"learning_starts": 8, "buffer_size": 500, "batch_size": 16}),
    "RecurrentPPO": ("sb3_contrib", "MlpLstmPolicy", SHORT | MEMORY),
}


def make_vec(env_id="BernoulliBandit-v0", num_envs=2, **options):
    """Make a native vector environment with SB3's kind of autoreset."""
    usual = {"num_arms": NUM_ARMS, "max_episode_steps": 10, "autoreset_mode": "SameStep"}
    return gym.make_vec(f"bandit_gym:{env_id}", num_envs=num_envs, **usual | options)


def train(name, *, num_steps=64, env_id="BernoulliBandit-v0", seed=0, **options):
    """Train a small model for a moment."""
    from agents.sb3 import GymnasiumVecEnv

    package, policy, settings = ALGORITHMS[name]
    env = GymnasiumVecEnv(make_vec(env_id, **options))
    algorithm = getattr(import_module(package), name)
    model = algorithm(policy, env, seed=seed, device="cpu", **settings)
    return model.learn(num_steps)


def global_random_state():
    """Return the state of the generators that SB3 draws from."""
    import torch

    numpy_state = np.random.get_state()[1].tolist()  # noqa: NPY002  # it is what is looked at
    return random.getstate(), numpy_state, torch.get_rng_state().tolist()
