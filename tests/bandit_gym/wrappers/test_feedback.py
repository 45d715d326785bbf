"""Letting agents observe rewards that have arrived late."""

import gymnasium as gym
import numpy as np
import pytest
from wrapped_envs import make_env

from agents import ExactThompson
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem
from bandit_gym.wrappers import deliver


def new_agent(num_envs):
    agent = ExactThompson(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4))
    agent.reset(num_envs, seed=0)
    return agent


@pytest.mark.parametrize(("num_envs", "mode"), [(None, None), (2, "NextStep"), (2, "SameStep")])
def test_agents_know_what_has_arrived_and_nothing_else(num_envs, mode):
    """With a delay of 3, arms pulled in turn are known up to 3 steps ago; all lanes end at 7."""
    more = {} if mode is None else {"num_envs": num_envs, "autoreset_mode": mode}
    env, agent = make_env("DelayedReward", {"delay": 3}, **more), new_agent(num_envs)
    env.reset(seed=0)
    for step in range(7):
        arms = step % 4 if num_envs is None else np.full(num_envs, step % 4)
        deliver(agent, env.step(arms)[4])
        known = np.bincount(np.arange(max(step - 2, 0)) % 4, minlength=4)
        assert (agent.lane_counts == known).all()
    if mode == "NextStep":
        deliver(agent, env.step(arms)[4])  # in which all lanes were reset
        assert agent.lane_counts.sum(axis=1).tolist() == [4, 4]


def test_deliver_says_so_where_nothing_is_late():
    env = gym.make("bandit_gym:BernoulliBandit-v0")
    env.reset(seed=0)
    info = env.step(0)[4]
    told = "info must report feedback_step and .*, as environments of late"
    with pytest.raises(ValueError, match=told):
        deliver(new_agent(None), info)


def test_masked_lanes_observe_nothing_and_a_bad_mask_is_refused_and_changes_nothing():
    env, agent = make_env("DelayedReward", {"delay": 0}, num_envs=2), new_agent(2)
    env.reset(seed=0)
    info = env.step([0, 1])[4]
    with pytest.raises(ValueError, match=r"mask must have shape \(2,\), one per lane, got \[True"):
        deliver(agent, info, mask=[True])
    assert not agent.lane_counts.any()
    deliver(agent, info, mask=np.array([False, True]))
    assert agent.lane_counts.tolist() == [[0, 0, 0, 0], [0, 1, 0, 0]]
