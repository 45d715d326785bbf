"""A likelihood of one's own, from outside the packages, runs wherever a built-in one does."""

import gymnasium as gym
import pytest
from surface import agent_for

from bandit_gym.rollout import rollout

ENV_ID = "geometric:UsersGeometricBandit-v0"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kl_ucb", {}),
        ("bayes_ucb", {}),
        ("exact", {}),
        ("smc", {"num_particles": 200}),
        ("smc_paper", {"num_particles": 200}),
    ],
)
def test_agents_learn_which_arm_is_best(name, options):
    env = gym.make_vec(ENV_ID, 20, num_arms=3, means=[0.5, 1.0, 6.0])
    found = rollout(agent_for(env, name, **options), env, seed=0, horizon=200)
    assert (found.actions[-20:] == 2).mean() > 0.8
