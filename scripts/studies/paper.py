"""Does the paper hold? Its tables, figures and Theorem 1, each claim under one main variant.

Until a claim is decided (see `claims`), more is played, up to the last look. All cells and looks of
a variant share one level (Bonferroni), so that no verdict is wrong with the probability that the
level leaves. A margin of exact Thompson sampling's regret in the same replications is no
difference: "outperforms" holds above 0 and fails below the margin, "competitive" is behind by no
more than it, and "similar" is within it on both sides. By the first rule, which was corrected after
the runs, "outperforms" held above the margin alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from bandit_gym.results.plots import Chart, Curve, add_legend, draw_chart
from bandit_gym.results.report import markdown_rows
from bandit_gym.styles import INK, MAX_WIDTH, SHADE, agent_styles, line_style
from scripts.studies import false_positives, table2
from scripts.studies.figures import (
    EXACT,
    SMC,
    judge_figure,
    judge_table_2,
    play_exact_again,
)
from scripts.studies.study import (
    FAILS,
    HOLDS,
    UNDECIDED,
    Found,
    StudyTask,
    fold_rows,
    parts_of,
    verdict,
)
from scripts.studies.theorem1 import compare_table_1, judge_theorem_1
from scripts.studies.variants import RACING, VariantTask

VERDICTS = [HOLDS, FAILS, UNDECIDED]
NAMES = {RACING: "the paper's race"}
"""Of agents on the page, where their labels say less."""
DRAWN_AS = {RACING: "racing_paper", SMC: "smc_paper"}
"""Agents elsewhere that are drawn alike."""

AGAIN = "Exact again"

# -- The page -----------------------------------------------------------------------------------


def parts(task: StudyTask) -> dict[str, Callable[[], Any]]:
    """Return a part for Table 1, and for each table, figure and theorem under each variant."""
    found: dict[str, Callable[[], Any]] = {"Table 1": compare_table_1}
    for variant in task.settings["variants"]:
        own = VariantTask(task, variant)
        judged = {name: partial(judge_figure, own, name) for name in task.settings["figures"]}
        if own.has_levels:
            judged |= {"Table 2": partial(judge_table_2, own)}
            judged |= {"Theorem 1": partial(judge_theorem_1, own)}
        found |= {f"{variant}: {where}": part for where, part in judged.items()}
    own = VariantTask(task, task.settings["main"])
    for name, look in task.settings["again"].items():
        found[f"{AGAIN}: {name}"] = partial(play_exact_again, own, name, look)
    return found | table2.parts(task) | false_positives.parts(task)


def write_tables(found: Found) -> dict[str, str]:
    """Return the tables of the page."""
    settings = found["settings"]
    main = parts_of(found, settings["main"])
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
        "figure1a": _table_of_figure(settings, main, "Figure 1a"),
        "figure1b": _table_of_figure(settings, main, "Figure 1b"),
        "figure2": _table_of_figure(settings, main, "Figure 2"),
        "table2": table2.write_verdicts(found),
        "table2cells": table2.write_cells(found),
        "table2arms": table2.write_arms(found),
        "table2readings": table2.write_readings(found),
        "figures": markdown_rows([_figure_row(*each) for each in figures.items()]),
        "runs": fold_rows([row for each in figures.items() for row in _run_rows(*each)]),
        "variants": markdown_rows([_variant_row(*each) for each in variants.items()]),
        "table1": markdown_rows(jeffreys),
        "again": _write_again(found, main),
        "tenarms": _table_of_cells(settings, main["Table 2"]["claims"]),
        "errors": false_positives.write_table(
            parts_of(found, false_positives.PREFIX), settings["level"]
        ),
    }


def find_first_verdict(claim: str, cells: Mapping[str, Any]) -> str:
    """Return the verdict of a figure's claim by the rule that was corrected after the runs.

    "Outperforms" had to exceed the margin, here its mean: it is not paired with the interval shown.
    """
    cell, margin = cells[claim], cells["competitive"]["limits"][1]
    if claim not in ("thompson", "late"):
        return str(cell["verdict"])
    low, high = cell["ends"]
    is_above = low is not None and low > margin
    return verdict(is_above, high is not None and high < margin)


def _table_of_figure(settings: Mapping[str, Any], main: Mapping[str, Any], start: str) -> str:
    """Return a row for each claim, and a column for each prior that was tried."""
    names = [name for name in settings["figures"] if name.startswith(start)]
    rows = []
    for claim in main[names[0]]["claims"]:
        row = {"claim": settings["claims"][claim]}
        for name in names:
            cell = main[name]["claims"][claim]
            first = find_first_verdict(claim, main[name]["claims"])
            note = "" if first == cell["verdict"] else f"; first rule: {first}"
            title = name.removeprefix(f"{start}, ") if len(names) > 1 else "verdict"
            row[title] = f"**{cell['verdict']}**: {_write_interval(cell)}{note}"
        limits = {_write_limits(main[name]["claims"][claim]) for name in names}
        rows.append(row | ({"holds if": limits.pop()} if len(names) == 1 else {}))
    return markdown_rows(rows)


def _write_again(found: Found, main: Mapping[str, Any]) -> str:
    """Return how exact Thompson sampling did where it was played again, and what it settles.

    The race was not, so that the difference is of two independent means, at the figure's level.
    """
    rows, settings = [], found["settings"]
    for name, again in parts_of(found, AGAIN).items():
        agents, cell = main[name]["agents"], main[name]["claims"]["competitive"]
        before, race = ((agents[x]["means"][-1], agents[x]["errors"][-1]) for x in (EXACT, RACING))
        behind = race[0] - again["mean"]
        half = float(stats.norm.isf(again["level"] / 2)) * math.hypot(race[1], again["error"])
        limit = settings["margin"] * again["mean"]
        rows.append(
            {
                "figure": f"{name.removeprefix('Figure ')} ({again['replications']:,})",
                "exact before": f"{before[0]:.1f} ± {1.96 * before[1]:.1f}",
                "exact again": f"{again['mean']:.1f} ± {1.96 * again['error']:.1f}",
                "the race less exact": f"{behind:.1f} ± {half:.1f}",
                "competitive": verdict(behind + half < limit, behind - half > limit),
                "before": cell["verdict"],
            }
        )
    return markdown_rows(rows)


def _write_interval(cell: Mapping[str, Any]) -> str:
    ends = ", ".join("?" if each is None else f"{each:.1f}" for each in cell["ends"])
    return f"{cell['estimate']:.1f} [{ends}]"


def _write_limits(cell: Mapping[str, Any]) -> str:
    low, high = (
        None if each is None else f"{each:.1f}".removesuffix(".0") for each in cell["limits"]
    )
    return f"{low} to {high}" if low and high else f"above {low}" if low else f"below {high}"


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
    """Return Table 2 under the main variant."""
    rows = []
    for delta in settings["deltas"]:
        row = {"samples / regret": f"δ = {delta}"}
        for sigma in settings["sigmas"]:
            ours = (cells[f"{each} at {delta}, {sigma}"] for each in ("samples", "regrets"))
            row[f"σ = {sigma}"] = " / ".join(f"{each['estimate']:.0f}" for each in ours)
        rows.append(row)
    return markdown_rows(rows)


def _figure_row(name: str, details: Mapping[str, Any]) -> dict[str, str]:
    regrets = {
        NAMES.get(label, label): f"{agent['means'][-1]:.1f} ± {1.96 * agent['errors'][-1]:.1f}"
        for label, agent in details["agents"].items()
    }
    parting = details["parting"]
    ends = "" if not parting else "; ".join(f"{x:,.0f}" if x else "never" for x in parting[1:])
    return {
        "figure": f"{name.removeprefix('Figure ')} ({details['replications']:,})",
        **regrets,
        "samples": f"{details['samples']:.0f}",
        "SMC parts": f"{parting[0]:,.0f} [{ends}]" if parting else "not at all",
    }


def _run_rows(name: str, details: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield a row per agent: its distribution of final regrets, and its locked runs."""
    for label, agent in details["agents"].items():
        share, low, high = (100 * each for each in agent["locked"])
        yield {
            "figure": name.removeprefix("Figure "),
            "agent": NAMES.get(label, label),
            "5 %": f"{agent['quantiles'][0]:.1f}",
            "median": f"{agent['quantiles'][1]:.1f}",
            "95 %": f"{agent['quantiles'][2]:.1f}",
            "locked, % of runs": f"{share:.0f} [{low:.0f}, {high:.0f}]",
            "their % of the regret": f"{100 * agent['locked_regret']:.0f}",
        }


