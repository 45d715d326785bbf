"""Whose code runs, seen from outside: modules that leave a trace when they are imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bandit_gym.cli import main
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.trust import UntrustedError, check_trust, remember

ROOT = Path(__file__).parents[3]
MINE = """
from pathlib import Path
from agents import UniformRandom as Agent
from bandit_gym.envs.families import bernoulli
from gymnasium import register

Path(__file__).with_name("trace").write_text("imported")
register(
    "Mine-v0",
    entry_point=bernoulli.BernoulliBanditEnv,
    vector_entry_point=bernoulli.make_vec,
    max_episode_steps=9,
)
"""
SETTINGS = {
    "environments": [{"env": "mine:Mine-v0", "num_arms": 2, "means": [0.1, 0.5]}],
    "agents": ["random", "mine:Agent"],
    "replications": 2,
    "horizon": 9,
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user's project, with a module, a file of settings beside it, and a record of their own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "mine.py").write_text(MINE)
    (project / "study.json").write_text(json.dumps(SETTINGS))
    return tmp_path


def call(home, *arguments, cwd="project"):
    """Run a command in a process of its own; return its exit code, errors, and what was imported.

    The last is what holds `mine.py`, as seen from the home.
    """
    (home / cwd).mkdir(exist_ok=True)
    found = subprocess.run(
        [sys.executable, "-m", "bandit_gym", *map(str, arguments)],
        cwd=home / cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    traces = list(home.rglob("trace"))
    for trace in traces:
        trace.unlink()
    return found.returncode, found.stderr, {str(t.parent.relative_to(home)) for t in traces}


def start(home, *, cwd="project"):
    file = home / "project" / "study.json"
    return call(home, "run", file, "--backend", "serial", "--out", home / "out", cwd=cwd)


@pytest.fixture
def out(home, monkeypatch):
    """Results of the project, run by the user from within it; in this process, which is faster."""
    monkeypatch.chdir(home / "project")
    assert main(["run", "study.json", "--backend", "serial", "--out", str(home / "out")]) == 0
    (home / "project" / "trace").unlink(missing_ok=True)
    return home / "out"


def lose_blocks(directory):
    for path in directory.rglob("*.parquet"):
        path.unlink()


def test_run_finds_modules_in_the_current_folder_as_well(home):
    (home / "project" / "mine.py").rename(home / "mine.py")
    assert start(home, cwd=".")[2] == {"."}


def test_resume_needs_no_question_where_the_user_has_run_the_same_code(home, out):
    lose_blocks(out)
    resume = ["resume", out, "--backend", "serial"]
    assert call(home, *resume, cwd="elsewhere")[::2] == (0, {"project"})


def test_resume_with_trust_runs_and_is_asked_once(home, out):
    out.rename(home / "sent")
    resume = ["resume", home / "sent", "--backend", "serial"]
    for trust in (["--trust"], []):
        lose_blocks(home / "sent")
        assert call(home, *resume, *trust)[::2] == (0, {"project"})


def test_resume_imports_nothing_that_has_changed_since(home, out):
    (home / "project" / "mine.py").write_text(f"{MINE}\nx = 1\n")
    assert call(home, "resume", out)[::2] == (2, set())


def test_a_record_in_the_folder_itself_is_not_believed(home, out, monkeypatch):
    state = next((home / "state").rglob("*.json"))
    (out / "bandit-gym").mkdir()
    state.rename(out / "bandit-gym" / state.name)
    monkeypatch.setenv("XDG_STATE_HOME", str(out))
    assert call(home, "resume", out)[::2] == (2, set())


def test_all_that_options_name_is_listed_and_every_change_of_it_asks_again(tmp_path, monkeypatch):
    (tmp_path / "model.zip").write_bytes(b"weights")
    (tmp_path / "laws.py").write_text("Prior = Likelihood = None\nWrapper = print\n")
    (tmp_path / "world.py").write_text(
        "import gymnasium as gym\n"
        "def make(**options): pass\n"
        "gym.register('World-v0', entry_point=make, vector_entry_point=make)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    laws = {
        "prior": {"name": "laws:Prior"},
        "likelihood": "laws:Likelihood",
        "wrappers": [{"name": "laws:Wrapper"}],
    }
    model = {"agent": "agents.sb3:saved_model", "path": str(tmp_path / "model")}
    experiment = Experiment([{"env": "world:World-v0", **laws}], [model])
    out, path = tmp_path / "out", tmp_path / "laws.py"
    with pytest.raises(UntrustedError) as refused:
        check_trust(out, experiment)
    assert all(
        text in str(refused.value)
        for text in (
            f"environment world:World-v0 ({tmp_path / 'world.py'})",
            f"prior laws:Prior ({path})",
            f"likelihood laws:Likelihood ({path})",
            f"wrappers laws:Wrapper ({path})",
            f"saved model {tmp_path / 'model'} ({tmp_path / 'model.zip'})",
        )
    )
    for changed in (path, tmp_path / "model.zip", tmp_path / "world.py"):
        remember(out, experiment, [])
        check_trust(out, experiment)
        changed.write_text("x = 1\n")
        with pytest.raises(UntrustedError):
            check_trust(out, experiment)
