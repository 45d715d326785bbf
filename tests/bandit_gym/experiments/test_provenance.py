"""What results depend on beside settings, and whose code runs."""

import importlib
import pickle
import sys

import pytest

from bandit_gym.experiments import provenance
from bandit_gym.experiments.entries import Entry, is_stand_in
from bandit_gym.experiments.provenance import find_sources

FILES = {
    "mine.py": "from kit.tools import choose\n\nclass Mine:\n    arm = 0\n    by = 'lanes:Lanes'\n",
    "kit/__init__.py": "",
    "kit/tools.py": "import numpy as np\n\ndef choose(num_envs, arm):\n"
    "    from .deep import SHIFT\n    return np.full(num_envs, arm + SHIFT)\n",
    "kit/deep.py": "SHIFT = 0\n",
    "lanes.py": "NUM_LANES = 3\n",
    "laws.py": "from bandit_gym.priors import Beta\n\nPRIOR = Beta(1.0, 1.0)\n",
    "model.json": "0",
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


OPTIONS = {"file": "model.json", "inner": [{"law": "laws:PRIOR"}]}


def test_comments_of_a_module_do_not_count_and_all_else_of_the_folder_does(project):
    """Also what is imported by a call or named in a string, and a file that an option names."""
    assert set(find_sources("mine:Mine", OPTIONS)) == {*FILES}
    for name in ("mine.py", "kit/tools.py", "kit/deep.py", "lanes.py", "laws.py"):
        before = find_sources("mine:Mine", OPTIONS)
        (project / name).write_text("# a comment\n" + (project / name).read_text())
        assert find_sources("mine:Mine", OPTIONS) == before, name
        (project / name).write_text((project / name).read_text() + "more = 1\n")
        after = find_sources("mine:Mine", OPTIONS)
        assert [file for file in before if after[file] != before[file]] == [name]


def test_what_python_and_packages_bring_is_no_source_of_the_users():
    found = [find_sources(name, {}) for name in ("random:Random", "numpy:array", "agents:UCB1")]
    assert found == [{}] * 3


def test_an_edit_after_an_import_that_nobody_was_told_of_is_refused(project, monkeypatch):
    """A module younger than this process may have changed since; its bytecode tells."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (project / "young.py").write_text("def load():\n    return 1\n")
    try:
        importlib.import_module("young")
        assert set(find_sources("young:load", {})) == {"young.py"}
        del provenance._imported["young"]
        (project / "young.py").write_text("def load():\n    return 10\n")
        with pytest.raises(ValueError, match="young must be as this process has imported it"):
            find_sources("young:load", {})
    finally:
        sys.modules.pop("young", None)


UNKNOWN = "<own>:Lost.0123456789abcdef"


def test_other_values_stand_for_themselves():
    values = ["exact", "mine:Own", "<own>:Own", 3, None, UNKNOWN + "0"]
    assert [each for each in values if is_stand_in(each)] == []
    assert Entry("exact", {"values": values}, "exact").pickles == {}


def test_entry_of_another_session_is_still_read():
    entry = Entry(UNKNOWN, {}, "mine")
    assert (entry.name, find_sources(entry.target, entry.options, entry.pickles)) == ("Lost", {})
    assert pickle.loads(pickle.dumps(entry)) == entry
