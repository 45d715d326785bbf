"""Our agents behind SB3's `predict`: the returns are those of a loop of our own."""

from functools import partial
from importlib import import_module

import gymnasium as gym
import numpy as np
import pytest
from sb3_models import make_vec

from agents import ExactThompson, make_agent
from bandit_gym.rollout import AGENT_STREAM, rollout
from bandit_gym.wrappers import DelayedReward

pytestmark = pytest.mark.nightly
HORIZONS = (4, 7, 11)
SEED = 5


def env_functions(env_id="BernoulliBandit-v0"):
    """Return makers of environments whose episodes end at different times."""
    make = partial(gym.make, f"bandit_gym:{env_id}", num_arms=3)
    return [partial(make, max_episode_steps=horizon) for horizon in HORIZONS]


def own_returns(agent, envs, num_episodes):
    """Play the episodes in a loop of our own: lane i plays (num_episodes + i) // N of them."""
    quotas = [(num_episodes + lane) // len(envs) for lane in range(len(envs))]
    returns = [[0.0] for _ in envs]
    for lane, env in enumerate(envs):
        env.reset(seed=SEED + lane)
    agent.reset(num_envs=len(envs), seed=SEED)
    while any(len(lane) <= quota for lane, quota in zip(returns, quotas, strict=True)):
        actions = agent.act()
        steps = [env.step(action) for env, action in zip(envs, actions, strict=True)]
        rewards = np.array([step[1] for step in steps])
        dones = np.array([step[2] or step[3] for step in steps])
        agent.observe(actions, rewards)
        agent.reset_lanes(dones)
        for lane, env in enumerate(envs):
            returns[lane][-1] += rewards[lane]
            if dones[lane]:
                returns[lane].append(0.0)
                env.reset()
    return sorted(r for lane, quota in zip(returns, quotas, strict=True) for r in lane[:quota])


def vec_env(kind):
    """Make one of SB3's own vector environments, whose episodes are ragged."""
    kinds = import_module("stable_baselines3.common.vec_env")
    return getattr(kinds, kind)(env_functions())


def evaluate(policy, env, **options):
    evaluation = import_module("stable_baselines3.common.evaluation")
    return evaluation.evaluate_policy(policy, env, warn=False, **options)


def policy_returns(policy, env, num_episodes):
    env.seed(SEED)
    returns, _ = evaluate(
        policy,
        env,
        n_eval_episodes=num_episodes,
        callback=policy.callback,
        return_episode_rewards=True,
    )
    return sorted(returns)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("racing", "DummyVecEnv"), ("smc", "DummyVecEnv"), ("exact", "SubprocVecEnv")],
)
def test_policy_returns_are_those_of_our_own_loop_when_episodes_are_ragged(sb3, name, kind):
    envs = [make() for make in env_functions()]
    agent = make_agent(name, envs[0].unwrapped.problem)
    expected = own_returns(agent, envs, num_episodes=20)
    ragged = vec_env(kind)
    assert policy_returns(sb3.as_policy(agent, seed=SEED), ragged, 20) == expected
    ragged.close()


def test_policy_hears_late_rewards_as_our_own_loop_does(sb3):
    env = DelayedReward(make_vec("BernoulliBandit-v0", num_envs=9, max_episode_steps=50), delay=5)
    agent = ExactThompson(env.problem)
    paid = rollout(agent, env, seed=SEED).rewards[:, :-5].sum(axis=1)
    policy = sb3.as_policy(agent, seed=np.random.SeedSequence(SEED, spawn_key=(AGENT_STREAM,)))
    assert policy_returns(policy, sb3.GymnasiumVecEnv(env), 9) == sorted(paid)


def test_policy_refuses_to_go_on_when_rewards_do_not_come_in(sb3):
    env = vec_env("DummyVecEnv")
    policy = sb3.as_policy(make_agent("exact", env.get_attr("problem")[0]))
    with pytest.raises(RuntimeError, match=r"pass callback=policy.callback to evaluate_policy"):
        evaluate(policy, env, n_eval_episodes=3)


def test_policy_refuses_other_arms_what_is_no_agent_and_dones_that_are_no_truth_values(sb3):
    env, policy = make_vec(num_arms=5), sb3.as_policy(make_agent("exact", make_vec().problem))
    with pytest.raises(ValueError, match="agent must have as many arms as the environment, 5, got"):
        evaluate(policy, sb3.GymnasiumVecEnv(env), callback=policy.callback)
    fewest = {name: (lambda self, *_, **options: None) for name in ("reset_lanes", "observe")}
    alone = type("Alone", (), fewest | {"reset": lambda self, num_envs, seed: None})()
    alone.act = lambda *_: np.zeros(2, dtype=int)  # no agent of ours, whose problem is known
    bare = sb3.as_policy(alone)
    assert evaluate(bare, sb3.GymnasiumVecEnv(env), callback=bare.callback)[0] > 0
    for thing in ("racing", ExactThompson, None):
        with pytest.raises(TypeError, match="agent must have the methods reset, reset_lanes, act"):
            sb3.as_policy(thing)
    policy = sb3.as_policy(make_agent("exact", make_vec().problem), seed=0)
    actions, _ = policy.predict(np.zeros((2, 1)))
    with pytest.raises(TypeError, match="dones must be an array of booleans"):
        policy.learn(actions, np.zeros(2), ["a", "b"])
    assert (policy.agent.counts == 0).all()


def test_policy_continues_its_stream_when_evaluated_again(sb3):
    env = sb3.GymnasiumVecEnv(make_vec(num_envs=8, max_episode_steps=20))
    policy = sb3.as_policy(make_agent("random", env.get_attr("problem")[0]), seed=SEED)
    assert policy_returns(policy, env, 8) != policy_returns(policy, env, 8)


def test_features_that_are_normalised_are_refused(sb3):
    kinds = import_module("stable_baselines3.common.vec_env")
    env = kinds.DummyVecEnv([partial(gym.make, "bandit_gym:ContextualBandit-v0", num_arms=3)])
    policy = sb3.as_policy(make_agent("laplace", env.get_attr("problem")[0]))
    scaled = kinds.VecNormalize(env, norm_reward=False)
    with pytest.raises(ValueError, match=r"env must give features as they are, .*norm_obs=False"):
        evaluate(policy, scaled, callback=policy.callback)
