"""The native vector environments equal `SyncVectorEnv` of the single ones, bit for bit."""

import pickle
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from families import ALL_ENV_IDS
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers.vector import (
    ClipReward,
    DictInfoToList,
    NormalizeReward,
    RecordEpisodeStatistics,
)

from bandit_gym.envs import vector as noise
from bandit_gym.envs.observations import OBSERVATIONS
from bandit_gym.envs.vector import LaneNoise
from bandit_gym.numerics import streams
from bandit_gym.numerics.streams import NOISE, LaneStreams

NUM_ENVS, NUM_ARMS = 4, 3
MODES = tuple(AutoresetMode)

every_id = pytest.mark.parametrize("env_id", ALL_ENV_IDS)
every_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)


def make_native(env_id: str, mode: AutoresetMode = AutoresetMode.NEXT_STEP, **options: Any) -> Any:
    return gym.make_vec(env_id, NUM_ENVS, num_arms=NUM_ARMS, autoreset_mode=mode, **options)


def make_sync(env_id: str, mode: AutoresetMode = AutoresetMode.NEXT_STEP, **options: Any) -> Any:
    return gym.make_vec(
        env_id,
        NUM_ENVS,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        num_arms=NUM_ARMS,
        **options,
    )


def assert_same(left: Any, right: Any) -> None:
    """Compare nested tuples, dicts and arrays: types, dtypes, shapes and every bit."""
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        left, right = list(left.values()), [right[key] for key in left]
    if isinstance(left, np.ndarray):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        if left.dtype != object:
            assert left.tobytes() == right.tobytes()
            return
    if isinstance(left, list | tuple | np.ndarray):
        assert len(left) == len(right)
        for pair in zip(left, right, strict=True):
            assert_same(*pair)
    else:
        assert left == right


def overwrite(result: Any) -> None:
    """Fill every array of a nested result with zeros."""
    if isinstance(result, np.ndarray) and result.dtype != object:
        result.fill(0)
    elif isinstance(result, dict | tuple):
        for part in result.values() if isinstance(result, dict) else result:
            overwrite(part)


def ragged_transcript(venv: VectorEnv, num_steps: int) -> list[Any]:
    """Play random arms; reset random lanes now and then, and ended ones where nobody else does."""
    rng = np.random.default_rng(0)
    said = [venv.reset(seed=11)]
    for _ in range(num_steps):
        result = venv.step(rng.integers(NUM_ARMS, size=NUM_ENVS))
        said.append(result)
        mask = rng.random(NUM_ENVS) < 0.1
        if venv.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            mask |= result[2] | result[3]
        if mask.any():
            seeds = [int(s) if s < 5 else None for s in rng.integers(10, size=NUM_ENVS)]
            said.append(venv.reset(seed=seeds, options={"reset_mask": mask}))
    return [*said, venv.reset(), venv.step(rng.integers(NUM_ARMS, size=NUM_ENVS))]


@every_mode
@pytest.mark.parametrize("observation", OBSERVATIONS)
@every_id
def test_native_env_equals_sync_when_episodes_are_ragged(
    env_id: str, observation: str, mode: AutoresetMode
) -> None:
    options = {"observation": observation, "horizon": 5, "max_episode_steps": 5}
    native = ragged_transcript(make_native(env_id, mode, **options), 40)
    assert_same(native, ragged_transcript(make_sync(env_id, mode, **options), 40))


@every_mode
def test_native_env_equals_sync_when_every_lane_ends_at_once(mode: AutoresetMode) -> None:
    said = []
    for make in (make_native, make_sync):
        venv = make("BernoulliBandit-v0", mode, max_episode_steps=3)
        said.append([venv.reset(seed=0)])
        for step in range(8):
            if mode is AutoresetMode.DISABLED and step in (3, 6):
                said[-1].append(venv.reset(options={"reset_mask": np.ones(NUM_ENVS, bool)}))
            said[-1].append(venv.step(np.full(NUM_ENVS, step % NUM_ARMS)))
    assert_same(*said)


@every_mode
def test_native_env_equals_sync_when_episodes_last_one_step(mode: AutoresetMode) -> None:
    options = {"max_episode_steps": 1, "observation": "history", "horizon": 1}
    native = ragged_transcript(make_native("PoissonBandit-v0", mode, **options), 10)
    assert_same(native, ragged_transcript(make_sync("PoissonBandit-v0", mode, **options), 10))


@every_id
def test_native_env_equals_sync_beyond_a_block_of_noise(
    env_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise, "_MOST_ROWS", 16)
    native, sync = make_native(env_id), make_sync(env_id)
    assert_same(native.reset(seed=3), sync.reset(seed=3))
    actions = np.random.default_rng(0).integers(NUM_ARMS, size=(100, NUM_ENVS))
    for row in actions:
        assert_same(native.step(row), sync.step(row))


