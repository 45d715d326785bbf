"""What the README shows is what its code prints."""

import contextlib
import io
import re
import tomllib
from pathlib import Path

import pytest

from bandit_gym.experiments.experiment import Experiment

ROOT = Path(__file__).parent.parent
EXAMPLE = re.compile(
    r"```python\n(?P<code>(?:(?!```).)*)```\n\n```text\n(?P<output>(?:(?!```).)*)```", re.DOTALL
)
EXAMPLES = [
    pytest.param(match["code"], match["output"], id=f"{page.name}-{number}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for number, match in enumerate(EXAMPLE.finditer(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_example_prints_what_is_written_below_it(code, output):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), {"__name__": "example"})
    assert printed.getvalue() == output


def test_readme_has_examples():
    assert len(EXAMPLES) >= 2


def test_readme_experiment_file_is_an_experiment():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    experiment = Experiment.from_dict(tomllib.loads(block))
    assert len(experiment.runs) == 2 * 3


def test_readme_install_commands_are_those_of_the_gate():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert 'constraint constraints.txt ".[dev]"' in readme
    assert 'constraint constraints.txt ".[dev]"' in gate


@pytest.mark.slow
def test_readme_trains_ppo_and_evaluates_racing_thompson():
    pytest.importorskip("stable_baselines3")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = [
        block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "PPO(" in block
    ]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), {"__name__": "example"})
    ppo, racing = map(float, re.findall(r"(?:PPO|Thompson) ([0-9.]+)", printed.getvalue()))
    # random play averages 10 of 20; an episode's variance is at most 20/4 + 20**2/12
    assert min(ppo, racing) > 10 + 2 * (20 / 4 + 20**2 / 12) ** 0.5 / 200**0.5
