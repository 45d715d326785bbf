"""Does the paper hold? Its tables, figures and Theorem 1, each claim under one main variant.

Until a claim is decided (see `claims`), more is played, up to the last look. All cells and looks of
a variant share one level (Bonferroni), so that no verdict is wrong with the probability that the
level leaves. A margin of exact Thompson sampling's regret in the same replications is no
difference: "outperforms" holds above 0 and fails below the margin, "competitive" is behind by no
more than it, and "similar" is within it on both sides. By the first rule, which was corrected after
the runs, "outperforms" held above the margin alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_gym.results.report import markdown_rows
from bandit_gym.styles import line_style as find_style
from scripts.studies import table2
from scripts.studies.figures import EXACT, judge_figure, judge_table_2
from scripts.studies.study import FAILS, HOLDS, UNDECIDED, Found, StudyTask, parts_of
from scripts.studies.theorem1 import MAX_ERROR_PROBABILITY, compare_table_1, judge_theorem_1
from scripts.studies.variants import RACING, VariantTask

VERDICTS = [HOLDS, FAILS, UNDECIDED]

# -- The page -----------------------------------------------------------------------------------


def parts(task: StudyTask) -> dict[str, Callable[[], Any]]:
    """Return a part for Table 1, and for each table, figure and theorem under each variant."""
    found: dict[str, Callable[[], Any]] = {"Table 1": _table_1}
    for variant in task.settings["variants"]:
        own = VariantTask(task, variant)
        judged = {name: partial(_judge_figure, own, name) for name in task.settings["figures"]}
        if own.has_levels:
            judged |= {"Table 2": partial(_table_2, own), "Theorem 1": partial(_theorem_1, own)}
        found |= {f"{variant}: {where}": part for where, part in judged.items()}
    return found


def write_tables(found: Found) -> dict[str, str]:
    """Return the tables of the page."""
    settings = found["settings"]
    main = parts_of(found, settings["main"])
    verdicts = _verdict_rows(settings, main)
    figures = {name: main[name] for name in settings["figures"]}
    variants = {each: parts_of(found, each) for each in settings["variants"]}
    jeffreys = [
        {
            "rewards": row["rewards"],
            "posterior of the mean": row["posterior"],
            "largest error of five quantiles": f"{row['error']:.1e}",
            "is the prior Jeffreys'": "no" if row["from Jeffreys"] > 1e-6 else "yes",
        }
        for row in found["numbers"]["Table 1"]
    ]
    return {
        "verdicts": markdown_rows([dict(zip(COLUMNS, row, strict=True)) for row in verdicts]),
        "figures": markdown_rows([_figure_row(*each) for each in figures.items()]),
        "runs": markdown_rows([row for each in figures.items() for row in _run_rows(*each)]),
        "variants": markdown_rows([_variant_row(*each) for each in variants.items()]),
        "table1": markdown_rows(jeffreys),
        "table2": _table_of_cells(settings, main["Table 2"]["claims"]),
    }


def _verdict_rows(settings: Mapping[str, Any], main: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Yield the cells of `COLUMNS` for each claim of the paper, under the main variant."""
    sizes, cells = settings["sizes"], main["Table 2"]["claims"]
    for where in settings["figures"]:
        for claim, cell in main[where]["claims"].items():
            yield _verdict_row(settings["claims"][claim], where, cell, sizes["replications"])
    for claim in (each for each in cells if each.startswith("the smaller")):
        yield _verdict_row(claim, "Table 2", cells[claim], sizes["replications_table2"])
    for which, margin in (("samples", "10 %"), ("regrets", f"{settings['ten_runs']:g}")):
        own = [cell for claim, cell in cells.items() if claim.startswith(f"{which} at")]
        ratio = np.median([cell["estimate"] / cell["paper"] for cell in own])
        claim = f"{which} as in the paper, within {margin}"
        yield _many_cells(claim, "Table 2", own, f"{ratio:.2f} times (median)")
    own = list(main["Theorem 1"]["claims"].values())
    worst = max(cell["estimate"] for cell in own)
    claim = f"a race errs with probability at most {MAX_ERROR_PROBABILITY:g}"
    yield _many_cells(claim, "Theorem 1", own, f"{worst:.4f} (worst problem)")


def _verdict_row(claim: str, where: str, cell: Mapping[str, Any], size: int) -> Sequence[str]:
    ends = " to ".join("?" if each is None else f"{each:.1f}" for each in cell["ends"])
    low, high = (None if each is None else f"{each:.1f}" for each in cell["limits"])
    limits = f"{low} to {high}" if low and high else f"above {low}" if low else f"below {high}"
    needed = cell.get("needed")
    more = f" (needs about {needed * cell['look'] * size / cell['count']:,.0f})" if needed else ""
    measured, after = f"{cell['estimate']:.1f} [{ends}]", f"{cell['look'] * size:,.0f}"
    return claim, where, f"**{cell['verdict']}**{more}", measured, limits, after


def _many_cells(
    claim: str, where: str, own: Sequence[Mapping[str, Any]], measured: str
) -> Sequence[str]:
    """Return the row of a claim that holds if it holds in all its cells."""
    counts = Counter(cell["verdict"] for cell in own)
    word = HOLDS if counts[HOLDS] == len(own) else FAILS if counts[FAILS] else UNDECIDED
    details = ", ".join(f"{each} in {counts[each]}" for each in VERDICTS if counts[each])
    return claim, where, f"**{word}**", measured, f"in all {len(own)}: {details}", ""


