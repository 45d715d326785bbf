"""The command `bandit-gym`: list, compare, run, resume, watch, report, export, fidelity.

Exit codes: 0 all went well; 1 an agent failed, or results could not be written; 2 bad input, a
folder in use or a scheduler out of reach; 130 interrupted and 143 stopped by SIGTERM, to be
continued with `resume`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from bandit_gym.checks import check_file, check_folder, check_path, check_real, message
from bandit_gym.checks.files import VERSION, replacing
from bandit_gym.checks.styles import FORMATS, STYLES
from bandit_gym.experiments.catalogue import KINDS, describe_catalogue, find_own_code
from bandit_gym.experiments.command_line import (
    OneLineParser,
    parse_agent,
    parse_environment,
    take_world,
    terminal_width,
)
from bandit_gym.experiments.execution import run_experiment
from bandit_gym.experiments.executor import Workers
from bandit_gym.experiments.experiment import Experiment, load_experiment
from bandit_gym.experiments.progress import progress_on_stderr
from bandit_gym.experiments.provenance import HERE, check_trust, importing_from
from bandit_gym.experiments.simulation import headline, least_regrets
from bandit_gym.experiments.store import MANIFEST, read_manifest
from bandit_gym.results.page import write_html
from bandit_gym.results.report import describe, draw_regret, write_report
from bandit_gym.results.results import load_results
from bandit_gym.results.tables import DETAILS

if TYPE_CHECKING:
    from bandit_gym.experiments import Run

OK, FAILED, BAD_INPUT, INTERRUPTED, NOBODY_READS, TERMINATED = 0, 1, 2, 130, 141, 143

MOST_FPS = 50
"""Frames a second; players show a GIF that asks for more at a tenth of its speed."""

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
    options = _make_parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = int(options.command(options))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has gone, as `head` does; what is left goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except KeyboardInterrupt as stop:
        reason, code = str(stop) or "interrupted", TERMINATED if stop.args else INTERRUPTED
    except (*_INPUT_ERRORS, OSError) as error:
        if options.traceback:
            raise
        reason = f"error: {error}"
        code = BAD_INPUT if isinstance(error, _INPUT_ERRORS) else FAILED
    print(f"bandit-gym: {reason}", file=sys.stderr)
    if code != BAD_INPUT and options.folder and (options.folder / MANIFEST).is_file():
        again = _command_to_go_on(options, sys.argv[1:] if arguments is None else arguments)
        print(f"What is done is stored. To go on: {again}", file=sys.stderr)
    return code


def _command_to_go_on(options: argparse.Namespace, arguments: Sequence[str]) -> str:
    """Return what a shell takes: `resume`, or the same command again if that finds other code."""
    with importing_from(HERE):
        if find_own_code(options.experiment) != options.code:  # of a module beside the file
            return shlex.join(["bandit-gym", *arguments])
    flags = ["--trust"] * bool(options.code) + ["--recompute"] * options.recompute
    return shlex.join(["bandit-gym", "resume", str(options.folder), *flags])


def _terminate(number: int, frame: Any) -> NoReturn:
    """Answer SIGTERM as Ctrl-C is answered: workers end, and the user is told how to go on."""
    raise KeyboardInterrupt("stopped by SIGTERM")


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
    options.folder, options.experiment = folder, experiment
    options.code = find_own_code(experiment)
    workers = Workers(options.backend, options.workers, options.scheduler)
    with progress_on_stderr() as on_progress:
        found = run_experiment(
            experiment,
            folder,
            workers=workers,
            on_progress=on_progress,
            recompute=options.recompute,
        )
    print(describe(found, columns=options.columns, width=terminal_width()))
    for path in draw_regret(found, folder / "report"):
        print(f"\nRegret over time: {path}")
    print(f"All tables and figures: {shlex.join(['bandit-gym', 'report', str(folder)])}")
    for world, line in least_regrets(experiment) if options.optimal else ():
        print(f"Least possible regret in {world}: {line}")
    return FAILED if found.failed else OK


def _folder(options: argparse.Namespace, stem: str, experiment: Experiment) -> Path:
    if options.out is not None:
        return check_folder("out", options.out)
    return Path("results") / f"{stem.rpartition(':')[2]}-{experiment.name}"


def _report(options: argparse.Namespace) -> int:
    """Print the tables of a folder and write its report."""
    found = load_results(options.directory)
    default = Path(options.directory) / "report"
    folder = default if options.out is None else check_folder("out", options.out)
    if options.html and (options.format or options.style or options.latex):
        raise ValueError("--html must stand without --format, --style and --latex, got both.")
    print(describe(found, columns=options.columns or DETAILS, width=terminal_width()))
    if options.html:
        print(f"\nReport: {write_html(found, folder / 'report.html')}")
    else:
        formats, style = options.format or ("png", "svg"), options.style or "screen"
        write_report(found, folder, formats=formats, style=style, latex=options.latex)
        print(f"\nTables and figures: {folder}")
    return FAILED if found.failed else OK


def _export(options: argparse.Namespace) -> int:
    """Write all rows of a folder into one file."""
    found = load_results(options.directory)
    is_typed = options.csv is not None
    path = check_file("csv", options.csv) if is_typed else Path(options.directory) / "results.csv"
    with replacing(path, is_typed=is_typed) as file:
        for number, table in enumerate(found.frames()):
            file.write(table.to_csv(index=False, header=number == 0).encode())
    print(f"One row per stored replication and step: {path}")
    return OK


def _watch(options: argparse.Namespace) -> int:
    """Show a run on the terminal as it goes, and film it where that is asked for."""
    from bandit_gym.watching import showing

    fps = check_real("fps", options.fps, above=0, maximum=MOST_FPS)
    path = None if options.gif is None else check_file("gif", options.gif)
    with importing_from(HERE):
        run = _read_run(options)
        try:
            with contextlib.ExitStack() as stack:
                painters = [stack.enter_context(showing.on_terminal(fps))]
                if path is not None:
                    painters.append(stack.enter_context(showing.filming(path, fps)))
                for frame in showing.watch(run):
                    for paint in painters:
                        paint(frame)
        except (ValueError, TypeError, ImportError, OSError):
            raise
        except (Exception, SystemExit) as error:  # of the agent or the world
            if options.traceback:
                raise
            names = f"{run.agent.label} failed in {run.environment.label}"
            print(f"bandit-gym: {names}: {headline(error)}", file=sys.stderr)
            return FAILED
    if path is not None:
        print(f"Animation: {path}")
    return OK


def _read_run(options: argparse.Namespace) -> Run:
    """Return the run that was typed, of one agent in one world and one lane."""
    experiment = Experiment.from_dict(
        {
            "environments": [parse_environment(options.env, options.env_options)],
            "agents": [parse_agent(options.agent)],
            "horizon": options.horizon,
            "seed": options.seed,
            "block_size": 1,
        }
    )
    if len(experiment.runs) > 1:
        condition = "be one agent in one world to watch, without a grid"
        labels = [run.agent.label for run in experiment.runs]
        raise ValueError(message("--agent", condition, labels))
    return experiment.runs[0]


def _fidelity(options: argparse.Namespace) -> int:
    """Put agents and samplers to a suite of cases, print what came of it, and write it.

    The exit code is 1 if one fails, or is WRONG in a suite that is judged.
    """
    # brings matplotlib and scipy.optimize, which no other command needs at its start
    from bandit_gym.fidelity.benchmark import describe_leaderboard, describe_verdicts, run_suite
    from bandit_gym.fidelity.suite import load_suite

    folder = check_folder("out", options.out)
    with importing_from(HERE):
        found = run_suite(
            [parse_agent(text) for text in options.agents],
            suite=options.suite,
            only=options.only,
            scale=options.scale,
            seed=options.seed,
            workers=options.workers,
        )
    is_judged = load_suite(found.suite).is_judged
    board, distances = found.leaderboard(), found.distances
    print(describe_verdicts(distances) if is_judged else describe_leaderboard(board))
    for failure in found.failures:
        print(f"bandit-gym: {failure}", file=sys.stderr)
    found.write(folder)
    print(f"\nTables and picture: {folder}")
    is_wrong = is_judged and (distances["verdict"] == "WRONG").any()
    return FAILED if found.failures or is_wrong else OK


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
        added.set_defaults(command=command, folder=None)
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
        help=f"first the reference of the differences; default: {' '.join(DEFAULT_AGENTS)}",
    )
    text = "episodes of each agent; default: %(default)s"
    parser.add_argument("--replications", type=int, default=100, help=text)
    text = "store every step, with the probability of its action"
    parser.add_argument("--propensities", action="store_true", help=text)


def _take_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="settings of the experiment")


def _take_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", help="folder; default: results/NAME-CONTENT")


def _take_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust", action="store_true", help="run the modules and saved models that DIR names"
    )


def _take_running(parser: argparse.ArgumentParser) -> None:
    """Declare who simulates, what is simulated again, and what is told at the end."""
    group = parser.add_argument_group("workers")
    group.add_argument(
        "--backend",
        default="loky",
        help="loky (default) or dask, which outlive an agent that kills its process; or serial",
    )
    group.add_argument("--workers", type=int, help="how many; default: one per core")
    group.add_argument("--scheduler", help="address of a running Dask scheduler")
    text = "compute the least regret that is possible, where the recursion has room for it"
    parser.add_argument("--optimal", action="store_true", help=text)
    text = "simulate blocks again that the present code would not draw"
    parser.add_argument("--recompute", action="store_true", help=text)
    _take_columns(parser)


def _take_directory(parser: argparse.ArgumentParser) -> None:
    """Declare the folder of an experiment."""
    parser.add_argument("directory", help="DIR, the folder of an experiment")


def _take_columns(parser: argparse.ArgumentParser) -> None:
    """Declare what the printed table shows beside its usual columns."""
    text = "what the printed table shows as well, such as last_switch"
    parser.add_argument("--columns", nargs="+", default=(), metavar="COLUMN", help=text)


def _take_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", help="folder of tables and figures; default: DIR/report")
    text = "one file, OUT/report.html, instead: opens in a browser, without a network"
    parser.add_argument("--html", action="store_true", help=text)
    text = "of figures; may be given again; default: png and svg"
    parser.add_argument("--format", action="append", choices=FORMATS, help=text)
    text = "of figures: screen (default), or paper, a column wide, serif, without titles"
    parser.add_argument("--style", choices=STYLES, help=text)
    parser.add_argument("--latex", action="store_true", help="tables.tex too, for booktabs")


def _take_csv(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--csv", nargs="?", metavar="FILE", help="where to; default: DIR/results.csv"
    )


def _take_watched(parser: argparse.ArgumentParser) -> None:
    take_world(parser)
    text = "who plays; default: %(default)s"
    form = "NAME[:OPTION=VALUE,...]"
    parser.add_argument("--agent", default="racing", metavar=form, help=text)
    text = "frames a second, at most; default: %(default)s"
    parser.add_argument("--fps", type=float, default=10.0, help=text)
    parser.add_argument("--gif", metavar="FILE", help="write an animation; default: none")


def _take_suite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--agents",
        nargs="+",
        default=["exact"],
        metavar="NAME[:OPTION=VALUE,...]",
        help="agents and samplers, by short name or module:name; default: exact",
    )
    parser.add_argument("--out", default="results/fidelity", help="folder; default: %(default)s")
    text = "fidelity-v1, or adversarial for a verdict on each case; default: %(default)s"
    parser.add_argument("--suite", default="fidelity-v1", metavar="NAME", help=text)
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="cases with it in their name; default: all"
    )
    text = "share of 10,000 decisions a case; default: 1"
    parser.add_argument("--scale", type=float, default=1.0, help=text)
    text = "of all draws; default: %(default)s"
    parser.add_argument("--seed", type=int, default=0, help=text)
    text = "how many; default: one per core"
    parser.add_argument("--workers", type=int, help=text)


COMMANDS: dict[Callable[..., int], tuple[Any, ...]] = {
    _list: ("show environments, agents, priors and likelihoods by name", _take_what),
    _compare: (
        "run agents in one environment and report",
        *(take_world, _take_agents, _take_out, _take_running),
    ),
    _run: (
        "run an experiment file (TOML or JSON) and report",
        *(_take_file, _take_out, _take_running),
    ),
    _resume: (
        "go on with an experiment that was interrupted",
        *(_take_directory, _take_trust, _take_running),
    ),
    _watch: ("show what an agent knows, pulls and loses, as it plays", _take_watched),
    _report: (
        "tables and figures of what is stored so far",
        *(_take_directory, _take_columns, _take_report),
    ),
    _export: ("write all stored rows into one file", _take_directory, _take_csv),
    _fidelity: ("measure how near agents and samplers are to exact Thompson sampling", _take_suite),
}
"""Every command, what it does, and which arguments it takes."""
