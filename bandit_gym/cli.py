"""The command `bandit-gym`: list, compare, run, resume, watch, report, export, fidelity.

Exit codes: 0 all went well; 1 an agent failed, results could not be written, or two folders differ
where they must not; 2 bad input, a folder in use or a scheduler out of reach; 130 interrupted, 143
and 129 stopped by SIGTERM and SIGHUP, to be continued with `resume`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

from bandit_gym.checks import check_folder, check_path
from bandit_gym.checks.files import VERSION
from bandit_gym.experiments.catalogue import KINDS, describe_catalogue, find_own_code
from bandit_gym.experiments.command_line import (
    OneLineParser,
    fit_terminal,
    parse_agent,
    parse_environment,
    parse_integer,
    take_world,
    terminal_width,
)
from bandit_gym.experiments.execution import run_experiment
from bandit_gym.experiments.executor import Workers, stopping_in_order
from bandit_gym.experiments.experiment import Experiment, load_experiment
from bandit_gym.experiments.progress import progress_on_stderr
from bandit_gym.experiments.provenance import HERE, check_trust, importing_from
from bandit_gym.experiments.simulation import least_regrets
from bandit_gym.experiments.store import read_manifest
from bandit_gym.fidelity import commands as fidelity
from bandit_gym.results import commands as reading
from bandit_gym.results.commands import FAILED, OK
from bandit_gym.results.report import describe, draw_regret
from bandit_gym.watching import commands as watching

BAD_INPUT, INTERRUPTED, NOBODY_READS = 2, 130, 141

EXAMPLES = """examples:
  bandit-gym compare
  bandit-gym compare --env PoissonBandit-v0 --env-options '{"num_arms": 5}' \\
      --agents racing:delta=0.05 racing_paper:sigma=0.3 bayes_ucb --replications 200 --horizon 2000
  bandit-gym run experiment.toml --workers 8
  bandit-gym report results/experiment-1a2b3c4d5e6f
