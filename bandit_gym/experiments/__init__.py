"""Experiments as data, who carries them out, and how what they find is stored."""

from typing import TYPE_CHECKING

from bandit_gym.lending import lend

if TYPE_CHECKING:
    from bandit_gym.experiments.backends import Workers
    from bandit_gym.experiments.execution import Progress, run_experiment
    from bandit_gym.experiments.experiment import Entry, Experiment, Run, load_experiment

__all__ = [
    "Entry",
    "Experiment",
    "Progress",
    "Run",
    "Workers",
    "load_experiment",
    "run_experiment",
]

__getattr__, __dir__ = lend(
    __name__,
    {
        "Entry": "experiment",
        "Experiment": "experiment",
        "Progress": "execution",
        "Run": "experiment",
        "Workers": "backends",
        "load_experiment": "experiment",
        "run_experiment": "execution",
    },
)
