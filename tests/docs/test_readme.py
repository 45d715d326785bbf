"""The README: short, true of the gate, and whole where links into the repository lead nowhere."""

import re
import tomllib

from documents import blocks, read

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
    assert 'constraint constraints.txt ".[dev]"\n' in gate and "\nstep pytest\n" in gate
