"""A light import registers the ids and lends the names."""

import subprocess
import sys
from importlib import import_module

import pytest

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
IMPORTED = "import bandit_gym\n"
PLAYED = (
    "import gymnasium as gym\n"
    "venv = gym.make_vec('bandit_gym:BernoulliBandit-v0', 50)\n"
    "for _ in range(20):\n    venv.reset(), venv.step([0] * 50)\n"
)


@pytest.mark.parametrize("code", [IMPORTED, PLAYED], ids=["import", "a short run of few lanes"])
def test_it_loads_nothing_heavy(code):
    code += f"import sys\nprint([name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr


@pytest.mark.parametrize("package", ["agents", "bandit_gym"])
def test_every_name_that_a_package_lists_is_there(package):
    module = import_module(package)
    assert {*dir(module)} <= {*module.__all__}
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
