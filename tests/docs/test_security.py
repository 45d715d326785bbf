"""What the page on security says of commands and of folders."""

import re

import gymnasium
import pytest
from documents import read

import bandit_gym
from agents import Agent
from bandit_gym import experiments, likelihoods, priors
from bandit_gym.cli import main

OTHERS = {"bandit-gym", "module:name", ".lock", "-m", "-P"}
HOLDERS = {"": [bandit_gym, experiments, likelihoods, priors], "agent": [Agent], "gym": [gymnasium]}
"""What a name on the page is an attribute of, by what stands before its dot."""


def help_of(capsys, *command):
    with pytest.raises(SystemExit):
        main([*command, "--help"])
    return capsys.readouterr().out


def test_page_says_of_every_command_what_it_runs_and_names_nothing_that_there_is_not(capsys):
    commands, page = re.findall(r"^    (\w+) ", help_of(capsys), re.M), read("SECURITY.md")
    assert len(commands) >= 6
    assert [each for each in commands if not re.search(rf"`(bandit-gym )?{each}\b", page)] == []
    unknown = []
    for text in set(re.findall(r"`([^`]+)`", page)) - OTHERS:
        command, *words = text.removeprefix("bandit-gym ").split()
        if command in commands:
            shown = help_of(capsys, command)
            unknown += [(text, word) for word in words if word not in ("DIR", *shown.split())]
        else:
            holder, _, name = text.rpartition(".")
            is_there = any(hasattr(each, name) for each in HOLDERS.get(holder, []))
            unknown += [] if is_there else [text]
    assert unknown == []


def test_a_folder_of_results_holds_only_what_the_page_calls_data(tmp_path):
    sizes = ["--replications", "1", "--horizon", "60", "--backend", "serial"]
    out = tmp_path / "out"
    assert main(["compare", "--agents", "random", "stub_agents:Raising", *sizes, "--out", str(out)])
    kinds = {path.suffix for path in out.rglob("*") if path.is_file() and path.name != ".lock"}
    assert kinds == {".json", ".jsonl", ".parquet", ".txt", ".png"}
