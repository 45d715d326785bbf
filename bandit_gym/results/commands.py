"""The commands that read folders of results: report and export.

Nothing heavy is loaded before a command is carried out: the parser of every command is made first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bandit_gym.checks import check_file, check_folder
from bandit_gym.experiments.command_line import terminal_width
from bandit_gym.files import replacing
from bandit_gym.results.page import write_html
from bandit_gym.results.report import describe, write_report
from bandit_gym.results.results import load_results
from bandit_gym.results.tables import DETAILS
from bandit_gym.styles import FORMATS, STYLES

OK, FAILED = 0, 1


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
    text = "of figures; may be given again; default: png and svg"
    parser.add_argument("--format", action="append", choices=FORMATS, help=text)
    text = "of figures: screen (default), or paper, a column wide, serif, without titles"
    parser.add_argument("--style", choices=STYLES, help=text)
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
