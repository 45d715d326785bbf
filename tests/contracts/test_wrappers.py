"""What every wrapper promises around single and vector environments, alone and stacked."""

import json
import pickle
import re
from itertools import permutations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from wrapped_envs import WRAPPER_OPTIONS, make_env, play_both

from bandit_gym import wrappers
from bandit_gym.wrappers import wrap

ENVS = ("BernoulliBandit-v0", "GaussianBandit-v0")
NUM_ENVS, NUM_ARMS = 3, 4
LATE = ("DelayedReward", "BatchedFeedback")
STACKED = ({"name": "Drift", "std": 0.1}, {"name": "DelayedReward", "delay": 2})
ORDERS = [*permutations(STACKED)]

every_wrapper = pytest.mark.parametrize(("name", "options"), WRAPPER_OPTIONS, ids=str)


def play(env, num_steps, seed=0):
    """Play from a reset on, and return what every call says."""
    rng, said = np.random.default_rng(seed), [env.reset(seed=5)]
    for _ in range(num_steps):
        said.append(env.step(int(rng.integers(NUM_ARMS))))
    return said


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*")
@every_wrapper
def test_it_passes_gymnasiums_check_and_is_made_again_from_its_spec_as_json(name, options):
    env = make_env(name, options, limit=100)
    check_env(env, skip_render_check=True)
    written = env.spec.to_json()
    assert json.loads(written)["additional_wrappers"][0]["kwargs"].items() >= options.items()
    assert str(gym.make(EnvSpec.from_json(written))) == str(env)


def check_vector_form(name, options, **settings):
    """Play as many single environments beside a vector one, in each mode of resets."""
    for mode in AutoresetMode:
        ours = make_env(name, options, num_envs=NUM_ENVS, autoreset_mode=mode, **settings)
        assert not isinstance(ours.unwrapped, SyncVectorEnv)
        singles = [lambda: make_env(name, options, **settings)] * NUM_ENVS
        for one, other in play_both(ours, SyncVectorEnv(singles, autoreset_mode=mode), 20):
            assert data_equivalence(one, other, exact=True), mode


@every_wrapper
def test_vector_form_equals_single_ones(name, options):
    check_vector_form(name, options, env=ENVS[len(str(options)) % 2])
    with pytest.raises(TypeError, match="options must be a dict or None, got"):
        make_env(name, options, num_envs=NUM_ENVS).reset(options=[1])


@pytest.mark.parametrize(("name", "options"), [each for each in WRAPPER_OPTIONS if each[0] in LATE])
def test_late_rewards_come_with_the_features_of_the_arms_that_earned_them(name, options):
    settings = {"env": "ContextualBandit-v0", "num_features": 3}
    check_vector_form(name, options, **settings)
    env, shown = make_env(name, options, **settings), []
    seen, _ = env.reset(seed=1)
    for step in range(7):
        shown.append(seen[step % NUM_ARMS])
        seen, *_, info = env.step(step % NUM_ARMS)
        steps, features = info["feedback_step"], info["feedback_features"]
        assert features[steps >= 0].tolist() == [shown[i].tolist() for i in steps[steps >= 0]]
        assert not features[steps < 0].any()


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: " ".join(one["name"] for one in order))
def test_stacks_in_any_order_equal_stacked_single_ones_and_play_the_same_environment(order):
    name, settings = "bandit_gym:PoissonBandit-v0", {"num_arms": NUM_ARMS, "max_episode_steps": 6}
    ours = wrap(gym.make_vec(name, num_envs=NUM_ENVS, **settings), order)
    theirs = SyncVectorEnv([lambda: wrap(gym.make(name, **settings), order)] * NUM_ENVS)
    for one, other in play_both(ours, theirs, 20):
        assert data_equivalence(one, other, exact=True)
    stacks = [wrap(gym.make(name, **settings), each) for each in (order, ORDERS[0])]
    paid, first = ([step[1] for step in play(env, 6)[1:]] for env in stacks)
    assert paid == first


def test_regret_is_to_the_arm_that_is_best_now():
    for name, options in WRAPPER_OPTIONS:
        env = make_env(name, options, env="GaussianBandit-v0", limit=30)
        info = env.reset(seed=5)[1]
        means = info["means"]
        for arm in np.random.default_rng(0).integers(NUM_ARMS, size=30).tolist():
            info = env.step(arm)[4]
            means = info.get("means", means)  # those of the pull, where they move
            assert info["regret"] == means.max() - means[arm], (name, options)


def test_a_seed_repeats_an_episode_and_a_pickled_copy_goes_on_alike():
    for name, options in WRAPPER_OPTIONS:
        env = make_env(name, options)
        first, again = play(env, 4), play(env, 4)
        assert data_equivalence(first, again, exact=True), (name, options)
        copy = pickle.loads(pickle.dumps(env))
        for _ in range(3):
            assert data_equivalence(env.step(0), copy.step(0), exact=True), (name, options)


@every_wrapper
def test_it_asks_for_a_reset(name, options):
    with pytest.raises(ResetNeeded):
        make_env(name, options).step(0)
    env = make_env(name, options, limit=1, num_envs=2, autoreset_mode="Disabled")
    with pytest.raises(ResetNeeded):
        env.step([0, 0])
    env.reset(seed=0)
    env.step([0, 0])
    with pytest.raises(ResetNeeded):
        env.step([0, 0])


def test_a_reset_of_some_lanes_leaves_the_others_also_around_a_wrapper_that_takes_the_mask_out():
    env = gym.make_vec("bandit_gym:BernoulliBandit-v0", 2)
    env = wrappers.DelayedReward(RecordEpisodeStatistics(env), delay=1)
    env.reset(seed=0), env.step([0, 0]), env.reset(options={"reset_mask": np.array([True, False])})
    assert env.step([0, 0])[4]["feedback_step"].tolist() == [[-1], [0]]


def test_wrap_puts_the_first_around_the_environment():
    name = "bandit_gym:BernoulliBandit-v0"
    for env in (gym.make(name), gym.make_vec(name, num_envs=2)):
        assert re.findall(r"<(\w+)", str(wrap(env, STACKED)))[:2] == ["DelayedReward", "Drift"]


def test_wrap_takes_wrappers_of_ones_own_and_all_of_ours():
    env = gym.make("bandit_gym:BernoulliBandit-v0")
    named = {"name": "gymnasium.wrappers:TimeLimit", "max_episode_steps": 3}
    assert wrap(env, [named]).get_wrapper_attr("_max_episode_steps") == 3
    ours = {name for name in dir(wrappers) if name[0].isupper()}
    assert ours == {name for name, _ in WRAPPER_OPTIONS}
