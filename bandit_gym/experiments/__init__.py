"""Experiments as data, who carries them out, and how what they find is stored."""

from typing import TYPE_CHECKING

from bandit_gym.lending import lend

if TYPE_CHECKING:
    from bandit_gym.experiments.backends import Workers
    from bandit_gym.experiments.callbacks import Callback
    from bandit_gym.experiments.catalogue import describe_catalogue
    from bandit_gym.experiments.changes import OutdatedError
    from bandit_gym.experiments.ending import stopping_in_order
    from bandit_gym.experiments.entries import Entry
    from bandit_gym.experiments.execution import Progress, run_experiment
    from bandit_gym.experiments.experiment import Experiment, Run, load_experiment
    from bandit_gym.experiments.manifest import read_manifest
    from bandit_gym.experiments.objects import describe_agents, describe_environments, own_names
    from bandit_gym.experiments.progress import progress_on_stderr
    from bandit_gym.experiments.simulation import least_regrets
    from bandit_gym.experiments.terminal import (
        NobodyReadsError,
        OneLineParser,
        ask,
        fit_terminal,
        reader_may_leave,
    )
    from bandit_gym.experiments.trust import (
        HERE,
        check_trust,
        importing_from,
        remember,
        remembered_folders,
        tell_modules,
    )
    from bandit_gym.experiments.typed import (
        parse_agent,
        parse_environment,
        parse_integer,
        parse_number,
        take_world,
    )

__getattr__, __dir__ = lend(
    __name__,
    {
        "Callback": "callbacks",
        "Entry": "entries",
        "Experiment": "experiment",
        "HERE": "trust",
        "NobodyReadsError": "terminal",
        "OneLineParser": "terminal",
        "OutdatedError": "changes",
        "Progress": "execution",
        "Run": "experiment",
        "Workers": "backends",
        "ask": "terminal",
        "check_trust": "trust",
        "describe_agents": "objects",
        "describe_catalogue": "catalogue",
        "describe_environments": "objects",
        "fit_terminal": "terminal",
        "importing_from": "trust",
        "least_regrets": "simulation",
        "load_experiment": "experiment",
        "own_names": "objects",
        "parse_agent": "typed",
        "parse_environment": "typed",
        "parse_integer": "typed",
        "parse_number": "typed",
        "progress_on_stderr": "progress",
        "read_manifest": "manifest",
        "reader_may_leave": "terminal",
        "remember": "trust",
        "remembered_folders": "trust",
        "run_experiment": "execution",
        "stopping_in_order": "ending",
        "take_world": "typed",
        "tell_modules": "trust",
    },
)
__all__ = __dir__()
