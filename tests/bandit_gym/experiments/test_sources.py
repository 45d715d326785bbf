"""Edits of what a run depends on, one at a time, and what is computed again."""

import io
import sys
from dataclasses import replace

import gymnasium
import pandas as pd
import pytest

from bandit_gym.cli import main
from bandit_gym.experiments.changes import OutdatedError
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.sources import find_sources
from bandit_gym.results import load_results, write_report

SERIAL = Workers("serial")
FILES = {
    "mine.py": """
import json
import numpy as np
from kit.tools import choose

ARM = 0  # the arm

class Mine:
    def __init__(self, problem, *, file=None):
        self.arm = ARM if file is None else json.load(open(file))

    def reset(self, num_envs=None, seed=None):
        self.num_envs = num_envs

    def act(self, observation=None):
        return choose(self.num_envs, self.arm)

    def observe(self, action, reward, mask=None):
        pass

    def diagnostics(self):
        return {}
""",
    "kit/__init__.py": "",
    "kit/tools.py": "from .deep import SHIFT\nimport numpy as np\n\n"
    "def choose(num_envs, arm):\n    return np.full(num_envs, arm + SHIFT)\n",
    "kit/deep.py": "SHIFT = 0\n",
    "world.py": """
from gymnasium import register
from bandit_gym.envs import BanditEnv, BanditVectorEnv
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.problem import BanditProblem
from laws import PRIOR

PROBLEM = BanditProblem(Bernoulli(), PRIOR, 3)
register(
    "World-v0",
    entry_point=lambda **options: BanditEnv(PROBLEM, **options),
    vector_entry_point=lambda **options: BanditVectorEnv(problem=PROBLEM, **options),
    max_episode_steps=1000,
)
""",
    "laws.py": "from bandit_gym.priors import Beta\n\nPRIOR = Beta(1.0, 1.0)\n",
    "model.json": "0",
}
MODULES = ("mine", "kit", "kit.tools", "kit.deep", "world", "laws")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder of the user's own modules, from which Python imports."""
    folder = tmp_path / "project"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # whose age is told in whole seconds
    yield folder
    gymnasium.registry.pop("World-v0", None)
    for module in MODULES:
        sys.modules.pop(module, None)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def make_experiment(project, **changes):
    agents = [
        {"agent": "mine:Mine", "label": "mine"},
        {"agent": "mine:Mine", "file": str(project / "model.json"), "label": "model"},
        "random",
    ]
    settings = {"replications": 4, "horizon": 20, "block_size": 2}
    return Experiment(**{"environments": ["world:World-v0"], "agents": agents} | settings | changes)


def simulate(project, out, *, workers=SERIAL, **options):
    """Run, and return the labels of the agents that were simulated and what was said first."""
    seen = []
    run_experiment(
        make_experiment(project), out, workers=workers, on_progress=seen.append, **options
    )
    failures = [p.outcome.failure for p in seen if p.outcome is not None and p.outcome.failure]
    assert not failures
    return {p.outcome.run.agent.label for p in seen if p.outcome is not None}, seen[0].changed


def edit(project, name, old, new):
    path = project / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def block_bytes(directory):
    paths = (directory / "blocks").rglob("*.parquet")
    return {path.relative_to(directory): path.read_bytes() for path in paths}


def test_what_no_longer_fits_is_set_aside_as_a_folder_that_can_be_read(project, out):
    simulate(project, out)
    before = block_bytes(out)
    for number, new in enumerate((1, 2), start=1):
        edit(project, "kit/deep.py", f"SHIFT = {number - 1}", f"SHIFT = {new}")
        _, news = simulate(project, out, changed="recompute")
        assert news.endswith(f"moved to {out / 'superseded' / str(number)}")
    aside = block_bytes(out / "superseded" / "1")
    assert aside == {path: data for path, data in before.items() if "Mine" in str(path)}
    assert final_actions_of_whole(out / "superseded" / "1") == {"mine": 0, "model": 0}
    assert len(pd.read_parquet(out / "blocks")) == 3 * 4 * 20


def final_actions_of_whole(directory):
    whole = [found for found in load_results(directory).runs if found.blocks]
    return {found.run.agent.label: found.curves("action")[0, -1] for found in whole}


def test_kept_blocks_stay_and_mark_every_table_and_picture(project, out):
    simulate(project, out)
    before = block_bytes(out)
    edit(project, "mine.py", "ARM = 0", "ARM = 1")
    again, news = simulate(project, out, changed="keep")
    assert again == set()
    assert news.startswith("2 of 3 agents changed since: mine.py")
    assert block_bytes(out) == before
    results = load_results(out)
    assert "2 of 3 agents changed since: mine.py" in results.mark
    write_report(results, out / "report", formats=["png"])
    tables = [*(out / "report").glob("*.csv"), out / "report" / "report.txt"]
    assert len(tables) == 4
    assert all("mine.py" in path.read_text() for path in tables)
    pictures = [path.read_bytes() for path in (out / "report").glob("*.png")]
    write_report(replace(results, kept=""), out / "plain", formats=["png"])
    assert not set(pictures) & {path.read_bytes() for path in (out / "plain").glob("*.png")}


def test_kept_blocks_are_said_again_at_the_next_run(project, out):
    simulate(project, out)
    edit(project, "mine.py", "ARM = 0", "ARM = 1")
    simulate(project, out, changed="keep")
    with pytest.raises(OutdatedError, match="2 of 3 agents changed since: mine.py"):
        simulate(project, out)
    simulate(project, out, changed="recompute")
    assert load_results(out).mark == ""


def compare(project, out, *arguments):
    settings = ["--env", "world:World-v0", "--agents", "mine:Mine", "--out", str(out)]
    sizes = ["--replications", "2", "--horizon", "5", "--backend", "serial"]
    return main(["compare", *settings, *sizes, *arguments])


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr("bandit_gym.results.report.draw_regret", lambda results, folder: [])


def test_the_command_refuses_in_one_sentence_unless_told(project, tmp_path, capsys):
    assert compare(project, tmp_path / "out") == 0
    edit(project, "mine.py", "ARM = 0", "ARM = 1")
    capsys.readouterr()
    assert compare(project, tmp_path / "out") == 2
    *named, error = capsys.readouterr().err.splitlines()
    assert [line.partition(" is ")[0] for line in named] == [
        "bandit-gym: world",
        "bandit-gym: mine",
    ]
    assert "1 of 1 agents changed since: mine.py" in error
    assert compare(project, tmp_path / "out", "--keep") == 0
    captured = capsys.readouterr()
    assert "\n1 of 1 agents changed since: mine.py" in captured.err
    assert "kept all the same: 1 of 1 agents changed since" in captured.out
    assert compare(project, tmp_path / "out", "--recompute") == 0
    assert "kept" not in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "code"), [("r\n", 0), ("k\n", 0), ("\n", 2), ("", 2)])
def test_a_terminal_is_asked(project, tmp_path, monkeypatch, capsys, answer, code):
    compare(project, tmp_path / "out")
    edit(project, "mine.py", "ARM = 0", "ARM = 1")
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert compare(project, tmp_path / "out") == code
    assert "Recompute (r), keep (k)" in capsys.readouterr().err


def test_sources_follow_names_in_texts_and_relative_imports(project):
    (project / "lazy.py").write_text(
        "from importlib import import_module\nTARGET = 'world:World-v0'\n"
        "def load():\n    return import_module('kit.deep')\n"
    )
    found = find_sources("lazy:load", {"inner": [{"law": "laws:PRIOR"}]})
    assert set(found) == {"lazy.py", "world.py", "laws.py", "kit/__init__.py", "kit/deep.py"}
