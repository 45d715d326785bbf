"""What people read: tables in text, LaTeX and Markdown, and the folder `report` with figures."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bandit_gym.checks import check_choice, check_folder
from bandit_gym.experiments.blocks import COLUMNS, DOUBT_COLUMNS
from bandit_gym.experiments.entries import Entry
from bandit_gym.files import RESULTS_VERSION, write_atomically
from bandit_gym.results.data import StoredResults, aggregate, describe_regret, list_unscored
from bandit_gym.results.statistics import FEW_REPLICATIONS, MIN_REPLICATIONS, SIGNIFICANCE_LEVEL
from bandit_gym.styles import AXIS_SCALES, FILE_STYLES, FORMATS

VERDICT_COLUMNS = {"wins": "better", "losses": "worse", "undecided": "undecided"}
"""Title -> the verdict that is counted below it."""

MISSING_CELL = "-"
UNRELIABLE_MARK = "*"
SummaryRow = Mapping[Any, Any]
TITLED_COLUMNS = [name for name, column in COLUMNS.items() if column.title]
"""The columns of which there are estimates, that of the regret first."""

USUAL_COLUMNS = ("cumulative_regret", "best_arm_found")
"""Those that a printed table always shows."""

DETAIL_COLUMNS = [name for name in TITLED_COLUMNS if name not in USUAL_COLUMNS]
"""Those that a printed table shows where it is asked to, and a report always."""

LINE_WIDTH, ENDLESS = 100, 10**6
"""Characters of a line where there is no terminal, and of one that is not to be broken."""

LATEX_PREAMBLE = (
    "% Needs \\usepackage{booktabs}, and XeLaTeX or LuaLaTeX where labels are not Latin.\n"
)
LATEX_ESCAPES = {
    **{sign: f"\\{sign}" for sign in "#$%&_{}"},
    **{"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
    **{"`": r"\textasciigrave{}", "'": r"\textquotesingle{}", "[": "{[}", "]": "{]}", "*": "{*}"},
    **{"±": r"$\pm$", "−": "$-$", "µ": r"$\mu$"},
}
"""Signs that mean something to LaTeX, alone or with those beside them, and how it shows them."""

MARKDOWN_SIGN = re.compile(r"[\\`*_{}\[\]<>|$~#&]")
PRICES_NOTE = "Rewards and means are those of values * reward - costs."
NEGATIVE_NUMBER = re.compile(r"(?<![\w-])-(?=\d)")


class Table(NamedTuple):
    """A table of a report, its cells written.

    Attributes:
        title: what stands above it.
        cells: a row for each agent, by its label, and a column for each title.
        notes: sentences that stand below it.
    """

    title: str
    cells: pd.DataFrame
    notes: list[str]


def describe(results: StoredResults, *, columns: Sequence[str] = (), width: int = ENDLESS) -> str:
    """Write what `make_report_parts` yields as plain text.

    Args:
        results: what to write about.
        columns: names of those to show beside the usual ones, such as "last_switch".
        width: characters that a line may have.
    """
    return "\n\n".join(
        wrap_with_indent(part, width) if isinstance(part, str) else write_text(part, width)
        for part in make_report_parts(results, columns)
    )


def make_report_parts(results: StoredResults, columns: Sequence[str] = ()) -> Iterator[Table | str]:
    """Yield one table per environment, then the scores over all, then what is missing or failed.

    If another version of the engine drew the numbers, that is said before all.
    """
    yield from version_notes(results)
    yield from make_tables(results, columns).values()
    yield from make_aggregate(results)
    yield from closing_notes(results)


def write_report(
    results: StoredResults,
    directory: Path,
    *,
    formats: Sequence[str] = ("png", "svg"),
    style: str = "screen",
    xscale: str | None = None,
    latex: bool = False,
    markdown: bool = False,
    columns: Sequence[str] = (),
) -> None:
    """Write tables as CSV, the text of `describe` and all figures into a folder.

    Args:
        results: what to report.
        directory: where to; made unless it is there.
        formats: of the figures: "png", "svg", "pdf".
        style: of the figures: "screen", or "paper" for a column's width, serif and without titles.
        xscale: of the figures over steps: "linear" or "log"; None for each figure's own.
        latex: whether to write the tables as `tables.tex` too, for the LaTeX package booktabs.
        markdown: whether to write them as `tables.md` too.
        columns: what these two show beside the usual columns; the text shows all unless given.

    Raises:
        ValueError: if a format, the style or the scale is another.
        OSError: if the folder cannot be made or written to.
    """
    from bandit_gym.results.plots import save_figures  # brings matplotlib, which tables do not need

    check_choice("style", style, FILE_STYLES)
    if xscale is not None:
        check_choice("xscale", xscale, AXIS_SCALES)
    for name in formats:
        check_choice("formats", name, FORMATS)
    directory = check_folder("directory", directory)
    directory.mkdir(parents=True, exist_ok=True)
    tables = {"summary": results.table(), "aggregate": aggregate(results)}
    for name, table in tables.items():
        write_atomically(directory / f"{name}.csv", table.to_csv(index=False).encode())
    text = describe(results, columns=columns or DETAIL_COLUMNS)
    write_atomically(directory / "report.txt", f"{text}\n".encode())
    if latex:
        write_atomically(directory / "tables.tex", write_latex(results, columns).encode())
    if markdown:
        write_atomically(directory / "tables.md", write_markdown(results, columns).encode())
    save_figures(results, directory, style=style, formats=formats, xscale=xscale)


def version_notes(results: StoredResults) -> Iterator[str]:
    """Say what a reader must know before any number: that another version drew them."""
    if results.version != RESULTS_VERSION:
        yield (
            f"These are results of version {results.version}; this package draws those of version "
            f"{RESULTS_VERSION}, other numbers for the same settings. Do not compare the two."
        )


def closing_notes(results: StoredResults) -> Iterator[str]:
    """Say how verdicts are reached, and what is missing."""
    count = sum(not math.isnan(row["p_holm"]) for row in results.estimates)
    if count:
        holm = f" after Holm's correction for the {count} comparisons of this report"
        yield (
            f"Verdicts: regret below or above {results.experiment.agents[0].label}'s with "
            f"p < {SIGNIFICANCE_LEVEL}{holm if count > 1 else ''}; undecided otherwise."
        )
    made_with = {str(block.metadata["versions"]) for run in results.runs for block in run.blocks}
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
    if results.num_kept:
        yield f"Not in these tables: {results.num_kept} blocks that other code has drawn."
    for run in results.failed:
        yield (
            f"Left out: {run.run.agent.label} in {run.run.environment.label}, which failed in "
            f"{len(run.failures)} of {results.experiment.num_blocks} blocks: {run.failure}"
        )


def write_part(part: Table | str) -> str:
    """Write a table whose first column names the rows, or a note of its own, as HTML."""
    if isinstance(part, str):
        return f'<p class="note">{escape(part)}</p>'
    with pd.option_context("display.max_colwidth", None):
        html = part.cells.to_html(border=0)
    notes = "".join(map(write_part, part.notes))
    return (
        f'<p class="note title">{escape(part.title)}</p>'
        f'<div class="scroll" tabindex="0">{html}</div>{notes}'
    )


def write_text(table: Table, width: int = ENDLESS) -> str:
    """Write a table in aligned columns: the first to the left, the others to the right.

    What does not fit into the width stands in further blocks, under the same agents.
    """
    names = _shorten_labels(list(table.cells.index), width // 3)
    column_width = max(width // 3, width - max(map(len, names)) - 4)  # pandas separates columns
    titles = [f" {_cut_text(title, column_width - 1)}" for title in table.cells.columns]
    cells = table.cells.set_axis(names).map(_cut_text, max_length=column_width)
    body = cells.to_string(header=titles, line_width=width)
    body = re.sub(r" *\\?$", "", body, flags=re.M)
    title, *notes = (wrap_with_indent(text, width) for text in (table.title, *table.notes))
    return "\n".join([title, body, *notes])


def write_latex(results: StoredResults, columns: Sequence[str] = ()) -> str:
    """Write the table of each environment, and that over all of them, ready to be included.

    Args:
        results: what to write about.
        columns: names of those to show beside the usual ones, such as "last_switch".
    """
    return "\n".join([LATEX_PREAMBLE, *map(_write_latex_table, _list_tables(results, columns))])


def write_markdown(results: StoredResults, columns: Sequence[str] = ()) -> str:
    """Write the same tables as `write_latex` in Markdown."""
    return "\n".join(map(_write_markdown_table, _list_tables(results, columns)))


def _list_tables(results: StoredResults, columns: Sequence[str]) -> list[Table]:
    return [*make_tables(results, columns).values(), *make_aggregate(results)]


def escape_latex(text: str) -> str:
    """Return text as LaTeX shows it literally; line breaks become spaces."""
    written = "".join(LATEX_ESCAPES.get(sign, sign) for sign in text.replace("\n", " "))
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


def _write_markdown_table(table: Table) -> str:
    """Write a table, its title above it and its notes below, with all labels as they are."""
    cells = table.cells.reset_index(names=table.cells.columns.name).map(_escape_markdown)
    rows = cells.rename(columns=_escape_markdown).to_dict("records")
    notes = map(_escape_markdown, table.notes)
    return "\n\n".join([_escape_markdown(table.title), markdown_rows(rows), *notes, ""])


def _escape_markdown(text: str) -> str:
    return MARKDOWN_SIGN.sub(r"\\\g<0>", text)


def markdown_rows(rows: Sequence[Mapping[str, str]]) -> str:
    """Lay out rows that map each column's name to its cell, in Markdown."""
    lines = [rows[0], ["---"] * len(rows[0]), *(row.values() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _write_line(cells: Sequence[str]) -> str:
    """Write a row, with a minus for the hyphen of its numbers."""
    label, *values = map(escape_latex, cells)
    return " & ".join([label, *(NEGATIVE_NUMBER.sub("$-$", value) for value in values)]) + r" \\"


def wrap_with_indent(text: str, width: int) -> str:
    """Break lines between words, so that none has more characters than `width`; indents stay."""
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent=" " * (len(line) - len(line.lstrip())))
        for line in text.splitlines()
    )


