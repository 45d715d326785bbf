"""Each test runs a small package of kernels in processes of its own, as a user's edits would."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import namedtuple
from contextlib import contextmanager
from pathlib import Path

import numba
import pytest
from numba.core import event
from numba.core.types import NamedUniTuple, float64

from bandit_gym.numerics.compiled import KernelFiles
from bandit_gym.numerics.philox import fill_uniforms

ROOT = Path(__file__).parents[3]
FILES = {
    "__init__.py": "",
    "constants.py": "FACTOR = 3.0\n",
    "others.py": "NUMBER = 1\n",
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
RUNS = """
import os, sys
import numba
import bandit_gym.numerics.compiled
numba.njit(lambda x: x)(1.0)
for line in sys.stdin:
    for _ in range(int(line)):
        if not os.fork():
            from tiny.loops import loop
            from tiny.records import Pair
            value, hits = loop(Pair(1.0, 2.0)), sum(loop.stats.cache_hits.values())
            os.write(1, f"{value} {hits}\\n".encode())  # all at once, as others write as well
            os._exit(0)
    assert all(os.wait()[1] == 0 for _ in range(int(line)))
"""
"""Runs the package in as many new processes as a line says, which are spared numba's start."""

EDITS = [
    ("callees.py", "def scale(x):", "def scale(x):  # why", "18.0 1"),
    ("others.py", "NUMBER = 1", "NUMBER = 2", "18.0 1"),
    ("records.py", "first: float\n    second", "second: float\n    first", "21.0 0"),
    ("callees.py", "return x +", "return x -", "-12.0 0"),
    ("callees.py", "[5.0,", "[6.0,", "21.0 0"),
    ("constants.py", "3.0", "4.0", "24.0 0"),
]
"""A file, what to replace in it, and what a run then prints."""


@contextmanager
def package(folder, **settings):
    """Write the package, and give how to run it: in how many processes, which print a line each."""
    (folder / "tiny").mkdir()
    for name, text in FILES.items():
        (folder / "tiny" / name).write_text(text)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("NUMBA_CACHE_DIR", None)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    told = {"cwd": folder, "env": env | settings, "stderr": (folder / "said").open("w")}
    with subprocess.Popen([sys.executable, "-c", RUNS], **told, **pipes) as process:

        def run(at_once=1):
            print(at_once, file=process.stdin, flush=True)
            return [process.stdout.readline().strip() for _ in range(at_once)]

        yield run
    assert process.returncode == 0, (folder / "said").read_text()


@pytest.mark.nightly
def test_compiled_code_is_that_of_what_it_is_made_of_after_any_edit_or_damage(tmp_path):
    with package(tmp_path) as run:
        assert run() + run() == ["18.0 0", "18.0 1"]
        for name, old, new, expected in EDITS:
            path = tmp_path / "tiny" / name
            text = path.read_text()
            assert text.count(old) == 1
            path.write_text(text.replace(old, new))
            assert run() == [expected]
            path.write_text(text)
        assert run() == ["18.0 0"]
        (file,) = tmp_path.rglob("*.nbc")
        file.write_bytes(b"cnowhere\nnothing\n.")  # a pickle of a name that is gone
        assert run() + run() == ["18.0 0", "18.0 1"]


@pytest.mark.nightly
def test_of_processes_at_once_one_compiles_and_leaves_one_file(tmp_path):
    with package(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache")) as run:
        assert sorted(run(at_once=3)) == ["18.0 0", "18.0 1", "18.0 1"]
        files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
        assert [path.suffix for path in files] == [".nbc"]
        assert run() == ["18.0 1"]


@pytest.mark.nightly
def test_a_kernel_that_is_loaded_while_another_is_compiled_can_be_called(tmp_path):
    with package(tmp_path) as run:
        assert run() == ["18.0 0"]
        loops = tmp_path / "tiny" / "loops.py"
        outer = "@kernel\ndef outer(pair):\n    return loop(pair)\n\nouter(Pair(1.0, 2.0))\n"
        loops.write_text(f"{loops.read_text()}\nfrom tiny.records import Pair\n\n{outer}")
        assert run() == ["18.0 1"]


def test_tuples_of_other_fields_have_a_file_each(tmp_path):
    files = KernelFiles(tmp_path, fill_uniforms)
    pairs = namedtuple("Pair", "first second"), namedtuple("Pair", "second first")
    keys = [((NamedUniTuple(float64, 2, pair),), "processor") for pair in pairs]
    for number, key in enumerate(keys):
        files.save(key, number)
    assert [files.load(key) for key in keys] == [0, 1]


def test_a_kernel_that_could_not_be_compiled_is_tried_again_without_waiting(tmp_path):
    files, key = KernelFiles(tmp_path, fill_uniforms), ((float64,), "processor")
    assert files.load(key) is None and files.load(key) is None
    files.save(key, 5)
    assert files.load(key) == 5 and [path.suffix for path in tmp_path.iterdir()] == [".nbc"]


@pytest.mark.nightly
def test_where_no_folder_can_be_written_to_kernels_work_and_say_so_once(tmp_path):
    (tmp_path / "file").touch()  # below which there can be no folder, for whomever
    nowhere = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}
    with package(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "file" / "cache"), **nowhere) as run:
        loops = tmp_path / "tiny" / "loops.py"
        loops.write_text(loops.read_text() + "\n@kernel\ndef another(x):\n    return x\n")
        assert run() == ["18.0 0"]
    assert (tmp_path / "said").read_text().count("set NUMBA_CACHE_DIR to one that can") == 1


class Watch(event.Listener):
    """Keeps whether the collector is on when a function begins to compile, and when it has."""

    def __init__(self):
        self.is_on = []

    def on_start(self, event):
        self.is_on.append(gc.isenabled())

    on_end = on_start


@pytest.mark.parametrize("is_on", [True, False])
def test_nothing_is_collected_while_a_function_compiles_and_all_is_as_before_afterwards(is_on):
    watch, was_on = Watch(), gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        with event.install_listener("numba:compile", watch):
            numba.njit(lambda x: x)(1.0)
        assert watch.is_on == [False, is_on]
        assert gc.isenabled() == is_on
    finally:
        (gc.enable if was_on else gc.disable)()
