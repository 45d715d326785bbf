"""A likelihood of one's own, from outside the packages, runs wherever a built-in one does."""

import pickle

import geometric
import gymnasium as gym
import numpy as np
import pytest
from scipy import stats

from agents import KLUCB, BayesUCB, ExactThompson, SMCThompson
from agents.oracle import action_probabilities
from bandit_gym import cli
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.priors import Gamma
from bandit_gym.problem import BanditProblem
from bandit_gym.results.results import load_results
from bandit_gym.rollout import rollout

ENV_ID = "geometric:GeometricBandit-v0"
NUM_DRAWS = 20_000


@pytest.mark.parametrize("mean", [1e-8, 0.3, 4.0, 1e4])
def test_sample_is_the_inverse_cdf(mean, rng):
    uniforms, law = rng.random(2000), stats.geom(1 / (1 + mean), loc=-1)
    rewards = geometric.Geometric().sample(mean, uniforms)
    assert (law.cdf(rewards - 1) <= uniforms + 1e-12).all()
    assert (law.cdf(rewards) >= uniforms - 1e-12).all()


def test_env_pays_rewards_of_the_pulled_mean():
    env = gym.make(ENV_ID, means=[0.5, 3.0], num_arms=2, max_episode_steps=NUM_DRAWS)
    env.reset(seed=0)
    rewards = np.array([env.step(1)[1] for _ in range(NUM_DRAWS)])
    standard_error = np.sqrt((3.0 + 9.0) / NUM_DRAWS)
    assert abs(rewards.mean() - 3.0) <= 4 * standard_error


@pytest.mark.parametrize("observation", ["constant", "counts", "history"])
def test_vector_env_equals_the_single_one(observation):
    options = {"num_arms": 3, "observation": observation, "horizon": 20, "max_episode_steps": 20}
    vector, single = gym.make_vec(ENV_ID, 4, **options), gym.make(ENV_ID, **options)
    batch, _ = vector.reset(seed=5)
    shown, _ = single.reset(seed=7)  # lane 2
    for action in (0, 1, 2, 2, 1):
        np.testing.assert_array_equal(batch[2], shown)
        batch, rewards, *_ = vector.step(np.full(4, action))
        shown, reward, *_ = single.step(action)
        assert rewards[2] == reward


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_env_renders(mode):
    env = gym.make(ENV_ID, num_arms=3, render_mode=mode)
    env.reset(seed=0)
    env.step(0)
    assert len(env.render()) > 0


@pytest.mark.parametrize(
    "make",
    [
        KLUCB,
        BayesUCB,
        ExactThompson,
        lambda problem: SMCThompson(problem, num_particles=200),
        lambda problem: SMCThompson(
            problem, num_particles=200, resampling="systematic", move="random-walk"
        ),
    ],
    ids=["kl_ucb", "bayes_ucb", "exact", "smc", "smc, moved"],
)
def test_agents_learn_which_arm_is_best(make):
    env = gym.make_vec(ENV_ID, 20, num_arms=3, means=[0.5, 1.0, 6.0])
    found = rollout(make(env.problem), env, seed=0, horizon=200)
    assert (found.actions[-20:] == 2).mean() > 0.8


def test_exact_thompson_follows_the_oracle():
    problem, num_lanes = geometric.geometric_problem(3), 20_000
    counts, sums = np.array([6, 4, 0]), np.array([9.0, 11.0, 0.0])
    agent = ExactThompson(problem)
    agent.reset(num_lanes, seed=0)
    agent.warm_start(counts, sums)
    shares = np.bincount(agent.act(), minlength=3) / num_lanes
    expected = action_probabilities(problem, counts, sums)
    assert (abs(shares - expected) <= 4 * np.sqrt(expected * (1 - expected) / num_lanes)).all()


def test_agent_pickles_and_goes_on_alike():
    agent = SMCThompson(geometric.geometric_problem(3), num_particles=50)
    agent.reset(seed=1)
    agent.observe(0, 3.0)
    copy = pickle.loads(pickle.dumps(agent))
    assert [agent.act() for _ in range(9)] == [copy.act() for _ in range(9)]


def test_agent_refuses_impossible_rewards():
    agent = SMCThompson(geometric.geometric_problem(3), num_particles=50)
    agent.reset(seed=1)
    with pytest.raises(ValueError, match="reward must be possible under geometric rewards, got"):
        agent.observe(0, 0.5)


def test_harness_runs_and_reads_its_results(tmp_path):
    experiment = Experiment.from_dict(
        {
            "environments": [{"env": ENV_ID, "num_arms": 3}],
            "agents": [
                {"agent": "smc", "num_particles": 50},
                {"agent": "racing"},
                "exact",
                "bayes_ucb",
                "kl_ucb",
            ],
            "replications": 4,
            "horizon": 30,
            "block_size": 2,
        }
    )
    run_experiment(experiment, tmp_path / "data", workers=Workers("serial", 1))
    results = load_results(tmp_path / "data")
    assert not results.failed
    assert {len(run.replications) for run in results.runs} == {4}


def test_command_compares_agents(tmp_path, capsys):
    arguments = ["compare", "--env", ENV_ID, "--agents", "smc:num_particles=50", "kl_ucb", "ucb1"]
    size = ["--replications", "4", "--horizon", "20", "--workers", "1", "--backend", "serial"]
    assert cli.main([*arguments, *size, "--out", str(tmp_path / "data")]) == cli.OK
    assert "kl_ucb" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("attributes", "error", "condition"),
    [
        ({"name": "bernoulli"}, ValueError, "name must be none of a built-in likelihood"),
        ({"name": None}, TypeError, "name must be a string, got None"),
        ({"support": None}, ValueError, "support must be a pair of numbers that rise, got None"),
    ],
    ids=["taken name", "no name", "no support"],
)
def test_attributes_that_are_missing_or_taken_are_refused(attributes, error, condition):
    kind = type("Odd", (geometric.Geometric,), attributes)
    with pytest.raises(error, match=f"likelihood.{condition}"):
        BanditProblem(kind(), Gamma(2.0, 1.0), 2)


@pytest.mark.parametrize("start", [2.1, 150.0, 1e-5])
def test_log_likelihood_that_is_nan_between_means_is_refused(start):
    class Torn(geometric.Geometric):
        def log_likelihood(self, means, counts, sums):
            value = super().log_likelihood(means, counts, sums)
            is_torn = (np.asarray(means) > start) & (np.asarray(means) < 1.5 * start)
            return np.where(is_torn, np.nan, value)

    with pytest.raises(ValueError, match="log_likelihood must be finite or -inf at possible means"):
        BanditProblem(Torn(), Gamma(2.0, 1.0), 2)


@pytest.mark.parametrize(
    "slip", [lambda m, k: k + 1, lambda m, k: 2 * k, lambda m, k: 0 * k], ids=["trials", "2m", "0"]
)
def test_rewards_that_do_not_average_the_mean_are_refused(slip):
    class Slipped(geometric.Geometric):
        def sample(self, means, uniforms):
            return slip(means, super().sample(means, uniforms))

    with pytest.raises(ValueError, match="sample must draw rewards that average the mean"):
        BanditProblem(Slipped(), Gamma(2.0, 1.0), 2)
