"""The command line on terminals of few letters, and into pipes whose readers leave."""

import os
import subprocess
import sys

import pytest

from bandit_gym.experiments.terminal import reader_may_leave

COMMAND = [sys.executable, "-m", "bandit_gym"]


def test_a_reader_that_leaves_ends_the_command_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    found = subprocess.run([*COMMAND, "list"], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (found.returncode, found.stderr) == (141, "")


def test_another_broken_pipe_is_not_taken_for_the_readers(tmp_path, monkeypatch):
    with open(tmp_path / "out", "w") as file, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", file)
        with pytest.raises(BrokenPipeError), reader_may_leave():
            raise BrokenPipeError


def test_an_ascii_terminal_is_told_everything(tmp_path):
    options = ["--out", str(tmp_path / "out"), "--backend", "serial", "--replications", "2"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    found = subprocess.run(
        [*COMMAND, "compare", "--agents", "random:label=±µé", "--horizon", "3", *options],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    assert "+/-u\\xe9" in found.stdout
