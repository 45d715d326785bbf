"""Arms that come and go: how often, at what regret, and what pulling another one does."""

import numpy as np
import pytest
from gymnasium.error import InvalidAction
from surface import agent_for, regret_of
from worlds import make_world

from bandit_gym.rollout import rollout

MEANS = [0.1, 0.5, 0.9, 0.3]
MASKS = [[1, 1, 0, 1], [0, 1, 1, 0]]


def test_regret_is_to_the_best_arm_that_is_there():
    env = make_world("AvailableArms", {"masks": MASKS}, means=MEANS)
    env.reset(seed=0)
    found = [env.step(arm)[4]["regret"] for arm in (0, 1, 1, 2, 3)]
    assert np.allclose(found, [0.4, 0.4, 0.0, 0.0, 0.2], rtol=0, atol=1e-15)


def test_uniform_play_loses_what_the_masks_say():
    """At even steps (0.4 + 0 + 0.2) / 3 on average, with E gap^2 = 0.2 / 3; at odd ones 0.2."""
    env = make_world("AvailableArms", {"masks": MASKS}, means=MEANS, limit=2, num_envs=5000)
    regret = regret_of(rollout(agent_for(env, "random"), env, seed=0))
    bounds = 4 * np.sqrt(np.array([0.2 / 3 - 0.2**2, 0.16 / 2 - 0.2**2]) / 5000)
    assert (np.abs(regret.mean(axis=0) - 0.2) < bounds).all()


def test_thompson_among_sleeping_arms_learns_which_is_best_of_those_there():
    """Its regret of late pulls is below that of early ones by more than four standard errors."""
    env = make_world("AvailableArms", {"masks": MASKS}, limit=300, num_envs=200)
    regret = regret_of(rollout(agent_for(env, "exact"), env, seed=0))
    assert (regret >= 0).all()
    fall = regret[:, :30].mean(axis=1) - regret[:, -30:].mean(axis=1)
    assert fall.mean() > 4 * fall.std() / 200**0.5


def test_arms_leave_and_return_as_often_as_they_are_to():
    """In the long run 0.2 / (0.2 + 0.1) of them are there; of 8 arms hardly ever all leave."""
    env = make_world("AvailableArms", {"leaving": 0.1, "returning": 0.2}, limit=400, num_envs=200)
    _, info = env.reset(seed=0)
    assert info["action_mask"].all()
    masks = []
    for _ in range(300):
        masks.append(info["action_mask"].astype(bool))
        info = env.step(masks[-1].argmax(axis=1))[4]
    before, after = np.array(masks[:-1]), np.array(masks[1:])
    is_sole = before.sum(axis=2, keepdims=True) == 1
    returned, left = after[~before], ~after[before & ~is_sole]
    assert abs(returned.mean() - 0.2) < 4 * (0.16 / returned.size) ** 0.5
    assert -0.01 < left.mean() - 0.1 < 4 * (0.09 / left.size) ** 0.5  # the last one stays
    assert after.any(axis=2).all()


def test_unavailable_arm_is_refused_and_changes_nothing():
    plain, tried = (make_world("AvailableArms", {"masks": MASKS}) for _ in range(2))
    plain.reset(seed=0)
    tried.reset(seed=0)
    with pytest.raises(
        InvalidAction, match=r"^action must be an available arm, one of .0, 1, 3., "
    ):
        tried.step(2)
    assert all(plain.step(1)[1] == tried.step(1)[1] for _ in range(6))


def test_lanes_that_wait_for_a_reset_may_pull_anything():
    env = make_world("AvailableArms", {"masks": [[1, 0, 0, 0]]}, limit=2, num_envs=2)
    env.reset(seed=0)
    env.step([0, 0]), env.step([0, 0])
    env.step([3, 3])  # resets, whatever it holds
    with pytest.raises(InvalidAction, match=r"one of \[0\], got 3 in lane 1\.$"):
        env.step([0, 3])


def test_random_actions_are_available_ones():
    env = make_world("AvailableArms", {"leaving": 0.8, "returning": 0.1}, limit=200)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(100):
        assert env.action_masks()[action := env.action_space.sample()]
        env.step(action)
    assert env.action_space.sample(mask=np.array([0, 0, 1, 0], dtype=np.int8)) == 2
