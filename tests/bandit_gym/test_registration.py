"""The ids: registered by a light import, spelled either way, rebuilt from a spec."""

import subprocess
import sys
import warnings
from functools import partial
from importlib import import_module
from typing import Any

import gymnasium as gym
import pytest
from families import ALL_ENV_IDS
from gymnasium.envs.registration import EnvSpec

import bandit_gym

HEAVY = (
    "numba",
    "matplotlib",
    "pandas",
    "pyarrow",
    "joblib",
    "rich",
    "torch",
    "stable_baselines3",
    "scipy.stats",
)


@pytest.mark.parametrize("env_id", ALL_ENV_IDS)
def test_spec_has_the_promised_limit_and_entry_points(env_id: str) -> None:
    spec = gym.spec(env_id)
    assert spec.max_episode_steps == 1000
    assert isinstance(spec.entry_point, str)
    assert isinstance(spec.vector_entry_point, str)


@pytest.mark.parametrize("make", [gym.make, partial(gym.make_vec, num_envs=2)], ids=["one", "two"])
@pytest.mark.parametrize("env_id", ALL_ENV_IDS)
def test_a_misspelt_option_is_refused_with_the_nearest(env_id: str, make: Any) -> None:
    with pytest.raises(ValueError, match="got 'num_arm'; the nearest known one is 'num_arms'"):
        make(env_id, num_arm=3)


def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, bandit_gym; print([name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr


def test_a_short_run_of_few_lanes_loads_nothing_heavy() -> None:
    code = "import sys, gymnasium as gym\n"
    code += "venv = gym.make_vec('bandit_gym:BernoulliBandit-v0', 50)\n"
    code += "for _ in range(20):\n    venv.reset(), venv.step([0] * 50)\n"
    code += f"print([name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr


@pytest.mark.parametrize(
    "package", ["agents", "bandit_gym", "bandit_gym.experiments", "bandit_gym.results"]
)
def test_every_name_that_a_package_lists_is_there(package: str) -> None:
    module = import_module(package)
    assert dir(module)
    assert dir(module) == sorted(module.__all__)
    assert [name for name in dir(module) if not hasattr(module, name)] == []


def test_a_name_that_a_package_does_not_list_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'bandit_gym' has no attribute 'Experimint'"):
        bandit_gym.Experimint  # noqa: B018  # the look-up is what is tested


def test_module_spelling_needs_no_other_import() -> None:
    code = "import gymnasium as gym; print(gym.make('bandit_gym:BernoulliBandit-v0').spec.id)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "BernoulliBandit-v0", result.stderr


@pytest.mark.parametrize("env_id", ALL_ENV_IDS)
def test_make_builds_every_id_without_a_warning(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gym.make(env_id)
        env.reset(seed=0)
        env.step(0)
    assert env.spec is not None and env.spec.id == env_id


def test_spec_survives_json_with_arguments() -> None:
    prior = {"name": "truncated_normal", "mean": 0.5, "std": [0.1, 0.2, 0.3]}
    env = gym.make("BernoulliBandit-v0", num_arms=3, prior=prior, observation="counts", horizon=9)
    spec = EnvSpec.from_json(env.spec.to_json())
    assert spec == env.spec
    assert gym.make(spec).unwrapped.problem == env.unwrapped.problem


def test_vector_spec_survives_json_with_arguments() -> None:
    venv = gym.make_vec(
        "GaussianBandit-v0", 3, std=2.0, autoreset_mode="SameStep", max_episode_steps=7
    )
    again = gym.make_vec(EnvSpec.from_json(venv.spec.to_json()))
    assert again.spec == venv.spec
    assert again.metadata == venv.metadata
    assert again.problem == venv.problem
