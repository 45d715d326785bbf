"""Rewards that come late or become 0 or 1, ends, and means that move."""

from itertools import permutations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from scipy import stats
from surface import started
from wrapped_envs import TwoCoins, make_env

import bandit_gym as bg
from agents import ExactThompson
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout
from bandit_gym.wrappers import BinaryReward, DelayedReward, Drift, EndsAtHorizon, deliver

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


def new_agent(num_envs):
    return started("exact", BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4), num_envs)


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


OTHERS = (lambda env: env, lambda env: Drift(env, std=0.1), lambda env: DelayedReward(env, delay=2))


PROBLEM = BanditProblem(TwoCoins(), Beta(1.0, 1.0), 3)


def test_reward_is_1_as_often_as_it_was_large():
    """A half becomes 1 half of the time, to four standard errors: .5 / sqrt(n)."""
    num_envs, num_steps = 500, 20
    kept, binary = (bg.make_vec(PROBLEM, num_envs) for _ in range(2))
    binary = BinaryReward(binary)
    kept.reset(seed=3), binary.reset(seed=3)
    actions = np.arange(num_envs) % 3
    pairs = [(kept.step(actions), binary.step(actions)) for _ in range(num_steps)]
    were, are = (np.array([pair[i][1] for pair in pairs]) for i in range(2))
    assert all(np.array_equal(one[4]["regret"], other[4]["regret"]) for one, other in pairs)
    assert (are[were == 0] == 0).all() and (are[were == 1] == 1).all()
    halves = are[were == 0.5]
    assert set(halves) == {0, 1} and abs(halves.mean() - 0.5) < 4 * 0.5 / halves.size**0.5


@pytest.mark.parametrize("num_envs", [None, 3])
def test_agents_are_given_bernoulli_rewards(num_envs):
    env = bg.make(PROBLEM) if num_envs is None else bg.make_vec(PROBLEM, num_envs)
    for around in (BinaryReward(env), DelayedReward(BinaryReward(Drift(env, std=0.1)), 2)):
        agent = ExactThompson(around)
        assert Drift(env, std=0.1).problem == PROBLEM
        assert agent.problem == around.problem == BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
        assert agent.method == "conjugate"
        assert set(rollout(agent, around, seed=0, horizon=9).rewards.ravel()) <= {0.0, 1.0}
    lanes = SyncVectorEnv([lambda: BinaryReward(bg.make(PROBLEM))] * 2)
    assert ExactThompson(lanes).problem.likelihood == Bernoulli()


@pytest.mark.parametrize("mode", AutoresetMode)
def test_the_last_pull_terminates_and_nothing_is_cut_off(mode):
    options = {"max_episode_steps": 3, "num_arms": 2}
    for inner, outer in permutations(OTHERS, 2):
        lanes = gym.make_vec("BernoulliBandit-v0", 2, autoreset_mode=mode, **options)
        for env, action in ((gym.make("BernoulliBandit-v0", **options), 0), (lanes, [0, 1])):
            env = outer(EndsAtHorizon(inner(env)))
            env.reset(seed=0)
            ends = [env.step(action)[2:4] for _ in range(3)]
            assert [np.all(terminated) for terminated, _ in ends] == [False, False, True], env
            assert not any(np.any(truncated) for _, truncated in ends), env


LINEAR = {"num_arms": 3, "num_features": 2, "likelihood": "gaussian"}


def means_of(options, num_steps, num_envs=500, **more):
    """Play arm 0; return the (T, N, K) means that were played on."""
    env = make_env("Drift", options, limit=num_steps, num_envs=num_envs, **more)
    drawn, arms = env.reset(seed=0)[1]["means"], np.zeros(num_envs, dtype=np.int64)
    means = np.array([env.step(arms)[4]["means"] for _ in range(num_steps)])
    assert (drawn == means[0]).all()  # the first pull is on the means of the reset
    return means


def test_walk_takes_normal_steps():
    """T N K of them, each of its own: correlations lie within four of 1 / sqrt(n)."""
    prior = {"name": "normal", "mean": 0.0, "std": 1.0}
    means = means_of({"std": 0.5}, 21, env="GaussianBandit-v0", prior=prior)
    steps = np.diff(means, axis=0) / 0.5
    assert stats.kstest(steps.ravel(), "norm").pvalue > 1e-3
    num_arms = steps.shape[2]
    between = np.corrcoef(steps.reshape(-1, num_arms).T)[np.triu_indices(num_arms, 1)]
    assert np.abs(between).max() < 4 * (num_arms / steps.size) ** 0.5
    products = steps[1:] * steps[:-1]
    assert abs(products.mean()) < 4 / products.size**0.5