def draw(found: Found) -> dict[str, Figure]:
    """Draw regret over time for each figure, and beneath Figure 1a what its readings give."""
    settings = found["settings"]
    main, figures = parts_of(found, settings["main"]), {}
    for of in ("1a", "1b", "2"):
        names = [n for n in settings["figures"] if n.startswith(f"Figure {of}")]
        count = 2 if of == "1a" else len(names)
        figure = Figure(figsize=(MAX_WIDTH, 0.6 + 2.7 * count), layout="constrained")
        panels = figure.subplots(count, squeeze=False)[:, 0]
        for axes, name in zip(panels, names, strict=False):
            chart = _chart_regret(name, main[name])
            draw_chart(axes, chart)
            axes.set_title(name)
        if of == "1a":
            _draw_readings(panels[1], found)
            add_legend(panels[0], chart, loc="lower right")
        else:
            add_legend(figure, chart, loc="outside lower center", ncols=2)
        figures[f"paper-{of}"] = figure
    return figures | {"paper-table2": table2.draw(found)}


def _chart_regret(name: str, details: Mapping[str, Any]) -> Chart:
    """Return the mean regrets with their 95 % bands."""
    labels = {label: NAMES.get(label, label) for label in details["agents"]}
    styles = agent_styles([(DRAWN_AS.get(label, label),) for label in labels])
    curves = []
    for (label, agent), style in zip(details["agents"].items(), styles, strict=True):
        mean, half = np.array(agent["means"]), 1.96 * np.array(agent["errors"])
        band = mean - half, mean + half
        curves.append(Curve(labels[label], style, np.array(details["steps"]), mean, band))
    y_title = "Bayesian pseudo-regret so far"
    return Chart(name, name, "", y_title, curves, bottom=0.0)


