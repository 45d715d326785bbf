"""Experiments as data, who carries them out, and how what they find is stored."""

from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.execution import Progress, Workers
from bandit_gym.experiments.experiment import Experiment, Run, load_experiment

__all__ = [
    "Entry",
    "Experiment",
    "Progress",
    "Run",
    "Workers",
    "load_experiment",
]
