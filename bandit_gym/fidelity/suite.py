"""Suites: problems and histories whose exact answers are stored, each with a bound of its error.

A suite is a file of `suites/`, and its numbers never change: other problems make another suite. How
it was made is in `scripts/make_suite.py`.

Letters: K arms.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bandit_gym.checks import check_choice, check_object, message
from bandit_gym.files import from_json
from bandit_gym.problem import BanditProblem, problem_from_dict
from bandit_gym.typing import FloatArray, IntArray

FOLDER = Path(__file__).parent / "suites"
DEFAULT_SUITE = "fidelity-v1"


@dataclass(frozen=True)
class SuiteCase:
    """What a sampler is told, and what the law of its arms should be.

    Attributes:
        name: of the problem and the number of pulls.
        world: name of the problem alone.
        kind: of the prior: conjugate, truncated, mixture, rare or dependent.
        is_game: whether whole runs of the problem are played for their regret.
        problem: likelihood, prior and number of arms.
        counts: (K,) pulls.
        sums: (K,) total rewards.
        law: (K,) probabilities that each arm is the best.
        error: bound of the largest error of `law`.
    """

    name: str
    world: str
    kind: str
    is_game: bool
    problem: BanditProblem
    counts: IntArray
    sums: FloatArray
    law: FloatArray
    error: float


@dataclass(frozen=True)
class Suite:
    """Cases, by a name that stands for these numbers and no others.

    Attributes:
        name: of the suite.
        digest: of its file, as hexadecimal digits.
        cases: all of them.
    """

    name: str
    digest: str
    cases: tuple[SuiteCase, ...]

    def games(self) -> tuple[SuiteCase, ...]:
        """Return a case of each problem of which whole runs are played."""
        found = {case.world: case for case in self.cases if case.is_game}
        return tuple(found.values())

    def only(self, text: str) -> Suite:
        """Return the suite without the cases whose name lacks a text.

        Raises:
            ValueError: if there is no such case.
        """
        text = check_object("only", text, str)
        cases = tuple(case for case in self.cases if text in case.name)
        if not cases:
            raise ValueError(message("only", f"be part of a case's name in {self.name}", text))
        return Suite(self.name, self.digest, cases)


def suite_file(name: str) -> Path:
    """Return where a suite is stored."""
    return FOLDER / f"{name}.json"


def suite_names() -> list[str]:
    """Return the names of all suites."""
    return sorted(file.stem for file in FOLDER.glob("*.json"))


def load_suite(name: str = DEFAULT_SUITE) -> Suite:
    """Read a suite.

    Raises:
        TypeError: if the name is no string.
        ValueError: if there is no such suite; names the nearest.
    """
    return _read_suite(check_choice("suite", name, suite_names()))


@cache
def _read_suite(name: str) -> Suite:
    text = suite_file(name).read_text(encoding="utf-8")
    cases = tuple(_read_case(case) for case in from_json(text)["cases"])
    return Suite(name, hashlib.sha256(text.encode()).hexdigest(), cases)


def _read_case(stored: dict[str, Any]) -> SuiteCase:
    arrays = {
        "counts": np.array(stored["counts"], dtype=np.int64),
        "sums": np.array(stored["sums"], dtype=np.float64),
        "law": np.array(stored["law"], dtype=np.float64),
    }
    return SuiteCase(**stored | arrays | {"problem": problem_from_dict(stored["problem"])})
