"""Rewards that arrive late: when, for which pull, and what agents can know until then."""

import numpy as np
from wrapped_envs import make_env

NAMES = ("feedback_step", "feedback_action", "feedback_reward")


def arrivals(name, options, num_steps=12, num_arms=4):
    """Play arms in turn; return (step of arrival, of pull, arm, reward) and the true rewards."""
    env, plain = make_env(name, options, limit=50), make_env("Drift", {"period": 99}, limit=50)
    env.reset(seed=1)
    plain.reset(seed=1)
    found, truth = [], []
    for now in range(num_steps):
        truth.append(plain.step(now % num_arms)[1])
        _, reward, _, _, info = env.step(now % num_arms)
        told = [each for each in zip(*(info[n].tolist() for n in NAMES), strict=True)]
        told = [each for each in told if each[0] >= 0]
        assert reward == sum(each[2] for each in told) and info["pull_reward"] == truth[-1]
        found += [(now, *each) for each in told]
    return found, truth


def test_fixed_delay_brings_each_reward_that_many_steps_later_and_batches_all_at_their_last_step():
    found, truth = arrivals("DelayedReward", {"delay": 3})
    assert found == [(t + 3, t, t % 4, truth[t]) for t in range(9)]
    found, truth = arrivals("BatchedFeedback", {"size": 5})
    assert found == [(t // 5 * 5 + 4, t, t % 4, truth[t]) for t in range(10)]


def test_random_delays_bring_each_reward_once_for_its_own_pull_whatever_is_pulled():
    law = {"name": "uniform", "low": 1, "high": 6}
    found, truth = arrivals("DelayedReward", {"delay": law}, num_steps=40)
    assert sorted(each[1] for each in found)[:34] == [*range(34)]
    assert all((arm, paid) == (t % 4, truth[t]) for _, t, arm, paid in found)
    assert {now - t for now, t, _, _ in found} == {1, 2, 3, 4, 5, 6}
    others, _ = arrivals("DelayedReward", {"delay": law}, num_steps=40, num_arms=1)
    assert [each[:2] for each in others] == [each[:2] for each in found]


def test_random_delays_have_their_mean():
    """Those of 20 steps in 500 lanes, to four standard errors: sqrt((13^2 - 1) / 12 / n)."""
    law = {"name": "uniform", "low": 2, "high": 14}
    env = make_env("DelayedReward", {"delay": law}, limit=None, num_envs=500)
    env.reset(seed=0)
    told = [env.step(np.zeros(500, dtype=int))[4]["feedback_step"] for _ in range(60)]
    pulls = np.array(told)  # (steps, N, places)
    now = np.arange(60)[:, None, None]
    drawn = (now - pulls)[(pulls >= 0) & (pulls < 20)]
    assert (drawn.size, drawn.min(), drawn.max()) == (10_000, 2, 14)
    assert abs(drawn.mean() - 8) < 4 * (14 / 10_000) ** 0.5


def test_what_is_on_its_way_is_lost_with_the_episode():
    env = make_env("DelayedReward", {"delay": 3}, limit=4)
    for _ in range(2):
        env.reset(seed=1)
        steps = [env.step(0)[4]["feedback_step"].tolist() for _ in range(4)]
        assert steps == [[-1], [-1], [-1], [0]]