"""

DEFAULT_AGENTS = ("racing", "racing_paper", "exact", "smc", "ucb1")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    fit_terminal()
    options = _make_parser().parse_args(arguments)
    try:
        with stopping_in_order():
            code = int(options.command(options))
            sys.stdout.flush()
            return code
    except BrokenPipeError:  # the reader has gone, as `head` does; what is left goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except KeyboardInterrupt as stop:
        return _interrupted(stop)
    except (*_INPUT_ERRORS, OSError, BrokenExecutor) as error:
        if options.traceback:
            raise
        print(f"bandit-gym: error: {error}", file=sys.stderr)
        return BAD_INPUT if isinstance(error, _INPUT_ERRORS) else FAILED


def _list(options: argparse.Namespace) -> int:
    print(describe_catalogue(*options.what))
    return OK


def _compare(options: argparse.Namespace) -> int:
    sizes = ("replications", "horizon", "seed", "propensities")
    settings: dict[str, Any] = {name: getattr(options, name) for name in sizes}
    settings["environments"] = [parse_environment(options.env, options.env_options)]
    settings["agents"] = [parse_agent(text) for text in options.agents]
    with importing_from(HERE):
        experiment = Experiment.from_dict(settings)
        return _carry_out(experiment, _folder(options, options.env, experiment), options)


def _run(options: argparse.Namespace) -> int:
    file = check_path("file", options.file)
    beside = str(file.absolute().parent)
    with importing_from(beside, HERE):
        experiment = load_experiment(file)
        return _carry_out(experiment, _folder(options, file.stem, experiment), options)


def _resume(options: argparse.Namespace) -> int:
    folder = check_path("directory", options.directory)
    experiment = read_manifest(folder)
    with importing_from(HERE):
        if not options.trust:
            check_trust(folder, find_own_code(experiment))
        return _carry_out(experiment, folder, options)


def _carry_out(experiment: Experiment, folder: Path, options: argparse.Namespace) -> int:
    """Run an experiment with a progress bar, then print its tables and draw its regret."""
    workers = Workers(options.backend, options.workers, options.scheduler)
    try:
        with progress_on_stderr() as on_progress:
            found = run_experiment(
                experiment,
                folder,
                workers=workers,
                on_progress=on_progress,
                recompute=options.recompute,
            )
    except KeyboardInterrupt as stop:
        return _interrupted(stop, folder)
    except _INPUT_ERRORS:
        raise
    except (OSError, BrokenExecutor) as error:
        return _stop(str(error), folder, FAILED)
    print(describe(found, columns=options.columns, width=terminal_width()))
    for path in draw_regret(found, folder / "report"):
        print(f"\nRegret over time: {path}")
    print(f"All tables and figures: bandit-gym report {folder}")
    for world, line in least_regrets(experiment) if options.optimal else ():
        print(f"Least possible regret in {world}: {line}")
    return FAILED if found.failed else OK


def _interrupted(stop: KeyboardInterrupt, folder: Path = Path()) -> int:
    return _stop(str(stop) or "interrupted", folder, getattr(stop, "exit_code", INTERRUPTED))


def _stop(reason: str, folder: Path, code: int) -> int:
    """Say why a run ended early and, if it left anything, how to go on."""
    print(f"bandit-gym: {reason}", file=sys.stderr)
    if (folder / "experiment.json").is_file():
        print(f"What is done is stored. To go on: bandit-gym resume {folder}", file=sys.stderr)
    return code


def _folder(options: argparse.Namespace, stem: str, experiment: Experiment) -> Path:
    if options.out is not None:
        return check_folder("out", options.out)
    return Path("results") / f"{stem.rpartition(':')[2]}-{experiment.name}"


_PATH_ERRORS = FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError
_OTHERS_ERRORS = BlockingIOError, ConnectionError, TimeoutError
_INPUT_ERRORS = (ValueError, TypeError, ImportError, *_PATH_ERRORS, *_OTHERS_ERRORS)


def _make_parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="bandit-gym",
        description="Compare Bayesian bandit agents, with honest intervals.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    parser.add_argument("--traceback", action="store_true", help="show where an error comes from")
    subparsers = parser.add_subparsers(required=True, metavar="command")
    for command, (text, *declarations) in COMMANDS.items():
        added = subparsers.add_parser(command.__name__.removeprefix("_"), help=text)
        added.set_defaults(command=command)
        for declare in declarations:
            declare(added)
    return parser


def _take_what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)}; default: all")


def _take_agents(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--agents",
        nargs="+",
        default=DEFAULT_AGENTS,
        metavar="NAME[:OPTION=VALUE,...]",
        help="the first is the reference of the differences",
    )
    parser.add_argument("--replications", type=parse_integer, default=100)
    text = "store every step, with the probability of its action"
    parser.add_argument("--propensities", action="store_true", help=text)


def _take_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file")


def _take_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", help="folder; default: results/NAME-CONTENT")


def _take_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust", action="store_true", help="run the modules and saved models that DIR names"
    )


def _take_workers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("workers")
    group.add_argument(
        "--backend",
        default="loky",
        help="loky (default) or dask, which outlive an agent that kills its process; or serial",
    )
    group.add_argument("--workers", type=parse_integer, help="how many; default: one per core")
    group.add_argument("--scheduler", help="address of a running Dask scheduler")


def _take_optimal(parser: argparse.ArgumentParser) -> None:
    text = "compute the least regret that is possible, where the recursion has room for it"
    parser.add_argument("--optimal", action="store_true", help=text)


def _take_recompute(parser: argparse.ArgumentParser) -> None:
    text = "simulate blocks again that the present code would not draw"
    parser.add_argument("--recompute", action="store_true", help=text)


_ENDING = (_take_optimal, _take_recompute, reading.take_columns)

COMMANDS: dict[Callable[..., int], tuple[Any, ...]] = {
    _list: ("show environments, agents, priors and likelihoods by name", _take_what),
    _compare: (
        "run agents in one environment and report",
        *(take_world, _take_agents),
        *(_take_out, _take_workers, *_ENDING),
    ),
    _run: (
        "run an experiment file (TOML or JSON) and report",
        *(_take_file, _take_out, _take_workers, *_ENDING),
    ),
    _resume: (
        "go on with an experiment that was interrupted",
        *(reading.take_directory, _take_trust, _take_workers, *_ENDING),
    ),
    **watching.COMMANDS,
    **reading.COMMANDS,
    **fidelity.COMMANDS,
}
"""Every command, what it does, and which arguments it takes."""
