"""The README: short, true of the gate, and whole where links into the repository lead nowhere."""

import re
import tomllib

import pytest
from documents import blocks, read

HOOKS = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]["metadata"]["hooks"]
TARGET = re.compile(r"\]\(([^)]*)\)")


@pytest.fixture
def shown_by_an_index():
    """Return the README as the hook of the build, hatch-fancy-pypi-readme, writes it."""
    text = read("README.md")
    for each in HOOKS["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    return text


def test_readme_has_at_most_two_pictures():
    assert len(re.findall(r"!\[", read("README.md"))) <= 2


def test_nothing_leads_nowhere_on_a_package_index(shown_by_an_index):
    assert [target for target in TARGET.findall(shown_by_an_index) if ":" not in target] == []
    assert "![" not in shown_by_an_index


def test_a_package_index_shows_the_rest_as_it_is(shown_by_an_index):
    assert "https://gymnasium.farama.org" in TARGET.findall(shown_by_an_index)
    names = TARGET.findall(read("README.md"))
    assert [name for name in names if name not in shown_by_an_index] == []
    assert all(code in shown_by_an_index for code in blocks("README.md", "python"))


def test_readme_install_commands_are_those_of_the_gate():
    readme, gate = read("README.md"), read(".ci/run")
    assert 'constraint constraints.txt ".[dev]" && pytest\n' in readme
    assert 'constraint constraints.txt ".[dev]"\n' in gate and "\nstep pytest\n" in gate
