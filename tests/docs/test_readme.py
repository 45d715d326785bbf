"""What the README says of its experiment and of the gate."""

import tomllib

from documents import blocks, read

from bandit_gym.experiments.experiment import Experiment


def test_readme_experiment_file_is_an_experiment():
    (block,) = blocks("README.md", "toml")
    experiment = Experiment.from_dict(tomllib.loads(block))
    assert len(experiment.runs) == 2 * 3


def test_readme_install_commands_are_those_of_the_gate():
    readme, gate = read("README.md"), read(".ci/run")
    assert 'constraint constraints.txt ".[dev]" && pytest\n' in readme
    assert 'constraint constraints.txt ".[dev]"\nstep pytest\n' in gate
