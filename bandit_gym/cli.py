"""The command `bandit-gym`: list, compare, run, resume, film, report, export, fidelity, compile.

Exit codes: 0 all went well; 1 an agent failed, or results could not be written; 2 bad input, a
folder in use or a scheduler out of reach; 130 interrupted and 143 stopped by SIGTERM, to be
continued with `resume`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from numpy.random import SeedSequence

import bandit_gym
from bandit_gym.checks import (
    check_choice,
    check_file,
    check_folder,
    check_object,
    check_path,
    message,
)
from bandit_gym.experiments.catalogue import CATALOGUE_GROUPS, describe_catalogue
from bandit_gym.experiments.entries import make_environment
from bandit_gym.experiments.execution import (
    Workers,
    progress_on_stderr,
    simulate_experiment,
)
from bandit_gym.experiments.experiment import (
    ACT_OPTIONS,
    Experiment,
    Run,
    load_experiment,
    make_agent_and_environment,
    read_json,
)
from bandit_gym.experiments.store import MANIFEST, open_store
from bandit_gym.files import VERSION, find_stream, replacing
from bandit_gym.registration import ENV_IDS
from bandit_gym.results.page import write_html
from bandit_gym.results.report import (
    DETAIL_COLUMNS,
    LINE_WIDTH,
    TITLED_COLUMNS,
    describe,
    wrap_with_indent,
    write_report,
)
from bandit_gym.results.results import join_results, load_results, read_results
from bandit_gym.rollout import play_steps
from bandit_gym.styles import AXIS_SCALES, FILE_STYLES, FORMATS

OK, RUN_FAILED, BAD_INPUT, INTERRUPTED, READER_GONE, TERMINATED = 0, 1, 2, 130, 141, 143

EXAMPLES = """examples:
  bandit-gym compare
  bandit-gym compare --env PoissonBandit-v0 --env-options '{"num_arms": 5}' \\
      --agents racing:stopping=20 racing_paper:sigma=0.3 bayes_ucb --replications 200 --horizon 2000
  bandit-gym run experiment.toml --workers 8
  bandit-gym report results/experiment-1a2b3c4d5e6f
"""

DEFAULT_AGENTS = (
    "racing",
    "exact",
    "exact:prior=reference,label=conjugate shortcut",
    "smc_paper",
    "ucb1",
)
DEFAULT_ENV = "BernoulliBandit-v0"
CLICK_RATES = (
    '{"label": "click rates", "prior": {"name": "truncated_normal", "mean": 0.2, "std": 0.1}}'
)
"""Options of the environment that is played where none is named: its prior is not conjugate."""

COMPILED_STEPS = 50
"""Of an episode that calls all that is compiled for an agent."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _make_parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        has_failed = options.command(options)
        sys.stdout.flush()
        return RUN_FAILED if has_failed else OK
    except BrokenPipeError:  # the reader has gone, as `head` does; what is left goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except KeyboardInterrupt as stop:
        reason, code = str(stop) or "interrupted", TERMINATED if stop.args else INTERRUPTED
    except (*_INPUT_ERRORS, OSError) as error:
        if options.traceback:
            raise
        reason = f"error: {error}"
        code = BAD_INPUT if isinstance(error, _INPUT_ERRORS) else RUN_FAILED
    print(f"bandit-gym: {reason}", file=sys.stderr)
    if code != BAD_INPUT and options.folder and (options.folder / MANIFEST).is_file():
        typed = sys.argv[1:] if arguments is None else arguments
        again = shlex.join(["bandit-gym", *typed])
        print(f"What is done is stored. To go on: {again}", file=sys.stderr)
    return code


def _terminate(number: int, frame: Any) -> NoReturn:
    """Answer SIGTERM as Ctrl-C is answered: workers end, and the user is shown how to go on."""
    raise KeyboardInterrupt("stopped by SIGTERM")


def _list(options: argparse.Namespace) -> None:
    print(wrap_with_indent(describe_catalogue(*options.what), _terminal_width()))


