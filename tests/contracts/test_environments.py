"""What every registered environment promises, as a single one; `test_vector_environments.py` has
the other half."""

import pickle
from functools import partial
from itertools import product

import gymnasium as gym
import numpy as np
import pytest
from families import ALL_ENV_IDS, FEATURE_ENVS, OBSERVED
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import InvalidAction
from gymnasium.utils.env_checker import check_env, data_equivalence
from surface import lane_stream, problem_of


def in_turn(number):
    """One of the environments, where all share what is tested."""
    return pytest.mark.parametrize("env_id", [ALL_ENV_IDS[number % len(ALL_ENV_IDS)]])


every_id = pytest.mark.parametrize("env_id", ALL_ENV_IDS)
every_feature = pytest.mark.parametrize(("env_id", "options"), FEATURE_ENVS)


def play(env, num_steps, seed=0):
    """Return the actions of an episode of random pulls, and everything the environment says."""
    actions = np.random.default_rng(seed).integers(problem_of(env).num_arms, size=num_steps)
    return actions, [env.step(int(action)) for action in actions]


@pytest.mark.filterwarnings("error")
def test_make_builds_it_without_a_warning_and_with_the_promised_limit():
    for env_id in ALL_ENV_IDS:
        env = gym.make(env_id)
        env.reset(seed=0), env.step(0)
        assert (env.spec.id, env.spec.max_episode_steps) == (env_id, 1000)
        points = env.spec.entry_point, env.spec.vector_entry_point
        assert all(isinstance(point, str) for point in points), env_id


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("env_id", "observation"), OBSERVED)
def test_it_passes_the_check_without_a_warning(env_id, observation):
    env = gym.make(env_id, observation=observation, horizon=9, render_mode="ansi").unwrapped
    check_env(env)


@pytest.mark.filterwarnings("error")
@every_feature
def test_it_passes_the_check_where_arms_have_features(env_id, options):
    check_env(gym.make(env_id, render_mode="ansi", **options).unwrapped)


@pytest.mark.nightly
@pytest.mark.filterwarnings("error", "ignore:Your observation  has an unconventional shape")
def test_it_passes_the_check_of_stable_baselines3():
    sb3_checker = pytest.importorskip("stable_baselines3.common.env_checker")
    worlds = [(env_id, {"observation": observation}) for env_id, observation in OBSERVED]
    for env_id, options in (*worlds, *FEATURE_ENVS):
        sb3_checker.check_env(gym.make(env_id, render_mode="ansi", **options).unwrapped)


@every_feature
def test_features_come_with_each_step_and_explain_the_next_ones_rewards(env_id, options):
    env = gym.make(env_id, num_arms=3, num_features=2, **options)
    problem, seen = problem_of(env), []
    env.reset(seed=11)
    features, started = env.reset()
    stream = lane_stream(11, episode=1, purpose="means")
    theta = problem.prior.sample(stream, (problem.num_features,))
    uniforms = lane_stream(11, episode=1, purpose="noise").random(30)
    for number, arm in enumerate(np.random.default_rng(0).integers(3, size=30).tolist()):
        means = problem.means(theta, features)
        shown, reward, *_, info = env.step(arm)
        seen.append(features)
        assert info["means"].tolist() == means.tolist()
        assert info["optimal_action"] == means.argmax()
        assert info["regret"] == means.max() - means[arm]
        assert reward == problem.likelihood.sample(means[[arm]], uniforms[[number]]).item()
        assert number or data_equivalence({"regret": info["regret"], **started}, info, exact=True)
        assert env.unwrapped.played_means.tolist() == [means.tolist()]
        features = shown
    assert (len(np.unique(seen, axis=0)) == 1) == (options["contexts"] == "fixed")
    assert (env.reset()[0] != seen[0]).any()


@every_feature
def test_with_features_a_seed_repeats_it_and_a_pickled_copy_continues_identically(env_id, options):
    env = gym.make(env_id, **options)
    runs = [(env.reset(seed=5), play(env, 5)) for _ in range(2)]
    assert data_equivalence(*runs, exact=True)
    twin = pickle.loads(pickle.dumps(env))
    assert data_equivalence((play(env, 5), env.reset()), (play(twin, 5), twin.reset()), exact=True)
    assert problem_of(gym.make(EnvSpec.from_json(env.spec.to_json()))) == problem_of(env)


def test_info_has_the_means_the_best_arm_and_the_shortfall_of_the_pulled_mean():
    for env_id in ALL_ENV_IDS:
        env = gym.make(env_id, num_arms=4)
        observation, info = env.reset(seed=1)
        means = info["means"]
        assert info.keys() == {"means", "optimal_action"}
        assert info["optimal_action"] == means.argmax(), env_id
        results = [env.step(arm) for arm in range(4)]
        assert [info["regret"] for *_, info in results] == (means.max() - means).tolist(), env_id
        assert all(set(info) == {"regret"} for *_, info in results)
        said = [observation, info["optimal_action"], *results[0][:4], results[0][4]["regret"]]
        assert [type(value) for value in said] == [int, int, int, float, bool, bool, float]


@every_id
def test_rewards_are_quantiles_of_the_pulled_means_at_the_numbers_of_the_episodes_stream(env_id):
    """So that noise depends neither on the arm nor on what the means are drawn from."""
    for options in ({}, {"means": [0.25, 0.5, 0.5]}):
        env = gym.make(env_id, num_arms=3, **options)
        env.reset(seed=11), play(env, 5)
        means = env.reset()[1]["means"]
        actions, results = play(env, 30)
        uniforms = lane_stream(11, episode=1, purpose="noise").random(30)
        expected = problem_of(env).likelihood.sample(means[actions], uniforms)
        assert [result[1] for result in results] == expected.tolist()


