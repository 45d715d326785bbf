"""Thompson sampling loses what an independent implementation found (2,000 replications, 95 %)."""

import gymnasium as gym
import numpy as np
import pytest

from agents import ExactThompson
from bandit_gym.rollout import rollout

NUM_REPLICATIONS = 2000
PRIOR = {"name": "beta", "alpha": 5.0, "beta": 5.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "regret", "half_width"),
    [("reference", 50.7, 0.8), ("problem", 47.6, 0.9)],
    ids=["uniform prior", "exact prior"],
)
def test_exact_thompson_reproduces_the_known_regret_in_a_beta_world(prior, regret, half_width):
    venv = gym.make_vec(
        "bandit_gym:BernoulliBandit-v0",
        num_envs=NUM_REPLICATIONS,
        num_arms=10,
        prior=PRIOR,
        max_episode_steps=1000,
    )
    agent = ExactThompson(venv.unwrapped.problem, prior=prior)
    found = rollout(agent, venv, seed=1).pseudo_regret.sum(axis=1)
    error = np.hypot(half_width / 1.96, found.std() / np.sqrt(NUM_REPLICATIONS))
    assert abs(found.mean() - regret) < 2.6 * error  # 1 % of correct programs would fail by chance