def _compare(options: argparse.Namespace) -> bool:
    sizes = ("replications", "horizon", "seed", "propensities", *ACT_OPTIONS)
    settings: dict[str, Any] = {name: getattr(options, name) for name in sizes}
    settings["environments"] = [_parse_environment(options)]
    settings["agents"] = [_parse_agent(text) for text in options.agents]
    _import_from()
    name = (options.env or DEFAULT_ENV).rpartition(":")[2]
    return _run_experiment(Experiment.from_dict(settings), name, options)


def _run(options: argparse.Namespace) -> bool:
    file = check_path("file", options.file)
    _import_from(str(file.absolute().parent))
    return _run_experiment(load_experiment(file), file.stem, options)


def _resume(options: argparse.Namespace) -> bool:
    options.out = check_path("directory", options.directory)
    experiment, _ = open_store(options.out)
    _import_from()
    if not options.trust and (code := experiment.foreign_code):
        condition = "name no code that does not come with this package"
        listed = f"it names {'; '.join(code)}; read it, and repeat with --trust"
        raise ValueError(message("the folder", condition, str(options.out), listed))
    return _run_experiment(experiment, "", options)


def _import_from(*folders: str) -> None:
    """Let modules be found in these and in the current folder too, after all that is installed."""
    sys.path += [folder for folder in (*folders, "") if folder not in sys.path]


def _run_experiment(experiment: Experiment, name: str, options: argparse.Namespace) -> bool:
    """Run an experiment, print its tables and draw its regret; return whether an agent failed."""
    from bandit_gym.results.plots import save_figures  # brings matplotlib, which others do not need

    for column in options.columns:
        check_choice("columns", column, TITLED_COLUMNS)
    usual = f"results/{name}-{experiment.name}"
    folder = check_folder("out", usual if options.out is None else options.out)
    options.folder = folder
    workers = Workers(options.backend, options.workers, options.scheduler)
    with progress_on_stderr() as on_progress:
        store = simulate_experiment(experiment, folder, workers=workers, on_progress=on_progress)
    results = read_results(store, experiment)
    print(describe(results, columns=options.columns, width=_terminal_width()))
    for path in save_figures(results, folder / "report", kinds=["regret"], formats=["png"]):
        print(f"\nRegret over time: {path}")
    print(f"All tables and figures: {shlex.join(['bandit-gym', 'report', str(folder)])}")
    runs = {run.environment: run for run in experiment.runs} if options.optimal else {}
    for run in runs.values():
        print(f"Least possible regret in {run.environment.label}: {_describe_optimum(run)}")
    return bool(results.failed)


def _describe_optimum(run: Run) -> str:
    """Return the least possible regret in a run's environment, or why it is not known."""
    env: Any = make_environment(run.environment, run.block_size, run.horizon)
    if run.values or run.costs:
        return "unknown; it is for rewards without values and costs."
    if env is not env.unwrapped or not getattr(env, "draws_means", False):
        return "unknown; it is for environments that draw their means, unwrapped."
    try:
        return f"{bandit_gym.optimal_regret(env.problem, run.horizon):.2f}"
    except (TypeError, ValueError) as error:
        return f"unknown; {error}"


def _report(options: argparse.Namespace) -> bool:
    """Print the tables of all folders as one, and write their report; return as a run does."""
    first, *others = options.directories
    if others and options.out is None:
        raise ValueError("--out must be given for a report of several folders, got none.")
    results = join_results([load_results(each) for each in options.directories])
    folder = check_folder("out", Path(first) / "report" if options.out is None else options.out)
    names = ("formats", "style", "xscale", "latex", "markdown")
    settings = {name: value for name in names if (value := getattr(options, name))}
    print(describe(results, columns=options.columns or DETAIL_COLUMNS, width=_terminal_width()))
    if options.html:
        print(f"\nReport: {write_html(results, folder / 'report.html')}")
    if settings or not options.html:
        write_report(results, folder, columns=options.columns, **settings)
        print(f"\nTables and figures: {folder}")
    return bool(results.failed)


