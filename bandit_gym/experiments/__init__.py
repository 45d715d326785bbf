"""Experiments as data, who carries them out, and how what they find is stored."""

from typing import TYPE_CHECKING

from bandit_gym.lending import lend

if TYPE_CHECKING:
    from bandit_gym.experiments.backends import Workers as Workers
    from bandit_gym.experiments.entries import Entry as Entry
    from bandit_gym.experiments.execution import Progress as Progress
    from bandit_gym.experiments.execution import run_experiment as run_experiment
    from bandit_gym.experiments.experiment import Experiment as Experiment
    from bandit_gym.experiments.experiment import Run as Run
    from bandit_gym.experiments.experiment import load_experiment as load_experiment

__getattr__, __dir__ = lend(
    __name__,
    {
        "Entry": "entries",
        "Experiment": "experiment",
        "Progress": "execution",
        "Run": "experiment",
        "Workers": "backends",
        "load_experiment": "experiment",
        "run_experiment": "execution",
    },
)
__all__ = __dir__()
