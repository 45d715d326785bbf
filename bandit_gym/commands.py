"""The commands that read results, show a run, and put agents to a suite.

Nothing heavy is loaded before a command is carried out: the parser of every command is made first.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bandit_gym.checks import check_file, check_folder, check_real, message
from bandit_gym.checks.files import replacing
from bandit_gym.checks.styles import FORMATS, STYLES
from bandit_gym.experiments.command_line import (
    parse_agent,
    parse_environment,
    take_world,
    terminal_width,
)
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.provenance import HERE, importing_from
from bandit_gym.experiments.simulation import headline
from bandit_gym.fidelity.benchmark import describe_leaderboard, describe_verdicts, run_suite
from bandit_gym.fidelity.suite import load_suite
from bandit_gym.results.page import write_html
from bandit_gym.results.report import describe, write_report
from bandit_gym.results.results import load_results
from bandit_gym.results.tables import DETAILS

if TYPE_CHECKING:
    from bandit_gym.experiments import Run

OK, FAILED = 0, 1

MOST_FPS = 50
"""Frames a second; players show a GIF that asks for more at a tenth of its speed."""


def report(options: argparse.Namespace) -> int:
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


def export(options: argparse.Namespace) -> int:
    """Write all rows of a folder into one file."""
    found = load_results(options.directory)
    is_typed = options.csv is not None
    path = check_file("csv", options.csv) if is_typed else Path(options.directory) / "results.csv"
    with replacing(path, is_typed=is_typed) as file:
        for number, table in enumerate(found.frames()):
            file.write(table.to_csv(index=False, header=number == 0).encode())
    print(f"One row per stored replication and step: {path}")
    return OK


def watch(options: argparse.Namespace) -> int:
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


def fidelity(options: argparse.Namespace) -> int:
    """Put agents and samplers to a suite of cases, print what came of it, and write it.

    The exit code is 1 if one fails, or is WRONG in a suite that is judged.
    """
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


def take_directory(parser: argparse.ArgumentParser) -> None:
    """Declare the folder of an experiment."""
    parser.add_argument("directory", help="DIR, the folder of an experiment")


def take_columns(parser: argparse.ArgumentParser) -> None:
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


COMMANDS: dict[Callable[[argparse.Namespace], int], tuple[Any, ...]] = {
    watch: ("show what an agent knows, pulls and loses, as it plays", _take_watched),
    report: (
        "tables and figures of what is stored so far",
        *(take_directory, take_columns, _take_report),
    ),
    export: ("write all stored rows into one file", take_directory, _take_csv),
    fidelity: ("measure how near agents and samplers are to exact Thompson sampling", _take_suite),
}
"""Every command, what it does, and which arguments it takes."""
