"""The commands for contributors run."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, blocks

import agents

COMMANDS = blocks("CONTRIBUTING.md#One of each, in seconds", "bash")[0].splitlines()


def run_command(command, folder):
    program, *arguments = shlex.split(command.replace("results/", f"{folder}/"))
    # Tests are found and not run: they are part of this run already.
    collect = [sys.executable, "-m", "pytest", "--collect-only"]
    start = collect if program == "pytest" else [sys.executable]
    home = {"PYTHONPATH": str(Path(agents.__file__).parents[1])}
    return subprocess.run(
        [*start, *arguments], cwd=ROOT, env=os.environ | home, capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_one_of_each_runs_as_written(command, tmp_path):
    found = run_command(command, tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr


def test_there_is_one_test_one_row_and_one_figure():
    assert len(COMMANDS) == 3
