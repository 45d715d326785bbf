"""The commands that read folders of results: report and export.

Nothing heavy is loaded before a command is carried out: the parser of every command is made first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bandit_gym.checks import check_choice, check_file, check_folder, message
from bandit_gym.checks.files import replacing
from bandit_gym.experiments.command_line import terminal_width
from bandit_gym.results.page import write_html
from bandit_gym.results.report import describe, write_report
from bandit_gym.results.results import load_results

OK, FAILED = 0, 1
FOLDER_ONLY = ("format", "style", "latex")
FORMATS, STYLES = ("png", "svg", "pdf"), ("screen", "paper")


def report(options: argparse.Namespace) -> int:
    """Print the tables of a folder and write its report."""
    found = load_results(options.directory)
    typed = None if options.out is None else check_folder("out", options.out)
    folder = typed or Path(options.directory) / "report"
    given = {name: getattr(options, name) for name in FOLDER_ONLY}
    chosen = {name: value for name, value in given.items() if value not in (None, False)}
    for name in chosen.get("format", ()):
        check_choice("format", name, FORMATS)
    check_choice("style", chosen.get("style", STYLES[0]), STYLES)
    if options.html and chosen:
        condition = "stand without --format, --style and --latex"
        raise ValueError(message("--html", condition, ", ".join(f"--{name}" for name in chosen)))
    print(describe(found, details=True, columns=options.columns, width=terminal_width()))
    if options.html:
        print(f"\nReport: {write_html(found, folder / 'report.html')}")
        return FAILED if found.failed else OK
    if "format" in chosen:
        chosen["formats"] = chosen.pop("format")
    write_report(found, folder, **chosen)
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


def take_directory(parser: argparse.ArgumentParser) -> None:
    """Declare the folder of an experiment."""
    parser.add_argument("directory")


def take_columns(parser: argparse.ArgumentParser) -> None:
    """Declare what the printed table shows beside its usual columns."""
    text = "what the printed table shows as well, such as last_switch"
    parser.add_argument("--columns", nargs="+", default=(), metavar="COLUMN", help=text)


def _take_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", help="folder of tables and figures; default: DIR/report")
    text = "one file, OUT/report.html, instead: opens in a browser, without a network"
    parser.add_argument("--html", action="store_true", help=text)
    text = f"of figures: {', '.join(FORMATS)}; may be given again; default: png and svg"
    parser.add_argument("--format", action="append", help=text)
    text = "of figures: screen, or paper, a column wide, serif, without titles"
    parser.add_argument("--style", help=text)
    parser.add_argument("--latex", action="store_true", help="tables.tex too, for booktabs")


def _take_csv(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--csv", nargs="?", metavar="FILE", help="DIR/results.csv")


COMMANDS: dict[Callable[[argparse.Namespace], int], tuple[Any, ...]] = {
    report: (
        "tables and figures of what is stored so far",
        *(take_directory, take_columns, _take_report),
    ),
    export: ("write all stored rows into one file", take_directory, _take_csv),
}
"""Every command, what it does, and which arguments it takes."""