def _variant_row(name: str, numbers: Mapping[str, Any]) -> dict[str, str]:
    """Return a row of what a variant changes."""
    figures = [each for where, each in numbers.items() if where.startswith("Figure")]
    first, theorem = numbers["Figure 1a"], numbers.get("Theorem 1", {"claims": {}})
    return {
        "variant": name,
        "samples, Figure 1a": f"{first['samples']:.0f}",
        "regret over exact's": f"{first['ratio']:.2f}",
        "Theorem 1": _count_verdicts(theorem),
        "claims of the figures": _count_verdicts(*figures),
    }


def _count_verdicts(*parts: Mapping[str, Any]) -> str:
    counts = Counter(cell["verdict"] for part in parts for cell in part["claims"].values())
    return " / ".join(str(counts[each]) for each in VERDICTS) if counts else ""


def _table_of_cells(settings: Mapping[str, Any], cells: Mapping[str, Any]) -> str:
    """Return Table 2 under the main variant, with the paper's numbers."""
    rows = []
    for i, delta in enumerate(settings["deltas"]):
        row = {"samples / regret (paper)": f"δ = {delta}"}
        for j, sigma in enumerate(settings["sigmas"]):
            ours = (cells[f"{each} at {delta}, {sigma}"] for each in ("samples", "regrets"))
            details = " / ".join(f"{each['estimate']:.1f}" for each in ours)
            paper = f"{settings['samples'][i][j]} / {settings['regrets'][i][j]}"
            row[f"σ = {sigma}"] = f"{details} ({paper})"
        rows.append(row)
    return markdown_rows(rows)


def _figure_row(name: str, details: Mapping[str, Any]) -> dict[str, str]:
    regrets = {
        label: f"{agent['means'][-1]:.1f} ± {1.96 * agent['errors'][-1]:.1f}"
        for label, agent in details["agents"].items()
    }
    parting = details["parting"]
    ends = "" if not parting else " to ".join(f"{x:,.0f}" if x else "never" for x in parting[1:])
    return {
        "figure": name.removeprefix("Figure "),
        "replications": f"{details['replications']:,}",
        **regrets,
        "samples": f"{details['samples']:.0f}",
        "SMC parts at step": f"{parting[0]:,.0f} [{ends}]" if parting else "not at all",
    }


def _run_rows(name: str, details: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield a row per agent: its distribution of final regrets, and its locked runs."""
    for label, agent in details["agents"].items():
        share, low, high = (100 * each for each in agent["locked"])
        yield {
            "figure": name.removeprefix("Figure "),
            "agent": label,
            "mean": f"{agent['means'][-1]:.1f}",
            "5 %": f"{agent['quantiles'][0]:.1f}",
            "median": f"{agent['quantiles'][1]:.1f}",
            "95 %": f"{agent['quantiles'][2]:.1f}",
            "locked, % of runs": f"{share:.1f} [{low:.1f}, {high:.1f}]",
            "their % of the regret": f"{100 * agent['locked_regret']:.0f}",
        }


def draw(found: Found) -> dict[str, Figure]:
    """Draw regret over time for each figure, and our Table 2 over the paper's."""
    settings = found["settings"]
    main, figures = parts_of(found, settings["main"]), {}
    for of in ("1a", "1b", "2"):
        names = [n for n in settings["figures"] if n.startswith(f"Figure {of}")]
        figure = Figure(figsize=(max(6.0, 4.2 * len(names)), 3.2), layout="constrained")
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            _draw_regret(axes, main[name])
            axes.set_title(name, fontsize=9)
        figures[f"paper-{of}"] = figure
    return figures | {"paper-table2": _draw_table_2(found)}


def _draw_regret(axes: Axes, details: Mapping[str, Any]) -> None:
    """Draw the mean regrets with their 95 % bands."""
    for number, (label, agent) in enumerate(details["agents"].items()):
        mean, half = np.array(agent["means"]), 1.96 * np.array(agent["errors"])
        (line,) = axes.plot(details["steps"], mean, label=label, **find_style(number).line)
        ends = mean - half, mean + half
        axes.fill_between(details["steps"], *ends, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set(xlabel="step", ylabel="Bayesian pseudo-regret so far", ylim=(0, None))
    axes.legend(frameon=False, fontsize="x-small")


def _draw_table_2(found: Found) -> Figure:
    """Draw samples and regrets of each variant over the paper's, a dot for each of 16 cells."""
    figure, settings = Figure(figsize=(7.0, 6.0), layout="constrained"), found["settings"]
    tables = {name: parts_of(found, name).get("Table 2") for name in settings["variants"]}
    cells = {name: table["claims"] for name, table in tables.items() if table}
    for axes, which in zip(figure.subplots(2, 1), ("samples", "regrets"), strict=True):
        for position, claims in enumerate(cells.values()):
            own = [cell for claim, cell in claims.items() if f"{which} at" in claim]
            ratios = [cell["estimate"] / cell["paper"] for cell in own]
            axes.plot(ratios, np.full(len(ratios), position), "o", alpha=0.4, markeredgewidth=0)
        axes.axvline(1, color="0.6", linewidth=0.8)
        axes.set_yticks(range(len(cells)), [*cells], fontsize=8)
        axes.set(xscale="log", xlabel=f"{which}: ours over the paper's")
    return figure