def _shorten_labels(labels: Sequence[str], max_length: int) -> list[str]:
    """Return labels cut to so many characters, or to as many more as tell them apart."""
    lengths = range(max_length, max(max_length, *map(len, labels)) + 1)
    shortened = ([_cut_text(label, length) for label in labels] for length in lengths)
    return next(each for each in shortened if len({*each}) == len({*labels}))


def _cut_text(text: str, max_length: int) -> str:
    """Cut a text that has more than so many characters, and end it with an ellipsis."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def make_tables(results: StoredResults, columns: Sequence[str] = ()) -> dict[Entry, Table]:
    """Make a table of each environment that there are results of.

    Args:
        results: what is stored.
        columns: names of those to show beside the usual ones.

    Raises:
        ValueError: if there is no estimate of one of them.
    """
    for name in columns:
        check_choice("columns", name, TITLED_COLUMNS)
    made = {}
    for environment in results.experiment.environments:
        own = [row for row in results.estimates if row["env"] == environment.label]
        if results.usable(environment):
            made[environment] = _make_estimates(results, environment, own, columns)
    return made


def _make_estimates(
    results: StoredResults, environment: Entry, rows: Sequence[SummaryRow], columns: Sequence[str]
) -> Table:
    experiment, max_length = results.experiment, max(row["replications"] for row in rows)
    last = max(run.steps[-1] for run in results.usable(environment))
    regret, definition, over = describe_regret(environment)
    prices = [PRICES_NOTE] if experiment.values or experiment.costs else []
    earlier = [step for step in experiment.horizons if step < last]
    regrets = {f"after {step} steps": f"cumulative_regret_{step}" for step in earlier}
    title = (
        f"{environment.label}: {max_length} replication{'s' * (max_length != 1)} of "
        f"{last} steps, seed {experiment.seed}. Means ± 95 % intervals."
    )
    cells = [
        {title: write_estimate(row, name) for title, name in regrets.items()}
        | {
            regret: write_estimate(row, "cumulative_regret"),
            f"less {experiment.agents[0].label}'s, paired": write_estimate(row, "difference"),
            "verdict": row["verdict"] or MISSING_CELL,
            "p (Holm)": write_p_value(row["p_holm"]),
        }
        | {COLUMNS[name].title: _write_cell(row, name) for name in (*USUAL_COLUMNS[1:], *columns)}
        | {
            "samples/decision": write_number(row["samples_per_decision"], "{:.1f}"),
            "µs/decision": write_number(row["microseconds_per_decision"], "{:.2f}"),
        }
        for row in rows
    ]
    table = _name_rows(cells, rows)
    meanings = {regret: f"sum over steps of {definition}, averaged over {over}"}
    meanings |= {COLUMNS[name].title: COLUMNS[name].meaning for name in columns}
    notes = [
        *(f"{name.capitalize()}: {text}." for name, text in meanings.items() if name in table),
        *prices,
        *interval_notes(rows, (*regrets.values(), "cumulative_regret", "difference", *columns)),
        *_flag_notes(rows),
        *_belief_notes(results, environment),
    ]
    return Table(title, table, notes)


def _name_rows(cells: Sequence[Mapping[str, str]], rows: Sequence[SummaryRow]) -> pd.DataFrame:
    """Return cells, title -> text in each row, in a frame whose rows are named by their agents.

    Columns that are blank for all of them are left out, unless all are.
    """
    table = pd.DataFrame(cells, index=[row["agent"] for row in rows]).rename_axis(columns="agent")
    has_value = (table != MISSING_CELL).any()
    return table.loc[:, has_value | ~has_value.any()]


def _write_cell(row: SummaryRow, name: str) -> str:
    column = COLUMNS[name]
    if column.unit == "share":
        return write_number(row[name], "{:.0%}")
    return write_estimate(row, name, column.digits)


def _flag_notes(rows: Sequence[SummaryRow]) -> Iterator[str]:
    """Say how many of their decisions agents called unreliable, and why, if any reports that."""
    for row in (row for row in rows if row["flagged"] > 0):
        names = [name for name in DOUBT_COLUMNS if row.get(name, 0) > 0]
        reasons = [  # the most frequent first; a single one has the share of all
            DOUBT_COLUMNS[name].words + f" ({write_share(row[name])})" * (len(names) > 1)
            for name in sorted(names, key=lambda name: -row[name])
        ]
        why = ": " + ", ".join(reasons) if reasons else ", where it may be wrong"
        yield f"{row['agent']}: {write_share(row['flagged'])} of decisions flagged{why}."
    if {row["flagged"] for row in rows if not math.isnan(row["flagged"])} == {0.0}:
        yield "No decision was flagged as unreliable."


def _belief_notes(results: StoredResults, environment: Entry) -> Iterator[str]:
    """Say which agents believe in another prior or likelihood than the environment's."""
    for run in results.usable(environment):
        if misspecification := run.blocks[0].misspecification:
            text = "".join(c if c.isprintable() else "?" for c in misspecification)
            yield f"{run.run.agent.label}: misspecified, for it {text}."


