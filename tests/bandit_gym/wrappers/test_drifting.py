"""Means that move: how far, when, and what regret then means."""

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats
from wrapped_envs import make_env

import bandit_gym as bg
from bandit_gym.wrappers import Drift

LINEAR = {"num_arms": 3, "num_features": 2, "likelihood": "gaussian"}


def means_of(options, num_steps, num_envs=500, **more):
    """Play arm 0; return the (T, N, K) means that were played on."""
    env = make_env("Drift", options, limit=num_steps, num_envs=num_envs, **more)
    drawn, arms = env.reset(seed=0)[1]["means"], np.zeros(num_envs, dtype=np.int64)
    means = np.array([env.step(arms)[4]["means"] for _ in range(num_steps)])
    assert (drawn == means[0]).all()  # the first pull is on the means of the reset
    return means


def test_walk_takes_normal_steps():
    """T N K of them, each of its own, to four standard errors: std / sqrt(n), sqrt(2 / n)."""
    prior = {"name": "normal", "mean": 0.0, "std": 1.0}
    means = means_of({"std": 0.5}, 21, env="GaussianBandit-v0", prior=prior)
    steps = np.diff(means, axis=0) / 0.5
    assert abs(steps.mean()) < 4 / steps.size**0.5
    assert abs(steps.var() - 1) < 4 * (2 / steps.size) ** 0.5
    products = steps[1:] * steps[:-1]
    assert abs(products.mean()) < 4 / products.size**0.5


def test_walk_is_turned_back_at_the_ends_as_often_as_it_takes():
    """A walk that is reflected keeps uniform means uniform, and above 0 is a walk's distance."""
    uniform = {"name": "beta", "alpha": 1.0, "beta": 1.0}
    means = means_of({"std": 3.0}, 4, prior=uniform)
    assert stats.kstest(means[-1].ravel(), stats.uniform.cdf).pvalue > 1e-3
    prior = {"name": "gamma", "shape": 2.0, "rate": 1.0}
    means = means_of({"std": 2.0}, 2, env="PoissonBandit-v0", prior=prior)
    steps = np.random.default_rng(1).normal(0, 2, means[0].size)
    expected = np.abs(np.random.default_rng(2).gamma(2.0, size=means[0].size) + steps)
    assert stats.ks_2samp(means[-1].ravel(), expected).pvalue > 1e-3


def test_period_draws_all_means_anew_then_and_only_then():
    means = means_of({"period": 6}, 20)
    has_changed = (np.diff(means, axis=0) != 0).all(axis=(1, 2))
    is_same = (np.diff(means, axis=0) == 0).all(axis=(1, 2))
    assert np.flatnonzero(has_changed).tolist() == [5, 11, 17] and (has_changed ^ is_same).all()


def test_probability_draws_means_anew_as_often_from_the_prior():
    prior = {"name": "beta", "alpha": 2.0, "beta": 2.0}
    means = means_of({"probability": 0.1}, 41, prior=prior)
    has_changed = np.diff(means, axis=0)[..., 0] != 0
    assert abs(has_changed.mean() - 0.1) < 4 * (0.09 / has_changed.size) ** 0.5
    fresh = means[1:][has_changed]  # of mean 1/2 and variance 1/20
    assert abs(fresh.mean() - 0.5) < 4 * (0.05 / fresh.size) ** 0.5


@pytest.mark.parametrize("options", [{"std": 0.5}, {"period": 3}, {"probability": 0.3}])
def test_coefficients_move_where_arms_have_features(options):
    """Lanes are those of single environments, and 200 of them take independent normal steps."""
    env = Drift(bg.make_vec("ContextualBandit-v0", num_envs=200, **LINEAR), **options)
    single = Drift(bg.make("ContextualBandit-v0", **LINEAR), **options)
    features, alone = env.reset(seed=0)[0], single.reset(seed=0)[0]
    theta, arms, steps = env.unwrapped.parameters, np.zeros(200, dtype=np.int64), []
    for step in range(6):
        np.testing.assert_array_equal(features[0], alone)
        shown, before = features, theta
        (features, paid, _, _, info), (alone, *found) = env.step(arms), single.step(0)
        theta = env.unwrapped.parameters
        np.testing.assert_allclose(info["means"], np.einsum("nkd,nd->nk", shown, theta))
        assert found[0] == paid[0] and found[3]["regret"] == info["regret"][0]
        steps.append(theta - before)
        if step == 0 or ("period" in options and step % 3):
            assert not steps[-1].any()
    if "std" in options:
        assert stats.kstest(np.ravel(steps[1:]) / 0.5, stats.norm.cdf).pvalue > 1e-3
    else:
        moved = np.mean(np.any(steps[1:], axis=2), axis=1)
        expected = [0, 0, 1, 0, 0] if "period" in options else 0.3
        assert (abs(moved - expected) <= 4 * (0.21 / 200) ** 0.5 * ("period" not in options)).all()


def test_a_table_has_nothing_that_moves():
    env = gym.make("bandit_gym:TableBandit-v0", features=np.eye(2), rewards=np.eye(2))
    with pytest.raises(ValueError, match="env must have means or coefficients that can move"):
        Drift(env, std=0.1)