@every_id
def test_native_env_equals_sync_when_its_numbers_come_from_the_compiled_loop(
    env_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"observation": "history", "horizon": 5, "max_episode_steps": 5}
    sync = ragged_transcript(make_sync(env_id, **options), 40)
    for num_reads in (0, 50):  # from the start, and from the middle
        monkeypatch.setattr(streams, "WORTH_COMPILING", num_reads)
        assert_same(ragged_transcript(make_native(env_id, **options), 40), sync)


def test_unseeded_lanes_begin_with_fresh_seeds_that_repeat_them() -> None:
    venv = make_native("BernoulliBandit-v0")
    first = venv.reset()[1]["means"]
    assert len(np.unique(first)) == first.size
    assert_same(venv.reset(seed=list(venv.np_random_seed))[1]["means"], first)


def test_largest_seeds_that_fit_are_those_of_the_single_env() -> None:
    native, sync = make_native("BernoulliBandit-v0"), make_sync("BernoulliBandit-v0")
    assert_same(native.reset(seed=2**64 - NUM_ENVS), sync.reset(seed=2**64 - NUM_ENVS))


@pytest.mark.parametrize("limit", [None, 0, -1])
def test_native_env_without_a_limit_equals_sync(limit: int | None) -> None:
    options = {"observation": "counts", "horizon": 1000}
    native = make_native("GaussianBandit-v0", max_episode_steps=limit, **options)
    sync = make_sync("GaussianBandit-v0", max_episode_steps=-1, **options)
    assert_same(native.reset(seed=3), sync.reset(seed=3))
    for _ in range(1010):
        ours, theirs = native.step([0, 1, 2, 0]), sync.step(np.array([0, 1, 2, 0]))
    assert_same(ours, theirs)