def make_aggregate(results: StoredResults) -> Iterator[Table]:
    """Yield the table over all environments, where there are several."""
    several = len(results.experiment.environments) > 1
    scores = aggregate(results).to_dict("records") if several else []
    if not scores:
        return
    title = (
        "All environments: pseudo-regret as a share of what uniform play loses, over environments\n"
        "and replications. The interquartile mean drops the tails, which the mean has."
    )
    cells = []
    for score in scores:
        verdicts = [row["verdict"] for row in results.estimates if row["agent"] == score["agent"]]
        counts = {
            title: str(verdicts.count(word)) if any(verdicts) else MISSING_CELL  # of the reference
            for title, word in VERDICT_COLUMNS.items()
        }
        mean = write_number(score["score_mean"], "{:.3f}")
        iqm = write_estimate(score, "score_iqm", digits=3)
        cells.append({"interquartile mean": iqm, "mean": mean} | counts)
    notes = [*interval_notes(scores, ["score_iqm"])]
    if labels := "; ".join(environment.label for environment in list_unscored(results)):
        reason = "as what uniform play loses is 0 or unknown there"
        notes.insert(0, f"Left out of the scores, {reason}: {labels}.")
    yield Table(title, _name_rows(cells, scores), notes)


# -- Cells: how numbers, their intervals and what is missing of them are written


