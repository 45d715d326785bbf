"""The tables of a report for LaTeX, with the rules of its package booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bandit_gym.results.results import Results
from bandit_gym.results.summary import summarise
from bandit_gym.results.tables import Table, make_aggregate, make_tables

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


def write_latex(results: Results) -> str:
    """Write the table of each environment, and that over all of them, ready to be included."""
    rows = summarise(results).to_dict("records")
    tables = [estimates for estimates, _ in make_tables(results, rows).values()]
    written = [_write_table(table) for table in (*tables, *make_aggregate(results))]
    return "\n".join([PREAMBLE, *written])


def escape(text: str) -> str:
    """Return text as LaTeX shows it literally; line breaks become spaces."""
    written = "".join(WRITTEN.get(sign, sign) for sign in text.replace("\n", " "))
    return re.sub(r"-(?=-)", "-{}", written)  # two in a row would be a dash


def _write_table(table: Table) -> str:
    columns = "l" + "r" * (len(table.header) - 1)
    notes = [escape(note) for note in (table.title, *table.notes)]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\small",
            rf"\caption{{{' '.join(notes)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            _write_line(table.header),
            r"\midrule",
            *(_write_line(_with_minus(line)) for line in table.lines),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _write_line(cells: Sequence[str]) -> str:
    return " & ".join(map(escape, cells)) + r" \\"


def _with_minus(line: Sequence[str]) -> list[str]:
    """Put a minus for the hyphen of negative numbers; the label stays as it is."""
    return [line[0], *(NEGATIVE.sub("−", cell) for cell in line[1:])]
