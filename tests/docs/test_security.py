"""What the page on security says of commands and of folders."""

import re

import pytest
from documents import read

from bandit_gym.cli import main

PAGE = "SECURITY.md"


def test_page_says_of_every_command_what_it_runs(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    (\w+) ", capsys.readouterr().out, re.M)
    assert len(commands) >= 6
    assert [
        name for name in commands if not re.search(rf"`(bandit-gym )?{name}\b", read(PAGE))
    ] == []


def test_a_folder_of_results_holds_only_what_the_page_calls_data(tmp_path):
    sizes = ["--replications", "1", "--horizon", "60", "--backend", "serial"]
    out = tmp_path / "out"
    assert main(["compare", "--agents", "random", "stub_agents:Raising", *sizes, "--out", str(out)])
    kinds = {path.suffix for path in out.rglob("*") if path.is_file() and path.name != ".lock"}
    assert kinds == {".json", ".parquet", ".txt", ".png"}
