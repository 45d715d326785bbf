"""A light import registers the ids and lends the names; what is heavy is imported by use."""

import subprocess
import sys

import pytest

import agents
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
PLAYED = (
    "import gymnasium as gym\n"
    "venv = gym.make_vec('bandit_gym:BernoulliBandit-v0', 50)\n"
    "for _ in range(20):\n    venv.reset(), venv.step([0] * 50)\n"
    "env = gym.make('bandit_gym:BernoulliBandit-v0', render_mode='rgb_array')\n"
)


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        (PLAYED, HEAVY),
        (PLAYED + "env.reset(), env.render()\n", ("matplotlib.pyplot",)),
        ("from bandit_gym.callbacks import TensorBoard\n", ("tensorboard", "torch", "tensorflow")),
    ],
    ids=["a short run of few lanes", "a picture", "a callback"],
)
def test_it_loads_nothing_heavy(code, heavy):
    code += f"import sys\nprint([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr


def test_every_name_that_a_package_lists_is_there():
    for module in (agents, bandit_gym):
        assert {*dir(module)} <= {*module.__all__}
        assert [name for name in module.__all__ if not hasattr(module, name)] == []
