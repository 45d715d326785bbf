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
        ["--seed", "a"],
    ],
)
def test_fidelity_refuses_bad_input_in_one_line(arguments, capsys, tmp_path):
    assert main(["fidelity", *arguments, "--out", str(tmp_path / "new")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("bandit-gym: error: ") and error.count("\n") == 1
    assert not (tmp_path / "new").exists()
