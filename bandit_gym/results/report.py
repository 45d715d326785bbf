"""What people read: tables in plain text and LaTeX, and the folder `report` with figures."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from bandit_gym.checks import check_choice, check_folder
from bandit_gym.checks.files import RESULTS_VERSION, write_atomically
from bandit_gym.checks.styles import FORMATS, STYLES
from bandit_gym.results.statistics import LEVEL
from bandit_gym.results.stored import Stored
from bandit_gym.results.tables import (
    DETAILS,
    Row,
    Table,
    aggregate,
    make_aggregate,
    make_tables,
    summarise,
)

WIDTH, ENDLESS = 100, 10**6
"""Characters of a line where there is no terminal, and of one that is not to be broken."""

PREAMBLE = "% Needs \\usepackage{booktabs}, and XeLaTeX or LuaLaTeX where labels are not Latin.\n"
WRITTEN = {
    **{sign: f"\\{sign}" for sign in "#$%&_{}"},
    **{"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
    **{"`": r"\textasciigrave{}", "'": r"\textquotesingle{}", "[": "{[}", "]": "{]}"},
    **{"±": r"$\pm$", "−": "$-$", "µ": r"$\mu$"},
}
"""Signs that mean something to LaTeX, alone or with those beside them, and how it shows them."""

NEGATIVE = re.compile(r"(?<![\w-])-(?=\d)")


def describe(results: Stored, *, columns: Sequence[str] = (), width: int = ENDLESS) -> str:
    """Write what `contents` yields as plain text.

    Args:
        results: what to write about.
        columns: names of those to show beside the usual ones, such as "last_switch".
        width: characters that a line may have.
    """
    return "\n\n".join(
        wrap(part, width) if isinstance(part, str) else write_text(part, width)
        for part in contents(results, columns)
    )


def contents(results: Stored, columns: Sequence[str] = ()) -> Iterator[Table | str]:
    """Yield one table per environment, then the scores over all, then what is missing or failed.

    If another version of the engine drew the numbers, that is said before all.
    """
    rows = summarise(results).to_dict("records")
    yield from version_notes(results)
    yield from make_tables(results, rows, columns).values()
    yield from make_aggregate(results, rows)
    yield from closing_notes(results, rows)


def write_report(
    results: Stored,
    directory: Path,
    *,
    formats: Sequence[str] = ("png", "svg"),
    style: str = "screen",
    latex: bool = False,
) -> None:
    """Write tables as CSV, the text of `describe` and all figures into a folder.

    Args:
        results: what to report.
        directory: where to; made unless it is there.
        formats: of the figures: "png", "svg", "pdf".
        style: of the figures: "screen", or "paper" for a column's width, serif and without titles.
        latex: whether to write the tables as `tables.tex` too, for the LaTeX package booktabs.

    Raises:
        ValueError: if a format or the style is another.
        OSError: if the folder cannot be made or written to.
    """
    from bandit_gym.results.plots import save_all  # brings matplotlib, which tables do not need

    check_choice("style", style, STYLES)
    for name in formats:
        check_choice("formats", name, FORMATS)
    directory = check_folder("directory", directory)
    directory.mkdir(parents=True, exist_ok=True)
    for name, table in {"summary": summarise(results), "aggregate": aggregate(results)}.items():
        write_atomically(directory / f"{name}.csv", table.to_csv(index=False).encode())
    text = describe(results, columns=DETAILS)
    write_atomically(directory / "report.txt", f"{text}\n".encode())
    if latex:
        write_atomically(directory / "tables.tex", write_latex(results).encode())
    save_all(results, directory, style=style, formats=formats)


def draw_regret(results: Stored, directory: Path) -> list[Path]:
    """Draw the regret over time, one picture per environment, and return the PNG files."""
    from bandit_gym.results.plots import save_all

    folder = check_folder("directory", directory)
    return save_all(results, folder, kinds=["regret"], formats=["png"])


def version_notes(results: Stored) -> Iterator[str]:
    """Say what a reader must know before any number: that another version drew them."""
    if results.version != RESULTS_VERSION:
        yield (
            f"These are results of version {results.version}; this package draws those of version "
            f"{RESULTS_VERSION}, other numbers for the same settings. Do not compare the two."
        )


def closing_notes(results: Stored, rows: Sequence[Row]) -> Iterator[str]:
    """Say how verdicts are reached, and what is missing."""
    count = sum(not math.isnan(row["p_holm"]) for row in rows)
    if count:
        holm = f" after Holm's correction for the {count} comparisons of this report"
        yield (
            f"Verdicts: regret below or above {results.experiment.agents[0].label}'s with "
            f"p < {LEVEL}{holm if count > 1 else ''}; undecided otherwise."
        )
    made_with = {str(block.origin["versions"]) for run in results.runs for block in run.blocks}
    if len(made_with) > 1:
        yield "Blocks were made with different versions: " + "; ".join(sorted(made_with))
    if results.num_missing:
        total = len(results.runs) * results.experiment.num_blocks
        yield f"Not complete: {results.num_missing} of {total} blocks are missing."
    if results.damaged:
        yield (
            f"Not whole: {len(results.damaged)} blocks, for example {results.damaged[0]}; "
            "to resume the experiment computes them again."
        )
    for found in results.failed:
        headline = next(iter(found.failures.values())).partition("\n")[0]
        yield (
            f"Left out: {found.run.agent.label} in {found.run.environment.label}, which failed in "
            f"{len(found.failures)} of {results.experiment.num_blocks} blocks: {headline}"
        )


def write_text(table: Table, width: int = ENDLESS) -> str:
    """Write a table in aligned columns: the first to the left, the others to the right.

    What does not fit into the width stands in further blocks, under the same agents.
    """
    names = [_shorten(name, width // 3) for name in table.cells.index]
    room = width - max(map(len, names)) - 4  # of a column, which pandas parts from what follows it
    titles = [f" {_shorten(title, room - 1)}" for title in table.cells.columns]
    cells = table.cells.set_axis(names).map(_shorten, most=room)
    body = cells.to_string(header=titles, line_width=width)
    notes = [wrap(note, width) for note in table.notes]
    body = re.sub(r" *\\?$", "", body, flags=re.M)
    return "\n".join([wrap(table.title, width), body, *notes])


def write_latex(results: Stored) -> str:
    """Write the table of each environment, and that over all of them, ready to be included."""
    rows = summarise(results).to_dict("records")
    tables = *make_tables(results, rows).values(), *make_aggregate(results, rows)
    written = [_write_latex_table(table) for table in tables]
    return "\n".join([PREAMBLE, *written])


def escape_latex(text: str) -> str:
    """Return text as LaTeX shows it literally; line breaks become spaces."""
    written = "".join(WRITTEN.get(sign, sign) for sign in text.replace("\n", " "))
    return re.sub(r"-(?=-)", "-{}", written)  # two in a row would be a dash


def _write_latex_table(table: Table) -> str:
    columns = "l" + "r" * len(table.cells.columns)
    notes = [escape_latex(note) for note in (table.title, *table.notes)]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\small",
            rf"\caption{{{' '.join(notes)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            _write_line([table.cells.columns.name, *table.cells.columns]),
            r"\midrule",
            *map(_write_line, table.cells.itertuples(name=None)),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _write_line(cells: Sequence[str]) -> str:
    """Write a row, with a minus for the hyphen of its numbers."""
    label, *values = map(escape_latex, cells)
    return " & ".join([label, *(NEGATIVE.sub("$-$", value) for value in values)]) + r" \\"


def wrap(text: str, width: int) -> str:
    """Break lines between words, so that none has more characters than `width`; indents stay."""
    broken: list[str] = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        parts = (
            textwrap.wrap(line, width, subsequent_indent=indent) if len(line) > width else [line]
        )
        broken += parts
    return "\n".join(broken)


def _shorten(text: str, most: int) -> str:
    """Cut a text that has more than so many characters, and end it with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
