"""The README: short, true of the gate, and whole where links into the repository lead nowhere."""

import re
import shlex
import tomllib

import pytest
from documents import blocks, read

from bandit_gym import load_results
from bandit_gym.cli import main
from bandit_gym.results.report import write_estimate

HOOKS = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]["metadata"]["hooks"]
TARGET = re.compile(r"\]\(([^)]*)\)")


def test_readme_has_at_most_two_pictures():
    assert len(re.findall(r"!\[", read("README.md"))) <= 2


def test_on_a_package_index_nothing_leads_nowhere_and_the_rest_is_as_it_is():
    """As the hook of the build, hatch-fancy-pypi-readme, writes it."""
    shown = read("README.md")
    for each in HOOKS["fancy-pypi-readme"]["substitutions"]:
        shown = re.sub(each["pattern"], each["replacement"], shown)
    assert [target for target in TARGET.findall(shown) if ":" not in target] == []
    assert "![" not in shown
    assert "https://gymnasium.farama.org" in TARGET.findall(shown)
    assert [name for name in TARGET.findall(read("README.md")) if name not in shown] == []
    assert all(code in shown for code in blocks("README.md", "python"))


def test_readme_install_commands_are_those_of_the_gate():
    readme, gate = read("README.md"), read(".ci/run")
    assert 'constraint constraints.txt ".[dev]" && pytest\n' in readme
    assert 'constraint constraints.txt ".[dev]"\n' in gate
    # `test_repository.py` has that the gate's tests are README's and the pages.


def test_numbers_of_the_first_picture_are_those_of_its_page():
    shown = " ".join(read("README.md#Install and run").split())
    page = read("docs/features.md")
    numbers = re.findall(r"[\d.]+ \[[\d.]+, [\d.]+\](?= more)", shown)
    assert len(numbers) == 3 and all(f"| {number} |" in page for number in numbers)
    assert "23.2 samples" in shown and "23.2 for racing" in page


@pytest.mark.slow
@pytest.mark.nightly
def test_the_first_command_draws_what_the_readme_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(
        "^bandit-gym (compare .*? --out .*?)\n", blocks("README.md", "bash")[0], re.M | re.S
    )
    assert main(shlex.split(command.replace("\\\n", ""))) == 0
    results = load_results("results/products")
    racing, *others = results.estimates
    shown = " ".join(read("README.md#Install and run").split())
    assert f"regret is {racing['cumulative_regret']:.1f}." in shown
    for row in others:
        assert row["verdict"] == "worse"
        assert f"{write_estimate(row, 'difference')} more" in shown
