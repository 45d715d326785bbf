"""Suites: problems and histories whose exact answers are stored, each with a bound of its error.

A suite is a file of `suites/`. Its problems and histories never change: others make another suite.
`scripts/make_suite.py` compares its answers with the oracle's, and may find finer ones.

Data with features are not stored, but made from a seed. Only uniform numbers are drawn, which every
version of NumPy makes alike; all else is computed.

Notation: K arms, d coefficients, t rewards, p features of a visitor.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator, Philox

from bandit_gym.checks import check_choice, check_object, message
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.contexts import count_coefficients, disjoint
from bandit_gym.likelihoods import Bernoulli
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
        method: "polar", "importance" or "blocks", by which `probabilities` were found. Its `error`
            is that of the total variation distance.
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


# -- Data with features, made of a seed and a few settings -----------------------------------------


@dataclass(frozen=True)
class Recipe:
    """How the data of a case are made.

    Attributes:
        seed: of all that is random.
        num_rows: t.
        design: "shared", where each arm has d features of its own; "disjoint", where each arm has
            a block of coefficients for the features of one visitor; or "hierarchical", with a block
            for all arms beside them.
        num_distinct: visitors that come again and again; 0 where each is a new one.
        spread: standard deviation of a linear predictor, for coefficients of size 1.
        scale: standard deviation of the true coefficients.
        intercept: is added to the true coefficient of a constant feature; 0 for none of these.
        correlation: of a visitor's features.
        is_separated: whether a reward is 1 exactly where its predictor is positive.
        closeness: share of their true differences that the arms at the decision have lost.
    """

    seed: int
    num_rows: int
    design: str = "shared"
    num_distinct: int = 0
    spread: float = 2.0
    scale: float = 1.0
    intercept: float = 0.0
    correlation: float = 0.0
    is_separated: bool = False
    closeness: float = 0.0

    def make_data(self, problem: ContextualProblem) -> dict[str, FloatArray]:
        """Return the `features`, `rows` and `rewards` of a `ContextualCase` of this problem."""
        rng, num_arms = Generator(Philox(self.seed)), problem.num_arms
        size = problem.num_features // count_coefficients(self.design, num_arms, 1)
        theta = self.scale * _normal(rng, (problem.num_features,))
        visitors = self._draw_visitors(rng, self.num_distinct or self.num_rows, size)
        if self.num_distinct:
            visitors = visitors[_integers(rng, self.num_distinct, self.num_rows)]
        rows = self._arrange(visitors, _integers(rng, num_arms, self.num_rows), num_arms)
        guests = self._draw_visitors(rng, num_arms if self.design == "shared" else 1, size)
        guests = np.broadcast_to(guests, (num_arms, size))
        features = self._arrange(guests, np.arange(num_arms), num_arms)
        used = theta * (features != 0)
        differences = (features @ theta) / np.square(used).sum(axis=1)
        features = features - self.closeness * differences[:, None] * used
        predictors = rows @ theta + self.intercept
        uniforms = rng.random(self.num_rows)
        if self.is_separated:
            rewards = (predictors > 0).astype(np.float64)
        else:
            is_flipped = isinstance(problem.likelihood, Bernoulli)  # 1 for small numbers
            quantiles = 1 - uniforms if is_flipped else uniforms
            rewards = problem.likelihood.sample(problem.link.mean(predictors), quantiles)
        return {"features": features, "rows": rows, "rewards": rewards}

    def _draw_visitors(self, rng: Generator, number: int, size: int) -> FloatArray:
        independent, common = _normal(rng, (number, size)), _normal(rng, (number, 1))
        mixed = np.sqrt(1 - self.correlation) * independent + np.sqrt(self.correlation) * common
        visitors = self.spread / np.sqrt(size) * mixed
        if self.intercept:
            visitors[:, 0] = 1.0
        return visitors

    def _arrange(self, visitors: FloatArray, arms: IntArray, num_arms: int) -> FloatArray:
        """Return (n, d) features of (n,) arms for (n, p) visitors; a shared block comes last."""
        if self.design == "shared":
            return visitors
        blocks = disjoint(visitors, num_arms, intercept=False)[np.arange(len(arms)), arms]
        return np.hstack([blocks, visitors]) if self.design == "hierarchical" else blocks


def _normal(rng: Generator, shape: tuple[int, ...]) -> FloatArray:
    return np.asarray(scipy.special.ndtri(rng.random(shape)))


def _integers(rng: Generator, high: int, size: int) -> IntArray:
    return (high * rng.random(size)).astype(np.int64)


# -- Files -----------------------------------------------------------------------------------------


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
    fields = {STORED_KEYS.get(key, key): value for key, value in stored.items() if key != "is_game"}
    problem = problem_from_dict(fields.pop("problem"))
    if fields.pop("density_only", False):
        problem = replace(problem, prior=DensityOnly(problem.prior))
    fields |= {"problem": problem, "probabilities": np.array(fields["probabilities"], float)}
    if isinstance(problem, ContextualProblem):
        data = Recipe(**fields.pop("recipe")).make_data(problem)
        counts, sums = np.array([len(data["rewards"])]), data["rewards"].sum(keepdims=True)
        return ContextualCase(**fields | data, counts=counts, sums=sums)
    totals = {"counts": np.array(fields["counts"], int), "sums": np.array(fields["sums"], float)}
    return Case(**fields | totals)