@every_id
def test_each_reset_draws_possible_means_afresh_and_a_seed_repeats_them(env_id):
    env = gym.make(env_id, observation="counts", horizon=1000)
    runs = [(env.reset(seed=5), play(env, 20), env.reset()) for _ in range(2)]
    assert data_equivalence(*runs, exact=True)
    first, later = runs[0][0][1]["means"], runs[0][2][1]["means"]
    assert (first != later).all() and problem_of(env).likelihood.contains(first).all()


def test_fixed_means_are_the_instance_of_every_episode_and_leave_the_prior():
    for env_id in ALL_ENV_IDS:
        env = gym.make(env_id, num_arms=3, means=[0.2, 0.5, 0.25])
        found = [env.reset()[1]["means"].tolist() for _ in range(2)]
        assert found == 2 * [[0.2, 0.5, 0.25]], env_id
        assert problem_of(env) == problem_of(gym.make(env_id, num_arms=3))


def test_means_of_a_reset_are_the_instance_of_that_episode_alone():
    given = [0.1, 0.2]
    for env_id, make in product(ALL_ENV_IDS, (gym.make, partial(gym.make_vec, num_envs=2))):
        env = make(env_id, num_arms=2)
        assert (env.reset(seed=1, options={"means": given})[1]["means"] == given).all(), env_id
        assert (env.reset()[1]["means"] != given).all(), env_id


@in_turn(10)
def test_what_a_caller_overwrites_does_not_reach_into_it(env_id):
    said = []
    for factor in (1.0, 0.01):  # a hundredth is a possible mean everywhere, and pays differently
        env = gym.make(env_id, num_arms=2)
        env.reset(seed=0)[1]["means"][:] *= factor
        said.append(play(env, 50)[1])
    assert data_equivalence(*said, exact=True)


@in_turn(0)
def test_only_the_time_limit_ends_an_episode(env_id):
    for limit, num_steps in [(3, 3), (-1, 1001)]:
        env = gym.make(env_id, max_episode_steps=limit, disable_env_checker=True)
        env.reset(seed=0)
        ends = [ends for _, _, *ends, _ in play(env, num_steps)[1]]
        assert ends == [[False, False]] * (num_steps - 1) + [[False, limit == 3]]


@in_turn(4)
def test_what_is_no_action_is_refused_and_leaves_the_episode_as_it_was(env_id):
    env = gym.make(env_id, observation="history", horizon=9).unwrapped
    env.reset(seed=0), play(env, 7)
    twin = pickle.loads(pickle.dumps(env))
    for action in (-1, 10, 0.0, 1.5, "0", None, True, [0], np.array([0])):
        with pytest.raises(InvalidAction, match="action must"):
            env.step(action)
    assert data_equivalence(play(env, 5), play(twin, 5), exact=True)


def shown_after(observation, support, num_arms, horizon, plays):
    """Return what is shown after these plays, as `docs` describes it."""
    low, high = support
    actions, rewards = (np.array(column) for column in zip(*plays, strict=True))

    def scaled(x):
        if np.isfinite(high):
            return x
        return x / (1 + x) if low == 0 else 0.5 * (1 + x / (1 + np.abs(x)))

    counts = np.bincount(actions, minlength=num_arms)
    averages = np.bincount(actions, rewards, minlength=num_arms) / np.maximum(counts, 1)
    averages = np.where(counts > 0, scaled(averages), 0.5)
    left = max(1 - len(plays) / horizon, 0.0)
    if observation == "counts":
        return [*np.minimum(counts / horizon, 1), *averages, left]
    return [*(np.arange(num_arms) == actions[-1]), scaled(rewards[-1]), left]


NOTHING_SEEN = {"counts": [0, 0, 0, 0.5, 0.5, 0.5, 1], "history": [0, 0, 0, 0.5, 1]}


@every_id
def test_observations_are_bounded_and_tell_the_plays_also_beyond_the_horizon(env_id):
    for observation, nothing in NOTHING_SEEN.items():
        env = gym.make(env_id, num_arms=3, observation=observation, horizon=20)
        shown, _ = env.reset(seed=0)
        assert shown.tolist() == nothing and shown.dtype == np.float32
        assert env.observation_space.is_bounded() and shown in env.observation_space
        actions, results = play(env, 30)
        plays = [(action, result[1]) for action, result in zip(actions, results, strict=True)]
        for num_plays, (shown, *_) in enumerate(results, start=1):
            support = problem_of(env).likelihood.support
            expected = shown_after(observation, support, 3, 20, plays[:num_plays])
            np.testing.assert_allclose(shown, expected, rtol=1e-6, atol=1e-7)
            assert shown in env.observation_space


@in_turn(7)
def test_text_and_picture_of_an_episode_change_nothing_in_it(env_id):
    said = [gym.make(env_id), gym.make(env_id, render_mode="ansi")]
    said.append(gym.make(env_id, render_mode="rgb_array"))
    frames = [(env.reset(seed=0), env.render_mode and env.render()) for env in said]
    played = [play(env, 5)[1] for env in said]
    assert played[0] == played[1] == played[2]
    assert len(frames[1][1].splitlines()) == len(said[1].render().splitlines()) == 12
    blank, picture = frames[2][1], said[2].render()
    assert (blank.shape, blank.dtype) == (picture.shape, picture.dtype) == ((540, 960, 3), np.uint8)
    assert (blank != picture).any()


@in_turn(8)
def test_render_without_a_mode_warns_and_draws_nothing(env_id):
    for env in (gym.make(env_id).unwrapped, gym.make_vec(env_id, 2)):
        env.reset(seed=0)
        with pytest.warns(UserWarning, match="without a render_mode"):
            assert env.render() is None
