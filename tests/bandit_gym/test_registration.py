"""A light import registers the ids and lends the names; what is heavy is imported by use."""

import subprocess
import sys

import pytest

import agents
import bandit_gym

HEAVY = "numba matplotlib pandas pyarrow joblib torch stable_baselines3 scipy.stats".split()
PLAYED = (
    "import gymnasium as gym\n"
    "venv = gym.make_vec('bandit_gym:BernoulliBandit-v0', 50)\n"
    "for _ in range(20):\n    venv.reset(), venv.step([0] * 50)\n"
    "env = gym.make('bandit_gym:BernoulliBandit-v0', render_mode='rgb_array')\n"
)


LIGHT = {PLAYED: HEAVY, "env.reset(), env.render()\n": ["matplotlib.pyplot"]}
"""Parts of a session, in turn -> what is not loaded after each."""


@pytest.mark.nightly
def test_a_short_run_of_few_lanes_and_a_picture_load_nothing_heavy():
    told = "import sys\nprint([name for name in {} if name in sys.modules])\n"
    code = "".join(part + told.format(heavy) for part, heavy in LIGHT.items())
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.split() == ["[]"] * len(LIGHT), result.stderr


def test_every_name_that_a_package_lists_is_there():
    for module in (agents, bandit_gym):
        assert {*dir(module)} <= {*module.__all__}
        assert [name for name in module.__all__ if not hasattr(module, name)] == []