def _export(options: argparse.Namespace) -> None:
    """Write all rows of a folder into one file."""
    results = load_results(options.directory)
    own = options.csv is None
    path = Path(options.directory) / "results.csv" if own else check_file("csv", options.csv)
    with replacing(path, allows_devices=not own) as file:
        results.rows.to_csv(file, index=False, mode="wb")
    output = sys.stderr if find_stream(path) == 1 else sys.stdout
    print(f"One row per stored replication and step: {path}", file=output)


def _film(options: argparse.Namespace) -> None:
    """Film a run: what the agent knows of each arm, pulls and loses."""
    from bandit_gym.films import check_film_path, film

    path = check_film_path(options.path)
    _import_from()
    environment, agent = _parse_environment(options), _parse_agent(options.agent)
    made = film(agent, environment, horizon=options.horizon, seed=options.seed)
    print(f"Film: {made.save(path)}")


def _compile(options: argparse.Namespace) -> None:
    """Play a short episode with each agent, so that the machine code of what it calls is kept."""
    _import_from()
    settings: dict[str, Any] = {"horizon": COMPILED_STEPS, "block_size": 1}
    settings["environments"] = [_parse_environment(options)]
    settings["agents"] = [_parse_agent(text) for text in options.agents]
    for run in Experiment.from_dict(settings).runs:
        start = time.perf_counter()
        agent, env = make_agent_and_environment(run)
        with contextlib.closing(env):
            steps = play_steps(agent, env, env_seed=0, agent_seed=SeedSequence(0))
            *_, last = islice(steps, COMPILED_STEPS - 1)  # the last one is decided
        if hasattr(agent, "decide"):
            with contextlib.suppress(TypeError):  # of rules without propensities
                agent.decide(last.observation)
        seconds = time.perf_counter() - start
        print(f"{run.agent.label} in {run.environment.label}: {seconds:.1f} s")


def _fidelity(options: argparse.Namespace) -> bool:
    """Put agents and samplers to a suite of cases, print what came of it, and write it.

    Returns:
        Whether one failed, or is WRONG in a suite that is judged.
    """
    # brings matplotlib and scipy.optimize, which no other command needs at its start
    from bandit_gym.fidelity.benchmark import describe_leaderboard, describe_verdicts, run_suite
    from bandit_gym.fidelity.suite import load_suite

    folder = check_folder("out", options.out)
    _import_from()
    names = ("suite", "only", "scale", "seed", "workers")
    given = {name: getattr(options, name) for name in names}
    outcome = run_suite([_parse_agent(text) for text in options.agents], **given)
    is_judged = load_suite(outcome.suite).is_judged
    board, distances = outcome.leaderboard(), outcome.distances
    print(describe_verdicts(distances) if is_judged else describe_leaderboard(board))
    for line in (*outcome.left_out, *outcome.failures):
        print(f"bandit-gym: {line}", file=sys.stderr)
    outcome.write(folder)
    print(f"\nTables and picture: {folder}")
    is_wrong = is_judged and (distances["verdict"] == "WRONG").any()
    return bool(outcome.failures or is_wrong)


_PATH_ERRORS = FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError
_OTHERS_ERRORS = BlockingIOError, ConnectionError, TimeoutError
_INPUT_ERRORS = (ValueError, TypeError, ImportError, *_PATH_ERRORS, *_OTHERS_ERRORS)


# -- What is typed --------------------------------------------------------------------------------


def _parse_environment(options: argparse.Namespace) -> dict[str, Any]:
    """Read an environment's name, and its options in JSON."""
    text = options.env_options or ("{}" if options.env else CLICK_RATES)
    try:
        settings = read_json(text)
    except ValueError as error:
        condition, reason = 'be JSON like {"num_arms": 5}', str(error)
        raise ValueError(message("--env-options", condition, text, reason)) from error
    if "env" in check_object("--env-options", settings, dict):
        raise ValueError(message("--env-options", "have no key 'env'", text, "give it as --env"))
    return settings | {"env": options.env or DEFAULT_ENV}


