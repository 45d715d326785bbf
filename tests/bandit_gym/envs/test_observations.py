"""What agents see: by hand, bounded, the same in both forms, and nothing of the means."""

from math import inf
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from families import ALL_ENV_IDS
from gymnasium.wrappers import TimeLimit

from bandit_gym.envs import bandit, vector
from bandit_gym.envs.bandit import BanditEnv
from bandit_gym.envs.observations import Observer, PlayRecord, scale_rewards
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem

LEARNING_MODES = ("counts", "history")
every_id = pytest.mark.parametrize("env_id", ALL_ENV_IDS)
every_learning_mode = pytest.mark.parametrize("observation", LEARNING_MODES)


def record_of(plays: list[tuple[int, float]], num_arms: int) -> PlayRecord:
    record = PlayRecord(1, num_arms)
    for action, reward in plays:
        record.add(np.array([action]), np.array([reward]))
    return record


def test_counts_show_pulls_empirical_means_and_time_left() -> None:
    record = record_of([(0, 1.0), (0, 0.0), (2, 1.0)], num_arms=3)
    shown = Observer("counts", (0.0, 1.0), 3).encode(record, horizon=10)
    np.testing.assert_allclose(shown, [[0.2, 0.0, 0.1, 0.5, 0.5, 1.0, 0.7]], rtol=1e-6)


def test_history_shows_last_action_last_reward_and_time_left() -> None:
    record = record_of([(0, 5.0), (2, 3.0)], num_arms=3)
    shown = Observer("history", (0.0, inf), 3).encode(record, horizon=10)
    np.testing.assert_allclose(shown, [[0.0, 0.0, 1.0, 0.75, 0.8]], rtol=1e-6)


@every_learning_mode
def test_observation_stays_in_its_space_beyond_the_horizon(observation: str) -> None:
    observer = Observer(observation, (0.0, 1.0), 2)
    shown = observer.encode(record_of([(1, 1.0)] * 5, num_arms=2), horizon=3)[0]
    assert shown in observer.space
    assert shown[-1] == 0.0


def test_record_copies_what_it_is_given() -> None:
    record, actions, rewards = PlayRecord(1, 2), np.array([1]), np.array([0.5])
    record.add(actions, rewards)
    actions[0], rewards[0] = 0, 9.0
    assert (record.last_actions[0], record.last_rewards[0]) == (1, 0.5)


@every_learning_mode
def test_observation_at_reset_says_that_nothing_was_seen(observation: str) -> None:
    env = gym.make("PoissonBandit-v0", num_arms=2, observation=observation)
    expected = {"counts": [0.0, 0.0, 0.5, 0.5, 1.0], "history": [0.0, 0.0, 0.5, 1.0]}
    assert env.reset(seed=0)[0].tolist() == expected[observation]


@pytest.mark.parametrize("support", [(0.0, 1.0), (0.0, inf), (-inf, inf)])
def test_scaled_rewards_increase_within_the_unit_interval(support: tuple[float, float]) -> None:
    low, high = (max(end, -1e9) if end < 0 else min(end, 1e9) for end in support)
    rewards = np.array([low, 0.1, 0.2, 0.9, high])
    scaled = scale_rewards(rewards, support)
    assert np.all(np.diff(scaled) > 0) and scaled[0] >= 0 and scaled[-1] <= 1


def test_scaled_rewards_are_the_documented_maps() -> None:
    rewards = np.array([0.0, 1.0])
    assert scale_rewards(rewards, (0.0, 1.0)).tolist() == [0.0, 1.0]
    assert scale_rewards(rewards, (0.0, inf)).tolist() == [0.0, 0.5]
    assert scale_rewards(np.array([-1.0, 0.0, 1.0]), (-inf, inf)).tolist() == [0.25, 0.5, 0.75]


def test_forgotten_lanes_start_afresh_and_others_do_not() -> None:
    record = PlayRecord(2, 3)
    record.add(np.array([1, 2]), np.array([4.0, 5.0]))
    record.forget(np.array([True, False]))
    assert record.pulls.tolist() == [[0, 0, 0], [0, 0, 1]]
    assert record.reward_sums.tolist() == [[0, 0, 0], [0, 0, 5.0]]
    assert record.last_actions.tolist() == [-1, 2]
    assert record.elapsed.tolist() == [0, 1]


@every_learning_mode
@every_id
def test_observations_are_bounded_float32_of_the_space(env_id: str, observation: str) -> None:
    env = gym.make(env_id, observation=observation, max_episode_steps=30)
    observations = [env.reset(seed=0)[0], *(env.step(step % 10)[0] for step in range(30))]
    assert env.observation_space.is_bounded()
    assert all(shown in env.observation_space for shown in observations)
    assert observations[0].dtype == np.float32


@every_learning_mode
@pytest.mark.parametrize("limit", [None, 50])
def test_time_left_ends_with_the_time_limit(observation: str, limit: int | None) -> None:
    env = gym.make("BernoulliBandit-v0", observation=observation, max_episode_steps=limit)
    assert env.reset(seed=0)[0][-1] == 1.0
    truncated, num_steps = False, 0
    while not truncated:
        shown, _, _, truncated, _ = env.step(0)
        num_steps += 1
        assert shown[-1] == np.float32(1 - num_steps / (limit or 1000))
    assert shown[-1] == 0.0


def test_time_left_ends_with_the_tightest_of_several_limits() -> None:
    env = TimeLimit(gym.make("BernoulliBandit-v0", observation="counts"), 20)
    env.reset(seed=0)
    assert env.step(0)[0][-1] == np.float32(1 - 1 / 20)


def test_time_left_ignores_the_limit_of_another_env() -> None:
    inner = BanditEnv(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), observation="counts")

    class Outer(gym.Env[Any, Any]):
        observation_space, action_space = inner.observation_space, inner.action_space

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return inner.reset(seed=seed)

    TimeLimit(Outer(), 5).reset(seed=0)
    assert inner.step(0)[0][-1] == np.float32(1 - 1 / 1000)


@pytest.mark.parametrize("form", [bandit, vector], ids=["single", "vector"])
@every_learning_mode
def test_observations_are_the_same_when_means_are_swapped_and_rewards_held(
    observation: str, form: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form, "pull", lambda likelihood, means, actions, noise: 1.0 * (actions > 0))
    make = gym.make if form is bandit else gym.make_vec
    shown = []
    for means in ([0.1, 0.9], [0.9, 0.1]):
        env = make("BernoulliBandit-v0", num_arms=2, means=means, observation=observation)
        shown.append([env.reset(seed=0)[0].tolist()])
        for action in (0, 1, 1, 0):
            batch = action if form is bandit else np.array([action])
            shown[-1].append(env.step(batch)[0].tolist())
    assert shown[0] == shown[1]


@every_id
def test_constant_observation_is_always_zero(env_id: str) -> None:
    env = gym.make(env_id)
    assert [env.reset(seed=0)[0], env.step(0)[0], env.step(1)[0]] == [0, 0, 0]
