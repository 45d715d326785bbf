"""The command that puts agents and samplers to a suite."""

import pandas as pd
import pytest

from bandit_gym.cli import main


def test_fidelity_keeps_what_others_found_and_exits_1(tmp_path, monkeypatch, capsys):
    (tmp_path / "narrow_sampler.py").write_text(
        "def draw(problem, counts, sums, rng, size):\n    return rng.random((size, 2))\n"
    )
    monkeypatch.chdir(tmp_path)
    arguments = ["--agents", "exact", "narrow_sampler:draw", "--only", "Beta(5, 5), 100 pulls"]
    assert main(["fidelity", *arguments, "--workers", "1", "--out", "new"]) == 1
    printed = capsys.readouterr()
    assert "1 of 1" in printed.out and "0 of 1" in printed.out
    assert "'Bernoulli, Beta(5, 5), 100 pulls' must have shape (1000, 10)" in printed.err
    table = pd.read_parquet(tmp_path / "new" / "distances.parquet")
    assert table["status"].tolist() == ["measured", "failed"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scale", "0"],
        ["--suite", "v9"],
        ["--only", "x?"],
        ["--agents", "nobody"],
        ["--agents", "exact", "racing:delta=x"],
        ["--agents", "exact", ""],
        ["--agents", "bandit_gym.fidelity.suites.nobody:draw"],
        ["--seed", "a"],
    ],
)
def test_fidelity_refuses_bad_input_in_one_line(arguments, capsys, tmp_path):
    assert main(["fidelity", *arguments, "--out", str(tmp_path / "new")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("bandit-gym: error: ") and error.count("\n") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("code", ["def (", "raise RuntimeError('no')", "import sys; sys.exit(7)"])
def test_fidelity_refuses_a_module_that_cannot_be_imported(code, tmp_path, monkeypatch, capsys):
    (tmp_path / "cannot_be_imported.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    assert main(["fidelity", "--agents", "exact", "cannot_be_imported:Agent"]) == 2
    error = capsys.readouterr().err
    assert "agent must be an importable class, got 'cannot_be_imported:Agent'" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("option", ["size", "nope"])
def test_fidelity_refuses_options_that_a_sampler_is_given_or_lacks(
    option, tmp_path, monkeypatch, capsys
):
    (tmp_path / "levelled_sampler.py").write_text(
        "def draw(problem, counts, sums, rng, size, level=0.5): return rng.random((size, 2))\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["fidelity", "--agents", f"levelled_sampler:draw:{option}=3"]) == 2
    assert "options of draw must have no keys but 'level', " in capsys.readouterr().err


LEAVING = """
import os, sys

class Quits:
    def __init__(self, problem):
        leave(0)

    def reset(self, num_envs=None, seed=None): ...
    def act(self, observation=None): ...
    def observe(self, action, reward, mask=None): ...
"""


@pytest.mark.parametrize(("way", "workers"), [("sys.exit", "1"), ("os._exit", "2")])
def test_agent_that_leaves_while_it_is_made_fails_and_leaves_the_others(
    tmp_path, monkeypatch, capsys, way, workers
):
    name = f"leaving_by_{way.replace('.', '_')}"
    (tmp_path / f"{name}.py").write_text(f"{LEAVING}\nleave = {way}\n")
    monkeypatch.chdir(tmp_path)
    arguments = ["--agents", "exact", f"{name}:Quits", "--only", "Beta(5, 5), 100 pulls"]
    sizes = ["--scale", "0.01", "--workers", workers]
    assert main(["fidelity", *arguments, *sizes, "--out", "new"]) == 1
    assert "Quits failed in" in capsys.readouterr().err
    table = pd.read_parquet(tmp_path / "new" / "distances.parquet")
    assert table["status"].tolist() == ["measured", "failed"]
