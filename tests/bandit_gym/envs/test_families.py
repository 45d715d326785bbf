"""What is particular to the environments of one id."""

import tracemalloc

import gymnasium as gym
import numpy as np
from geometric import Geometric
from surface import problem_of

import bandit_gym as bg
from bandit_gym.envs.observations import scale_rewards
from bandit_gym.likelihoods import LIKELIHOODS, Gaussian
from bandit_gym.priors import Gamma

CUSTOM = "bandit_gym:CustomBandit-v0"


def test_default_prior_has_the_documented_mean():
    for env_id, mean, std in [
        ("BernoulliBandit-v0", 0.5, 12**-0.5),
        ("GaussianBandit-v0", 0.0, 1.0),
        ("PoissonBandit-v0", 2.0, 2.0**0.5),
        ("ExponentialBandit-v0", 1.0, 1.0),
    ]:
        means = gym.make(env_id, num_arms=10_000).reset(seed=0)[1]["means"]
        assert abs(means.mean() - mean) < 4 * std / 10_000**0.5, env_id


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


def test_gaussian_std_is_that_of_the_likelihood():
    for env in (gym.make("GaussianBandit-v0", std=0.5), gym.make_vec("GaussianBandit-v0", std=0.5)):
        assert problem_of(env).likelihood == Gaussian(0.5)


def test_lanes_tell_the_time_left_of_a_given_horizon_and_not_of_their_limit():
    options = {"observation": "counts", "horizon": 20, "max_episode_steps": 7}
    lanes = gym.make_vec("BernoulliBandit-v0", 2, **options)
    lanes.reset(seed=1)
    assert lanes.step([0, 0])[0][:, -1].tolist() == [np.float32(1 - 1 / 20)] * 2


def test_a_single_environment_tells_the_time_left_of_the_limit_it_was_made_with():
    for options, limit in (({}, 1000), ({"max_episode_steps": 20}, 20)):
        env = gym.make("BernoulliBandit-v0", observation="counts", **options)
        ours = bg.make("BernoulliBandit-v0", **env.spec.kwargs, **options)
        for each in (env, gym.make(env.spec), ours):
            each.reset(seed=1)
            assert each.step(0)[0][-1] == np.float32(1 - 1 / limit)


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


def test_a_named_likelihood_is_the_problem_of_its_environment_and_ones_own_is_imported(monkeypatch):
    for name, kind in LIKELIHOODS.items():
        known = problem_of(gym.make(f"bandit_gym:{name.title()}Bandit-v0"))
        for given in (name, {"name": name}, kind()):
            assert problem_of(gym.make(CUSTOM, likelihood=given)) == known
    prior = {"name": "gamma", "shape": 2, "rate": 1}
    for likelihood in ("geometric:Geometric", {"name": "geometric:Geometric"}, Geometric()):
        found = problem_of(gym.make_vec(CUSTOM, 2, likelihood=likelihood, prior=prior, num_arms=3))
        assert (found.likelihood, found.prior) == (Geometric(), Gamma(2.0, 1.0))
    monkeypatch.setattr(Geometric, "default_prior", {"name": "gamma", "shape": 2, "rate": 1})
    assert problem_of(gym.make(CUSTOM, likelihood=Geometric())).prior == Gamma(2.0, 1.0)


def test_rewards_are_shown_by_the_support_that_a_likelihood_of_ones_own_may_have():
    rows = [(1, 5, [1, 2, 5], [0, 0.25, 1]), (1, np.inf, [3], [2 / 3])]
    rows += [(0, 1, [-0.5, 1.5], [0, 1]), (0, np.inf, [-3], [0])]  # beyond it, if they may be
    rows += [(-np.inf, 2, [1, 2, -2], [0.5, 1, 0.2])]
    for low, high, rewards, shown in rows:
        assert scale_rewards(np.array(rewards), low, high).tolist() == shown
