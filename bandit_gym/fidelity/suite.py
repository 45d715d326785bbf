"""Suites: problems and histories whose exact answers are stored, each with a bound of its error.

A suite is a file of `suites/`, and its numbers never change: other problems make another suite.
`scripts/make_suite.py` compares its answers with the oracle's.

Notation: K arms.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from bandit_gym.checks import check_choice, check_object, message
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.fidelity.recipes import Recipe
from bandit_gym.problem import BanditProblem, ContextualProblem, problem_from_dict

FOLDER = Path(__file__).parent / "suites"
DEFAULT_SUITE = "fidelity-v1"

STORED_KEYS = {"law": "probabilities", "world": "problem_name"}
"""Keys of published files, which never change, and the fields of `Case` that they fill."""


@dataclass(frozen=True)
class DensityOnly:
    """A prior of independent arms that offers `sample` and `log_density` alone."""

    prior: Any

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest mean of any arm."""
        return self.prior.support

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape."""
        return self.prior.sample(rng, shape)

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the (...) log-density of (..., K) means."""
        return self.prior.log_density(means)


@dataclass(frozen=True)
class Case:
    """What an agent or sampler is given, and what the distribution of its arms should be.

    Attributes:
        name: of the case.
        problem_name: name of the problem alone.
        kind: of the prior: conjugate, truncated, mixture, rare, independent or dependent.
        problem: likelihood, prior and number of arms.
        counts: (K,) pulls.
        sums: (K,) total rewards.
        probabilities: (K,) probabilities that each arm is the best.
        error: bound of the largest error of `probabilities`.
        why: it is hard, in a few words; "" where the name says it.
    """

    name: str
    problem_name: str
    kind: str
    problem: BanditProblem
    counts: IntArray
    sums: FloatArray
    probabilities: FloatArray
    error: float
    why: str = ""


@dataclass(frozen=True)
class ContextualCase(Case):
    """A case with features; its `counts` and `sums` are (1,) totals of all rewards.

    Attributes:
        features: (K, d) of the arms at the decision.
        rows: (t, d) features of the arms that paid.
        rewards: (t,) in reward units.
        method: by which `law` was found: "polar", "importance" or "blocks". Its `error` is that of
            the total variation distance.
        chains_distance: total variation distance from what Markov chains found.
    """

    features: FloatArray = field(kw_only=True)
    rows: FloatArray = field(kw_only=True)
    rewards: FloatArray = field(kw_only=True)
    method: str = field(kw_only=True)
    chains_distance: float = field(kw_only=True)


@dataclass(frozen=True)
class Suite:
    """Cases, by a name that stands for these numbers and no others.

    Attributes:
        name: of the suite.
        cases: all of them.
        is_judged: whether the command reports the verdict on each case instead of a leaderboard,
            and fails where one is WRONG.
    """

    name: str
    cases: tuple[Case, ...]
    is_judged: bool = False

    def only(self, text: str) -> Suite:
        """Return the suite without the cases whose name lacks a text.

        Raises:
            ValueError: if there is no such case.
        """
        text = check_object("only", text, str)
        cases = tuple(case for case in self.cases if text in case.name)
        if not cases:
            raise ValueError(message("only", f"be part of a case's name in {self.name}", text))
        return replace(self, cases=cases)


def suite_file(name: str) -> Path:
    """Return where a suite is stored."""
    return FOLDER / f"{name}.json"


def load_suite(name: str = DEFAULT_SUITE) -> Suite:
    """Read a suite.

    Raises:
        TypeError: if the name is no string.
        ValueError: if there is no such suite; names the nearest.
    """
    names = sorted(file.stem for file in FOLDER.glob("*.json"))
    check_choice("suite", name, names)
    stored = json.loads(suite_file(name).read_text(encoding="utf-8"))
    cases = tuple(read_case(case) for case in stored["cases"])
    return Suite(name, cases, stored.get("is_judged", False))


def read_case(stored: dict[str, Any]) -> Case:
    """Make a case of what a suite's file says of it.

    A case that is `density_only` hides from agents that its arms are independent.
    """
    fields = {STORED_KEYS.get(key, key): value for key, value in stored.items()}
    problem, types = problem_from_dict(fields["problem"]), {"counts": np.int64}
    if isinstance(problem, ContextualProblem):
        return _read_contextual(fields, problem)
    if fields.get("density_only"):
        problem = replace(problem, prior=DensityOnly(problem.prior))
    arrays = {
        key: np.array(fields[key], types.get(key, np.float64))
        for key in ("counts", "sums", "probabilities")
    }
    others = {key: value for key, value in fields.items() if key not in ("density_only", "is_game")}
    return Case(**others | arrays | {"problem": problem})


def _read_contextual(stored: dict[str, Any], problem: ContextualProblem) -> ContextualCase:
    data = Recipe(**stored["recipe"]).make_data(problem)
    arrays = {
        "counts": np.array([len(data.rewards)]),
        "sums": np.array([data.rewards.sum()]),
        "probabilities": np.array(stored["probabilities"]),
    }
    others = {key: value for key, value in stored.items() if key != "recipe"}
    return ContextualCase(**others | arrays | data._asdict() | {"problem": problem})
