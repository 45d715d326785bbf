"""What agents see: by hand, bounded, the same in both forms, and nothing of the means."""

import re
from functools import partial
from math import inf
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from families import ALL_ENV_IDS
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from bandit_gym.envs import bandit, vector
from bandit_gym.envs.observations import OBSERVATIONS, Observer, PlayRecord
from bandit_gym.envs.plays import scale_reward

LEARNING_MODES = ("counts", "history")
every_id = pytest.mark.parametrize("env_id", ALL_ENV_IDS)
every_learning_mode = pytest.mark.parametrize("observation", LEARNING_MODES)


def observe(observer: Observer, plays: list[tuple[int, float]]) -> np.ndarray:
    """Return what is shown after these plays in a single lane."""
    record = PlayRecord(1, observer.num_arms, observer)
    for action, reward in plays:
        record.add(np.array([action]), np.array([reward]))
    return record.observe()


def test_counts_show_pulls_empirical_means_and_time_left() -> None:
    observer = Observer("counts", (0.0, 1.0), 3, horizon=10)
    shown = observe(observer, [(0, 1.0), (0, 0.0), (2, 1.0)])
    np.testing.assert_allclose(shown, [[0.2, 0.0, 0.1, 0.5, 0.5, 1.0, 0.7]], rtol=1e-6)


def test_history_shows_last_action_last_reward_and_time_left() -> None:
    shown = observe(Observer("history", (0.0, inf), 3, horizon=10), [(0, 5.0), (2, 3.0)])
    np.testing.assert_allclose(shown, [[0.0, 0.0, 1.0, 0.75, 0.8]], rtol=1e-6)


@every_learning_mode
def test_observation_stays_in_its_space_beyond_the_horizon(observation: str) -> None:
    observer = Observer(observation, (0.0, 1.0), 2, horizon=3)
    shown = observe(observer, [(1, 1.0)] * 5)[0]
    assert shown in observer.space
    assert shown[-1] == 0.0


@every_learning_mode
def test_observation_at_reset_says_that_nothing_was_seen(observation: str) -> None:
    env = gym.make("PoissonBandit-v0", num_arms=2, observation=observation, horizon=9)
    expected = {"counts": [0.0, 0.0, 0.5, 0.5, 1.0], "history": [0.0, 0.0, 0.5, 1.0]}
    assert env.reset(seed=0)[0].tolist() == expected[observation]


def scaled(rewards: list[float], support: tuple[float, float]) -> list[float]:
    rule = Observer("history", support, 2, horizon=1).rule
    return [scale_reward(reward, rule) for reward in rewards]


@pytest.mark.parametrize("support", [(0.0, 1.0), (0.0, inf), (-inf, inf)])
def test_scaled_rewards_increase_within_the_unit_interval(support: tuple[float, float]) -> None:
    low, high = (max(end, -1e9) if end < 0 else min(end, 1e9) for end in support)
    values = scaled([low, 0.1, 0.2, 0.9, high], support)
    assert np.all(np.diff(values) > 0) and values[0] >= 0 and values[-1] <= 1


def test_scaled_rewards_are_the_documented_maps() -> None:
    assert scaled([0.0, 1.0], (0.0, 1.0)) == [0.0, 1.0]
    assert scaled([0.0, 1.0], (0.0, inf)) == [0.0, 0.5]
    assert scaled([-1.0, 0.0, 1.0], (-inf, inf)) == [0.25, 0.5, 0.75]


@pytest.mark.parametrize("mode", OBSERVATIONS)
def test_forgotten_lanes_start_afresh_and_others_do_not(mode: str) -> None:
    record = PlayRecord(2, 3, Observer(mode, (0.0, inf), 3, horizon=9))
    fresh = record.observe()
    record.add(np.array([1, 2]), np.array([4.0, 5.0]))
    before = record.observe()
    record.forget(np.array([True, False]))
    assert record.plays.pulls.tolist() == [[0, 0, 0], [0, 0, 1]]
    assert record.plays.reward_sums.tolist() == [[0, 0, 0], [0, 0, 5.0]]
    assert record.plays.lengths.tolist() == [0, 1]
    assert record.plays.last_actions.tolist() == [-1, 2]
    assert np.array_equal(record.observe(), [fresh[0], before[1]])


@pytest.mark.parametrize("mode", LEARNING_MODES)
def test_observations_are_those_of_the_whole_record(mode: str) -> None:
    """What changes little by little is in the end what all pulls together make it."""
    rng, plays = np.random.default_rng(0), []
    record = PlayRecord(2, 4, Observer(mode, (-inf, inf), 4, horizon=30))
    for _ in range(20):
        plays.append((rng.integers(4, size=2), rng.normal(size=2)))
        record.add(*plays[-1])
    for lane in range(2):
        actions = np.array([play[0][lane] for play in plays])
        rewards = np.array([play[1][lane] for play in plays])
        counts = np.bincount(actions, minlength=4)
        means = np.bincount(actions, rewards, minlength=4) / counts
        seen = {
            "counts": ([*(counts / 30)], means),
            "history": ([*(np.arange(4) == actions[-1])], rewards[-1:]),
        }
        shares, x = seen[mode]
        expected = [*shares, *0.5 * (1 + x / (1 + np.abs(x))), 1 - 20 / 30]
        np.testing.assert_allclose(record.observe()[lane], expected, rtol=1e-6)


