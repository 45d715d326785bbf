"""The environments under Stable-Baselines3, and `agents.sb3` where it is not installed."""

import subprocess
import sys

import pytest

WITHOUT_SB3 = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("stable_baselines3", "torch", "sb3_contrib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import agents
"""


@pytest.mark.nightly
def test_agents_sb3_raises_one_line_that_says_what_to_install_when_sb3_is_absent():
    command = [sys.executable, "-c", WITHOUT_SB3 + "import agents.sb3"]
    stderr = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert stderr.count("Traceback") == 1
    told = 'ImportError: agents.sb3 needs Stable-Baselines3: pip install ".[sb3]".'
    assert stderr.splitlines()[-1] == told
