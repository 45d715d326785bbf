"""What there is to see of a run, and that seeing it changes nothing."""

import gymnasium as gym
import numpy as np
import pytest

from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.simulation import build
from bandit_gym.rollout import rollout
from bandit_gym.watching.frames import PlayError, watch


def make_run(agent, env="BernoulliBandit-v0", **settings):
    experiment = Experiment(environments=[env], agents=[agent], block_size=1, **settings)
    return experiment.runs[0]


@pytest.mark.parametrize(
    ("agent", "env"),
    [
        ("racing", {"env": "BernoulliBandit-v0", "num_arms": 4}),
        ("exact", {"env": "DependentPriorBandit-v0", "num_arms": 3}),
        ("smc", {"env": "PoissonBandit-v0", "num_arms": 3}),
        ("ucb1", "GaussianBandit-v0"),
        ("exact", {"env": "BernoulliBandit-v0", "wrappers": [{"name": "Drift", "std": 0.1}]}),
        ("exact", {"env": "BernoulliBandit-v0", "wrappers": [{"name": "DelayedReward"}]}),
    ],
    ids=["racing", "chains", "particles", "ucb1", "drift", "delay"],
)
def test_a_watched_run_is_that_of_rollout(agent, env):
    run = make_run(agent, env, horizon=50, seed=7)
    frames = list(watch(run))
    played = rollout(*build(run), seed=7)
    assert [frame.action for frame in frames] == played.actions[0].tolist()
    np.testing.assert_allclose(frames[-1].regrets, played.pseudo_regret[0].cumsum())
    pulls = np.bincount(played.actions[0], minlength=len(frames[-1].pulls))
    assert frames[-1].pulls.tolist() == pulls.tolist()


def test_a_watched_run_is_the_one_of_a_loop_by_hand():
    run = make_run("exact", {"env": "BernoulliBandit-v0", "num_arms": 3}, horizon=30, seed=5)
    env = gym.make("bandit_gym:BernoulliBandit-v0", num_arms=3, max_episode_steps=30)
    _, info = env.reset(seed=5)
    frames = list(watch(run))
    np.testing.assert_array_equal(frames[0].means, info["means"])
    regrets = np.cumsum([env.step(frame.action)[4]["regret"] for frame in frames])
    np.testing.assert_allclose(frames[-1].regrets, regrets)


def test_a_long_run_has_few_frames_and_the_last_step_among_them():
    frames = list(watch(make_run("stub_agents:Constant", horizon=2000)))
    assert len(frames) <= 200
    assert [frames[0].step, frames[-1].step] == [1, 2000]
    assert frames[-1].steps.tolist() == [frame.step for frame in frames]


def test_a_run_of_one_step_has_one_frame():
    (frame,) = watch(make_run("random", horizon=1))
    assert frame.pulls.sum() == frame.step == frame.horizon == 1


def test_frames_show_what_moving_means_are_now():
    wrappers = [{"name": "Drift", "std": 0.1}]
    env = {"env": "GaussianBandit-v0", "wrappers": wrappers}
    frames = list(watch(make_run("random", env, horizon=9)))
    assert (frames[0].means != frames[1].means).all()
    assert all(frame.cells[0] <= frame.means.min() for frame in frames)


def test_frames_hold_few_arms_in_order_with_the_best_among_them():
    env = {"env": "BernoulliBandit-v0", "num_arms": 4, "means": [0.1, 0.2, 0.3, 0.9]}
    *_, frame = watch(make_run("stub_agents:Constant", env, horizon=3))
    assert frame.shown_arms(2).tolist() == [0, 3]
    assert frame.shown_arms(9).tolist() == [0, 1, 2, 3]
    assert frame.status == "step 3 of 3, arm 0, regret 2.4"


def test_a_failure_names_the_agent_and_the_step():
    run = make_run("stub_agents:Raising", horizon=60)
    text = "Raising failed in BernoulliBandit-v0 after 50 steps: RuntimeError: I have had enough"
    with pytest.raises(PlayError, match=text):
        list(watch(run))


def test_an_agent_that_cannot_be_built_is_a_failure_as_well():
    run = make_run("stub_agents:Unbuilt", horizon=60)
    with pytest.raises(PlayError, match="Unbuilt failed in .* after 0 steps: RuntimeError: no"):
        list(watch(run))


def test_a_seed_that_worlds_do_not_take_is_refused():
    with pytest.raises(ValueError, match=r"seed must be at most 2\*\*64 - 1"):
        next(watch(make_run("random", seed=2**64)))
