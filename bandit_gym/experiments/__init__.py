"""Experiments as data, who carries them out, and how what they find is stored."""

from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.execution import Callback, Progress, Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment, Run, load_experiment
from bandit_gym.experiments.store import OutdatedError

__all__ = [
    "Callback",
    "Entry",
    "Experiment",
    "OutdatedError",
    "Progress",
    "Run",
    "Workers",
    "load_experiment",
    "run_experiment",
]
