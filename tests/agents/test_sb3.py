"""The environments under Stable-Baselines3, and `agents.sb3` where it is not installed."""

import subprocess
import sys
from itertools import cycle

import numpy as np
import pytest
from families import ALL_ENV_IDS

from bandit_gym.envs.observations import OBSERVATIONS

pytest.importorskip("stable_baselines3")
from sb3_models import ALGORITHMS, make_vec, train
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize

from agents.sb3 import GymnasiumVecEnv

every_id = pytest.mark.parametrize("env_id", ALL_ENV_IDS)
every_observation = pytest.mark.parametrize("observation", OBSERVATIONS)
WITHOUT_SB3 = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("stable_baselines3", "torch", "sb3_contrib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import agents
"""


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_agents_import_neither_sb3_nor_torch():
    code = "import sys, agents; print({'torch', 'stable_baselines3'} & set(sys.modules))"
    assert run_python(code).stdout == "set()\n"


def test_agents_import_works_when_sb3_is_absent():
    assert run_python(WITHOUT_SB3).returncode == 0


def test_agents_sb3_raises_one_line_that_says_what_to_install_when_sb3_is_absent():
    stderr = run_python(WITHOUT_SB3 + "import agents.sb3").stderr
    assert stderr.count("Traceback") == 1
    told = 'ImportError: agents.sb3 needs Stable-Baselines3: pip install ".[sb3]".'
    assert stderr.splitlines()[-1] == told


@pytest.mark.parametrize(("env_id", "name"), [*zip(ALL_ENV_IDS, cycle(ALGORITHMS), strict=False)])
def test_every_algorithm_trains_and_so_does_every_environment(env_id, name):
    observation = "history" if name == "RecurrentPPO" else "counts"
    model = train(name, env_id=env_id, observation=observation)
    assert model.num_timesteps >= 64
    assert model._n_updates > 0


@pytest.mark.parametrize(("vec_env_class", "num_envs"), [(DummyVecEnv, 2), (SubprocVecEnv, 1)])
def test_make_vec_env_takes_the_module_spelling(vec_env_class, num_envs):
    env = make_vec_env("bandit_gym:BernoulliBandit-v0", num_envs, vec_env_cls=vec_env_class)
    env.reset()
    _, rewards, _, infos = env.step(np.arange(num_envs))
    env.close()
    assert np.isin(rewards, [0.0, 1.0]).all()
    assert all("regret" in info for info in infos)


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_ppo_trains_through_vec_normalize_and_vec_monitor(observation):
    env = GymnasiumVecEnv(make_vec("GaussianBandit-v0", observation=observation))
    # A Discrete observation cannot be normalised; rewards can, for training.
    env = VecNormalize(VecMonitor(env), norm_obs=observation != "constant")
    model = PPO("MlpPolicy", env, n_steps=20, batch_size=20, n_epochs=1, device="cpu").learn(40)
    assert [episode["l"] for episode in model.ep_info_buffer] == [10] * 4
