"""Native vector environments equal `SyncVectorEnv` of the single ones, bit for bit."""

import pickle
from itertools import product

import gymnasium as gym
import numpy as np
import pytest
from families import ALL_ENV_IDS, FEATURE_ENVS
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import Error, InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from surface import OBSERVATIONS, lane_stream, problem_of

import bandit_gym as bg

NUM_ENVS, NUM_ARMS = 4, 3

every_id = pytest.mark.parametrize("env_id", ALL_ENV_IDS)
every_mode = pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.value)


def make_native(env_id, mode=AutoresetMode.NEXT_STEP, **options):
    return gym.make_vec(env_id, NUM_ENVS, num_arms=NUM_ARMS, autoreset_mode=mode, **options)


def make_sync(env_id, mode=AutoresetMode.NEXT_STEP, **options):
    options |= {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": mode}}
    return gym.make_vec(env_id, NUM_ENVS, num_arms=NUM_ARMS, **options)


def assert_same(left, right):
    """Compare nested tuples, dicts and arrays: types, dtypes, shapes and every value."""
    assert data_equivalence(left, right, exact=True)


def overwrite(result):
    """Fill every array of a nested result with zeros."""
    if isinstance(result, np.ndarray) and result.dtype != object:
        result.fill(0)
    elif isinstance(result, dict | tuple):
        for part in result.values() if isinstance(result, dict) else result:
            overwrite(part)


def draw_steps(rng):
    """Draw actions; then the lanes that are reset, none in every other step, and their seeds."""
    seeds = [None, 0, 2**64 - 1, *rng.integers(2**64, size=3, dtype=np.uint64).tolist()]
    for step in range(rng.integers(1, 9)):
        mask = rng.random(NUM_ENVS) < 0.5 * (step % 2)
        places = rng.integers(len(seeds), size=NUM_ENVS)
        yield rng.integers(NUM_ARMS, size=NUM_ENVS), mask, [seeds[place] for place in places]


def transcript(venv, steps):
    """Play, reset the masked lanes, and ended ones where it is on us."""
    said = [venv.reset(seed=11)]
    for actions, mask, seeds in steps:
        result = venv.step(actions)
        said.append(result)
        if venv.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            mask = mask | result[2] | result[3]
        if mask.any():
            said.append(venv.reset(seed=seeds, options={"reset_mask": mask}))
    return [*said, venv.reset(), venv.step(np.zeros(NUM_ENVS, dtype=int))]


@every_mode
@pytest.mark.parametrize("env_id", ALL_ENV_IDS)
def test_native_equals_sync_when_episodes_are_ragged(mode, env_id, rng):
    for observation, limit in product(OBSERVATIONS, (1, 2, 5)):
        options = {"observation": observation, "max_episode_steps": limit}  # which is the horizon
        steps = [*draw_steps(rng)]
        native = transcript(make_native(env_id, mode, **options), steps)
        assert_same(native, transcript(make_sync(env_id, mode, **options), steps))


@every_mode
def test_native_equals_sync_where_arms_have_features(mode, rng):
    for (env_id, world), limit in product(FEATURE_ENVS, (1, 2, 5)):
        options, steps = world | {"num_features": 2, "max_episode_steps": limit}, [*draw_steps(rng)]
        native = transcript(make_native(env_id, mode, **options), steps)
        assert_same(native, transcript(make_sync(env_id, mode, **options), steps))


@pytest.mark.parametrize("limit", [None, 0, -1])
def test_native_without_a_limit_equals_sync_for_long(limit):
    """Beyond the 512 rows of noise that are drawn ahead."""
    options = {"observation": "counts", "horizon": 1000}
    native = make_native("PoissonBandit-v0", max_episode_steps=limit, **options)
    options |= {"max_episode_steps": -1, "disable_env_checker": True}
    sync = make_sync("PoissonBandit-v0", **options)
    assert_same(native.reset(seed=3), sync.reset(seed=3))
    for row in np.random.default_rng(0).integers(NUM_ARMS, size=(600, NUM_ENVS)):
        assert_same(native.step(row), sync.step(row))


def test_an_autoreset_mode_is_taken_as_an_option_and_by_our_own_function_as_gymnasium_asks():
    given = {"vector_kwargs": {"autoreset_mode": AutoresetMode.SAME_STEP}}
    for env in ("BernoulliBandit-v0", problem_of(gym.make("BernoulliBandit-v0"))):
        for options in (given, {"autoreset_mode": "SameStep"}):
            found = bg.make_vec(env, 2, **options).metadata["autoreset_mode"]
            assert found is AutoresetMode.SAME_STEP
        with pytest.raises(TypeError, match="shared_memory"):
            bg.make_vec(env, 2, vector_kwargs={"shared_memory": True})
    sync = bg.make_vec("BernoulliBandit-v0", 2, vectorization_mode="sync", **given)
    assert sync.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    with pytest.raises(Error, match="only through kwargs"):  # before the environment is asked
        gym.make_vec("BernoulliBandit-v0", 2, **given)


@every_id
def test_lanes_by_the_thousand_are_those_of_their_seeds(env_id):
    """12,000 streams are begun, after 10,000 of which a compiled loop reads them."""
    num_envs, lanes = 6000, [0, 1, 3217, 5999]
    venv = gym.make_vec(env_id, num_envs, num_arms=2)
    venv.reset(seed=7)
    means = venv.reset()[1]["means"]
    rewards = np.array([venv.step(np.ones(num_envs, dtype=int))[1] for _ in range(12)])
    single = gym.make(env_id, num_arms=2)
    for lane in lanes:
        single.reset(seed=7 + lane)
        assert single.reset()[1]["means"].tolist() == means[lane].tolist()
        uniforms = lane_stream(7 + lane, episode=1, purpose="noise").random(12)
        expected = problem_of(venv).likelihood.sample(means[lane, 1], uniforms)
        assert rewards[:, lane].tolist() == expected.tolist()


def test_streams_of_neighbours_are_not_correlated():
    """Of lanes, of episodes, of steps, and of means and noise."""
    num_envs = 5000
    venv = gym.make_vec("GaussianBandit-v0", num_envs, num_arms=2)
    columns = []
    for seed in (0, None):
        means = venv.reset(seed=seed)[1]["means"]
        rewards = [venv.step(np.zeros(num_envs, dtype=int))[1] for _ in range(2)]
        columns += [*means.T, *(reward - means[:, 0] for reward in rewards)]
    rows = np.concatenate([columns, np.roll(columns, 1, axis=1)])
    correlations = np.corrcoef(rows)[np.triu_indices(len(rows), 1)]
    assert np.abs(correlations).max() <= 4 / num_envs**0.5


def test_native_has_the_problem_the_spaces_and_the_fixed_means_of_sync():
    spaces = "single_observation_space single_action_space observation_space action_space"
    options = {"observation": "counts", "means": [1.0, 0.25, 0.5]}
    for env_id in ALL_ENV_IDS:
        native, sync = make_native(env_id, **options), make_sync(env_id, horizon=1000, **options)
        for name in (*spaces.split(), "metadata", "num_envs"):
            assert getattr(native, name) == getattr(sync, name), (env_id, name)
        assert problem_of(native) == problem_of(sync.envs[0]), env_id
        assert_same(native.reset(seed=1), sync.reset(seed=1))
        assert_same(native.step([0, 1, 2, 0]), sync.step(np.array([0, 1, 2, 0])))


def test_seeds_are_those_of_sync_up_to_the_largest():
    native, sync = make_native("BernoulliBandit-v0"), make_sync("BernoulliBandit-v0")
    assert_same(native.reset(seed=2**64 - NUM_ENVS), sync.reset(seed=2**64 - NUM_ENVS))
    native.reset(seed=4), sync.reset(seed=4)
    assert native.np_random_seed == sync.np_random_seed == (4, 5, 6, 7)


def test_unseeded_lanes_begin_with_fresh_seeds_that_repeat_them():
    venv = make_native("BernoulliBandit-v0")
    first = venv.reset()[1]["means"]
    assert len(np.unique(first)) == first.size
    assert_same(venv.reset(seed=list(venv.np_random_seed))[1]["means"], first)


@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
def test_native_draws_the_frame_of_each_lane_as_sync_does(render_mode):
    frames = []
    for make in (make_native, make_sync):
        venv = make("PoissonBandit-v0", render_mode=render_mode)
        venv.reset(seed=0), venv.step(np.array([1, 2, 0, 0]))
        frames.append(venv.render())
    assert isinstance(frames[0], tuple)
    np.testing.assert_equal(frames[0], frames[1])


@every_mode
def test_a_pickled_copy_continues_identically_in_mid_episode(mode, rng):
    steps = [each for _ in range(5) for each in draw_steps(rng)]
    venv = make_native("BernoulliBandit-v0", mode, observation="counts", max_episode_steps=20)
    venv.reset(seed=0), venv.step(np.zeros(NUM_ENVS, dtype=int))
    twin = pickle.loads(pickle.dumps(venv))
    assert_same(transcript(venv, steps), transcript(twin, steps))


def test_it_is_made_again_from_its_spec_as_json():
    for env_id in ALL_ENV_IDS:
        venv = gym.make_vec(env_id, 3, autoreset_mode="SameStep", max_episode_steps=7)
        again = gym.make_vec(EnvSpec.from_json(venv.spec.to_json()))
        assert (again.spec, again.metadata) == (venv.spec, venv.metadata), env_id
        assert problem_of(again) == problem_of(venv) == problem_of(gym.make(env_id)), env_id
        assert venv.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP


@every_mode
def test_results_and_arguments_share_no_memory_with_it(mode):
    venv = make_native("PoissonBandit-v0", mode, observation="history", max_episode_steps=2)
    said = []
    for write in (False, True):
        results, kept = [venv.reset(seed=0)], []
        for step in range(5):
            actions, mask = np.array([0, 1, 2, 0]), np.ones(NUM_ENVS, dtype=np.bool_)
            if mode is AutoresetMode.DISABLED and step in (2, 4):
                venv.reset(options={"reset_mask": mask})
            results.append(venv.step(actions))
            kept.append(pickle.loads(pickle.dumps(results[-1])))
            assert mask.all() and actions.tolist() == [0, 1, 2, 0]
            if write:
                overwrite((results[-1], mask, actions))
        said.append(kept)
        if not write:
            assert_same(results[1:], kept)
    assert_same(*said)


@every_mode
def test_record_episode_statistics_counts_pulls_also_of_lanes_outside_a_reset_mask(mode):
    venv = RecordEpisodeStatistics(make_native("BernoulliBandit-v0", mode, max_episode_steps=3))
    venv.reset(seed=0)
    for _ in range(3):
        info = venv.step(np.zeros(NUM_ENVS, dtype=int))[4]
    assert info["episode"]["l"].tolist() == [3] * NUM_ENVS
    venv.reset(), venv.step(np.zeros(NUM_ENVS, dtype=int))
    venv.reset(options={"reset_mask": np.array([True, False, True, False])})
    assert venv.episode_lengths.tolist() == [0, 1, 0, 1]


def test_actions_of_lanes_that_restart_are_not_looked_at():
    venv = make_native("BernoulliBandit-v0", max_episode_steps=1)
    venv.reset(seed=0), venv.step(np.zeros(NUM_ENVS, dtype=int))
    assert venv.step(np.full(NUM_ENVS, -1))[1].tolist() == [0.0] * NUM_ENVS


def test_ended_lanes_wait_for_a_reset_when_autoreset_is_disabled():
    venv = make_native("BernoulliBandit-v0", AutoresetMode.DISABLED, max_episode_steps=1)
    venv.reset(seed=0), venv.step(np.zeros(NUM_ENVS, dtype=int))
    venv.reset(options={"reset_mask": np.array([True, False, False, True])})
    with pytest.raises(ResetNeeded, match=r"got ended lanes \[1, 2\]"):
        venv.step(np.zeros(NUM_ENVS, dtype=int))


def test_step_render_and_a_partial_reset_before_the_first_reset_are_refused():
    venv = make_native("BernoulliBandit-v0", render_mode="ansi")
    single = gym.make("BernoulliBandit-v0", render_mode="ansi").unwrapped
    for env, actions in ((venv, [0, 0, 0, 0]), (single, 0)):
        with pytest.raises(ResetNeeded, match="reset must be called before step"):
            env.step(actions)
        with pytest.raises(ResetNeeded, match="reset must be called before render"):
            env.render()
    with pytest.raises(ResetNeeded, match="for all lanes before"):
        venv.reset(options={"reset_mask": np.array([True, False, False, False])})


BAD_ACTIONS = [[0, 1, 2], 0, [0.0, 1.0, 2.0, 0.0], [0, 1, 2, 3], [True, False, True, False], None]
BAD_ACTIONS += [[0, 1, 2, -2], np.array([0, 1, 2, 2**64 - 1], np.uint64), [[0, 1], [2]]]


def test_step_refuses_what_are_not_actions_and_stays_put():
    venv = make_native("BernoulliBandit-v0", observation="counts")
    venv.reset(seed=0)
    twin = pickle.loads(pickle.dumps(venv))
    for actions in BAD_ACTIONS:
        with pytest.raises(InvalidAction, match="actions must"):
            venv.step(actions)
    assert_same(venv.step([0, 1, 2, 0]), twin.step([0, 1, 2, 0]))


BAD_RESETS = [
    ({"seed": [1, 2, 3]}, ValueError, "seed must be .* list of num_envs=4"),
    ({"seed": [1, 2, -3, 4]}, ValueError, "seed must be a non-negative integer, got -3"),
    ({"seed": 2**64 - 3}, ValueError, "seed must be at most 18446744073709551612, got"),
    ({"seed": [0, 1, 2, 2**64]}, ValueError, "seed must be at most 18446744073709551615, got 18"),
    ({"options": {"reset_mask": [True, False]}}, ValueError, "reset_mask.* must have shape"),
    ({"options": {"reset_mask": np.ones(4)}}, TypeError, "reset_mask.* must be an array of bool"),
    ({"options": {"reset_mask": np.zeros(4, bool)}}, ValueError, "must be True in some lane"),
]


def test_reset_refuses_bad_arguments_and_stays_put():
    venv = make_native("BernoulliBandit-v0")
    venv.reset(seed=0)
    twin = pickle.loads(pickle.dumps(venv))
    for arguments, error, message in BAD_RESETS:
        with pytest.raises(error, match=message):
            venv.reset(**arguments)
    assert_same(venv.step([0, 1, 2, 0]), twin.step([0, 1, 2, 0]))
    assert_same(venv.reset(), twin.reset())
