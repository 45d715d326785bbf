"""What the README and the other pages show is what their code prints."""

import re
import tomllib

import pytest
from documents import PAGES, ROOT, blocks, read, run

from bandit_gym.experiments.experiment import Experiment

EXAMPLE = re.compile(
    r"```python\n(?P<code>(?:(?!```).)*)```\n\n```text\n(?P<output>(?:(?!```).)*)```", re.DOTALL
)
EXAMPLES = [
    pytest.param(match["code"], match["output"], id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, match in enumerate(EXAMPLE.finditer(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_example_prints_what_is_written_below_it(code, output):
    assert run(code) == output


def test_readme_has_examples():
    assert len(EXAMPLES) >= 2


def test_readme_experiment_file_is_an_experiment():
    (block,) = blocks("README.md", "toml")
    experiment = Experiment.from_dict(tomllib.loads(block))
    assert len(experiment.runs) == 2 * 3


def test_readme_install_commands_are_those_of_the_gate():
    readme, gate = read("README.md"), read(".ci/run")
    assert 'constraint constraints.txt ".[dev]" && pytest\n' in readme
    assert 'constraint constraints.txt ".[dev]"\nstep pytest\n' in gate


@pytest.mark.slow
def test_readme_trains_ppo_and_evaluates_racing_thompson():
    pytest.importorskip("stable_baselines3")
    import torch

    torch.set_num_threads(1)  # on shared cores two threads of a small network wait for each other
    (code,) = [block for block in blocks("README.md") if "PPO(" in block]
    ppo, racing = map(float, re.findall(r"(?:PPO|Thompson) ([0-9.]+)", run(code)))
    # random play averages 10 of 20; an episode's variance is at most 20/4 + 20**2/12
    assert min(ppo, racing) > 10 + 2 * (20 / 4 + 20**2 / 12) ** 0.5 / 200**0.5
