"""Means that move: how far, when, and what regret then means."""

import gymnasium as gym
import numpy as np
import pytest
from worlds import make_world

from agents import ExactThompson, SlidingWindow
from bandit_gym.rollout import rollout
from bandit_gym.wrappers import Drift
from bandit_gym.wrappers.drifting import reflect


def means_of(options, num_steps, num_envs=500, **more):
    """Play arm 0; return the (T, N, K) means that were played on, and the (T, N) regrets."""
    env = make_world("Drift", options, limit=num_steps, num_envs=num_envs, **more)
    _, info = env.reset(seed=0)
    means, regrets = [info["means"]], []
    for _ in range(num_steps):
        info = env.step(np.zeros(num_envs, dtype=np.int64))[4]
        means.append(info["means"])
        regrets.append(info["regret"])
    assert (means.pop(0) == means[0]).all()  # the first pull is on the means of the reset
    return np.array(means), np.array(regrets)


def test_regret_is_to_the_arm_that_is_best_now():
    means, regrets = means_of({"std": 0.2}, 20)
    assert (regrets == means.max(axis=2) - means[..., 0]).all()


def test_walk_takes_normal_steps():
    """T N K of them: mean and variance within four standard errors, std / sqrt(n), sqrt(2 / n)."""
    prior = {"name": "normal", "mean": 0.0, "std": 1.0}
    means, _ = means_of({"std": 0.5}, 21, env="GaussianBandit-v0", prior=prior)
    steps = np.diff(means, axis=0) / 0.5
    assert abs(steps.mean()) < 4 / steps.size**0.5
    assert abs(steps.var() - 1) < 4 * (2 / steps.size) ** 0.5


def test_walk_stays_where_the_prior_allows_it():
    prior = {"name": "truncated_normal", "mean": 0.5, "std": 0.1, "low": 0.4, "high": 0.7}
    means, _ = means_of({"std": 0.5}, 30, prior=prior)
    assert means.min() >= 0.4 and means.max() <= 0.7 and (np.diff(means, axis=0) != 0).all()


def test_reflect_turns_back_as_often_as_it_takes():
    x = np.array([[1.2, -0.1, 3.4, 0.5]])
    found = reflect(x, np.zeros(4), np.ones(4))
    assert np.allclose(found, [[0.8, 0.1, 0.6, 0.5]], rtol=0, atol=1e-12)
    assert reflect(-x, np.zeros(4), np.full(4, np.inf)).tolist() == [[1.2, 0.1, 3.4, 0.5]]
    assert reflect(x, np.full(4, -np.inf), np.full(4, np.inf)).tolist() == x.tolist()


def test_period_draws_all_means_anew_then_and_only_then():
    means, _ = means_of({"period": 6}, 20)
    has_changed = (np.diff(means, axis=0) != 0).all(axis=(1, 2))
    is_same = (np.diff(means, axis=0) == 0).all(axis=(1, 2))
    assert np.flatnonzero(has_changed).tolist() == [5, 11, 17] and (has_changed ^ is_same).all()


def test_probability_draws_means_anew_as_often_from_the_prior():
    prior = {"name": "beta", "alpha": 2.0, "beta": 2.0}
    means, _ = means_of({"probability": 0.1}, 41, prior=prior)
    has_changed = np.diff(means, axis=0)[..., 0] != 0
    assert abs(has_changed.mean() - 0.1) < 4 * (0.09 / has_changed.size) ** 0.5
    fresh = means[1:][has_changed]  # of mean 1/2 and variance 1/20
    assert abs(fresh.mean() - 0.5) < 4 * (0.05 / fresh.size) ** 0.5


def test_those_that_forget_lose_less_where_means_switch():
    """Pairs of lanes share worlds: by more than four standard errors of their differences."""
    env = make_world("Drift", {"period": 200}, limit=600, num_envs=200)
    problem = env.unwrapped.problem

    def regret(agent):
        return rollout(agent, env, seed=1).pseudo_regret.sum(axis=1)

    plain = regret(ExactThompson(problem))
    forgetful = ExactThompson(problem, discount=0.97), SlidingWindow(problem, window=60)
    for agent in forgetful:
        saved = plain - regret(agent)
        assert saved.mean() > 4 * saved.std() / 200**0.5


def test_thompson_that_knows_of_no_drift_loses_as_much_as_chance_where_all_switches_each_step():
    """With new means each step, whatever is played loses E max - E mean = 4/5 - 1/2."""
    prior = {"name": "beta", "alpha": 1.0, "beta": 1.0}
    env = make_world("Drift", {"period": 1}, limit=20, num_envs=500, prior=prior)
    regret = rollout(ExactThompson(env.unwrapped.problem), env, seed=0).pseudo_regret
    assert abs(regret.mean() - 0.3) < 4 * regret.std() / regret.size**0.5


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, r"std, period and probability must be a number and None twice, got \(None, N"),
        ({"std": 0.1, "period": 3}, r"None twice, got \(0.1, 3, None\)"),
        ({"std": 0.0}, "std must be a finite number above 0"),
        ({"period": 0}, "period must be a positive integer, got 0"),
        ({"probability": 2.0}, "probability must be a finite number above 0 and at most 1"),
    ],
)
def test_bad_drift_is_one_sentence(options, text):
    with pytest.raises((TypeError, ValueError), match=text):
        make_world("Drift", options)


def test_an_array_is_no_step_of_a_walk():
    env = gym.make("bandit_gym:BernoulliBandit-v0")
    with pytest.raises(TypeError, match="std must be a finite number"):
        Drift(env, std=np.array([0.1, 0.2]))
