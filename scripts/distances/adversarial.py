"""The adversarial set, judged: a table of verdicts, and the page about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import joblib
import pandas as pd
from pages.page import Section, Verdict, graded, markdown_table

from bandit_gym.fidelity.adversarial import CASES
from bandit_gym.fidelity.case import Case
from bandit_gym.fidelity.judge import (
    FLAGGED_SHARE,
    LARGEST_EXCESS,
    LEVEL,
    REFUSED,
    WRONG,
    Judgement,
    judge,
)
from bandit_gym.fidelity.settings import SETTINGS
from bandit_gym.files import RESULTS_VERSION

TITLE = "The adversarial set: right, flagged, refused or WRONG"
MOST_LETTERS = 300
CASE_TITLES = ("case", "arms", "most pulls", "why it is hard")


def judge_all(cases: Sequence[Case], scale: float, seed: int, workers: int) -> Iterator[Judgement]:
    """Yield what became of every setting in every case, one after the other."""
    jobs = (joblib.delayed(_judge_case)(CASES.index(case), scale, seed) for case in cases)
    for found in joblib.Parallel(workers, return_as="generator")(jobs):
        yield from found


def _judge_case(number: int, scale: float, seed: int) -> list[Judgement]:
    return [judge(setting, CASES[number], scale=scale, seed=seed) for setting in SETTINGS]


def describe(table: pd.DataFrame, command: str) -> str:
    """Say what the page's numbers are, and what made them."""
    made = table[table["decisions"] > 0].groupby("setting", sort=False)["decisions"]
    numbers = "; ".join(
        f"{label}: {low:,} to {high:,}" if low < high else f"{label}: {high:,}"
        for label, low, high in made.agg(["min", "max"]).itertuples()
    )
    return (
        f"Made by `{command}`, results version {RESULTS_VERSION}. {table['case'].nunique()} priors "
        "and histories chosen to be hard, and every agent that claims the posterior. The truth of "
        "each is known without any of the agents' code, see `bandit_gym/fidelity/`.\n\n"
        "An agent is given a case's data in fresh lanes and decides once in each. The *excess* is "
        "the total variation (TV) distance between the frequencies of its arms and the truth, less "
        "what as many exact decisions would show on average. It is **right** if the excess is at "
        f"most {LARGEST_EXCESS:g}; **flagged** if not, but `is_unreliable` holds for at least "
        f"{FLAGGED_SHARE:.0%} of its decisions or the others by themselves are right; **refused** "
        "if it declines in one sentence that names an agent which can; and else **WRONG**. Where "
        "a lane keeps its particles for a run of its own, the average distance of single lanes' "
        "laws counts as well, with the noise of as many exact draws as there are particles. An "
        f"excess that chance gives an exact agent once in {1 / (1 - LEVEL):,.0f} cases is no "
        f"evidence. Decisions a case: {numbers}; fewer where a race takes samples without end."
    )


def tell(table: pd.DataFrame) -> list[Section]:
    """Return the page's sections, the verdict with the first."""
    wrong = table[table["verdict"] == WRONG]
    evidence = "; ".join(f"{row.setting} in {row.case}" for row in wrong.itertuples())
    claim = f"No agent is wrong in silence ({len(table)} judgements)"
    return [
        Section(
            "Counts",
            body=[_markdown(pd.crosstab(table["setting"], table["verdict"]).loc[_labels(table)])],
            verdicts=[Verdict(claim, graded(wrong.empty), evidence or "none is")],
        ),
        Section(
            "By case",
            "The excess, and the share of decisions that are flagged where it is not 0.",
            body=[_markdown(_cells(table))],
        ),
        Section("The cases", body=[markdown_table(_told(set(table["case"])))]),
        Section("What was said by those who refuse", body=[_words(table)]),
    ]


def _labels(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["setting"]))


def _cells(table: pd.DataFrame) -> pd.DataFrame:
    cells = table.assign(cell=[_cell(row) for row in table.itertuples()])
    return cells.pivot(index="case", columns="setting", values="cell").loc[
        list(dict.fromkeys(table["case"])), _labels(table)
    ]


def _cell(row: Judgement) -> str:
    word = f"**{row.verdict}**" if row.verdict == WRONG else row.verdict
    if not row.decisions:
        return word
    flagged = f", {row.flagged:.0%} flagged" if row.flagged else ""
    return f"{word} {row.excess:.3f}{flagged}"


def _told(names: set[str]) -> list[dict[str, str]]:
    return [
        dict(
            zip(
                CASE_TITLES,
                (case.name, f"{len(case.counts)}", f"{max(case.counts):,}", case.why),
                strict=True,
            )
        )
        for case in CASES
        if case.name in names
    ]


def _words(table: pd.DataFrame) -> str:
    said = table[(table["verdict"] == REFUSED) | (table["words"] != "")]
    lines = [f"- {row.setting}, {row.case}: {shorten(row.words)}" for row in said.itertuples()]
    return "\n".join(lines) or "Nobody refused."


def shorten(words: str) -> str:
    """Leave out the middle of a long message: the priors in it are told by their cases."""
    half = MOST_LETTERS // 2
    return words if len(words) <= MOST_LETTERS else f"{words[:half]} ... {words[-half:]}"


def _markdown(cells: pd.DataFrame) -> str:
    return markdown_table(cells.astype(str).reset_index().to_dict("records"))
