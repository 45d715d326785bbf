"""Each test runs a small package of kernels in processes of its own, as a user's edits would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

FILES = {
    "__init__.py": "",
    "constants.py": "FACTOR = 3.0\n",
    "records.py": "from typing import NamedTuple\n\n"
    "class Pair(NamedTuple):\n    first: float\n    second: float\n",
    "callees.py": "import numpy as np\nfrom bandit_gym.numerics.compiled import inner\n"
    "from tiny.constants import FACTOR\n\nEDGES = np.array([5.0, 7.0])\n\n"
    "@inner\ndef shift(x):\n    return x + EDGES[0]\n\n"
    "@inner\ndef scale(x):\n    return FACTOR * shift(x)\n",
    "loops.py": "from bandit_gym.numerics.compiled import kernel\n"
    "from tiny.callees import scale\n\n"
    "@kernel\ndef loop(pair):\n    return scale(pair.first)\n",
}
RUN = (
    "from tiny.loops import loop; from tiny.records import Pair; "
    "print(loop(Pair(1.0, 2.0)), sum(loop.stats.cache_hits.values()))"
)
EDITS = [
    ("callees.py", "def scale(x):", "def scale(x):  # why", "18.0 0"),
    ("records.py", "first: float\n    second", "second: float\n    first", "21.0 0"),
    ("callees.py", "return x +", "return x -", "-12.0 0"),
    ("callees.py", "[5.0,", "[6.0,", "21.0 0"),
    ("constants.py", "3.0", "4.0", "24.0 0"),
]
"""A file, what to replace in it, and what `RUN` then prints."""


def start(folder, **settings):
    """Start a process that runs the package in a folder."""
    paths = os.pathsep.join([str(folder), str(Path(__file__).parents[3])])
    env = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("NUMBA_CACHE_DIR", None)
    command, pipe = [sys.executable, "-c", RUN], subprocess.PIPE
    return subprocess.Popen(command, env=env | settings, stdout=pipe, stderr=pipe, text=True)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A folder that holds the package, run once, and what was compiled of it."""
    folder = tmp_path_factory.mktemp("once")
    (folder / "tiny").mkdir()
    for name, text in FILES.items():
        (folder / "tiny" / name).write_text(text)
    assert output(start(folder)) == "18.0 0"
    return folder


@pytest.fixture
def tiny(once, tmp_path):
    """Return how to run a copy of the package, in a folder that holds nothing else."""
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    return partial(start, tmp_path)


def output(process):
    printed, process.said = process.communicate(timeout=120)
    assert process.returncode == 0, process.said
    return printed.strip()


def test_compiled_code_is_that_of_the_sources_after_any_edit(tiny, tmp_path):
    assert output(tiny()) == "18.0 1"
    for name, old, new, expected in EDITS:
        path = tmp_path / "tiny" / name
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
        assert output(tiny()) == expected
        path.write_text(text)
    assert output(tiny()) == "18.0 0"
    assert len(list(tmp_path.rglob("*.nbc"))) == 1


def test_processes_that_compile_at_once_leave_one_file(tiny, tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    processes = [tiny(**cache) for _ in range(3)]
    assert {output(process).partition(" ")[0] for process in processes} == {"18.0"}
    assert [path.suffix for path in (tmp_path / "cache").glob("*/*")] == [".nbc"]
    assert output(tiny(**cache)) == "18.0 1"


def test_file_that_cannot_be_read_is_made_again(tiny, tmp_path):
    (file,) = tmp_path.rglob("*.nbc")
    file.write_bytes(b"cnowhere\nnothing\n.")  # a pickle of a name that is gone
    assert [output(tiny()), output(tiny())] == ["18.0 0", "18.0 1"]


def test_where_no_folder_can_be_written_to_kernels_work_and_say_so_once(tiny, tmp_path):
    (tmp_path / "file").touch()  # below which there can be no folder, for whomever
    loops = tmp_path / "tiny" / "loops.py"
    loops.write_text(loops.read_text() + "\n@kernel\ndef another(x):\n    return x\n")
    nowhere = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}
    process = tiny(NUMBA_CACHE_DIR=str(tmp_path / "file" / "cache"), **nowhere)
    assert output(process) == "18.0 0"
    assert process.said.count("set NUMBA_CACHE_DIR to one that can") == 1
