"""Edits of what a run depends on, one at a time, and what is computed again."""

import ast
import io
import json
import os
import subprocess
import sys
from dataclasses import replace

import gymnasium
import pandas as pd
import pytest

from bandit_gym.cli import main
from bandit_gym.experiments.changes import OutdatedError
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.manifest import read_manifest
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


EDITS = {
    "agent": ("mine.py", "self.arm)", "1 + self.arm)", {"mine", "model"}),
    "helper": ("kit/deep.py", "SHIFT = 0", "SHIFT = 1", {"mine", "model"}),
    "constant": ("mine.py", "ARM = 0", "ARM = 1", {"mine", "model"}),
    "prior": ("laws.py", "Beta(1.0", "Beta(9.0", {"mine", "model", "random"}),
    "model": ("model.json", "0", "1", {"model"}),
}


def final_actions(directory):
    results = load_results(directory)
    return {found.run.agent.label: found.curves("action")[0, -1] for found in results.runs}


@pytest.mark.parametrize("case", EDITS)
def test_an_edit_is_refused_then_recomputed_for_what_depends_on_it(project, tmp_path, case):
    name, old, new, changed = EDITS[case]
    simulate(project, tmp_path / "out")
    edit(project, name, old, new)
    said = {
        "prior": "1 of 1 environments changed since: laws.py",
        "model": f"1 of 3 agents changed since: {project / 'model.json'}",
    }.get(case, f"2 of 3 agents changed since: {name}")
    with pytest.raises(OutdatedError) as caught:
        simulate(project, tmp_path / "out")
    assert said in str(caught.value)
    again, news = simulate(project, tmp_path / "out", changed="recompute")
    assert again == changed
    assert news.startswith(said)
    fresh = tmp_path / "fresh"
    simulate(project, fresh)
    assert block_bytes(tmp_path / "out") == block_bytes(fresh)


def block_bytes(directory):
    paths = (directory / "blocks").rglob("*.parquet")
    return {path.relative_to(directory): path.read_bytes() for path in paths}


@pytest.mark.parametrize("case", ["agent", "helper", "constant"])
def test_edits_change_what_is_played_in_this_process(project, tmp_path, case):
    name, old, new, _ = EDITS[case]
    simulate(project, tmp_path / "out")
    edit(project, name, old, new)
    simulate(project, tmp_path / "out", changed="recompute")
    assert final_actions(tmp_path / "out")["mine"] == 1


def test_an_edit_reaches_workers_that_live_on(project, tmp_path):
    two = Workers("loky", 2)
    played = []
    for old, new in (("", ""), ("SHIFT = 0", "SHIFT = 1"), ("SHIFT = 1", "SHIFT = 0")):
        edit(project, "kit/deep.py", old, new)
        simulate(project, tmp_path / "out", workers=two, changed="recompute")
        played.append(final_actions(tmp_path / "out")["mine"])
    assert played == [0, 1, 0]


def test_comments_and_layout_change_nothing(project, tmp_path):
    simulate(project, tmp_path / "out")
    edit(project, "mine.py", "# the arm", "# which arm\n\n")
    edit(project, "kit/deep.py", "SHIFT = 0", "SHIFT  =  (0)")
    assert simulate(project, tmp_path / "out") == (set(), "")


def test_another_current_folder_changes_nothing(project, tmp_path):
    experiment = make_experiment(project)
    file = tmp_path / "experiment.json"
    file.write_text(json.dumps(experiment.to_dict()))
    command = [sys.executable, "-m", "bandit_gym", "run", str(file), "--backend", "serial"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), *sys.path])}
    for folder in (project, tmp_path):
        done = subprocess.run(
            [*command, "--out", str(tmp_path / "out")],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert "6 blocks, 6 of them stored already" in done.stderr


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_sources_are_listed_in_an_order_that_hashing_does_not_change(project, seed):
    code = (
        "from bandit_gym.experiments.sources import find_sources as f; print([*f('mine:Mine', {})])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), *sys.path])}
    printed = subprocess.check_output(
        [sys.executable, "-c", code], env=environment | {"PYTHONHASHSEED": seed}, text=True
    )
    listed = ast.literal_eval(printed)
    assert len(listed) > 2
    assert listed == sorted(listed)


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


def test_new_agents_and_worlds_run_alone(project, out):
    simulate(project, out)
    more = make_experiment(
        project,
        environments=["world:World-v0", "BernoulliBandit-v0"],
        agents=["mine:Mine", make_experiment(project).agents[1], "random", "ucb1"],
    )
    seen = []
    run_experiment(more, out, workers=SERIAL, on_progress=seen.append)
    assert (seen[0].num_stored, seen[0].num_blocks) == (6, 16)


def test_fewer_replications_leave_blocks_and_manifest_and_give_the_first_ones(project, out):
    simulate(project, out)
    before = {path: path.read_bytes() for path in out.rglob("*.*")}
    few = make_experiment(project, replications=3)
    run_experiment(few, out, workers=SERIAL)
    assert {path: path.read_bytes() for path in before} == before
    assert read_manifest(out).experiment.replications == 4
    first, all_of_it = (load_results(out, experiment).runs[2] for experiment in (few, None))
    assert first.final("reward").tolist() == all_of_it.final("reward")[:3].tolist()


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


def test_what_comes_with_the_project_or_is_installed_has_no_sources():
    assert find_sources("agents:UCB1", {}) == {}
    assert find_sources("agents.sb3:saved_model", {"path": "no/such/file"}) == {}
    assert find_sources("numpy.random:Generator", {}) == {}
    assert find_sources("CartPole-v1", {}) == {}


def test_sources_follow_names_in_texts_and_relative_imports(project):
    (project / "lazy.py").write_text(
        "from importlib import import_module\nTARGET = 'world:World-v0'\n"
        "def load():\n    return import_module('kit.deep')\n"
    )
    found = find_sources("lazy:load", {"inner": [{"law": "laws:PRIOR"}]})
    assert set(found) == {"lazy.py", "world.py", "laws.py", "kit/__init__.py", "kit/deep.py"}
