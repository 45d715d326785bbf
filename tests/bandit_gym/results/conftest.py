"""Two agents of known regret on two copies of a fixed instance."""

import pytest
from fixed_instance import BEST, FIXED, WORST

from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.results.results import load_results


@pytest.fixture(scope="session")
def directory(tmp_path_factory):
    """Two agents of known regret, 0.7 and 0 a step, on two copies of a fixed instance."""
    experiment = Experiment(
        environments=[FIXED, {**FIXED, "observation": "constant", "label": "again"}],
        agents=[WORST, BEST],
        replications=30,
        horizon=50,
        block_size=20,
    )
    folder = tmp_path_factory.mktemp("results")
    run_experiment(experiment, folder, workers=Workers("serial"))
    return folder


@pytest.fixture(scope="session")
def results(directory):
    return load_results(directory)