def test_walk_is_turned_back_at_the_ends_as_often_as_it_takes():
    """A walk that is reflected keeps uniform means uniform, and above 0 is a walk's distance."""
    uniform = {"name": "beta", "alpha": 1.0, "beta": 1.0}
    means = means_of({"std": 3.0}, 4, prior=uniform)
    assert stats.kstest(means[-1].ravel(), stats.uniform.cdf).pvalue > 1e-3
    prior = {"name": "gamma", "shape": 2.0, "rate": 1.0}
    means = means_of({"std": 2.0}, 2, env="PoissonBandit-v0", prior=prior)
    steps = np.random.default_rng(1).normal(0, 2, means[0].size)
    expected = np.abs(np.random.default_rng(2).gamma(2.0, size=means[0].size) + steps)
    assert stats.ks_2samp(means[-1].ravel(), expected).pvalue > 1e-3


def test_period_draws_all_means_anew_then_and_only_then():
    means = means_of({"period": 6}, 20)
    has_changed = (np.diff(means, axis=0) != 0).all(axis=(1, 2))
    is_same = (np.diff(means, axis=0) == 0).all(axis=(1, 2))
    assert np.flatnonzero(has_changed).tolist() == [5, 11, 17] and (has_changed ^ is_same).all()


@pytest.mark.parametrize("options", [{"period": 1}, {"probability": 1.0}])
def test_means_move_also_around_an_environment_that_has_begun(options):
    env = bg.make("BernoulliBandit-v0", num_arms=2)
    _, info = env.reset(seed=0)
    moving = Drift(env, **options)
    infos = [moving.step(0)[-1] for _ in range(3)]
    assert all((told["means"] != info["means"]).all() for told in infos[1:])


def test_probability_draws_means_anew_as_often_from_the_prior():
    prior = {"name": "beta", "alpha": 2.0, "beta": 2.0}
    means = means_of({"probability": 0.1}, 41, prior=prior)
    has_changed = np.diff(means, axis=0)[..., 0] != 0
    assert abs(has_changed.mean() - 0.1) < 4 * (0.09 / has_changed.size) ** 0.5
    fresh = means[1:][has_changed]  # of mean 1/2 and variance 1/20
    assert abs(fresh.mean() - 0.5) < 4 * (0.05 / fresh.size) ** 0.5


@pytest.mark.parametrize("env_id", ["GaussianBandit-v0", "ContextualBandit-v0"])
def test_unknown_deviations_are_drawn_anew_with_the_means(env_id):
    """Given a deviation s, parameters are N(m, s^2 / precision), as they were before a switch."""
    prior = {"name": "normal_inverse_gamma", "mean": 0.5, "precision": 4.0}
    options = {"likelihood": "gaussian"} if "Contextual" in env_id else {}
    options |= {"std": None} if not options else {"likelihood": {"name": "gaussian", "std": None}}
    env = Drift(bg.make_vec(env_id, num_envs=1000, prior=prior, **options), period=1)
    env.reset(seed=0)
    before = env.unwrapped.stds.copy()
    for _ in range(2):
        env.step(np.zeros(1000, dtype=np.int64))
    stds, values = env.unwrapped.stds, env.unwrapped.parameters
    assert (stds != before).all()
    z = 2.0 * (values - 0.5) / stds[:, : values.shape[1]]
    assert stats.kstest(z[:, 0], stats.norm.cdf).pvalue > 1e-3


@pytest.mark.parametrize("options", [{"std": 0.5}, {"period": 3}, {"probability": 0.3}])
def test_coefficients_move_where_arms_have_features(options):
    """Lanes are those of single environments, and 200 of them take independent normal steps."""
    env = Drift(bg.make_vec("ContextualBandit-v0", num_envs=200, **LINEAR), **options)
    single = Drift(bg.make("ContextualBandit-v0", **LINEAR), **options)
    features, alone = env.reset(seed=0)[0], single.reset(seed=0)[0]
    theta, arms, steps = env.unwrapped.parameters, np.zeros(200, dtype=np.int64), []
    for step in range(6):
        np.testing.assert_array_equal(features[0], alone)
        shown, before = features, theta
        (features, paid, _, _, info), (alone, *found) = env.step(arms), single.step(0)
        theta = env.unwrapped.parameters
        np.testing.assert_allclose(info["means"], np.einsum("nkd,nd->nk", shown, theta))
        assert found[0] == paid[0] and found[3]["regret"] == info["regret"][0]
        steps.append(theta - before)
        if step == 0 or ("period" in options and step % 3):
            assert not steps[-1].any()
    if "std" in options:
        assert stats.kstest(np.ravel(steps[1:]) / 0.5, stats.norm.cdf).pvalue > 1e-3
    else:
        moved = np.mean(np.any(steps[1:], axis=2), axis=1)
        expected = [0, 0, 1, 0, 0] if "period" in options else 0.3
        assert (abs(moved - expected) <= 4 * (0.21 / 200) ** 0.5 * ("period" not in options)).all()


def test_a_table_has_nothing_that_moves():
    env = gym.make("bandit_gym:TableBandit-v0", features=np.eye(2), rewards=np.eye(2))
    with pytest.raises(ValueError, match="env must have means or coefficients that can move"):
        Drift(env, std=0.1)
