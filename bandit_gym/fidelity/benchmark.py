"""The open benchmark: agents and samplers put to a suite, and what is found of them.

Everything but the cost depends on suite, agents, labels, scale and seed alone. A leaderboard
reports it by agent, the verdicts by case.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bandit_gym.checks import check_folder, check_integer, check_real, message
from bandit_gym.doubts import Doubt
from bandit_gym.experiments.entries import read_entries, summarise_error
from bandit_gym.experiments.execution import Workers, make_calls
from bandit_gym.fidelity.distance import HALF_WIDTH
from bandit_gym.fidelity.suite import DEFAULT_SUITE, load_suite
from bandit_gym.fidelity.trial import (
    FAILED,
    FLAGGED,
    FLAGGED_SHARE,
    LEFT_OUT,
    MEASURED,
    REFUSED,
    RIGHT,
    WRONG,
    describe_trial,
    measure_distance,
)
from bandit_gym.files import RESULTS_VERSION, write_atomically
from bandit_gym.results.plots import NotebookFigure, save_figure
from bandit_gym.styles import GREY, MAX_WIDTH, agent_styles

NUM_DECISIONS, MIN_DECISIONS = 10_000, 1000
"""Of a case, at scale 1 and at any scale."""

DISTANCE_COLUMNS = (
    *("agent", "case", "kind", "arms", "pulls", "status", "verdict", "words", "decisions"),
    *("tv", "floor", "excess", "std", "low", "high", "run_excess"),
    *("flagged", "doubts", "num_samples", "microseconds"),
)
"""Of the table of distances; `docs/exact.md` says what they are."""

MIN_COST_LIMIT, MAX_COST_LIMIT = 0.1, 1e5
"""Microseconds that the axis of costs reaches at least, so that pictures can be compared."""


@dataclass(frozen=True)
class FidelityResults:
    """What a suite has shown.

    Attributes:
        suite: its name.
        distances: a row per agent and case; see `docs/exact.md` for the columns.
        left_out: one line for each agent that could not be given the data of some cases, which have
            no row then.
    """

    suite: str
    distances: pd.DataFrame
    left_out: tuple[str, ...] = ()

    @property
    def failures(self) -> list[str]:
        """One line for each agent and case that failed."""
        failed = self.distances[self.distances["status"] == FAILED]
        return [f"{row.agent} failed in {row.case}: {row.words}" for row in failed.itertuples()]

    def leaderboard(self) -> pd.DataFrame:
        """Return a row per agent, those that decided most often and most truly first.

        The mean of the distances is over the cases in which an agent decided. Its interval adds up
        the noise of single cases.
        """
        groups = self.distances.groupby("agent", sort=False)
        board = pd.DataFrame([_summarise_agent(str(agent), table) for agent, table in groups])
        order = ["decided", "excess"]
        return board.sort_values(order, ascending=[False, True], kind="stable", ignore_index=True)

    def write(self, folder: str | Path) -> list[Path]:
        """Write the distances as Parquet, the leaderboard as CSV, and the picture; return files.

        Args:
            folder: made if it is not there.
        """
        folder = check_folder("out", folder)
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / "distances.parquet", folder / "leaderboard.csv"]
        write_atomically(files[0], self.distances.to_parquet(index=False))
        board = self.leaderboard()
        write_atomically(files[1], board.to_csv(index=False).encode())
        return files + save_figure(draw_leaderboard(board), folder / "leaderboard", ["png"])


def run_suite(
    agents: Any,
    *,
    suite: str = DEFAULT_SUITE,
    only: str = "",
    scale: float = 1.0,
    seed: int = 0,
    workers: Workers | int | None = None,
) -> FidelityResults:
    """Put agents and samplers to a suite.

    Args:
        agents: label -> agent, or a list of agents. Each is a short name, `module:name`, a class, a
            function that makes an agent of a problem, a sampler `(problem, counts, sums, rng,
            size) -> (size, K)`, or a dict with one of these as "agent" and options.
        suite: its name.
        only: cases whose name contains this text.
        scale: 1 is 10,000 decisions a case. There are 1,000 at least.
        seed: of agents and noise.
        workers: who computes, or how many processes; default one per core.

    Raises:
        TypeError, ValueError: if an argument has a wrong value. What agents raise is in the tables.
    """
    listed = [agents] if isinstance(agents, str) or callable(agents) else agents
    entries = read_entries("agents", "agent", listed)
    chosen = load_suite(suite).only(only)
    scale = check_real("scale", scale, above=0.0)
    seed = check_integer("seed", seed, minimum=0)
    chosen_workers = workers if isinstance(workers, Workers) else Workers(num_workers=workers)
    size = max(MIN_DECISIONS, round(scale * NUM_DECISIONS))
    calls = [(entry, case, size, seed) for entry in entries for case in chosen.cases]
    row_of = {}
    with contextlib.closing(make_calls(chosen_workers, measure_distance, calls)) as made:
        for (entry, case, *_), row in made:
            if isinstance(row, BaseException):
                words = f"WorkerDied: {summarise_error(row)}"
                row = describe_trial(entry, case, FAILED, WRONG, words)
            row_of[entry.label, case.name] = row
    rows = [row_of[entry.label, case.name] for entry, case, *_ in calls]
    labelled = {"suite": chosen.name, "results_version": RESULTS_VERSION}
    table = pd.DataFrame(rows, columns=DISTANCE_COLUMNS).assign(**labelled)
    is_left_out = table["status"] == LEFT_OUT
    counts = table["agent"][is_left_out].value_counts(sort=False)
    lines = tuple(
        f"{agent} was left out of {number} cases: it learns from single rewards, which counts "
        "and sums tell of Bernoulli rewards alone, and here of a million at most"
        for agent, number in counts.items()
    )
    if is_left_out.all():
        raise ValueError(message("agents", "be some that can be given a case", "; ".join(lines)))
    return FidelityResults(chosen.name, table[~is_left_out].reset_index(drop=True), lines)


# -- Leaderboards and verdicts ---------------------------------------------------------------------


def _summarise_agent(agent: str, table: pd.DataFrame) -> dict[str, object]:
    made = table[table["status"] == MEASURED].sort_values("excess", ascending=False)
    noise = HALF_WIDTH * made["std"]
    both = float(np.sqrt((noise**2).sum())) / max(1, len(made))
    return {
        "agent": agent,
        "decided": len(made),
        "cases": len(table),
        "excess": made["excess"].mean(),
        "excess_low": made["excess"].mean() - both,
        "excess_high": (made["high"] - noise).mean() + both,
        "worst": made["excess"].max(),
        "worst_case": next(iter(made["case"]), np.nan),
        "flagged": made["flagged"].mean(),
        "doubts": int(np.bitwise_or.reduce(made["doubts"].to_numpy(np.int64))),
        "num_samples": made["num_samples"].mean(),
        "microseconds": made["microseconds"].median(),
    }


def format_leaderboard(board: pd.DataFrame) -> list[dict[str, str]]:
    """Return the rows of a leaderboard as text under headings, each estimate with its interval."""
    return [_format_row(row) for _, row in board.iterrows()]


def _format_row(row: pd.Series) -> dict[str, str]:
    mean, decides = "{excess:.4f} [{excess_low:.4f}, {excess_high:.4f}]", row["decided"] > 0
    return {
        "agent": str(row["agent"]),
        "cases decided": f"{row['decided']} of {row['cases']}",
        "TV over noise, mean": mean.format(**row) if decides else "",
        "TV over noise, largest": f"{row['worst']:.3f}, {row['worst_case']}" if decides else "",
        "flagged": _format_number(row["flagged"], "{:.1%}") + _describe_doubts(row),
        "samples": _format_number(row["num_samples"], "{:.0f}"),
        "µs a decision": _format_number(
            row["microseconds"], "{:,.3g}" if row["microseconds"] < 100 else "{:,.0f}"
        ),
    }


def _format_number(value: float, form: str) -> str:
    return "" if np.isnan(value) else form.format(value)


def _describe_doubts(row: pd.Series) -> str:
    """Return the doubts behind a share of flagged decisions, in words."""
    return f": {Doubt(int(row['doubts'])).words}" if row["doubts"] > 0 else ""


def describe_leaderboard(board: pd.DataFrame) -> str:
    """Return a leaderboard as a table of plain text."""
    return pd.DataFrame(format_leaderboard(board)).to_string(index=False)


def _format_verdict(row: pd.Series) -> str:
    excess = np.fmax(row["excess"], row["run_excess"])
    text = str(row["verdict"]) + _format_number(excess, " {:.3f}")
    is_flagged = row["flagged"] >= 0.005
    return text + f", {row['flagged']:.0%} flagged{_describe_doubts(row)}" * is_flagged


def describe_verdicts(distances: pd.DataFrame) -> str:
    """Return the verdicts and their counts as tables of plain text, and what is said of WRONG.

    Beside a verdict are the excess, of lanes' own distributions where it is larger, and the flags.
    """
    agents, cases = distances["agent"].unique(), distances["case"].unique()
    labelled = distances.assign(text=[_format_verdict(row) for _, row in distances.iterrows()])
    verdicts = labelled.pivot(index="case", columns="agent", values="text").loc[cases, agents]
    wrong = distances[(distances["verdict"] == WRONG) & (distances["words"] == "")]
    lines = [f"WRONG: {row.agent} in {row.case}" for row in wrong.itertuples()]
    return "\n\n".join([verdicts.to_string(), count_verdicts(distances).to_string(), *lines])


def count_verdicts(distances: pd.DataFrame) -> pd.DataFrame:
    """Return in how many cases each agent has each verdict, and how many flags are in vain.

    A flag is in vain in a case that is right although the agent flags it, in `FLAGGED_SHARE` of its
    decisions: an agent that always flags would never be WRONG.

    Args:
        distances: a row per agent and case, with `verdict` and `flagged`.

    Returns:
        a row per agent, in their order, and a column per outcome.
    """
    is_right = distances["verdict"] == RIGHT
    is_vain = is_right & (distances["flagged"] >= FLAGGED_SHARE)
    outcomes = {
        "right, without a flag": is_right & ~is_vain,
        "flagged in vain": is_vain,
        "flagged rightly": distances["verdict"] == FLAGGED,
        "refused": distances["verdict"] == REFUSED,
        "WRONG": distances["verdict"] == WRONG,
    }
    return pd.DataFrame(outcomes).groupby(distances["agent"], sort=False).sum()


def draw_leaderboard(board: pd.DataFrame) -> NotebookFigure:
    """Draw distance against cost with a mark for each agent that decided."""
    shown = board[board["decided"] > 0]
    rows = (len(shown) + 1) // 2
    figure = NotebookFigure(figsize=(MAX_WIDTH, 3.6 + 0.19 * rows), layout="constrained")
    axes = figure.subplots()
    styles = agent_styles([(str(agent),) for agent in shown["agent"]])
    for (_, row), style in zip(shown.iterrows(), styles, strict=True):
        below, above = row["excess"] - row["excess_low"], row["excess_high"] - row["excess"]
        errors = [[below], [above]]
        point = row["microseconds"], row["excess"]
        look: dict[str, Any] = {"fmt": style.marker, "color": style.colour, "capsize": 2, "lw": 1}
        axes.errorbar(*point, errors, **look, label="agent")
    axes.axhline(0, color=GREY, lw=0.8, ls=":")
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=0.01)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, MIN_COST_LIMIT), max(high, MAX_COST_LIMIT))
    axes.margins(y=0.15)
    axes.set_ylim(top=1.0)
    if len(shown):
        legend = figure.legend(loc="outside lower center", ncols=2, frameon=False)
        for text, agent in zip(legend.get_texts(), shown["agent"], strict=True):
            text.set(text=str(agent), parse_math=False)  # no legend takes one that begins with "_"
    axes.set_xlabel("processor time of a decision, µs (median over cases)")
    axes.set_ylabel("distance from exact Thompson sampling\n(TV over noise, mean over cases)")
    axes.spines[["top", "right"]].set_visible(False)
    return figure