def test_native_env_equals_async() -> None:
    native = make_native("BernoulliBandit-v0", observation="counts", max_episode_steps=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # workers fork while this process may have threads
        async_env = gym.make_vec(
            "bandit_gym:BernoulliBandit-v0",
            NUM_ENVS,
            vectorization_mode="async",
            num_arms=NUM_ARMS,
            observation="counts",
            horizon=4,
            max_episode_steps=4,
        )
    try:
        assert_same(native.reset(seed=3), async_env.reset(seed=3))
        for step in range(6):
            actions = np.full(NUM_ENVS, step % NUM_ARMS)
            assert_same(native.step(actions), async_env.step(actions))
    finally:
        async_env.close()


def test_native_env_equals_sync_with_fixed_means() -> None:
    native, sync = (
        make("ExponentialBandit-v0", means=[1.0, 2.0, 0.5]) for make in (make_native, make_sync)
    )
    assert_same(native.reset(seed=1), sync.reset(seed=1))
    assert_same(native.step([0, 1, 2, 0]), sync.step(np.array([0, 1, 2, 0])))


@every_id
def test_native_env_has_the_attributes_of_sync(env_id: str) -> None:
    native, sync = (
        make_native(env_id, observation="counts"),
        make_sync(env_id, observation="counts", horizon=1000),
    )
    for name in ("single_observation_space", "single_action_space", "metadata", "num_envs"):
        assert getattr(native, name) == getattr(sync, name)
    for name in ("observation_space", "action_space"):
        assert getattr(native, name) == getattr(sync, name)
    assert native.problem == sync.envs[0].unwrapped.problem


def test_np_random_is_the_tuple_of_the_lanes_generators() -> None:
    native, sync = make_native("BernoulliBandit-v0"), make_sync("BernoulliBandit-v0")
    native.reset(seed=4), sync.reset(seed=4)
    assert native.np_random_seed == sync.np_random_seed == (4, 5, 6, 7)
    assert [g.random() for g in native.np_random] == [g.random() for g in sync.np_random]


@every_mode
def test_pickled_vector_env_continues_identically_in_mid_episode(mode: AutoresetMode) -> None:
    venv = make_native("BernoulliBandit-v0", mode, observation="counts", max_episode_steps=20)
    venv.reset(seed=0)
    venv.step(np.zeros(NUM_ENVS, dtype=int))
    twin = pickle.loads(pickle.dumps(venv))
    assert_same(ragged_transcript(venv, 30), ragged_transcript(twin, 30))


def test_results_do_not_share_memory_with_later_steps() -> None:
    venv = make_native("BernoulliBandit-v0", observation="counts")
    first = venv.reset(seed=0)
    results = [venv.step(np.array([0, 1, 2, 0])) for _ in range(2)]
    kept = pickle.dumps((first, results))
    venv.step(np.array([1, 1, 1, 1])), venv.reset()
    assert_same(pickle.loads(kept), (first, results))


@every_mode
def test_results_written_to_by_a_caller_do_not_reach_into_the_env(mode: AutoresetMode) -> None:
    venv = make_native("PoissonBandit-v0", mode, observation="history", max_episode_steps=2)
    said = []
    for write in (False, True):
        said.append([venv.reset(seed=0)])
        for step in range(5):
            if mode is AutoresetMode.DISABLED and step in (2, 4):
                venv.reset(options={"reset_mask": np.ones(NUM_ENVS, dtype=np.bool_)})
            result = venv.step([0, 1, 2, 0])
            said[-1].append(pickle.loads(pickle.dumps(result)))
            if write:
                overwrite(result)
    assert_same(*said)


def test_actions_of_a_caller_do_not_reach_into_the_env() -> None:
    venv = make_native("BernoulliBandit-v0", observation="history")
    venv.reset(seed=0)
    actions = np.array([0, 1, 2, 0])
    observation = venv.step(actions)[0]
    actions[:] = 1
    mask = np.array([True, False, False, False])
    after, _ = venv.reset(options={"reset_mask": mask})
    assert np.array_equal(after[~mask], observation[~mask])


def test_reset_mask_is_read_and_left_in_the_options() -> None:
    venv = make_native("BernoulliBandit-v0")
    venv.reset(seed=0)
    options = {"reset_mask": np.array([True, False, False, True])}
    venv.reset(options=options)
    assert options["reset_mask"].tolist() == [True, False, False, True]


@every_mode
def test_record_episode_statistics_counts_pulls(mode: AutoresetMode) -> None:
    venv = RecordEpisodeStatistics(make_native("BernoulliBandit-v0", mode, max_episode_steps=3))
    venv.reset(seed=0)
    for _ in range(3):
        info = venv.step(np.zeros(NUM_ENVS, dtype=int))[4]
    assert info["episode"]["l"].tolist() == [3] * NUM_ENVS


def test_record_episode_statistics_keeps_lanes_outside_a_reset_mask() -> None:
    venv = RecordEpisodeStatistics(make_native("BernoulliBandit-v0"))
    venv.reset(seed=0)
    venv.step(np.zeros(NUM_ENVS, dtype=int))
    venv.reset(options={"reset_mask": np.array([True, False, True, False])})
    assert venv.episode_lengths.tolist() == [0, 1, 0, 1]


def test_wrappers_of_gymnasium_run() -> None:
    venv = make_native("GaussianBandit-v0", max_episode_steps=3)
    wrapped = DictInfoToList(ClipReward(NormalizeReward(venv), -1.0, 1.0))
    wrapped.reset(seed=0)
    for _ in range(5):
        infos = wrapped.step(np.zeros(NUM_ENVS, dtype=int))[4]
    assert [set(info) for info in infos] == [{"regret"}] * NUM_ENVS


def test_close_marks_the_env_as_closed() -> None:
    venv = make_native("BernoulliBandit-v0")
    venv.close()
    assert venv.closed


def test_autoreset_mode_may_be_given_by_its_value() -> None:
    venv = gym.make_vec("BernoulliBandit-v0", 2, autoreset_mode="SameStep")
    assert venv.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP


def test_make_vec_builds_without_a_warning_and_swallows_the_checker_switch() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        venv = gym.make_vec("BernoulliBandit-v0", 2, disable_env_checker=True)
    assert venv.num_envs == 2


def test_actions_of_lanes_that_restart_are_not_looked_at() -> None:
    venv = make_native("BernoulliBandit-v0", max_episode_steps=1)
    venv.reset(seed=0)
    venv.step(np.zeros(NUM_ENVS, dtype=int))
    rewards = venv.step(np.full(NUM_ENVS, -1))[1]
    assert rewards.tolist() == [0.0] * NUM_ENVS


def test_step_of_an_ended_lane_is_refused_when_autoreset_is_disabled() -> None:
    venv = make_native("BernoulliBandit-v0", AutoresetMode.DISABLED, max_episode_steps=1)
    venv.reset(seed=0)
    venv.step(np.zeros(NUM_ENVS, dtype=int))
    venv.reset(options={"reset_mask": np.array([True, False, False, True])})
    with pytest.raises(ResetNeeded, match=r"got ended lanes \[1, 2\]"):
        venv.step(np.zeros(NUM_ENVS, dtype=int))


BAD_ACTIONS = [
    [0, 1, 2],
    [[0, 1, 2, 0]],
    0,
    [0.0, 1.0, 2.0, 0.0],
    [0, 1, 2, 3],
    [0, 1, 2, -1],
    [True, False, True, False],
    None,
]


@pytest.mark.parametrize("actions", BAD_ACTIONS)
def test_step_refuses_what_are_not_actions_and_stays_put(actions: Any) -> None:
    venv = make_native("BernoulliBandit-v0", observation="counts")
    venv.reset(seed=0)
    twin = pickle.loads(pickle.dumps(venv))
    with pytest.raises(InvalidAction, match="actions must"):
        venv.step(actions)
    assert_same(venv.step([0, 1, 2, 0]), twin.step([0, 1, 2, 0]))


BAD_RESETS = [
    ({"seed": [1, 2, 3]}, ValueError, "seed must be .* list of num_envs=4"),
    ({"seed": 1.5}, TypeError, "seed must be a non-negative integer or None, got 1.5"),
    ({"seed": [1, 2, -3, 4]}, ValueError, "seed must be a non-negative integer or None, got -3"),
    ({"seed": [1, 2, 0.5, 4]}, TypeError, "seed must be .* or None, got 0.5"),
    (
        {"seed": 2**64 - 3},
        ValueError,
        r"seed must be at most 2\*\*64 - 4, so that the seed of every",
    ),
    ({"seed": [0, 1, 2, 2**64]}, ValueError, r"seed must be at most 2\*\*64 - 1, .* got 184467"),
    ({"options": {"reset_mask": [True, False]}}, ValueError, "reset_mask.* must have shape"),
    ({"options": {"reset_mask": np.ones(4)}}, TypeError, "reset_mask.* must be an array of bool"),
    ({"options": {"reset_mask": np.zeros(4, bool)}}, ValueError, "must be True in some lane"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD_RESETS)
def test_reset_refuses_bad_arguments_and_stays_put(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    venv = make_native("BernoulliBandit-v0")
    venv.reset(seed=0)
    twin = pickle.loads(pickle.dumps(venv))
    with pytest.raises(error, match=message):
        venv.reset(**arguments)
    assert_same(venv.step([0, 1, 2, 0]), twin.step([0, 1, 2, 0]))
    assert_same(venv.reset(), twin.reset())


def test_step_before_reset_is_refused() -> None:
    with pytest.raises(ResetNeeded, match="reset must be called before step"):
        make_native("BernoulliBandit-v0").step([0, 0, 0, 0])


def test_partial_reset_before_the_first_reset_is_refused() -> None:
    mask = np.array([True, False, False, False])
    with pytest.raises(ResetNeeded, match="for all lanes before"):
        make_native("BernoulliBandit-v0").reset(options={"reset_mask": mask})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_envs": 0}, ValueError, "num_envs must be a positive integer, got 0"),
        ({"num_arms": 1}, ValueError, "num_arms must be an integer of at least 2"),
        ({"means": [0.5, 2.0], "num_arms": 2}, ValueError, "means must be possible"),
        ({"max_episode_steps": 2.5}, TypeError, "max_episode_steps must be an integer"),
        ({"autoreset_mode": "Never"}, ValueError, "autoreset_mode must be one of"),
        ({"observation": "full"}, ValueError, "observation must be one of"),
        ({"render_mode": "humen"}, ValueError, "render_mode must be one of"),
        ({"horizon": 0}, ValueError, "horizon must be a positive integer, got 0"),
        (
            {"observation": "counts", "max_episode_steps": -1},
            ValueError,
            "horizon must be given where observation is 'counts', got None",
        ),
        ({"limit": 5}, ValueError, "got 'limit'"),
    ],
)
def test_vector_env_refuses_bad_arguments(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        gym.make_vec("BernoulliBandit-v0", **options)


def make_noise(seeds: list[int], max_rows: int | None) -> LaneNoise:
    streams, lanes = LaneStreams(len(seeds)), np.arange(len(seeds))
    streams.seed(lanes, seeds)
    streams.advance(lanes)
    lane_noise = LaneNoise(streams, max_rows)
    lane_noise.restart(lanes)
    return lane_noise


def noise_of(seed: int, episode: int, count: int) -> list[float]:
    rng = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, episode, NOISE]))
    return rng.random(count).tolist()


def test_lane_noise_hands_each_lane_its_own_stream_in_order() -> None:
    lane_noise = make_noise([0, 1, 2], max_rows=4)
    taken = np.array([lane_noise.take().copy() for _ in range(10)])
    assert taken.T.tolist() == [noise_of(seed, 0, 10) for seed in range(3)]


@pytest.mark.parametrize("num_before", [3, 4, 6])
def test_lane_noise_restarts_one_lane_and_leaves_the_others(num_before: int) -> None:
    lane_noise = make_noise([5, 6], max_rows=4)
    before = [lane_noise.take().copy() for _ in range(num_before)]
    lane_noise._streams.advance(np.array([1]))
    lane_noise.restart(np.array([1]))
    after = [lane_noise.take().copy() for _ in range(9)]
    assert [row[0] for row in before + after] == noise_of(5, 0, num_before + 9)
    assert [row[1] for row in after] == noise_of(6, 1, 9)


def test_lane_noise_keeps_its_memory_bounded() -> None:
    assert LaneNoise(LaneStreams(100_000), max_rows=None)._uniforms.nbytes <= 8 * 2**20