def write_estimate(row: SummaryRow, name: str, digits: int = 1) -> str:
    """Write "mean ± half width", or the two ends where the interval is lopsided.

    The half width has two digits, and the mean has as many decimals.

    Args:
        row: of estimates.
        name: of the estimate.
        digits: decimals where there is no interval, or where it has no width.
    """
    mean, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if math.isnan(mean):
        return MISSING_CELL
    if is_missing(row, name):
        return f"{mean:z.{digits}f} ± {MISSING_CELL}"
    mark = UNRELIABLE_MARK if _has_unreliable_interval(row, name) else ""
    half = max(high - mean, mean - low)
    if half > 1e-9 * abs(mean):  # no rounding error of equal values
        digits = max(0, 1 - math.floor(math.log10(half)))
    if abs(high + low - 2 * mean) < 0.5 * 10**-digits:
        return f"{mean:z.{digits}f} ± {high - mean:.{digits}f}{mark}"
    return f"{mean:z.{digits}f} [{low:z.{digits}f}, {high:z.{digits}f}]{mark}"


def write_share(share: float) -> str:
    """Write a share in per cent; one that is not zero never as zero."""
    return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def write_number(value: float, form: str) -> str:
    """Write a number in a form of `str.format`, or that there is none."""
    return MISSING_CELL if math.isnan(value) else form.format(value)


def write_p_value(value: float) -> str:
    """Write a p-value to three digits."""
    return "<0.001" if value < 0.001 else write_number(value, "{:.3f}")


def interval_notes(rows: Sequence[SummaryRow], names: Sequence[str]) -> Iterator[str]:
    """Say where intervals are missing, and which of those named may be too short."""
    if any(is_missing(row, name) for row in rows for name in names):
        yield (
            f"{MISSING_CELL} for an interval or a p-value: "
            f"none below {MIN_REPLICATIONS} replications."
        )
    if any(_has_unreliable_interval(row, name) for row in rows for name in names):
        yield (
            f"{UNRELIABLE_MARK} A long tail and fewer than {FEW_REPLICATIONS} replications: "
            "the interval may be too short."
        )


def is_missing(row: SummaryRow, name: str) -> bool:
    """Say whether there is an estimate without an interval."""
    return math.isnan(row[f"{name}_low"]) and not math.isnan(row[name])


def _has_unreliable_interval(row: SummaryRow, name: str) -> bool:
    return bool(row.get(f"{name}_is_doubtful")) and not is_missing(row, name)
