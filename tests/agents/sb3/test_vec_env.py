"""A Gymnasium vector environment as an SB3 `VecEnv`."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from families import OBSERVED
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from refusals import check_refusals
from sb3_models import NUM_ARMS, make_vec

from agents import ExactThompson
from bandit_gym.envs.observations import OBSERVATIONS

pytestmark = pytest.mark.nightly


def reference(env_id, **options):
    """Make SB3's own vector environment over single ones, without its Monitor."""
    options = {"num_arms": NUM_ARMS, "max_episode_steps": 10, "horizon": 10} | options
    env_id = f"bandit_gym:{env_id}"
    from stable_baselines3.common.env_util import make_vec_env

    return make_vec_env(lambda: gym.make(env_id, **options), 3, monitor_dir=None)


def play(env, num_steps=25):
    """Return everything a VecEnv says, as flat lists."""
    env.seed(4)
    said = [env.reset(), *env.reset_infos]
    rng = np.random.default_rng(1)
    for _ in range(num_steps):
        observations, rewards, dones, infos = env.step(rng.integers(NUM_ARMS, size=3))
        said += [observations, rewards.astype(np.float32), dones, *env.reset_infos]
        said += [{k: v for k, v in info.items() if k != "episode"} for info in infos]
    return said


def make_sync(env_id, observation):
    options = {"num_arms": NUM_ARMS, "max_episode_steps": 10, "observation": observation}
    make = partial(gym.make, f"bandit_gym:{env_id}", horizon=10, **options)
    return SyncVectorEnv([make] * 3, autoreset_mode=AutoresetMode.SAME_STEP)


@pytest.mark.parametrize(("env_id", "observation"), OBSERVED)
def test_native_and_sync_vec_envs_say_what_dummy_vec_env_says(sb3, env_id, observation):
    expected = play(reference(env_id, observation=observation))
    native = make_vec(env_id, num_envs=3, observation=observation)
    for lanes in (native, make_sync(env_id, observation)):
        for found, wanted in zip(play(sb3.GymnasiumVecEnv(lanes)), expected, strict=True):
            assert data_equivalence(found, wanted, exact=True)


def test_vec_env_leaves_the_statistics_of_an_episode_where_sb3_looks_for_them(sb3):
    lanes = make_vec("BernoulliBandit-v0", num_envs=3, max_episode_steps=4)
    env = sb3.GymnasiumVecEnv(RecordEpisodeStatistics(lanes))
    env.reset()
    *_, infos = [env.step(np.zeros(3, int)) for _ in range(4)][-1]
    assert [info["episode"]["l"] for info in infos] == [4] * 3


def test_vec_env_keeps_rewards_in_double_precision(sb3):
    env = sb3.GymnasiumVecEnv(make_vec("GaussianBandit-v0"))
    env.reset()
    assert env.step(np.zeros(2, int))[1].dtype == np.float64


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_ppo_trains_through_vec_normalize_and_vec_monitor(sb3, observation):
    from stable_baselines3 import PPO
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

    env = sb3.GymnasiumVecEnv(make_vec("GaussianBandit-v0", observation=observation))
    # A Discrete observation cannot be normalised; rewards can, for training.
    env = VecNormalize(VecMonitor(env), norm_obs=observation != "constant")
    model = PPO("MlpPolicy", env, n_steps=20, batch_size=20, n_epochs=1, device="cpu").learn(40)
    assert [episode["l"] for episode in model.ep_info_buffer] == [10] * 4
    if observation != "constant":
        with pytest.raises(ValueError, match="model must be trained on observations as they are"):
            sb3.SB3Agent(model)
    policy = sb3.as_policy(ExactThompson(env.get_attr("problem")[0]))
    with pytest.raises(ValueError, match="env must give rewards as they are"):
        evaluate_policy(policy, env, callback=policy.callback)


def test_vec_env_shows_a_frame_per_lane(sb3):
    env = sb3.GymnasiumVecEnv(make_vec(render_mode="rgb_array"))
    env.reset()
    single = env.get_images()[0].shape
    assert len(env.get_images()) == 2
    assert env.render().shape == (2 * single[0], single[1], 3)


def test_vec_env_passes_options_on(sb3):
    env = sb3.GymnasiumVecEnv(make_vec())
    env.reset()
    env.set_options({"reset_mask": np.array([True, False])})
    env.reset()
    assert ["means" in info for info in env.reset_infos] == [True, False]


def test_vec_env_refuses_other_modes_different_options_and_to_treat_lanes_as_environments(sb3):
    made = [
        (make_vec(autoreset_mode="NextStep"), "autoreset mode SameStep, got <Autoreset"),
        (gym.make("bandit_gym:BernoulliBandit-v0"), "got None; make it with gym.make_vec"),
    ]
    check_refusals(lambda env: sb3.GymnasiumVecEnv(env), made)
    env = sb3.GymnasiumVecEnv(make_vec())
    lanes = NotImplementedError, "use make_vec_env for single environments"
    rows = [(name, ("name", "value"), *lanes) for name in ("set_attr", "env_method")]
    env.set_options([{"level": 1}, {}])
    rows.append(("reset", (), "options must be the same in all lanes"))
    check_refusals(lambda method, given: getattr(env, method)(*given), rows)


def test_time_limit_is_an_end_or_a_cut_as_asked(sb3):
    heard = {}
    for ends_at_horizon in (False, True):
        env = sb3.GymnasiumVecEnv(make_vec(num_envs=3), ends_at_horizon=ends_at_horizon)
        env.seed(4)
        env.reset()
        steps = [env.step(np.zeros(3, dtype=int)) for _ in range(20)]
        heard[ends_at_horizon] = [
            (rewards.tolist(), dones.tolist(), [info.pop("TimeLimit.truncated") for info in infos])
            for _, rewards, dones, infos in steps
        ]
    as_cut, as_end = heard[False], heard[True]
    assert [step[:2] for step in as_end] == [step[:2] for step in as_cut]
    assert [is_cut for _, _, is_cut in as_cut] == [dones for _, dones, _ in as_cut]
    assert sum(any(dones) for _, dones, _ in as_end) == 2
    assert not any(any(is_cut) for _, _, is_cut in as_end)
