"""Each wrapper around a single environment: Gymnasium's own checks, and a spec of it all."""

import json
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from gymnasium.utils.env_checker import check_env
from worlds import WORLDS, make_world

from bandit_gym import wrappers
from bandit_gym.wrappers import AvailableArms


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*")
@pytest.mark.parametrize(("name", "options"), WORLDS)
def test_wrapper_passes_check_env(name, options):
    check_env(make_world(name, options, limit=100), skip_render_check=True)


@pytest.mark.parametrize(("name", "options"), WORLDS)
def test_wrapper_is_made_again_from_its_spec_as_json(name, options):
    env = make_world(name, options)
    written = json.loads(env.spec.to_json())
    assert written["additional_wrappers"][0]["kwargs"].items() >= options.items()
    assert str(gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))) == str(env)


@pytest.mark.parametrize(("name", "options"), WORLDS)
def test_wrapper_repeats_an_episode_of_the_same_seed(name, options):
    env, paid = make_world(name, options), []
    for _ in range(2):
        _, info = env.reset(seed=3)
        for _ in range(10):
            action = int(np.argmax(info.get("action_mask", [0, 0, 1, 0])))
            _, reward, _, _, info = env.step(action)
            paid.append(reward)
    assert paid[:10] == paid[10:]


@pytest.mark.parametrize(("name", "options"), WORLDS)
def test_wrapper_asks_for_a_reset(name, options):
    with pytest.raises(ResetNeeded):
        make_world(name, options).step(0)


@pytest.mark.parametrize("name", dir(wrappers)[:4])
def test_wrapper_refuses_environments_of_others(name):
    with pytest.raises(TypeError, match=r"^env must be an environment of bandit_gym's, got <"):
        getattr(wrappers, name)(gym.make("CartPole-v1"))


def test_space_of_arms_that_come_and_go_is_kept_without_the_environment():
    env = AvailableArms(gym.make("bandit_gym:BernoulliBandit-v0", num_arms=3))
    copy = pickle.loads(pickle.dumps(env.action_space))
    assert type(copy) is Discrete and copy == env.action_space


@pytest.mark.parametrize(("name", "options"), WORLDS)
def test_a_copy_goes_on_as_the_wrapper_does(name, options):
    env = make_world(name, options)
    env.reset(seed=0)
    env.step(1)
    copy, arms = pickle.loads(pickle.dumps(env)), [1, 1, 1]
    if name == "AvailableArms":
        env.action_space.seed(0)
        arms = [int(env.action_masks().argmax())]
    assert [env.step(arm)[1] for arm in arms] == [copy.step(arm)[1] for arm in arms]
