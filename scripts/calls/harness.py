"""The edges of experiments, results and the command line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bandit_gym import cli, results
from bandit_gym.experiments import Entry, Experiment, Workers, load_experiment, run_experiment
from bandit_gym.results.results import Results
from calls.edges import Edge

EXPERIMENT = {
    "environments": "entries",
    "agents": "entries",
    "replications": "integer",
    "horizon": "integer",
    "seed": "integer",
    "recording": "name",
    "block_size": "integer",
}
ENTRY_WORDS = {
    "environments": ("env", "options of BernoulliBandit-v0", "grid of env", "label"),
    "agents": ("agent", "options of random", "grid of agent", "label"),
    "settings": ("experiment",),
}
FOLDER = ("folder",)
STORED = "stored"
SERIAL = Workers("serial")


def edges() -> list[Edge]:
    return [*_experiments(), *_results(), *_commands()]


def tiny(**others: Any) -> Experiment:
    """Return an experiment of some milliseconds."""
    good = {"environments": ["BernoulliBandit-v0"], "agents": ["random", "ucb1"]}
    return Experiment(**(good | {"replications": 2, "horizon": 3, "block_size": 2} | others))


def _experiments() -> list[Edge]:
    add = partial(Edge, "experiments")
    return [
        add("Experiment", _experiment, EXPERIMENT, ENTRY_WORDS),
        add("Experiment.from_dict", Experiment.from_dict, {"settings": "mapping"}, ENTRY_WORDS),
        add("Entry", _entry, {"target": "name", "options": "mapping", "label": "name"}),
        add("load_experiment", load_experiment, {"path": "path"}, {"path": ("experiment",)}),
        add(
            "Workers",
            lambda **bad: Workers(**({"backend": "dask"} | bad)),
            {"backend": "name", "num_workers": "integer", "scheduler": "name"},
        ),
        add(
            "run_experiment",
            _run_experiment,
            {
                "experiment": "object",
                "directory": "path",
                "workers": "object",
                "on_progress": "function",
                "changed": "name",
            },
            {"directory": FOLDER},
        ),
    ]


def _results() -> list[Edge]:
    add = partial(Edge, "results")
    of_results = {"results": "object"}
    tables = ("summarise", "aggregate", "describe")
    return [
        add(
            "load_results",
            _load_results,
            {"directory": "path", "experiment": "object"},
            {"directory": FOLDER},
        ),
        *(add(f"results.{name}", getattr(results, name), of_results) for name in tables),
        *(
            add(f"results.{name}", partial(_write, name), {**of_results, "directory": "path"})
            for name in ("write_report", "draw_regret")
        ),
        add(
            "Results.usable",
            lambda environment: _stored().usable(environment),
            {"environment": "object"},
        ),
        add(
            "Results.reference",
            lambda environment: _stored().reference(environment),
            {"environment": "object"},
        ),
        add(
            "RunResults.curves", lambda column: _stored().runs[0].curves(column), {"column": "name"}
        ),
        add("RunResults.final", lambda column: _stored().runs[0].final(column), {"column": "name"}),
        add(
            "paired_differences",
            _paired_differences,
            {"found": "object", "reference": "object", "column": "name"},
        ),
    ]


COMPARE = {
    "--env": "env text",
    "--env-options": "json text",
    "--agents": "agent text",
    "--replications": "int text",
    "--horizon": "int text",
    "--seed": "int text",
    "--out": "path text",
    "--backend": "name text",
    "--workers": "int text",
    "--scheduler": "address text",
}
REPORT = {
    "directory": "path text",
    "--out": "path text",
    "--format": "name text",
    "--style": "name text",
}
FIDELITY = {
    "--agents": "agent text",
    "--out": "path text",
    "--suite": "name text",
    "--only": "name text",
    "--scale": "number text",
    "--seed": "int text",
    "--workers": "int text",
}
COMMANDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "compare": (["--replications=2", "--horizon=3", "--backend=serial"], COMPARE),
    "run": (["--backend=serial"], {"file": "path text", "--out": "path text"}),
    "resume": (["--backend=serial"], {"directory": "path text"}),
    "report": ([], REPORT),
    "export": ([], {"directory": "path text", "--csv": "path text"}),
    "list": ([], {"what": "name text"}),
    "diff": ([], {"first": "path text"}),
    "fidelity": (
        ["--agents=random", "--only=Beta(1, 1), 20 pulls", "--scale=0.001", "--workers=1"],
        FIDELITY,
    ),
}
COMMAND_WORDS = {
    "--env": ("env", "horizon"),
    "--env-options": (
        *("env", "env options", "options", "options of BernoulliBandit-v0", "JSON"),
        *("label", "num_arms", "prior", "prior name", "means"),
    ),
    "--agents": (
        *("agent", "agent options", "options", "options of random", "JSON"),
        *("label", "delta", "num_particles", "scale"),
    ),
    "--workers": ("num_workers",),
    "--scheduler": ("scheduler",),
    "directory": FOLDER,
    "first": FOLDER,
    "--out": (*FOLDER, "directory"),
    "--csv": ("path",),
    "file": ("experiment", "path"),
}


def _commands() -> list[Edge]:
    return [
        Edge("command line", f"bandit-gym {command}", partial(_main, command), types, _words(types))
        for command, (_, types) in COMMANDS.items()
    ]


def _words(types: dict[str, str]) -> dict[str, tuple[str, ...]]:
    own = {option: (option.removeprefix("--"),) for option in types}
    return {option: own[option] + COMMAND_WORDS.get(option, ()) for option in types}


class WrongExitError(Exception):
    """Bad input that does not end with exit code 2."""


def _main(command: str, **bad: Any) -> None:
    """Call the command line for the exception that, without --traceback, is one line and code 2."""
    ((option, value),) = bad.items()
    good, types = COMMANDS[command]
    is_option = option.startswith("--")
    kept = [word for word in good if not word.startswith(option)]
    if option == "--scheduler":
        kept = ["--backend=dask", *kept[:-1]]
    positional = {"file": "tiny.toml", "directory": STORED} if is_option else {}
    places = [place for name, place in positional.items() if name in types]
    typed = [f"{option}={value}"] if is_option else ["--", value]
    typed += [STORED] * (command == "diff")
    try:
        code = cli.main(["--traceback", command, *kept, *places, *typed])
    except Exception as error:
        if not isinstance(error, cli._INPUT_ERRORS):
            raise WrongExitError(repr(error)) from error
        raise
    if code:
        raise WrongExitError(f"exit code {code}")


def _experiment(**bad: Any) -> None:
    experiment = tiny(**bad)
    experiment.to_dict()
    if experiment.num_blocks * experiment.block_size * experiment.horizon < 1000:
        run_experiment(experiment, "out", workers=SERIAL)


def _entry(**bad: Any) -> None:
    hash(Entry(**{"target": "agents:UniformRandom", "options": {}, "label": "a", **bad}))


def _run_experiment(**bad: Any) -> None:
    good = {"experiment": tiny(), "directory": "out", "workers": SERIAL}
    run_experiment(**{**good, **bad})


def _stored() -> Results:
    return results.load_results(STORED)


def _load_results(**bad: Any) -> None:
    results.describe(results.load_results(**{"directory": STORED, **bad}))


def _write(name: str, **bad: Any) -> None:
    write: Callable[..., Any] = getattr(results, name)
    write(**{"results": _stored(), "directory": Path("report"), **bad})


def _paired_differences(**bad: Any) -> None:
    first, second = _stored().runs
    good = {"found": second, "reference": first, "column": "pseudo_regret"}
    results.paired_differences(**{**good, **bad})
