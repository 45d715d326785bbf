"""What a suite has shown of agents: a leaderboard, as text and as a picture, and the verdicts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bandit_gym.checks.doubts import Doubt
from bandit_gym.checks.styles import COLOURS
from bandit_gym.fidelity.distance import HALF_WIDTH
from bandit_gym.fidelity.trial import MEASURED, WRONG
from bandit_gym.results.plots import Picture

MOST_MARKS = 7
HIGHEST = 0.02
"""Distance that the axis reaches at least, so that it has a number beside 0."""

LEAST_RATIO = 100.0
"""Of the ends of the axis of costs: wide enough for two powers of ten."""

TITLES = {
    "agent": "agent",
    "decided": "cases decided",
    "excess": "TV over noise, mean",
    "worst": "TV over noise, largest",
    "flagged": "flagged",
    "num_samples": "samples",
    "microseconds": "µs a decision",
}
"""Column of the text -> its heading."""


def make_leaderboard(distances: pd.DataFrame) -> pd.DataFrame:
    """Return a row per agent, those that decided most often and most truly first.

    The mean of the distances is over the cases in which an agent decided. Its interval adds up the
    noise of single cases.
    """
    rows = [_row(str(agent), table) for agent, table in distances.groupby("agent", sort=False)]
    board = pd.DataFrame(rows)
    order = ["decided", "excess"]
    return board.sort_values(order, ascending=[False, True], kind="stable", ignore_index=True)


def _row(agent: str, table: pd.DataFrame) -> dict[str, object]:
    made = table[table["status"] == MEASURED]
    row: dict[str, object] = {"agent": agent, "decided": len(made), "cases": len(table)}
    row |= _distance(made)
    row |= {
        "flagged": made["flagged"].mean(),
        "doubts": int(np.bitwise_or.reduce(made["doubts"].to_numpy(np.int64))),
    }
    row |= {"num_samples": made["num_samples"].mean()}
    return row | {"microseconds": made["microseconds"].median()}


def _distance(made: pd.DataFrame) -> dict[str, object]:
    names = ("excess", "excess_low", "excess_high", "worst", "worst_case")
    if not len(made):
        return dict.fromkeys(names, np.nan)
    noise = HALF_WIDTH * made["std"]
    both = float(np.sqrt((noise**2).sum())) / len(made)
    worst = made.loc[made["excess"].idxmax()]
    ends = made["excess"].mean() - both, (made["high"] - noise).mean() + both
    values = made["excess"].mean(), *ends, worst["excess"], worst["case"]
    return dict(zip(names, values, strict=True))


def leaderboard_cells(board: pd.DataFrame) -> list[dict[str, str]]:
    """Return the rows of a leaderboard as text under headings, each estimate with its interval."""
    return [dict(zip(TITLES.values(), _cells(row), strict=True)) for _, row in board.iterrows()]


def _cells(row: pd.Series) -> list[str]:
    return [
        str(row["agent"]),
        f"{row['decided']} of {row['cases']}",
        _written(row, "excess", 4),
        f"{row['worst']:.3f}, {row['worst_case']}" if row["decided"] else "",
        _number(row["flagged"], "{:.1%}") + _reasons(row),
        _number(row["num_samples"], "{:.0f}"),
        _number(row["microseconds"], "{:,.3g}" if row["microseconds"] < 100 else "{:,.0f}"),
    ]


def _written(row: pd.Series, name: str, digits: int) -> str:
    estimate, low, high = (row[key] for key in (name, f"{name}_low", f"{name}_high"))
    if np.isnan(estimate):
        return ""
    if np.isnan(low):
        return f"{estimate:.{digits}f}"
    return f"{estimate:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _number(value: float, form: str) -> str:
    return "" if np.isnan(value) else form.format(value)


def _reasons(row: pd.Series) -> str:
    """Return the doubts behind a share of flagged decisions, in words."""
    return f": {Doubt(int(row['doubts'])).words}" if row["doubts"] > 0 else ""


def describe_leaderboard(board: pd.DataFrame) -> str:
    """Return a leaderboard as a table of plain text."""
    return pd.DataFrame(leaderboard_cells(board)).to_string(index=False)


def count_verdicts(distances: pd.DataFrame) -> pd.DataFrame:
    """Return how often each agent had each verdict, a row per agent."""
    return pd.crosstab(distances["agent"], distances["verdict"]).loc[distances["agent"].unique()]


def verdict_cells(distances: pd.DataFrame) -> pd.DataFrame:
    """Return the verdicts as text: a row per case, a column per agent.

    Beside the verdict are the excess, of lanes' own laws where it is larger, and the flags.
    """
    cells = distances.assign(cell=[_verdict(row) for _, row in distances.iterrows()])
    return cells.pivot(index="case", columns="agent", values="cell").loc[
        distances["case"].unique(), distances["agent"].unique()
    ]


def _verdict(row: pd.Series) -> str:
    excess = np.fmax(row["excess"], row["run_excess"])
    flagged = f", {row['flagged']:.0%} flagged{_reasons(row)}" if row["flagged"] >= 0.005 else ""
    return str(row["verdict"]) + _number(excess, " {:.3f}") + flagged


def describe_verdicts(distances: pd.DataFrame) -> str:
    """Return the verdicts and their counts as tables of plain text, and what is said of WRONG."""
    wrong = distances[(distances["verdict"] == WRONG) & (distances["words"] == "")]
    lines = [f"WRONG: {row.agent} in {row.case}" for row in wrong.itertuples()]
    tables = verdict_cells(distances), count_verdicts(distances)
    return "\n\n".join([table.to_string() for table in tables] + lines)


def draw_leaderboard(board: pd.DataFrame) -> Picture:
    """Draw distance against cost with a mark for each agent, the first seven at most."""
    figure = Picture(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    shown = board[board["decided"] > 0].head(MOST_MARKS)
    for (_, row), colour in zip(shown.iterrows(), COLOURS, strict=False):
        below, above = row["excess"] - row["excess_low"], row["excess_high"] - row["excess"]
        errors = [[below], [above]]
        name = str(row["agent"]).replace("$", r"\$")
        point = row["microseconds"], row["excess"]
        axes.errorbar(*point, errors, fmt="o", color=colour, capsize=2, lw=1, label=name)
    axes.axhline(0, color="#888888", lw=0.8, ls=":")
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=0.01)
    axes.margins(y=0.15)
    for axis in axes.xaxis, axes.yaxis:
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter("")
    axes.set_ylim(top=max(axes.get_ylim()[1], HIGHEST))
    if len(shown):
        low, high = axes.get_xlim()
        apart = max(1.0, LEAST_RATIO / (high / low)) ** 0.5
        axes.set_xlim(low / apart, high * apart)
        axes.legend(fontsize="small")
    axes.set_xlabel("processor time of a decision, µs (median over cases)")
    axes.set_ylabel("distance from exact Thompson sampling\n(TV over noise, mean over cases)")
    axes.spines[["top", "right"]].set_visible(False)
    return figure