def _parse_agent(text: str) -> dict[str, Any]:
    """Read `name:option=value,...`; values are JSON, or else strings."""
    head, equals, values = text.partition("=")
    name, _, first = head.rpartition(":") if equals else (text, "", "")
    listed = first + equals + values
    settings: dict[str, Any] = {}
    for pair in re.split(r",(?=\w+=)", listed) if listed else ():
        option, _, value = pair.partition("=")
        if option == "agent" or option in settings:
            condition = "have each option once, and none called 'agent'"
            raise ValueError(message("agent", condition, text))
        try:
            settings[option] = read_json(value)
        except json.JSONDecodeError:
            settings[option] = value
        except ValueError as error:
            raise ValueError(message("agent", "have options in JSON", text, str(error))) from error
    return {**settings, "agent": name}


class _OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, as everything else here does, and ends with exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"bandit-gym: error: {message}; see {self.prog} --help.\n")


def _terminal_width() -> int:
    """Return the characters of a line of this terminal, `LINE_WIDTH` where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else LINE_WIDTH


def _make_parser() -> argparse.ArgumentParser:
    parser = _OneLineParser(
        prog="bandit-gym",
        description="Compare Bayesian bandit agents, with honest intervals.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    parser.add_argument("--traceback", action="store_true", help="show where an error comes from")
    commands = parser.add_subparsers(required=True, metavar="command")

    def add_command(command: Callable[..., bool | None], text: str) -> Callable[..., Any]:
        added = commands.add_parser(command.__name__.removeprefix("_"), help=text)
        added.set_defaults(command=command, folder=None)
        return added.add_argument

    add = add_command(_list, "show environments, agents, priors and likelihoods by name")
    kinds = f"{', '.join(CATALOGUE_GROUPS)}; default: all"
    add("what", help=kinds, nargs="*", metavar="KIND")

    add = add_command(_compare, "run agents in one environment and report")
    _add_comparison(add)
    _add_run_arguments(add)

    add = add_command(_run, "run an experiment file (TOML or JSON) and report")
    add("file", help="settings of the experiment")
    add("--out", help=_OUT)
    _add_run_arguments(add)

    add = add_command(_resume, "go on with an experiment that was interrupted")
    add("directory", help=_DIRECTORY)
    add("--trust", help="run the modules and saved models that DIR names", action="store_true")
    _add_run_arguments(add)

    add = add_command(_film, "film what an agent knows, pulls and loses, as it plays")
    add("path", help="OUT.gif, or OUT.html with a slider", metavar="OUT")
    _add_environment(add)
    add("--horizon", help="steps; default: 50", type=int, default=50)
    add("--agent", help="who plays; default: racing", default="racing", metavar=_AGENT_SYNTAX)

    _add_report(add_command(_report, "tables and figures of what is stored so far"))

    add = add_command(_export, "write all stored rows into one file")
    add("directory", help=_DIRECTORY)
    add("--csv", help="where to; default: DIR/results.csv", nargs="?", metavar="FILE")

    add = add_command(_compile, "compile for agents in an environment, and keep it for later")
    _add_environment(add, has_seed=False)
    who = f"who is compiled for; default: {', '.join(DEFAULT_AGENTS)}"
    add("--agents", help=who, nargs="+", default=DEFAULT_AGENTS, metavar=_AGENT_SYNTAX)

    text = "measure how near agents and samplers are to exact Thompson sampling"
    _add_suite(add_command(_fidelity, text))
    return parser


_AGENT_SYNTAX = "NAME[:OPTION=VALUE,...]"
_DIRECTORY = "DIR, the folder of an experiment"
_OUT = "folder; default: results/NAME-CONTENT"
_SEED = "of all draws; default: 0"
_WORKERS = "how many; default: one per core"


def _add_comparison(add: Callable[..., Any]) -> None:
    """Add the settings of a comparison, but for who runs it."""
    _add_environment(add)
    horizons = "steps; of several, the last, and the tables show the regret at each; default: 2000"
    add("--horizon", help=horizons, type=int, nargs="+", default=2000)
    reference = f"first the reference of the differences; default: {', '.join(DEFAULT_AGENTS)}"
    add("--agents", help=reference, nargs="+", default=DEFAULT_AGENTS, metavar=_AGENT_SYNTAX)
    add("--replications", help="episodes of each agent; default: 200", type=int, default=200)
    propensities = (
        "store every step, with the probability of its action; 'decide' draws it from that"
    )
    add("--propensities", help=propensities, nargs="?", const=True, default=False, metavar="decide")
    worth = "of each arm what a reward of 1 is worth; regret is then of values * means - costs"
    add("--values", help=worth, type=float, nargs="+")
    add("--costs", help="of each arm what a pull costs", type=float, nargs="+")
    add("--floor", help="least probability of an arm; default: 0", type=float, default=0.0)
    add("--out", help=_OUT)


def _add_report(add: Callable[..., Any]) -> None:
    """Add which folders a report is of, and what it is written as."""
    add("directories", help="folders, for one report", nargs="+", metavar="DIR")
    _add_columns(add)
    add("--out", help="folder of tables and figures; default: DIR/report")
    page = "one file, OUT/report.html, that opens in a browser without a network"
    add("--html", help=page, action="store_true")
    formats = "of figures; default: png and svg"
    add("--format", help=formats, dest="formats", action="append", choices=FORMATS)
    add("--style", help="screen (default), or paper, a column wide, serif", choices=FILE_STYLES)
    add("--xscale", help="of the steps in figures; default: each's own", choices=AXIS_SCALES)
    add("--latex", help="tables.tex too, for booktabs", action="store_true")
    add("--markdown", help="tables.md too", action="store_true")


def _add_suite(add: Callable[..., Any]) -> None:
    """Add who is put to which suite."""
    samplers = "agents and samplers, by short name or module:name; default: exact"
    add("--agents", help=samplers, nargs="+", default=["exact"], metavar=_AGENT_SYNTAX)
    add("--out", help="folder; default: results/fidelity", default="results/fidelity")
    suites = "fidelity-v1 (default), contextual-v1, or adversarial for a verdict on each case"
    add("--suite", help=suites, default="fidelity-v1", metavar="NAME")
    add("--only", help="cases with it in their name; default: all", default="", metavar="TEXT")
    add("--scale", help="share of 10,000 decisions a case; default: 1", type=float, default=1.0)
    add("--seed", help=_SEED, type=int, default=0)
    add("--workers", help=_WORKERS, type=int)


def _add_environment(add: Callable[..., Any], has_seed: bool = True) -> None:
    """Add the arguments of a command that plays in one environment."""
    ids = f"{', '.join(ENV_IDS)}; default: {DEFAULT_ENV} with the prior of --env-options"
    add("--env", help=ids)
    options = f"its arguments; default without --env: {CLICK_RATES}"
    add("--env-options", help=options, metavar="JSON")
    if has_seed:
        add("--seed", help=_SEED, type=int, default=0)


def _add_run_arguments(add: Callable[..., Any]) -> None:
    """Add the arguments of a command that runs an experiment."""
    backend = "loky (default) or dask, which outlive an agent that kills its process; or serial"
    add("--backend", help=backend, default="loky")
    add("--workers", help=_WORKERS, type=int)
    add("--scheduler", help="address of a running Dask scheduler")
    optimal = "compute the least possible regret, where the recursion has room for it"
    add("--optimal", help=optimal, action="store_true")
    _add_columns(add)


def _add_columns(add: Callable[..., Any]) -> None:
    columns = "what the printed table shows as well, such as last_switch"
    add("--columns", help=columns, nargs="+", default=(), metavar="COLUMN")
