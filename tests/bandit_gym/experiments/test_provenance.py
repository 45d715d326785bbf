"""What results depend on beside settings, and whose code runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from surface import SERIAL, files_of, rewrite_receipt

from bandit_gym.experiments import Experiment, load_experiment, run_experiment
from bandit_gym.experiments.catalogue import find_own_code
from bandit_gym.experiments.provenance import UntrustedError, check_trust, find_sources
from bandit_gym.results import load_results

ROOT = Path(__file__).parents[3]
FILES = {
    "mine.py": """
import json
from pathlib import Path
import numpy as np
from kit.tools import choose

ARM = 0  # the arm
Path(__file__).with_name("trace").write_text("imported")

class Mine:
    def __init__(self, problem, *, file=None):
        self.arm = ARM if file is None else json.load(open(file))

    def reset(self, num_envs=None, seed=None):
        self.num_envs = num_envs

    def act(self, observation=None):
        return choose(self.num_envs, self.arm)

    def observe(self, action, reward, mask=None):
        pass
""",
    "kit/__init__.py": "",
    "kit/tools.py": "from .deep import SHIFT\nimport numpy as np\n\n"
    "def choose(num_envs, arm):\n    return np.full(num_envs, arm + SHIFT)\n",
    "kit/deep.py": "SHIFT = 0\n",
    "laws.py": "from bandit_gym.priors import Beta\n\nPRIOR = Beta(1.0, 1.0)\n",
    "model.json": "0",
    "study.json": json.dumps(
        {
            "environments": [{"env": "BernoulliBandit-v0", "num_arms": 3, "means": [0, 0.5, 1]}],
            "agents": ["random", {"agent": "mine:Mine", "file": "model.json"}],
            **{"replications": 4, "horizon": 9, "block_size": 2},
        }
    ),
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder of the user's own, in which commands are run."""
    folder = tmp_path / "project"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(folder)
    return folder


def edit(project, name, old, new):
    path = project / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def call(project, *arguments):
    """Run a command in a process of its own; return its exit code, errors, and whether it imported
    the user's module."""
    done = subprocess.run(
        [sys.executable, "-m", "bandit_gym", *map(str, arguments)],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    trace = project / "trace"
    is_imported = trace.exists()
    trace.unlink(missing_ok=True)
    return done.returncode, done.stderr, is_imported


def run(project, out, *options):
    return call(project, "run", "study.json", "--backend", "serial", "--out", out, *options)


OPTIONS = {"file": "model.json", "inner": [{"law": "laws:PRIOR"}]}


@pytest.mark.parametrize("name", ["mine.py", "kit/tools.py", "kit/deep.py", "laws.py"])
def test_comments_of_a_module_do_not_count_and_all_else_does(project, name):
    before = find_sources("mine:Mine", OPTIONS)
    (project / name).write_text("# a comment\n" + (project / name).read_text())
    assert find_sources("mine:Mine", OPTIONS) == before
    (project / name).write_text((project / name).read_text() + "more = 1\n")
    after = find_sources("mine:Mine", OPTIONS)
    assert [file for file in before if after[file] != before[file]] == [name]


def test_sources_are_all_modules_of_the_folder_and_named_files(project):
    (project / "lazy.py").write_text(
        "from importlib import import_module\nTARGET = 'laws:PRIOR'\n"
        "def load():\n    return import_module('kit.deep')\n"
    )
    found = find_sources("lazy:load", {"file": "model.json"})
    assert set(found) == {"lazy.py", "laws.py", "kit/__init__.py", "kit/deep.py", "model.json"}
    (project / "model.json").write_text("1")
    assert find_sources("lazy:load", {"file": "model.json"})["model.json"] != found["model.json"]


def test_blocks_of_other_code_are_refused_and_replaced_where_that_is_asked(project, tmp_path):
    out = tmp_path / "out"
    assert run(project, out)[0] == 0
    before = files_of(out)
    edit(project, "kit/deep.py", "SHIFT = 0", "SHIFT = 1")
    code, error, _ = run(project, out)
    assert code == 2 and "2 blocks are of other code: kit/deep.py; choose --recompute" in error
    assert files_of(out) == before
    assert run(project, out, "--recompute")[0] == 0
    run(project, tmp_path / "fresh")
    after = files_of(out)
    assert after == files_of(tmp_path / "fresh")
    assert {name for name in before if before[name] != after[name]} == {
        name for name in before if "Mine" in name
    }


def test_a_folder_of_two_codes_is_refused_before_any_number(project, tmp_path):
    experiment = Experiment(["BernoulliBandit-v0"], ["random"], replications=4, block_size=2)
    run_experiment(experiment, tmp_path / "out", workers=SERIAL)
    (receipt, _) = sorted((tmp_path / "out" / "receipts").rglob("*.json"))
    rewrite_receipt(receipt, {"results_version": 1})
    with pytest.raises(ValueError, match="must hold blocks of one code, got .* --recompute"):
        load_results(tmp_path / "out")


def test_resume_of_a_folder_that_names_code_needs_trust_each_time(project, tmp_path):
    out = tmp_path / "out"
    assert run(project, out)[::2] == (0, True)
    for path in out.rglob("*.parquet"):
        path.unlink()
    for _ in range(2):
        code, error, is_imported = call(project, "resume", out)
        assert (code, is_imported) == (2, False)
        assert f"agent mine:Mine ({project / 'mine.py'}); look at it, and repeat with" in error
    assert call(project, "resume", out, "--trust", "--backend", "serial")[::2] == (0, True)


def test_reading_imports_nothing(project, tmp_path):
    out = tmp_path / "out"
    run(project, out)
    for command in ("report", "export"):
        assert call(project, command, out)[::2] == (0, False)


def test_all_that_options_name_is_listed(project, tmp_path):
    (project / "model.zip").write_bytes(b"weights")
    laws = {"prior": {"name": "laws:Prior"}, "wrappers": [{"name": "laws:Wrapper"}]}
    (project / "laws.py").write_text("Prior = None\nWrapper = print\n")
    model = {"agent": "agents.sb3:saved_model", "path": str(project / "model")}
    experiment = Experiment([{"env": "BernoulliBandit-v0", **laws}], [model])
    with pytest.raises(UntrustedError) as refused:
        check_trust(tmp_path, find_own_code(experiment))
    for text in (
        f"prior laws:Prior ({project / 'laws.py'})",
        f"wrappers laws:Wrapper ({project / 'laws.py'})",
        f"saved model {project / 'model'} ({project / 'model.zip'})",
    ):
        assert text in str(refused.value)


def test_what_comes_with_the_package_needs_no_trust(tmp_path):
    (tmp_path / "plain.toml").write_text('environments = ["PoissonBandit-v0"]\nagents = ["exact"]')
    check_trust(tmp_path, find_own_code(load_experiment(tmp_path / "plain.toml")))