def _draw_readings(axes: Axes, found: Found) -> None:
    """Draw samples and regret of each reading, and where the paper's text has both."""
    rows = [parts_of(found, name)["Figure 1a"] for name in found["settings"]["variants"]]
    tried = [row for part in parts_of(found, table2.OF_1A).values() for row in part]
    later = [row for row in tried if row["first stop"] > 1 and row["arms"] == 10]
    fewer = [row for row in tried if row["arms"] != 10]
    kinds = {"a stop tested at the first draw": rows, "at the second, third or tenth": later}
    kinds["with four arms"] = fewer
    for number, (label, points) in enumerate(kinds.items()):
        style = line_style(number)
        xs, ys = ([point[name] for point in points] for name in ("samples", "ratio"))
        look: dict[str, Any] = {
            "color": style.colour,
            "alpha": 0.6,
            "markeredgewidth": 0,
            "label": label,
        }
        axes.plot(xs, ys, style.marker, **look)
    axes.plot(
        *(400, 1.0, "*"), color=INK, markersize=14, fillstyle="none", label="the paper's text"
    )
    axes.axvspan(300, 500, color=SHADE, zorder=0)
    axes.set(
        xscale="log", xlabel="samples of a decision", ylabel="regret over exact's", ylim=(0, None)
    )
    axes.set_title("Figure 1a, each reading a dot")
    axes.legend(loc="lower left")
