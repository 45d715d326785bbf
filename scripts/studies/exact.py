"""Is it exact? Agents and outsiders in both suites, with the cost of a decision beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from bandit_gym.fidelity import run_suite
from bandit_gym.fidelity.benchmark import count_verdicts, draw_leaderboard, format_leaderboard
from bandit_gym.fidelity.trial import FLAGGED, RIGHT, WRONG
from bandit_gym.results.report import markdown_rows
from scripts.studies.study import Found, StudyTask, fold_rows, parts_of, verdict

KEPT_COLUMNS = ["case", "kind", "status", "verdict", "words", "decisions", "excess", "flagged"]
BAYESIAN_AGENTS = ("exact", "racing")
OPEN, HARD = "fidelity-v1", "adversarial"


def parts(task: StudyTask) -> dict[str, Callable[[], Any]]:
    """Return a part for each agent in each suite."""
    return {
        f"{suite}: {label}": partial(_measure_suite, task, suite, label)
        for suite, chosen in task.settings["suites"].items()
        for label in chosen["agents"]
    }


def _measure_suite(task: StudyTask, suite: str, label: str) -> dict[str, Any]:
    """Put one agent to a suite; return its row of the leaderboard and a row per case."""
    settings = task.settings
    agents, scale = {label: settings["agents"][label]}, settings["more"].get(label, 1) * task.scale
    options = {"only": settings["suites"][suite]["only"], "seed": settings["seed"]}
    found = run_suite(agents, suite=suite, scale=scale, workers=task.workers, **options)
    return {
        "row": _to_json(found.leaderboard())[0],
        "cases": _to_json(found.distances[KEPT_COLUMNS]),
        "failures": found.failures,
    }


def _to_json(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON can hold them: None for what is not a number."""
    return list(rows.astype(object).where(rows.notna(), None).to_dict("records"))


def write_tables(found: Found) -> dict[str, str]:
    """Return the tables of the page."""
    board, cases, hard = _read_leaderboard(found), _cases(found, OPEN), _cases(found, HARD)
    failures = [line for part in found["numbers"].values() for line in part["failures"]]
    return {
        "verdicts": markdown_rows([_claim_distance(found, board), _never_wrong(hard)]),
        "leaderboard": _tabulate_board(board),
        "kinds": _by_kind(cases, board),
        "counts": markdown_rows(count_verdicts(hard).astype(str).reset_index().to_dict("records")),
        "hard": _by_case(hard),
        "failed": "\n".join(f"- {line}" for line in failures) or "Nothing.",
    }


def _tabulate_board(board: pd.DataFrame) -> str:
    """Return the leaderboard, with the largest distance and its case apart."""
    cells = pd.DataFrame(format_leaderboard(board))
    largest = cells.pop("TV over noise, largest").str.partition(", ")
    cells.insert(3, "largest", largest[0])
    cells.insert(4, "where", largest[2])
    return markdown_rows(cells.drop(columns="cases decided").to_dict("records"))


def draw(found: Found) -> dict[str, Figure]:
    """Draw distance against cost."""
    return {"exact": draw_leaderboard(_read_leaderboard(found))}


def _read_leaderboard(found: Found) -> pd.DataFrame:
    """Return the leaderboard of the open suite, in its own order."""
    board = pd.DataFrame([part["row"] for part in parts_of(found, OPEN).values()])
    order = ["decided", "excess"]
    return board.sort_values(order, ascending=[False, True], kind="stable", ignore_index=True)


def _cases(found: Found, suite: str) -> pd.DataFrame:
    parts = parts_of(found, suite).items()
    return pd.DataFrame([row | {"agent": label} for label, part in parts for row in part["cases"]])


def _claim_distance(found: Found, board: pd.DataFrame) -> dict[str, str]:
    """Say whether the agents that claim the posterior are near it."""
    tolerance, ours = found["settings"]["near"], board[board["agent"].isin(BAYESIAN_AGENTS)]
    is_within, is_beyond = ours["excess_high"] <= tolerance, ours["excess_low"] > tolerance
    ends = [f"{row.agent} at most {row.excess_high:.4f}" for row in ours.itertuples()]
    return {
        "claim": f"exact and racing are within {tolerance:g} of the truth on average",
        "verdict": verdict(bool(is_within.all()), bool(is_beyond.any())),
        "evidence": ", ".join(ends),
    }


def _never_wrong(hard: pd.DataFrame) -> dict[str, str]:
    """Say whether every agent is right, flagged or refuses in the hard cases."""
    wrong = hard[hard["verdict"] == WRONG]
    details = [f"{row.agent} in {row.case}" for row in wrong.itertuples()]
    return {
        "claim": "no agent is wrong in a hard case without a flag",
        "verdict": verdict(wrong.empty, not wrong.empty),
        "evidence": "; ".join(details) or f"none in {hard['case'].nunique()} cases",
    }


def _by_kind(cases: pd.DataFrame, board: pd.DataFrame) -> str:
    """Return the mean distance of each agent by kind of prior."""
    means = cases.pivot_table("excess", "agent", "kind", sort=False).reindex(board["agent"])
    cells = means.map("{:z.3f}".format).where(means.notna(), "")
    return markdown_rows(cells.reset_index().to_dict("records"))


def _by_case(hard: pd.DataFrame) -> str:
    """Return a row per hard case: each agent's distance, verdict if not right, share of flags.

    The cases that most agents get wrong or flag stand first; the others are folded.
    """
    rows: dict[str, dict[str, str]] = {}
    for row in hard.itertuples():
        word = "" if row.verdict == RIGHT else row.verdict
        distance = "" if pd.isna(row.excess) else f"{row.excess:z.3f}"
        is_said = row.verdict == FLAGGED and row.flagged >= 0.995  # in all decisions
        flagged = f"({row.flagged:.0%})" if row.flagged >= 0.005 and not is_said else ""
        cell = " ".join(filter(None, (word, distance, flagged)))
        rows.setdefault(row.case, {"case": row.case})[row.agent] = cell
    return fold_rows(sorted(rows.values(), key=_count_right))


def _count_right(cells: Mapping[str, str]) -> int:
    """Return how many agents are right in a case, without a flag."""
    return sum(set(cell) <= {*"-.0123456789"} for cell in cells.values())
