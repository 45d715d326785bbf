"""A likelihood of one's own, from outside the packages, runs wherever a built-in one does."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import SyncVectorEnv
from surface import agent_for

from bandit_gym.experiments import Experiment, Workers, run_experiment
from bandit_gym.rollout import rollout

ENV_ID = "geometric:UsersGeometricBandit-v0"


def test_vector_env_equals_single_ones():
    options = {"num_arms": 3, "observation": "counts", "horizon": 20, "max_episode_steps": 4}
    ours = gym.make_vec(ENV_ID, 4, **options)
    theirs = SyncVectorEnv([lambda: gym.make(ENV_ID, **options)] * 4)
    assert data_equivalence(ours.reset(seed=5), theirs.reset(seed=5), exact=True)
    for action in (0, 1, 2, 2, 1, 0):
        actions = np.full(4, action)
        assert data_equivalence(ours.step(actions), theirs.step(actions), exact=True)


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


def test_harness_runs_and_reads_its_results(tmp_path):
    smc = {"agent": "smc", "num_particles": 50}
    experiment = Experiment(
        [{"env": ENV_ID, "num_arms": 3}],
        [smc, "racing", "exact", "bayes_ucb", "kl_ucb"],
        replications=4,
        horizon=30,
        block_size=2,
    )
    results = run_experiment(experiment, tmp_path / "data", workers=Workers("serial", 1))
    assert not results.failed
    assert {len(run.replications) for run in results.runs} == {4}
