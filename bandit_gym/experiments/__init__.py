"""Experiments as data, who carries them out, and how what they find is stored."""

from typing import TYPE_CHECKING

from bandit_gym.lending import lend

if TYPE_CHECKING:
    from bandit_gym.experiments.callbacks import Callback
    from bandit_gym.experiments.catalogue import describe_catalogue, find_own_code
    from bandit_gym.experiments.command_line import (
        NobodyReadsError,
        OneLineParser,
        fit_terminal,
        parse_agent,
        parse_environment,
        parse_integer,
        parse_number,
        reader_may_leave,
        take_world,
    )
    from bandit_gym.experiments.entries import Entry
    from bandit_gym.experiments.execution import Progress, run_experiment
    from bandit_gym.experiments.executor import Workers, stopping_in_order
    from bandit_gym.experiments.experiment import Experiment, Run, load_experiment
    from bandit_gym.experiments.objects import describe_agents, describe_environments, own_names
    from bandit_gym.experiments.progress import progress_on_stderr
    from bandit_gym.experiments.provenance import (
        HERE,
        OutdatedError,
        check_trust,
        importing_from,
        tell_modules,
    )
    from bandit_gym.experiments.simulation import least_regrets
    from bandit_gym.experiments.store import read_manifest

__getattr__, __dir__ = lend(
    __name__,
    {
        "Callback": "callbacks",
        "Entry": "entries",
        "Experiment": "experiment",
        "HERE": "provenance",
        "NobodyReadsError": "command_line",
        "OneLineParser": "command_line",
        "OutdatedError": "provenance",
        "Progress": "execution",
        "Run": "experiment",
        "Workers": "executor",
        "check_trust": "provenance",
        "describe_agents": "objects",
        "describe_catalogue": "catalogue",
        "describe_environments": "objects",
        "find_own_code": "catalogue",
        "fit_terminal": "command_line",
        "importing_from": "provenance",
        "least_regrets": "simulation",
        "load_experiment": "experiment",
        "own_names": "objects",
        "parse_agent": "command_line",
        "parse_environment": "command_line",
        "parse_integer": "command_line",
        "parse_number": "command_line",
        "progress_on_stderr": "progress",
        "read_manifest": "store",
        "reader_may_leave": "command_line",
        "run_experiment": "execution",
        "stopping_in_order": "executor",
        "take_world": "command_line",
        "tell_modules": "provenance",
    },
)
__all__ = __dir__()