@every_learning_mode
@every_id
def test_observations_are_bounded_float32_of_the_space(env_id: str, observation: str) -> None:
    env = gym.make(env_id, observation=observation, horizon=30, max_episode_steps=30)
    observations = [env.reset(seed=0)[0], *(env.step(step % 10)[0] for step in range(30))]
    assert env.observation_space.is_bounded()
    assert all(shown in env.observation_space for shown in observations)
    assert observations[0].dtype == np.float32


@every_learning_mode
@pytest.mark.parametrize("limit", [None, 50])
def test_time_left_ends_with_the_time_limit(observation: str, limit: int | None) -> None:
    options = {"observation": observation, "horizon": limit or 1000, "max_episode_steps": limit}
    env = gym.make("BernoulliBandit-v0", **options)
    assert env.reset(seed=0)[0][-1] == 1.0
    truncated, num_steps = False, 0
    while not truncated:
        shown, _, _, truncated, _ = env.step(0)
        num_steps += 1
        assert shown[-1] == np.float32(1 - num_steps / (limit or 1000))
    assert shown[-1] == 0.0


@every_learning_mode
def test_time_left_is_that_of_the_horizon_and_not_of_wrappers(observation: str) -> None:
    env = gym.make("BernoulliBandit-v0", observation=observation, horizon=20, max_episode_steps=7)
    env = TimeLimit(env, 5)
    env.reset(seed=0)
    assert env.step(0)[0][-1] == np.float32(1 - 1 / 20)


@every_learning_mode
@pytest.mark.parametrize("limit", [None, 20])
def test_single_env_that_is_not_told_the_horizon_is_refused(
    observation: str, limit: int | None
) -> None:
    text = (
        f"horizon must be given where observation is '{observation}', got None; it is the time "
        "limit, 1000 unless max_episode_steps is another."
    )
    with pytest.raises(ValueError, match=re.escape(text)):
        gym.make("BernoulliBandit-v0", observation=observation, max_episode_steps=limit)


@every_learning_mode
@pytest.mark.parametrize("limit", [{}, {"max_episode_steps": 20}])
def test_vector_env_has_its_time_limit_as_horizon_unless_told_another(
    observation: str, limit: dict[str, int]
) -> None:
    make = partial(gym.make_vec, "BernoulliBandit-v0", 2, observation=observation, **limit)
    horizon, shown = limit.get("max_episode_steps", 1000), []
    for venv in (make(), make(horizon=horizon), make(horizon=7)):
        venv.reset(seed=0)
        shown.append(venv.step(np.zeros(2, int))[0])
    np.testing.assert_array_equal(shown[0], shown[1])
    assert (shown[0][:, -1] == np.float32(1 - 1 / horizon)).all()
    assert (shown[2][:, -1] == np.float32(1 - 1 / 7)).all()


WAYS = {
    "make": lambda **options: gym.make("BernoulliBandit-v0", **options),
    "module": lambda **options: gym.make("bandit_gym:BernoulliBandit-v0", **options),
    "sync": lambda **options: gym.make_vec(
        "BernoulliBandit-v0", 1, vectorization_mode="sync", **options
    ),
    "SyncVectorEnv": lambda **options: SyncVectorEnv(
        [lambda: gym.make("BernoulliBandit-v0", **options)]
    ),
    "from its spec": lambda **options: gym.make(gym.make("BernoulliBandit-v0", **options).spec),
}


@every_learning_mode
@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
def test_env_made_any_way_shows_what_the_native_one_shows(observation: str, make: Any) -> None:
    options = {"observation": observation, "max_episode_steps": 20}
    native = gym.make_vec("BernoulliBandit-v0", 1, **options)
    env = make(horizon=20, **options)
    np.testing.assert_array_equal(
        np.reshape(env.reset(seed=1)[0], (1, -1)), native.reset(seed=1)[0]
    )
    for _ in range(5):
        action = np.zeros(1, int) if isinstance(env, gym.vector.VectorEnv) else 0
        shown = np.reshape(env.step(action)[0], (1, -1))
        np.testing.assert_array_equal(shown, native.step(np.zeros(1, int))[0])


@pytest.mark.parametrize("form", [bandit, vector], ids=["single", "vector"])
@every_learning_mode
def test_observations_are_the_same_when_means_are_swapped_and_rewards_held(
    observation: str, form: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form, "pull", lambda likelihood, means, actions, noise: 1.0 * (actions > 0))
    make = gym.make if form is bandit else gym.make_vec
    shown = []
    for means in ([0.1, 0.9], [0.9, 0.1]):
        options = {"num_arms": 2, "observation": observation, "horizon": 1000}
        env = make("BernoulliBandit-v0", means=means, **options)
        shown.append([env.reset(seed=0)[0].tolist()])
        for action in (0, 1, 1, 0):
            batch = action if form is bandit else np.array([action])
            shown[-1].append(env.step(batch)[0].tolist())
    assert shown[0] == shown[1]


@every_id
def test_constant_observation_is_always_zero(env_id: str) -> None:
    env = gym.make(env_id)
    assert [env.reset(seed=0)[0], env.step(0)[0], env.step(1)[0]] == [0, 0, 0]
