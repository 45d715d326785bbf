"""Small Stable-Baselines3 models and environments that several test modules share."""

import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import random

import gymnasium as gym
import numpy as np
import torch
from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO

from agents.sb3 import GymnasiumVecEnv

torch.set_num_threads(1)

NUM_ARMS = 3
ALGORITHMS = {
    "PPO": (PPO, "MlpPolicy", {"n_steps": 8, "batch_size": 16, "n_epochs": 2}),
    "A2C": (A2C, "MlpPolicy", {"n_steps": 8}),
    "DQN": (DQN, "MlpPolicy", {"learning_starts": 8, "buffer_size": 500, "batch_size": 16}),
    "RecurrentPPO": (
        RecurrentPPO,
        "MlpLstmPolicy",
        {"n_steps": 8, "batch_size": 16, "n_epochs": 2, "policy_kwargs": {"lstm_hidden_size": 8}},
    ),
}


def make_vec(env_id="BernoulliBandit-v0", num_envs=2, **options):
    """Make a native vector environment with SB3's kind of autoreset."""
    options = {
        "num_arms": NUM_ARMS,
        "max_episode_steps": 10,
        "autoreset_mode": "SameStep",
    } | options
    return gym.make_vec(f"bandit_gym:{env_id}", num_envs=num_envs, **options)


def train(name, *, num_steps=64, env_id="BernoulliBandit-v0", seed=0, **options):
    """Train a small model for a moment."""
    algorithm, policy, settings = ALGORITHMS[name]
    env = GymnasiumVecEnv(make_vec(env_id, **options))
    model = algorithm(policy, env, seed=seed, device="cpu", **settings)
    return model.learn(num_steps)


def global_random_state():
    """Return the state of the generators that SB3 draws from."""
    numpy_state = np.random.get_state()[1].tolist()  # noqa: NPY002  # it is what is looked at
    return random.getstate(), numpy_state, torch.get_rng_state().tolist()
