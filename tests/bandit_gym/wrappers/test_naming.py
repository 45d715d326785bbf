"""Wrappers as data."""

import gymnasium as gym
import pytest

from bandit_gym import wrappers
from bandit_gym.wrappers import wrap
from bandit_gym.wrappers.naming import NAMES

LISTED = [{"name": "Drift", "period": 5}, {"name": "DelayedReward", "delay": 2}]


@pytest.mark.parametrize("num_envs", [None, 2])
def test_wrap_puts_the_first_around_the_environment(num_envs):
    name = "bandit_gym:BernoulliBandit-v0"
    env = gym.make(name) if num_envs is None else gym.make_vec(name, num_envs=num_envs)
    assert str(wrap(env, LISTED)).startswith("<DelayedReward<Drift<") or num_envs


def test_wrap_takes_wrappers_of_ones_own():
    env = gym.make("bandit_gym:BernoulliBandit-v0")
    named = {"name": "gymnasium.wrappers:TimeLimit", "max_episode_steps": 3}
    assert wrap(env, [named]).get_wrapper_attr("_max_episode_steps") == 3


def test_all_wrappers_have_names():
    assert set(dir(wrappers)) == {*NAMES, "check_wrappers", "deliver", "wrap"}


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        ([{"name": "Drif"}], "wrapper must be one of .*; the nearest known one is 'Drift'"),
        ({"name": "Drift"}, "wrappers must be a list of dicts with the key 'name'"),
        ([{"name": "Drift", "stdd": 1}], "options of Drift must have no keys but .*'std'"),
        ([3], "wrapper must be a dict with the key 'name', got 3"),
        ([{"name": "no_such_module:X"}], "wrapper must be an importable class, got"),
        ([{"name": "math:pi"}], "wrapper must be an importable class, got 'math:pi'"),
        ([{"name": "builtins:print"}], "wrapper must name what makes an environment, got 'bui"),
    ],
)
def test_bad_wrappers_are_one_sentence(listed, text):
    with pytest.raises((TypeError, ValueError), match=text):
        wrap(gym.make("bandit_gym:BernoulliBandit-v0"), listed)
