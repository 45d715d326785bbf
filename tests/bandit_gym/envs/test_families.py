"""What is particular to the environments of one id."""

import tracemalloc

import gymnasium as gym
import numpy as np
import pytest
from geometric import Geometric
from surface import problem_of

from bandit_gym.likelihoods import LIKELIHOODS, Gaussian
from bandit_gym.priors import Gamma

CUSTOM = "bandit_gym:CustomBandit-v0"


@pytest.mark.parametrize(
    ("env_id", "mean", "std"),
    [
        ("BernoulliBandit-v0", 0.5, 12**-0.5),
        ("GaussianBandit-v0", 0.0, 1.0),
        ("PoissonBandit-v0", 2.0, 2.0**0.5),
        ("ExponentialBandit-v0", 1.0, 1.0),
    ],
)
def test_default_prior_has_the_documented_mean(env_id, mean, std):
    means = gym.make(env_id, num_arms=10_000).reset(seed=0)[1]["means"]
    assert abs(means.mean() - mean) < 4 * std / 10_000**0.5


def test_dependent_prior_is_the_truncated_normal_of_unit_vectors():
    options = ({"num_arms": 6, "arm_seed": seed} for seed in (3, 3, 4))
    worlds = (gym.make("DependentPriorBandit-v0", **each) for each in options)
    problem, same, other = map(problem_of, worlds)
    settings = problem.prior.to_dict()
    assert (settings["name"], settings["mean"]) == ("truncated_multivariate_normal", 0.5)
    covariance = np.array(settings["covariance"])
    np.testing.assert_allclose(np.diag(covariance), 1.0)
    assert np.linalg.matrix_rank(covariance) == 6 and (covariance == covariance.T).all()
    assert problem == same != other


def test_gaussian_std_scales_the_noise():
    rewards = []
    for std in (1.0, 3.0):
        env = gym.make("GaussianBandit-v0", num_arms=2, means=[0.0, 0.0], std=std)
        env.reset(seed=0)
        rewards.append(env.step(0)[1])
    assert rewards[1] == pytest.approx(3.0 * rewards[0])
    assert gym.make_vec("GaussianBandit-v0", 2, std=0.5).problem.likelihood == Gaussian(0.5)


def test_of_several_best_arms_the_first_is_optimal_and_none_has_regret():
    env = gym.make("BernoulliBandit-v0", num_arms=3, means=[0.1, 0.7, 0.7])
    assert env.reset(seed=0)[1]["optimal_action"] == 1
    assert [env.step(arm)[4]["regret"] for arm in (1, 2)] == [0.0, 0.0]


def test_noise_of_many_lanes_is_not_drawn_far_ahead():
    """Of 100,000 lanes 512 steps would be 410 MB; all else is some arrays of 1.6 MB."""
    tracemalloc.start()
    venv = gym.make_vec("BernoulliBandit-v0", 100_000, num_arms=2, max_episode_steps=None)
    venv.reset(seed=0), venv.step(np.zeros(100_000, dtype=int))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_named_likelihood_is_the_problem_of_its_environment(name):
    known = problem_of(gym.make(f"bandit_gym:{name.title()}Bandit-v0"))
    for given in (name, {"name": name}, LIKELIHOODS[name]()):
        assert problem_of(gym.make(CUSTOM, likelihood=given)) == known


def test_ones_own_likelihood_is_imported_or_given():
    prior = {"name": "gamma", "shape": 2, "rate": 1}
    for likelihood in ("geometric:Geometric", {"name": "geometric:Geometric"}, Geometric()):
        found = problem_of(gym.make_vec(CUSTOM, 2, likelihood=likelihood, prior=prior, num_arms=3))
        assert (found.likelihood, found.prior) == (Geometric(), Gamma(2.0, 1.0))
